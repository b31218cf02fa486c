//! Checks of the BindingPolicies: each must be usable, and select something.

use argosy_api::{
    BindingPolicy,
    conditions::{binding_policy as types, reason},
};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::finding::Judgment;
use crate::runtime::{lenient::Lenient, requests::list};

/// Checks all BindingPolicies.
pub(super) async fn check(wds: &Client) -> Vec<Judgment> {
    let api: Api<Lenient<BindingPolicy>> = Api::all(wds.clone());
    match list(api.list(&ListParams::default())).await {
        Ok(all) => judge_all(&all),
        Err(failure) => vec![Judgment::unasked("list BindingPolicies", &failure)],
    }
}

/// Returns the problems of all policies, or one finding that there are none.
fn judge_all(policies: &[BindingPolicy]) -> Vec<Judgment> {
    if policies.is_empty() {
        return vec![Judgment::warning(
            "there is no BindingPolicy, so nothing is sent",
            "create one; samples/policies has examples",
        )];
    }
    let mut wrong: Vec<Judgment> = policies.iter().filter_map(judge).collect();
    if wrong.is_empty() {
        let count = policies.len();
        wrong.push(Judgment::ok(format!(
            "{count} BindingPolicies are valid and match clusters"
        )));
    }
    wrong
}

fn judge(policy: &BindingPolicy) -> Option<Judgment> {
    let name = policy.name_any();
    let status = policy.status.clone().unwrap_or_default();
    if policy
        .metadata
        .generation
        .is_some_and(|generation| status.observed_generation < generation)
    {
        return Some(Judgment::failed(
            format!("the controller has not processed BindingPolicy {name} in its current version"),
            "see the check controller; if the policy was changed just now, try again",
        ));
    }
    let ready = status
        .conditions
        .iter()
        .find(|known| known.type_ == types::READY)?;
    let fix = format!("kubectl edit bindingpolicy {name}");
    if ready.status == "True" {
        let warnings = status.warnings.join("; ");
        return (!warnings.is_empty())
            .then(|| Judgment::warning(format!("BindingPolicy {name} works, but: {warnings}"), fix));
    }
    let message = format!("BindingPolicy {name}: {}", ready.message);
    Some(if ready.reason == reason::INVALID {
        Judgment::failed(message, fix)
    } else {
        Judgment::warning(message, fix)
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
                "has not processed BindingPolicy b",
            ),
            (json!(null), Outcome::Failed, "has not processed BindingPolicy b"),
        ] {
            let found = judge_all(&[policy("a", &ready("True", "Ready", 2, &[])), policy("b", &status)]);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].outcome, outcome, "{found:?}");
            assert!(found[0].message.contains(words), "{found:?}");
        }
        assert_eq!(judge_all(&[])[0].outcome, Outcome::Warning);
    }
}
