//! What guards the hold on the control cluster: the registration of the webhook, the webhook's answers, and the admission policies.

use std::fmt::Debug;

use argosy_api::{Workflow, names};
use argosy_core::Failure;
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
    core::v1::Secret,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::PostParams,
    core::{ClusterResourceScope, ObjectMeta},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{deployments, finding::Judgement};
use crate::{
    outcome::{call, found},
    webhook::{CREATE_POLICY, HOLD_POLICY, MARKS_POLICY, SECRET, WEBHOOK, bundle_in, is_refusal_of_guard},
};

/// The policies that come with the webhook.
const OF_WEBHOOK: [&str; 2] = [HOLD_POLICY, CREATE_POLICY];

/// What every mend of a registration comes to: the controller writes it anew whenever it differs.
const CONTROLLER_MENDS: &str = "the controller registers it by itself: see the check controller, and its log";

/// Looks at the MutatingWebhookConfiguration, and whether it trusts the authority that signs for the webhook.
pub(super) async fn webhook(wds: &Client, namespace: &str) -> Judgement {
    let registered = match get::<MutatingWebhookConfiguration>(wds, WEBHOOK).await {
        Ok(registered) => registered,
        Err(failure) => return Judgement::unasked("read MutatingWebhookConfigurations", &failure),
    };
    let Some(registered) = registered else {
        let deployment = deployments::controller(wds, namespace).await;
        let is_wanted = deployment.is_ok_and(|found| found.as_ref().is_some_and(deployments::wants_webhook));
        return judge_missing(is_wanted, has_policy(wds).await);
    };
    let secrets: Api<Secret> = Api::namespaced(wds.clone(), namespace);
    match found(call(secrets.get(SECRET)).await) {
        Ok(secret) => judge_bundle(&registered, secret.as_ref(), namespace),
        Err(failure) => Judgement::unasked("compare the webhook's CA with its Secret", &failure),
    }
}

async fn get<K>(wds: &Client, name: &str) -> Result<Option<K>, Failure>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + Debug,
{
    found(call(Api::<K>::all(wds.clone()).get(name)).await)
}

async fn has_policy(wds: &Client) -> bool {
    let policy = get::<ValidatingAdmissionPolicy>(wds, HOLD_POLICY).await;
    policy.is_ok_and(|policy| policy.is_some())
}

fn judge_missing(is_wanted: bool, has_policy: bool) -> Judgement {
    if is_wanted || has_policy {
        let message = format!("MutatingWebhookConfiguration {WEBHOOK} is missing");
        return Judgement::failed(message, CONTROLLER_MENDS);
    }
    Judgement::warning(
        "the controller runs without a webhook: only Workflows with spec.suspend: true are sent, and nothing guards the hold",
        "install the chart argosy with webhook.enabled=true",
    )
}

fn judge_bundle(
    registered: &MutatingWebhookConfiguration,
    secret: Option<&Secret>,
    namespace: &str,
) -> Judgement {
    let webhook = registered.webhooks.iter().flatten().next();
    let Some(client) = webhook.map(|webhook| &webhook.client_config) else {
        let message = format!("MutatingWebhookConfiguration {WEBHOOK} names no webhook");
        return Judgement::failed(message, CONTROLLER_MENDS);
    };
    let trusted = client
        .ca_bundle
        .as_ref()
        .map(|bundle| bundle.0.as_slice())
        .unwrap_or_default();
    if trusted.is_empty() {
        let message = format!("MutatingWebhookConfiguration {WEBHOOK} has no CA bundle");
        return Judgement::failed(message, CONTROLLER_MENDS);
    }
    if let Some(url) = &client.url {
        return Judgement::ok(format!(
            "the webhook is registered at {url}; its certificate is in the controller's memory"
        ));
    }
    match secret.map(bundle_in) {
        None => Judgement::failed(
            format!("Secret {namespace}/{SECRET} with the webhook's certificate is missing"),
            "the controller makes it by itself: see the check controller, and name its namespace with --namespace",
        ),
        Some(None) => Judgement::failed(
            format!("Secret {namespace}/{SECRET} cannot be read as the webhook's certificate"),
            format!("kubectl --namespace {namespace} delete secret {SECRET}; the controller makes another"),
        ),
        Some(Some(bundle)) if bundle.as_bytes() != trusted => Judgement::failed(
            "the API server trusts another CA than the one that signs for the webhook",
            CONTROLLER_MENDS,
        ),
        Some(Some(_)) => Judgement::ok("the webhook is registered, and its CA is the one that signs"),
    }
}

/// Asks the API server what would become of a Workflow with a claim that is not its own, which the webhook takes off. Nothing is
/// created.
pub(super) async fn answers(wds: &Client, namespace: &str) -> Judgement {
    match get::<MutatingWebhookConfiguration>(wds, WEBHOOK).await {
        Ok(Some(_)) => {}
        Ok(None) => return Judgement::skipped("no webhook is registered"),
        Err(failure) => return Judgement::unasked("read MutatingWebhookConfigurations", &failure),
    }
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let workflows: Api<Workflow> = Api::namespaced(wds.clone(), namespace);
    judge_answer(call(workflows.create(&params, &probe())).await, namespace)
}

/// Suspended, so that no policy refuses it while the webhook is away.
fn probe() -> Workflow {
    let mut metadata = ObjectMeta {
        generate_name: Some("argosy-doctor-".to_owned()),
        ..ObjectMeta::default()
    };
    let claim = json!({ "cluster": "none", "attempt": 1, "uid": "of another Workflow" });
    let claim = (names::CLAIM_ANNOTATION.to_owned(), claim.to_string());
    metadata.annotations = Some([claim].into());
    Workflow {
        api_version: "argoproj.io/v1alpha1".to_owned(),
        kind: "Workflow".to_owned(),
        metadata,
        spec: json!({
            "suspend": true,
            "entrypoint": "main",
            "templates": [{ "name": "main", "suspend": {} }],
        }),
        status: None,
    }
}

fn judge_answer(answer: Result<Workflow, Failure>, namespace: &str) -> Judgement {
    let away = "see the check controller; the API server's log says why it cannot reach the webhook (network policy, CA, Service)";
    match answer {
        Ok(created) if created.annotations() == probe().annotations() => Judgement::failed(
            "the webhook does not answer, so that a Workflow without spec.suspend is not sent, or refused",
            away,
        ),
        Ok(_) => Judgement::ok("the webhook answers"),
        Err(Failure::Refused(message)) if is_refusal_of_guard(&message) => Judgement::failed(
            "the webhook does not answer, and an admission policy refuses what it does not hold",
            away,
        ),
        Err(Failure::NotFound { .. }) => Judgement::warning(
            format!("there is no namespace {namespace} to try a Workflow in"),
            "name the namespace of Argo with --argo-namespace",
        ),
        Err(Failure::Unserved(_)) => Judgement::skipped("the control cluster does not serve Workflows"),
        Err(failure) => Judgement::unasked("create a Workflow for a try (nothing would be stored)", &failure),
    }
}

/// Looks at the admission policies and their bindings.
pub(super) async fn policies(wds: &Client) -> Vec<Judgement> {
    let mut wrong = Vec::new();
    let mut missing = Vec::new();
    for name in [MARKS_POLICY].into_iter().chain(OF_WEBHOOK) {
        let policy = get::<ValidatingAdmissionPolicy>(wds, name).await;
        let binding = get::<ValidatingAdmissionPolicyBinding>(wds, name).await;
        match (policy, binding) {
            (Ok(None), Ok(None)) => missing.push(name),
            (Ok(policy), Ok(binding)) => wrong.extend(judge_policy(name, policy.as_ref(), binding.as_ref())),
            (Err(failure), _) | (_, Err(failure)) => {
                return vec![Judgement::unasked("read ValidatingAdmissionPolicies", &failure)];
            }
        }
    }
    let is_without_webhook =
        missing == OF_WEBHOOK && matches!(get::<MutatingWebhookConfiguration>(wds, WEBHOOK).await, Ok(None));
    if !is_without_webhook {
        wrong.extend(missing.iter().filter_map(|name| judge_policy(name, None, None)));
    }
    if wrong.is_empty() {
        wrong.push(Judgement::ok(if is_without_webhook {
            "the admission policy that needs no webhook is in effect"
        } else {
            "all admission policies are in effect"
        }));
    }
    wrong
}

fn judge_policy(
    name: &str,
    policy: Option<&ValidatingAdmissionPolicy>,
    binding: Option<&ValidatingAdmissionPolicyBinding>,
) -> Option<Judgement> {
    let Some(policy) = policy else {
        let message = format!("ValidatingAdmissionPolicy {name} is missing");
        return Some(Judgement::failed(message, CONTROLLER_MENDS));
    };
    let fails = policy
        .spec
        .as_ref()
        .and_then(|spec| spec.failure_policy.as_deref())
        != Some("Ignore");
    let bound = binding.and_then(|binding| binding.spec.as_ref());
    let denies = bound.is_some_and(|spec| {
        let mut actions = spec.validation_actions.iter().flatten();
        spec.policy_name.as_deref() == Some(name) && actions.any(|action| action == "Deny")
    });
    (!fails || !denies).then(|| {
        let message = format!(
            "ValidatingAdmissionPolicy {name} refuses nothing: it ignores failures, or is not bound to deny"
        );
        Judgement::failed(message, CONTROLLER_MENDS)
    })
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Outcome, *};

    #[test]
    fn a_missing_webhook_is_a_failure_where_it_was_wanted() {
        assert_eq!(judge_missing(false, false).outcome, Outcome::Warning);
        assert_eq!(judge_missing(true, false).outcome, Outcome::Failed);
        assert_eq!(judge_missing(false, true).outcome, Outcome::Failed);
    }

    #[test]
    fn a_registration_is_compared_with_the_secret() {
        let registered = |client: serde_json::Value| -> MutatingWebhookConfiguration {
            serde_json::from_value(json!({ "metadata": {}, "webhooks": [{
                "name": "w", "clientConfig": client, "admissionReviewVersions": ["v1"], "sideEffects": "None",
            }] }))
            .unwrap()
        };
        let judge = |client, secret: Option<&Secret>| judge_bundle(&registered(client), secret, "argosy");
        assert!(judge(json!({}), None).message.ends_with("has no CA bundle"));
        let by_url = judge(json!({ "url": "https://h", "caBundle": "YQ==" }), None);
        assert_eq!(by_url.outcome, Outcome::Ok, "there is no Secret then");
        let by_service = json!({ "service": { "namespace": "argosy", "name": "s" }, "caBundle": "YQ==" });
        assert!(judge(by_service.clone(), None).message.ends_with("is missing"));
        assert!(
            judge(by_service, Some(&Secret::default()))
                .message
                .contains("cannot be read")
        );
    }

    #[test]
    fn an_answer_shows_in_the_claim_that_was_taken_off() {
        let judge = |answer| judge_answer(answer, "argo");
        assert_eq!(judge(Ok(probe())).outcome, Outcome::Failed);
        let mut answered = probe();
        answered.metadata.annotations = None;
        assert_eq!(judge(Ok(answered)).outcome, Outcome::Ok);
        let by_guard =
            "… ValidatingAdmissionPolicy 'argosy-create' with binding 'argosy-create' denied request: …";
        assert_eq!(
            judge(Err(Failure::Refused(by_guard.to_owned()))).outcome,
            Outcome::Failed
        );
        let judgement = judge(Err(Failure::Refused("forbidden".to_owned())));
        assert!(judgement.is_unasked, "{judgement:?}");
    }

    #[test]
    fn a_policy_that_is_weakened_is_told() {
        let policy = |failure: &str| -> ValidatingAdmissionPolicy {
            serde_json::from_value(json!({ "metadata": {}, "spec": { "failurePolicy": failure } })).unwrap()
        };
        let binding = |policy: &str, action: &str| -> ValidatingAdmissionPolicyBinding {
            let spec = json!({ "policyName": policy, "validationActions": [action] });
            serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
        };
        let good = binding("argosy-hold", "Deny");
        assert_eq!(
            judge_policy("argosy-hold", Some(&policy("Fail")), Some(&good)),
            None
        );
        for (policy, binding) in [
            (None, Some(&good)),
            (Some(&policy("Ignore")), Some(&good)),
            (Some(&policy("Fail")), None),
            (Some(&policy("Fail")), Some(&binding("argosy-hold", "Audit"))),
            (Some(&policy("Fail")), Some(&binding("other", "Deny"))),
        ] {
            let judgement = judge_policy("argosy-hold", policy, binding).unwrap();
            assert_eq!(judgement.outcome, Outcome::Failed);
        }
    }
}
