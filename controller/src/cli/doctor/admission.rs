//! Checks of the guards of the hold on the control cluster: the registration of the webhook, its
//! answers, and the admission policies.

use std::fmt::Debug;

use argosy_api::{BindingPolicy, Workflow, names};
use argosy_core::{Failure, hub::admission::Guarding};
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
    core::v1::Secret,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, PostParams},
    core::{ClusterResourceScope, ObjectMeta},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{deployments, finding::Judgment};
use crate::{
    hub::webhook::{
        CREATE_POLICY, HOLD_POLICY, MARKS_POLICY, MEMBERS_POLICY, SECRET, WEBHOOK, bundle_in,
        guards_creations, is_refusal_of_guard,
    },
    runtime::{
        lenient::Lenient,
        requests::{call, found, list},
    },
};

/// The policies that exist only with a webhook.
const OF_WEBHOOK: [&str; 2] = [HOLD_POLICY, CREATE_POLICY];

/// The fix for every registration: the controller writes it anew whenever it differs.
const CONTROLLER_MENDS: &str = "the controller creates and repairs it: see the check controller, and the \
    controller's log";

/// Checks the MutatingWebhookConfiguration, and that it trusts the CA that signs for the webhook.
pub(super) async fn webhook(wds: &Client, namespace: &str) -> Judgment {
    let registered = match get::<MutatingWebhookConfiguration>(wds, WEBHOOK).await {
        Ok(registered) => registered,
        Err(failure) => return Judgment::unasked("read MutatingWebhookConfigurations", &failure),
    };
    let Some(registered) = registered else {
        let deployment = deployments::controller(wds, namespace).await;
        let is_wanted = deployment.is_ok_and(|found| found.as_ref().is_some_and(deployments::wants_webhook));
        return judge_missing(is_wanted, has_policy(wds).await);
    };
    let secrets: Api<Secret> = Api::namespaced(wds.clone(), namespace);
    match found(call(secrets.get(SECRET)).await) {
        Ok(secret) => judge_bundle(&registered, secret.as_ref(), namespace),
        Err(failure) => Judgment::unasked("compare the webhook's CA with its Secret", &failure),
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

fn judge_missing(is_wanted: bool, has_policy: bool) -> Judgment {
    if is_wanted || has_policy {
        let message = format!("MutatingWebhookConfiguration {WEBHOOK} is missing");
        return Judgment::failed(message, CONTROLLER_MENDS);
    }
    Judgment::warning(
        "the controller runs without a webhook: only Workflows with spec.suspend: true are sent, and nothing guards the hold",
        "install the chart argosy with webhook.enabled=true",
    )
}

fn judge_bundle(
    registered: &MutatingWebhookConfiguration,
    secret: Option<&Secret>,
    namespace: &str,
) -> Judgment {
    let webhook = registered.webhooks.iter().flatten().next();
    let Some(client) = webhook.map(|webhook| &webhook.client_config) else {
        let message = format!("MutatingWebhookConfiguration {WEBHOOK} names no webhook");
        return Judgment::failed(message, CONTROLLER_MENDS);
    };
    let trusted = client
        .ca_bundle
        .as_ref()
        .map(|bundle| bundle.0.as_slice())
        .unwrap_or_default();
    if trusted.is_empty() {
        let message = format!("MutatingWebhookConfiguration {WEBHOOK} has no CA bundle");
        return Judgment::failed(message, CONTROLLER_MENDS);
    }
    if let Some(url) = &client.url {
        return Judgment::ok(format!(
            "the webhook is registered at {url}; its certificate is in the controller's memory"
        ));
    }
    match secret.map(bundle_in) {
        None => Judgment::failed(
            format!("Secret {namespace}/{SECRET} with the webhook's certificate is missing"),
            "the controller creates it: see the check controller, and set its namespace with --namespace",
        ),
        Some(None) => Judgment::failed(
            format!("the webhook's certificate in Secret {namespace}/{SECRET} cannot be read"),
            format!(
                "kubectl --namespace {namespace} delete secret {SECRET}; the controller creates another \
                one"
            ),
        ),
        Some(Some(bundle)) if bundle.as_bytes() != trusted => Judgment::failed(
            "the API server trusts another CA than the one that has signed the webhook's certificate",
            CONTROLLER_MENDS,
        ),
        Some(Some(_)) => Judgment::ok("the webhook is registered, and the API server trusts its CA"),
    }
}

/// Creates a Workflow as a dry run, with a claim that is not its own, which the webhook removes.
/// Nothing is stored.
pub(super) async fn answers(wds: &Client, namespace: &str) -> Judgment {
    match get::<MutatingWebhookConfiguration>(wds, WEBHOOK).await {
        Ok(Some(_)) => {}
        Ok(None) => return Judgment::skipped("no webhook is registered"),
        Err(failure) => return Judgment::unasked("read MutatingWebhookConfigurations", &failure),
    }
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let workflows: Api<Workflow> = Api::namespaced(wds.clone(), namespace);
    judge_answer(call(workflows.create(&params, &probe())).await, namespace)
}

/// Builds the Workflow of the dry run. It is suspended, so that no policy refuses it while the
/// webhook does not respond.
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

fn judge_answer(answer: Result<Workflow, Failure>, namespace: &str) -> Judgment {
    let away = "see the check controller; the API server's log says why it cannot reach the webhook (network policy, CA, Service)";
    match answer {
        Ok(created) if created.annotations() == probe().annotations() => Judgment::failed(
            "the webhook does not answer, so a Workflow without spec.suspend: true is refused or not sent",
            away,
        ),
        Ok(_) => Judgment::ok("the webhook answers"),
        Err(Failure::Refused(message)) if is_refusal_of_guard(&message) => Judgment::failed(
            "the webhook does not answer, and an admission policy refuses Workflows that are not held",
            away,
        ),
        Err(Failure::NotFound { .. }) => Judgment::warning(
            format!("there is no namespace {namespace} for the test Workflow"),
            "set the namespace of Argo with --argo-namespace",
        ),
        Err(Failure::Unserved(_)) => Judgment::skipped("the control cluster does not serve Workflows"),
        Err(failure) => Judgment::unasked("create a test Workflow (a dry run, nothing is stored)", &failure),
    }
}

/// Checks the admission policies and their bindings.
pub(super) async fn policies(wds: &Client) -> Vec<Judgment> {
    let mut wrong = Vec::new();
    let mut create_policy = None;
    let mut missing = Vec::new();
    for name in [MARKS_POLICY].into_iter().chain(OF_WEBHOOK) {
        let policy = get::<ValidatingAdmissionPolicy>(wds, name).await;
        let binding = get::<ValidatingAdmissionPolicyBinding>(wds, name).await;
        match (policy, binding) {
            (Ok(None), Ok(None)) => missing.push(name),
            (Ok(policy), Ok(binding)) => {
                wrong.extend(judge_policy(
                    name,
                    CONTROLLER_MENDS,
                    policy.as_ref(),
                    binding.as_ref(),
                ));
                create_policy = policy.filter(|_| name == CREATE_POLICY).or(create_policy);
            }
            (Err(failure), _) | (_, Err(failure)) => {
                return vec![Judgment::unasked("read ValidatingAdmissionPolicies", &failure)];
            }
        }
    }
    let is_without_webhook =
        missing == OF_WEBHOOK && matches!(get::<MutatingWebhookConfiguration>(wds, WEBHOOK).await, Ok(None));
    if !is_without_webhook {
        wrong.extend(
            missing
                .iter()
                .filter_map(|name| judge_policy(name, CONTROLLER_MENDS, None, None)),
        );
    }
    if let Some(policy) = &create_policy {
        let all: Api<Lenient<BindingPolicy>> = Api::all(wds.clone());
        match list(all.list(&ListParams::default())).await {
            Ok(all) => wrong.extend(judge_selection(policy, &Guarding::of(&all))),
            Err(failure) => wrong.push(Judgment::unasked("list BindingPolicies", &failure)),
        }
    }
    if wrong.is_empty() {
        wrong.push(Judgment::ok(if is_without_webhook {
            "the admission policy that does not need the webhook is in effect"
        } else {
            "all admission policies are in effect"
        }));
    }
    wrong
}

/// Checks the policy of the ITS that limits the writes of agents.
pub(super) async fn members(its: &Client) -> Judgment {
    let name = MEMBERS_POLICY;
    let policy = get::<ValidatingAdmissionPolicy>(its, name).await;
    match (policy, get::<ValidatingAdmissionPolicyBinding>(its, name).await) {
        (Ok(policy), Ok(binding)) => {
            let fix =
                "upgrade the chart argosy, or delete the policy and its binding and use argosy cluster join";
            judge_policy(name, fix, policy.as_ref(), binding.as_ref()).unwrap_or_else(|| {
                Judgment::ok(
                    "the admission policy that limits the writes of agents is \
                    in effect",
                )
            })
        }
        (Err(failure), _) | (_, Err(failure)) => {
            Judgment::unasked("read ValidatingAdmissionPolicies", &failure)
        }
    }
}

fn judge_policy(
    name: &str,
    fix: &str,
    policy: Option<&ValidatingAdmissionPolicy>,
    binding: Option<&ValidatingAdmissionPolicyBinding>,
) -> Option<Judgment> {
    let Some(policy) = policy else {
        let message = format!("ValidatingAdmissionPolicy {name} is missing");
        return Some(Judgment::failed(message, fix));
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
            "ValidatingAdmissionPolicy {name} has no effect: its failurePolicy is Ignore, or no binding with \
            the action Deny exists"
        );
        Judgment::failed(message, fix)
    })
}

/// Returns a finding if creations that BindingPolicies select are not guarded.
fn judge_selection(policy: &ValidatingAdmissionPolicy, wanted: &Guarding) -> Option<Judgment> {
    let names: Vec<&str> = wanted.unguarded.iter().map(String::as_str).collect();
    if let Some(first) = names.first() {
        let count = names.len();
        let message = format!(
            "ValidatingAdmissionPolicy {CREATE_POLICY} does not guard the Workflows of {count} \
             BindingPolicies, such as {first}: their selectors do not fit into it"
        );
        let fix =
            format!("select by labels instead of long lists of names: kubectl edit bindingpolicy {first}");
        return Some(Judgment::failed(message, fix));
    }
    (!guards_creations(policy, &wanted.expressions)).then(|| {
        let message =
            format!("ValidatingAdmissionPolicy {CREATE_POLICY} does not match the current BindingPolicies");
        Judgment::failed(message, CONTROLLER_MENDS)
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
        let judgment = judge(Err(Failure::Refused("forbidden".to_owned())));
        assert!(judgment.is_unasked, "{judgment:?}");
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
            judge_policy("argosy-hold", "", Some(&policy("Fail")), Some(&good)),
            None
        );
        for (policy, binding) in [
            (None, Some(&good)),
            (Some(&policy("Ignore")), Some(&good)),
            (Some(&policy("Fail")), None),
            (Some(&policy("Fail")), Some(&binding("argosy-hold", "Audit"))),
            (Some(&policy("Fail")), Some(&binding("other", "Deny"))),
        ] {
            let judgment = judge_policy("argosy-hold", "", policy, binding).unwrap();
            assert_eq!(judgment.outcome, Outcome::Failed);
        }
    }

    #[test]
    fn what_the_admission_policy_does_not_guard_is_told() {
        let policy: BindingPolicy = serde_json::from_value(json!({
            "metadata": { "name": "p" },
            "spec": { "downsync": [{ "resources": ["workflows"], "objectSelectors": [{ "matchLabels": { "a": "b" } }] }] },
        }))
        .unwrap();
        let registered = |expressions: &[&str]| -> ValidatingAdmissionPolicy {
            let validations: Vec<_> = expressions
                .iter()
                .map(|expression| json!({ "expression": expression }))
                .collect();
            serde_json::from_value(json!({ "metadata": {}, "spec": { "validations": validations } })).unwrap()
        };
        let mut wanted = Guarding::of(&[policy]);
        let judge = |policy, wanted: &Guarding| judge_selection(&policy, wanted).unwrap();
        let stale = judge(registered(&["false"]), &wanted);
        assert!(
            stale
                .message
                .ends_with("does not match the current BindingPolicies"),
            "{stale:?}"
        );
        wanted.unguarded.insert("long".to_owned());
        let unguarded = judge(registered(&["false"]), &wanted);
        assert_eq!(unguarded.outcome, Outcome::Failed);
        assert!(unguarded.message.contains("such as long"), "{unguarded:?}");
    }
}
