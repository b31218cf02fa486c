//! Bad input: each gives a condition with a reason, and the rest goes on.

use anyhow::Result;
use argosy_api::{BindingPolicy, names};
use argosy_tests::lab::{
    Scene,
    objects::{self, condition, create, says},
    waiting::until,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

/// Whether the policy's `Ready` has that status and reason.
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
    let scene = Scene::new("refusals-no-cluster").await?;
    let policies: Api<BindingPolicy> = Api::all(scene.control.clone());
    let cluster = format!("{}-pull", scene.namespace);
    let name = format!("{}-early", scene.namespace);
    create(&policies, &objects::policy(&name, &scene.namespace, &cluster)?).await?;
    until(&policies, &name, "it says that no cluster matches", |policy| {
        is_ready(policy, "False", "NoCluster")
    })
    .await?;
    create(&scene.workflows(), &objects::workflow("hello", &cluster)).await?;
    until(
        &scene.workflows(),
        "hello",
        "it says that no cluster matches",
        |workflow| says(workflow, "Dispatched", "False", "NoCluster"),
    )
    .await?;
    let member = scene.pull().await?;
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
    let scene = Scene::new("refusals-nothing").await?;
    let member = scene.pull().await?;
    let policies: Api<BindingPolicy> = Api::all(scene.control.clone());
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
    let scene = Scene::new("refusals-selector").await?;
    let member = scene.pull().await?;
    let policies: Api<BindingPolicy> = Api::all(scene.control.clone());
    let bad = json!({ "matchExpressions": [{ "key": "a", "operator": "Near", "values": ["b"] }] });
    let patch =
        json!({ "spec": { "downsync": [{ "namespaces": [scene.namespace], "objectSelectors": [bad] }] } });
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
    let other = scene.push().await?;
    scene.round_trip("hello", &other).await
}

#[tokio::test]
async fn a_cluster_label_that_no_policy_knows_is_told_on_the_workflow() -> Result<()> {
    let scene = Scene::new("refusals-label").await?;
    let member = scene.pull().await?;
    create(&scene.workflows(), &objects::workflow("lost", "nowhere")).await?;
    let told = until(
        &scene.workflows(),
        "lost",
        "it says that no policy selects it",
        |workflow| says(workflow, "Dispatched", "False", "NoPolicy"),
    )
    .await?;
    assert!(condition(&told, "Dispatched", "False").is_some_and(|message| message.contains("nowhere")));
    assert!(told.finalizers().is_empty());
    scene.round_trip("hello", &member).await
}

#[tokio::test]
async fn a_workflow_for_two_clusters_goes_to_none_until_one_is_left() -> Result<()> {
    let scene = Scene::new("refusals-two").await?;
    let (one, two) = (scene.pull().await?, scene.push().await?);
    let policies: Api<BindingPolicy> = Api::all(scene.control.clone());
    let extra = format!("{}-extra", scene.namespace);
    let mut policy = objects::policy(&extra, &scene.namespace, &two.cluster)?;
    policy.spec.downsync[0].object_selectors.clear();
    create(&policies, &policy).await?;
    until(&policies, &extra, "the controller knows it", |policy| {
        policy.status.is_some()
    })
    .await?;
    scene.submit("hello", &one).await?;
    let told = until(
        &scene.workflows(),
        "hello",
        "it says that it is ambiguous",
        |workflow| says(workflow, "Ambiguous", "True", "SeveralClusters"),
    )
    .await?;
    let message = condition(&told, "Ambiguous", "True").unwrap_or_default();
    assert!(
        message.contains(&one.cluster) && message.contains(&two.cluster),
        "{message}"
    );
    scene.round_trip("sentinel", &two).await?;
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
    let sent = until(&scene.workflows(), "hello", "it says so", |workflow| {
        says(workflow, "Dispatched", "True", "Claimed")
    })
    .await?;
    assert_eq!(condition(&sent, "Ambiguous", "True"), None);
    Ok(())
}

#[tokio::test]
async fn a_workflow_without_label_and_suspend_is_left_to_the_control_cluster() -> Result<()> {
    let scene = Scene::new("refusals-local").await?;
    let member = scene.pull().await?;
    let mut local = objects::workflow("local", "unused");
    local.metadata.labels = None;
    local.spec["suspend"] = json!(null);
    let created = create(&scene.workflows(), &local).await?;
    let mut named = objects::workflow("named", names::KUBESTELLAR_LOCAL_CLUSTER);
    named.spec["suspend"] = json!(null);
    let named = create(&scene.workflows(), &named).await?;
    scene.round_trip("sentinel", &member).await?;
    for before in [created, named] {
        let after = scene.workflows().get(&before.name_any()).await?;
        assert_eq!(
            after.resource_version(),
            before.resource_version(),
            "{} was touched",
            before.name_any()
        );
    }
    Ok(())
}
