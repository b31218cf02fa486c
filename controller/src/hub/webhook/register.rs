//! Registers the webhook and the policies at the API server of the WDS, and updates them with
//! policies and credentials.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

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
    CREATE_POLICY, HOLD_POLICY, MARKS_POLICY, SECRET, Settings, Snapshots, WEBHOOK, admission_policies,
    configuration::configuration,
    credentials::Issued,
    own_accounts::{self, Ourselves},
    reconcile::keep as keep_one,
};
use crate::runtime::requests::{call, found};

/// Delay before an unreachable API server is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// The input of the registered objects.
#[derive(Clone, PartialEq)]
struct Wanted {
    /// CEL expression that is true if a policy selects the object, or may select it.
    selection: String,
    /// CEL expressions, one of which is true if a policy selects the object. The admission policy
    /// needs exact ones, because nothing checks its refusal.
    exact_selection: Vec<String>,
    /// The CAs in PEM.
    bundle: String,
}

/// Waits until the process leads, then keeps everything registered. Never returns.
pub(super) async fn keep(settings: &Settings, wds: &Client, snapshots: Snapshots, issued: Issued) {
    settings.leadership.begins().await;
    let ourselves = own_accounts::ask(wds).await;
    tracing::info!(
        name = ?ourselves,
        "the admission webhook reviews all writes except those of the controller"
    );
    let (sender, wanted) = watch::channel(None);
    let hold = |_: &Arc<Wanted>| admission_policies::hold(&ourselves, &settings.argo_account);
    let create = |wanted: &Arc<Wanted>| admission_policies::create(&ourselves, &wanted.exact_selection);
    let webhook =
        |wanted: &Arc<Wanted>| configuration(&settings.place, &ourselves, &wanted.selection, &wanted.bundle);
    let bind = |name| move |_: &Arc<Wanted>| admission_policies::binding(name);
    tokio::select! {
        () = follow(snapshots, issued, sender) => {}
        () = keep_one(wds.clone(), WEBHOOK, wanted.clone(), webhook) => {}
        () = keep_one(wds.clone(), HOLD_POLICY, wanted.clone(), hold) => {}
        () = keep_one(wds.clone(), HOLD_POLICY, wanted.clone(), bind(HOLD_POLICY)) => {}
        () = keep_one(wds.clone(), CREATE_POLICY, wanted.clone(), create) => {}
        () = keep_one(wds.clone(), CREATE_POLICY, wanted.clone(), bind(CREATE_POLICY)) => {}
    }
}

/// Keeps the policy [`MARKS_POLICY`] registered until `stop`.
pub async fn guard_marks(wds: Client, stop: CancellationToken) {
    Box::pin(stop.run_until_cancelled(keep_marks(&wds))).await;
}

async fn keep_marks(wds: &Client) {
    let ourselves = own_accounts::ask(wds).await;
    // The policy has no variable input.
    let (_sender, wanted) = watch::channel(Some(()));
    let marks = |(): &()| admission_policies::marks(&ourselves);
    let bind = |(): &()| admission_policies::binding(MARKS_POLICY);
    tokio::select! {
        () = keep_one(wds.clone(), MARKS_POLICY, wanted.clone(), marks) => {}
        () = keep_one(wds.clone(), MARKS_POLICY, wanted, bind) => {}
    }
}

/// Combines policies and credentials; nothing is registered before both are known.
async fn follow(mut snapshots: Snapshots, mut issued: Issued, sender: watch::Sender<Option<Arc<Wanted>>>) {
    loop {
        let started = Instant::now();
        let admission = snapshots.borrow_and_update().clone();
        let bundle = issued.borrow_and_update().as_ref().map(|issued| issued.bundle());
        // With a thousand policies this takes too long for an async worker thread.
        let making = tokio::task::spawn_blocking(move || {
            let (admission, bundle) = admission.zip(bundle)?;
            Some(Arc::new(Wanted {
                selection: admission.selection().to_owned(),
                exact_selection: admission.exact_selection().to_owned(),
                bundle,
            }))
        });
        let wanted = match making.await {
            Ok(wanted) => wanted,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        sender.send_if_modified(|known| {
            let is_new = *known != wanted;
            *known = wanted;
            is_new
        });
        // Many policies may change in short succession: this loop takes at most a tenth of the
        // time.
        tokio::time::sleep(started.elapsed().saturating_mul(9).min(AGAIN)).await;
        let changed = tokio::select! {
            changed = snapshots.changed() => changed,
            changed = issued.changed() => changed,
        };
        if changed.is_err() {
            // The process ends; the server still answers the running reviews.
            std::future::pending::<()>().await;
        }
    }
}

/// Deletes everything that was registered, and the Secret in `namespace`. Returns the number of
/// deleted objects.
pub async fn unregister(wds: &Client, namespace: &str) -> Result<usize, Failure> {
    let marks = delete_policies(wds, &[MARKS_POLICY]).await?;
    Ok(marks + unregister_webhook(wds, namespace).await?)
}

/// Renders the policy of [`guard_marks`] and its binding as YAML, with the accounts of `namespace`
/// as Argosy's own. The chart contains it, so that it exists before a controller does.
pub fn marks_yaml(namespace: &str) -> anyhow::Result<String> {
    let marks = admission_policies::marks(&Ourselves::Namespace(namespace.to_owned()));
    let documents = [
        serde_saphyr::to_string(&marks)?,
        serde_saphyr::to_string(&admission_policies::binding(MARKS_POLICY))?,
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

/// Deletes the webhook, and the policies that guard its results.
async fn unregister_webhook(wds: &Client, namespace: &str) -> Result<usize, Failure> {
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(wds.clone());
    let mut deleted = usize::from(delete(&webhooks, WEBHOOK).await?);
    deleted += delete_policies(wds, &[HOLD_POLICY, CREATE_POLICY]).await?;
    let secrets: Api<Secret> = Api::namespaced(wds.clone(), namespace);
    delete(&secrets, SECRET).await?;
    Ok(deleted)
}

/// Deletes the registration of an earlier controller with a webhook, so that the API server does
/// not call it.
pub async fn withdraw(wds: &Client, namespace: &str) {
    loop {
        match unregister_webhook(wds, namespace).await {
            Ok(0) => return,
            Ok(deleted) => {
                tracing::info!(
                    count = deleted,
                    "removed the configuration of an earlier admission webhook"
                );
                return;
            }
            Err(Failure::Unreachable(error)) => {
                tracing::warn!(
                    error,
                    "cannot read the configuration of an earlier admission webhook, trying again"
                );
                tokio::time::sleep(AGAIN).await;
            }
            Err(failure) => {
                tracing::warn!(
                    error = %failure,
                    "cannot remove the configuration of an earlier admission webhook"
                );
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

/// Returns true if `policy`, which is named [`CREATE_POLICY`], guards the selected Workflows.
pub fn guards_creations(policy: &ValidatingAdmissionPolicy, selected: &[String]) -> bool {
    admission_policies::refuses(policy, selected)
}

/// Returns true if the message of the API server names one of our policies as the reason of a
/// refusal.
pub fn is_refusal_of_guard(message: &str) -> bool {
    [HOLD_POLICY, CREATE_POLICY, MARKS_POLICY]
        .iter()
        .any(|policy| message.contains(&format!("ValidatingAdmissionPolicy '{policy}'")))
}
