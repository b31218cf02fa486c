//! Checks for Workflows that name a cluster and were never sent, because no BindingPolicy selects
//! them.

use argosy_api::{
    Workflow,
    conditions::{WorkflowCondition, reason, workflow as types},
    names,
};
use argosy_core::Failure;
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde_json::Value;

use super::finding::Judgment;
use crate::runtime::{lenient::Lenient, requests};

/// Page size of a list: one Workflow may have a megabyte.
const PAGE: u32 = 100;

/// Counts these Workflows.
pub(super) async fn check(wds: &Client) -> Judgment {
    match waiting(wds).await {
        Ok((count, first)) => judge(count, first.as_deref()),
        Err(Failure::Unserved(_)) => Judgment::skipped("the control cluster does not serve Workflows"),
        Err(failure) => Judgment::unasked("list Workflows", &failure),
    }
}

/// Returns their number, and one of them.
async fn waiting(wds: &Client) -> Result<(usize, Option<String>), Failure> {
    let api: Api<Lenient<Workflow>> = Api::all(wds.clone());
    let (mut count, mut first) = (0, None);
    let params = ListParams::default().labels(&unsent()).limit(PAGE);
    requests::each(&api, params, |workflow: Workflow| {
        if waits(&workflow) {
            count += 1;
            first.get_or_insert_with(|| named(&workflow));
        }
    })
    .await?;
    Ok((count, first))
}

/// Label selector of Workflows that name another cluster, are not claimed, and have not ended.
fn unsent() -> String {
    let (named, local) = (names::KUBESTELLAR_CLUSTER_LABEL, names::KUBESTELLAR_LOCAL_CLUSTER);
    let (claimed, phase) = (names::CLUSTER_LABEL, names::ARGO_PHASE_LABEL);
    format!("{named},{named}!={local},!{claimed},{phase} notin (Succeeded,Failed,Error)")
}

/// Returns true if a condition of the Workflow reports that it waits for a policy.
fn waits(workflow: &Workflow) -> bool {
    let conditions = workflow
        .status
        .as_ref()
        .and_then(|status| status.get("conditions")?.as_array());
    conditions.into_iter().flatten().any(|condition| {
        condition.get("status").and_then(Value::as_str) == Some("False")
            && WorkflowCondition::is(condition, types::DISPATCHED, reason::NO_POLICY)
    })
}

fn named(workflow: &Workflow) -> String {
    let cluster = workflow.labels().get(names::KUBESTELLAR_CLUSTER_LABEL);
    let (namespace, name) = (workflow.namespace().unwrap_or_default(), workflow.name_any());
    format!("{name} -n {namespace} for {}", cluster.map_or("", String::as_str))
}

fn judge(count: usize, first: Option<&str>) -> Judgment {
    let Some(first) = first else {
        return Judgment::ok("no Workflow waits for a BindingPolicy");
    };
    Judgment::warning(
        format!(
            "{count} Workflows wait because no BindingPolicy selects them ({}), such as {first}",
            reason::NO_POLICY
        ),
        "argosy why NAME shows what each policy selects; they are sent as soon as a policy selects them",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::finding::Outcome, *};

    fn workflow(status: &str, message: &str) -> Workflow {
        serde_json::from_value(json!({
            "metadata": { "namespace": "argo", "name": "hello", "labels": { names::KUBESTELLAR_CLUSTER_LABEL: "cluster9" } },
            "spec": {}, "status": { "conditions": [{ "type": types::DISPATCHED, "status": status, "message": message }] },
        }))
        .unwrap()
    }

    #[test]
    fn what_waits_for_a_policy_is_counted_and_nothing_else() {
        assert!(waits(&workflow(
            "False",
            "NoPolicy: no BindingPolicy selects this Workflow"
        )));
        assert!(!waits(&workflow("False", "NoCluster: none")));
        assert!(!waits(&workflow("True", "Claimed: sent")));
        assert_eq!(judge(0, None).outcome, Outcome::Ok);
        let found = judge(2, Some(&named(&workflow("False", ""))));
        assert_eq!(found.outcome, Outcome::Warning);
        assert!(found.message.starts_with("2 Workflows wait because"), "{found:?}");
        assert!(
            found.message.ends_with("such as hello -n argo for cluster9"),
            "{found:?}"
        );
    }
}
