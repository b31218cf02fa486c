//! What is registered at the API server of the WDS: the webhook and the policies, as policies and credentials want them.

use std::{sync::Arc, time::Duration};

use argosy_core::Failure;
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
    core::v1::Secret,
};
use kube::{Api, Client, api::DeleteParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    CREATE_POLICY, HOLD_POLICY, MARKS_POLICY, SECRET, Settings, Snapshots, WEBHOOK,
    configuration::configuration,
    credentials::Issued,
    guard,
    keep::keep as keep_one,
    ourselves::{self, Ourselves},
};
use crate::outcome::{call, found};

/// Until an API server that did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// What registered objects depend on.
#[derive(Clone, PartialEq)]
struct Wanted {
    /// CEL: a policy selects the object, or may.
    selection: String,
    /// CEL: the same, for who refuses without looking again.
    exact_selection: String,
    /// PEM of the authorities.
    bundle: String,
}

/// Keeps everything registered for ever, from when the process leads.
pub(super) async fn keep(settings: &Settings, wds: &Client, snapshots: Snapshots, issued: Issued) {
    settings.leadership.begins().await;
    let ourselves = ourselves::ask(wds).await;
    tracing::info!(name = ?ourselves, "the admission webhook looks at the writes of others");
    let (sender, wanted) = watch::channel(None);
    let hold = |_: &Arc<Wanted>| guard::hold(&ourselves, &settings.argo_account);
    let create = |wanted: &Arc<Wanted>| guard::create(&ourselves, &wanted.selection, &wanted.exact_selection);
    let webhook =
        |wanted: &Arc<Wanted>| configuration(&settings.place, &ourselves, &wanted.selection, &wanted.bundle);
    let bind = |name| move |_: &Arc<Wanted>| guard::binding(name);
    tokio::select! {
        () = follow(snapshots, issued, sender) => {}
        () = keep_one(wds.clone(), WEBHOOK, wanted.clone(), webhook) => {}
        () = keep_one(wds.clone(), HOLD_POLICY, wanted.clone(), hold) => {}
        () = keep_one(wds.clone(), HOLD_POLICY, wanted.clone(), bind(HOLD_POLICY)) => {}
        () = keep_one(wds.clone(), CREATE_POLICY, wanted.clone(), create) => {}
        () = keep_one(wds.clone(), CREATE_POLICY, wanted.clone(), bind(CREATE_POLICY)) => {}
    }
}

/// Keeps the policy that lets nobody else write what only Argosy writes until `stop`.
pub async fn guard_marks(wds: Client, stop: CancellationToken) {
    Box::pin(stop.run_until_cancelled(keep_marks(&wds))).await;
}

async fn keep_marks(wds: &Client) {
    let ourselves = ourselves::ask(wds).await;
    // Nothing that it is made of changes.
    let (_sender, wanted) = watch::channel(Some(()));
    let marks = |(): &()| guard::marks(&ourselves);
    let bind = |(): &()| guard::binding(MARKS_POLICY);
    tokio::select! {
        () = keep_one(wds.clone(), MARKS_POLICY, wanted.clone(), marks) => {}
        () = keep_one(wds.clone(), MARKS_POLICY, wanted, bind) => {}
    }
}

/// Joins policies and credentials; nothing is wanted before both are there.
async fn follow(mut snapshots: Snapshots, mut issued: Issued, sender: watch::Sender<Option<Arc<Wanted>>>) {
    loop {
        let wanted = snapshots.borrow_and_update().as_ref().and_then(|admission| {
            let bundle = issued.borrow_and_update().as_ref()?.bundle();
            Some(Arc::new(Wanted {
                selection: admission.selection().to_owned(),
                exact_selection: admission.exact_selection().to_owned(),
                bundle,
            }))
        });
        sender.send_if_modified(|known| {
            let is_new = *known != wanted;
            *known = wanted;
            is_new
        });
        let changed = tokio::select! {
            changed = snapshots.changed() => changed,
            changed = issued.changed() => changed,
        };
        if changed.is_err() {
            // The process ends; the server still answers what was asked before.
            std::future::pending::<()>().await;
        }
    }
}

/// Takes everything that was registered away, and the Secret in `namespace`. Returns how many objects were there.
pub async fn unregister(wds: &Client, namespace: &str) -> Result<usize, Failure> {
    let marks = delete_policies(wds, &[MARKS_POLICY]).await?;
    Ok(marks + unregister_webhook(wds, namespace).await?)
}

/// The policy of [`guard_marks`] and its binding as YAML, where the accounts of `namespace` are Argosy's own. The chart has it, so that it
/// is there before a controller is.
pub fn marks_yaml(namespace: &str) -> anyhow::Result<String> {
    let marks = guard::marks(&Ourselves::Namespace(namespace.to_owned()));
    let documents = [
        serde_saphyr::to_string(&marks)?,
        serde_saphyr::to_string(&guard::binding(MARKS_POLICY))?,
    ];
    Ok(documents.join("---\n"))
}

async fn delete_policies(wds: &Client, names: &[&str]) -> Result<usize, Failure> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(wds.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(wds.clone());
    let mut deleted = 0;
    for name in names {
        deleted += usize::from(delete(&bindings, name).await?);
        deleted += usize::from(delete(&policies, name).await?);
    }
    Ok(deleted)
}

/// The same for the webhook, and for the policies that guard what it does.
async fn unregister_webhook(wds: &Client, namespace: &str) -> Result<usize, Failure> {
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(wds.clone());
    let mut deleted = usize::from(delete(&webhooks, WEBHOOK).await?);
    deleted += delete_policies(wds, &[HOLD_POLICY, CREATE_POLICY]).await?;
    let secrets: Api<Secret> = Api::namespaced(wds.clone(), namespace);
    delete(&secrets, SECRET).await?;
    Ok(deleted)
}

/// Takes away what a controller with a webhook has left, so that nobody asks a webhook that is not there.
pub async fn withdraw(wds: &Client, namespace: &str) {
    loop {
        match unregister_webhook(wds, namespace).await {
            Ok(0) => return,
            Ok(deleted) => {
                tracing::info!(
                    count = deleted,
                    "the registration of an earlier admission webhook is taken away"
                );
                return;
            }
            Err(Failure::Unreachable(error)) => {
                tracing::warn!(
                    error,
                    "cannot look for an earlier admission webhook, trying again"
                );
                tokio::time::sleep(AGAIN).await;
            }
            Err(failure) => {
                tracing::warn!(error = %failure, "cannot take away the registration of an earlier admission webhook");
                return;
            }
        }
    }
}

async fn delete<K>(api: &Api<K>, name: &str) -> Result<bool, Failure>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let answer = call(api.delete(name, &DeleteParams::default())).await;
    found(answer).map(|answer| answer.is_some())
}

/// Whether the API server refused something because of one of our policies, as it says in the message.
pub fn is_refusal_of_guard(message: &str) -> bool {
    [HOLD_POLICY, CREATE_POLICY, MARKS_POLICY]
        .iter()
        .any(|policy| message.contains(&format!("ValidatingAdmissionPolicy '{policy}'")))
}
