//! The BindingPolicies: whether the controller could use each, and whether it selects anything.

use argosy_api::{
    BindingPolicy,
    conditions::{binding_policy as types, reason},
};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::finding::Judgement;
use crate::{outcome::list, tolerant::Tolerant};

/// Looks at all of them.
pub(super) async fn check(wds: &Client) -> Vec<Judgement> {
    let api: Api<Tolerant<BindingPolicy>> = Api::all(wds.clone());
    match list(api.list(&ListParams::default())).await {
        Ok(all) => judge_all(&all),
        Err(failure) => vec![Judgement::unasked("list BindingPolicies", &failure)],
    }
}

/// What is wrong with any, or that nothing is.
fn judge_all(policies: &[BindingPolicy]) -> Vec<Judgement> {
    if policies.is_empty() {
        return vec![Judgement::warning(
            "there is no BindingPolicy, so that nothing is sent anywhere",
            "write one; samples/policies has examples",
        )];
    }
    let mut wrong: Vec<Judgement> = policies.iter().filter_map(judge).collect();
    if wrong.is_empty() {
        let count = policies.len();
        wrong.push(Judgement::ok(format!(
            "{count} BindingPolicies can be used and match clusters"
        )));
    }
    wrong
}

fn judge(policy: &BindingPolicy) -> Option<Judgement> {
    let name = policy.name_any();
    let status = policy.status.clone().unwrap_or_default();
    if policy
        .metadata
        .generation
        .is_some_and(|generation| status.observed_generation < generation)
    {
        return Some(Judgement::failed(
            format!("the controller has not looked at BindingPolicy {name} as it is now"),
            "see the check controller; if it was written just now, look again",
        ));
    }
    let ready = status
        .conditions
        .iter()
        .find(|known| known.type_ == types::READY)?;
    let mend = format!("kubectl edit bindingpolicy {name}");
    if ready.status == "True" {
        let warnings = status.warnings.join("; ");
        return (!warnings.is_empty())
            .then(|| Judgement::warning(format!("BindingPolicy {name} works, but: {warnings}"), mend));
    }
    let message = format!("BindingPolicy {name}: {}", ready.message);
    Some(if ready.reason == reason::INVALID {
        Judgement::failed(message, mend)
    } else {
        Judgement::warning(message, mend)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::finding::Outcome, *};

    fn policy(name: &str, status: &Value) -> BindingPolicy {
        serde_json::from_value(json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
            "metadata": { "name": name, "generation": 2 }, "spec": {}, "status": status,
        }))
        .unwrap()
    }

    fn ready(status: &str, reason: &str, generation: i64, warnings: &[&str]) -> Value {
        json!({
            "observedGeneration": generation, "warnings": warnings,
            "conditions": [{ "type": "Ready", "status": status, "reason": reason, "message": "because", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        })
    }

    #[test]
    fn what_is_wrong_with_a_policy_is_said_and_one_that_is_well_is_only_counted() {
        for (status, outcome, words) in [
            (ready("True", "Ready", 2, &[]), Outcome::Ok, "2 BindingPolicies"),
            (
                ready("True", "NothingSelected", 2, &[]),
                Outcome::Ok,
                "2 BindingPolicies",
            ),
            (
                ready("True", "Ready", 2, &["old place"]),
                Outcome::Warning,
                "BindingPolicy b works, but: old place",
            ),
            (
                ready("False", "NoCluster", 2, &[]),
                Outcome::Warning,
                "BindingPolicy b: because",
            ),
            (
                ready("False", "Invalid", 2, &[]),
                Outcome::Failed,
                "BindingPolicy b: because",
            ),
            (
                ready("True", "Ready", 1, &[]),
                Outcome::Failed,
                "has not looked at BindingPolicy b",
            ),
            (json!(null), Outcome::Failed, "has not looked at BindingPolicy b"),
        ] {
            let found = judge_all(&[policy("a", &ready("True", "Ready", 2, &[])), policy("b", &status)]);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].outcome, outcome, "{found:?}");
            assert!(found[0].message.contains(words), "{found:?}");
        }
        assert_eq!(judge_all(&[])[0].outcome, Outcome::Warning);
    }
}
