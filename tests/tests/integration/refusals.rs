//! Invalid input: each case gives a condition with a reason, and everything else continues.

use anyhow::Result;
use argosy_api::{BindingPolicy, names};
use argosy_tests::testenv::{
    Fixture,
    objects::{self, condition, create, message, says},
    waiting::until,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

/// True if the policy's condition `Ready` has this status and reason.
fn is_ready(policy: &BindingPolicy, status: &str, reason: &str) -> bool {
    let conditions = policy
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    conditions
        .iter()
        .any(|known| known.type_ == "Ready" && known.status == status && known.reason == reason)
}

#[tokio::test]
async fn a_policy_that_selects_no_cluster_says_so_until_one_joins() -> Result<()> {
    let fixture = Fixture::new("refusals-no-cluster").await?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let cluster = format!("{}-pull", fixture.namespace);
    let name = format!("{}-early", fixture.namespace);
    create(&policies, &objects::policy(&name, &fixture.namespace, &cluster)?).await?;
    until(&policies, &name, "it says that no cluster matches", |policy| {
        is_ready(policy, "False", "NoCluster")
    })
    .await?;
    create(&fixture.workflows(), &objects::workflow("hello", &cluster)).await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that no cluster matches",
        |workflow| says(workflow, "Dispatched", "False", "NoCluster"),
    )
    .await?;
    let member = fixture.pull().await?;
    until(
        &member.workflows(),
        "hello",
        "it goes there once there is one",
        |_| true,
    )
    .await?;
    until(&policies, &name, "it is ready", |policy| {
        is_ready(policy, "True", "Ready")
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_policy_that_can_match_nothing_says_so() -> Result<()> {
    let fixture = Fixture::new("refusals-nothing").await?;
    let member = fixture.pull().await?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    until(
        &policies,
        &member.cluster,
        "it says that nothing matches at present",
        |policy| is_ready(policy, "True", "NothingSelected"),
    )
    .await?;
    let patch = json!({ "spec": { "downsync": [{ "apiGroup": "", "resources": ["nodes"] }] } });
    policies
        .patch(&member.cluster, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    until(
        &policies,
        &member.cluster,
        "it says that nothing can match",
        |policy| {
            let warnings = policy.status.iter().flat_map(|status| &status.warnings);
            warnings
                .clone()
                .any(|warning| warning.starts_with("nodes are never sent"))
        },
    )
    .await?;
    let patch = json!({ "spec": { "clusterSelectors": [] } });
    policies
        .patch(&member.cluster, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    until(
        &policies,
        &member.cluster,
        "it says that no cluster is selected",
        |policy| is_ready(policy, "False", "NoCluster"),
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_policy_with_a_selector_that_cannot_be_used_says_which() -> Result<()> {
    let fixture = Fixture::new("refusals-selector").await?;
    let member = fixture.pull().await?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let bad = json!({ "matchExpressions": [{ "key": "a", "operator": "Near", "values": ["b"] }] });
    let patch =
        json!({ "spec": { "downsync": [{ "namespaces": [fixture.namespace], "objectSelectors": [bad] }] } });
    policies
        .patch(&member.cluster, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    let told = until(&policies, &member.cluster, "it says what is wrong", |policy| {
        is_ready(policy, "False", "Invalid")
    })
    .await?;
    let errors = told.status.unwrap_or_default().errors;
    assert!(
        errors
            .iter()
            .any(|error| error.contains("spec.downsync[0].objectSelectors[0]")),
        "{errors:?}"
    );
    let other = fixture.push().await?;
    fixture.round_trip("hello", &other).await
}

#[tokio::test]
async fn a_cluster_label_that_no_policy_knows_is_told_on_the_workflow() -> Result<()> {
    let fixture = Fixture::new("refusals-label").await?;
    let member = fixture.pull().await?;
    create(&fixture.workflows(), &objects::workflow("lost", "nowhere")).await?;
    let told = until(
        &fixture.workflows(),
        "lost",
        "it says that no policy selects it",
        |workflow| says(workflow, "Dispatched", "False", "NoPolicy"),
    )
    .await?;
    assert!(condition(&told, "Dispatched", "False").is_some_and(|message| message.contains("nowhere")));
    assert_eq!(
        Some(message(&told)),
        condition(&told, "Dispatched", "False"),
        "lists show why it waits"
    );
    assert!(told.finalizers().is_empty());
    fixture.round_trip("hello", &member).await
}

#[tokio::test]
async fn a_workflow_for_two_clusters_goes_to_none_until_one_is_left() -> Result<()> {
    let fixture = Fixture::new("refusals-two").await?;
    let (one, two) = (fixture.pull().await?, fixture.push().await?);
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let extra = format!("{}-extra", fixture.namespace);
    let mut policy = objects::policy(&extra, &fixture.namespace, &two.cluster)?;
    policy.spec.downsync[0].object_selectors.clear();
    create(&policies, &policy).await?;
    until(&policies, &extra, "the controller knows it", |policy| {
        policy.status.is_some()
    })
    .await?;
    fixture.submit("hello", &one).await?;
    let told = until(
        &fixture.workflows(),
        "hello",
        "it says that it is ambiguous",
        |workflow| says(workflow, "Ambiguous", "True", "SeveralClusters"),
    )
    .await?;
    let why = condition(&told, "Ambiguous", "True").unwrap_or_default();
    assert!(why.contains(&one.cluster) && why.contains(&two.cluster), "{why}");
    assert_eq!(message(&told), why, "lists show why it waits");
    fixture.round_trip("sentinel", &two).await?;
    for member in [&one, &two] {
        assert!(member.workflows().get_opt("hello").await?.is_none());
    }
    policies.delete(&extra, &DeleteParams::default()).await?;
    until(
        &one.workflows(),
        "hello",
        "it goes to the one that is left",
        |_| true,
    )
    .await?;
    let sent = until(&fixture.workflows(), "hello", "it says so", |workflow| {
        says(workflow, "Dispatched", "True", "Claimed")
    })
    .await?;
    assert_eq!(condition(&sent, "Ambiguous", "True"), None);
    assert_eq!(message(&sent), "");
    Ok(())
}

#[tokio::test]
async fn a_workflow_without_label_and_suspend_is_left_to_the_control_cluster() -> Result<()> {
    let fixture = Fixture::new("refusals-local").await?;
    let member = fixture.pull().await?;
    let mut local = objects::workflow("local", "unused");
    local.metadata.labels = None;
    local.spec["suspend"] = json!(null);
    let created = create(&fixture.workflows(), &local).await?;
    let mut named = objects::workflow("named", names::KUBESTELLAR_LOCAL_CLUSTER);
    named.spec["suspend"] = json!(null);
    let named = create(&fixture.workflows(), &named).await?;
    fixture.round_trip("sentinel", &member).await?;
    for before in [created, named] {
        let after = fixture.workflows().get(&before.name_any()).await?;
        assert_eq!(
            after.resource_version(),
            before.resource_version(),
            "{} was touched",
            before.name_any()
        );
    }
    Ok(())
}
