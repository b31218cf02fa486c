//! The admission policies while the webhook does not answer.

use anyhow::Result;
use argosy_api::{BindingPolicy, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{
        LOCAL_ARGO, eventually, is_held, refusal, try_unsuspended, unsuspended, until_guarded, until_held,
        workflows_as,
    },
    env::LONG,
    fake_argo,
    objects::{create, create_namespace, phase},
    waiting::{until, until_gone},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

/// A fixture on a separate environment, whose controller may be killed.
async fn guarded(name: &str) -> Result<(Fixture, Member)> {
    let fixture = Fixture::on(TestEnv::own_guarded(name, LONG).await?, name).await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    Ok((fixture, member))
}

#[tokio::test]
async fn what_is_selected_by_the_labels_of_its_namespace_is_held_and_guarded_there_and_nowhere_else()
-> Result<()> {
    let (fixture, member) = guarded("guard-namespaces").await?;
    let elsewhere = "guard-namespaces-other";
    create_namespace(&fixture.control, elsewhere).await?;
    let clause = json!({
        "resources": ["workflows"], "wantSingletonReportedState": true,
        "namespaceSelectors": [{ "matchLabels": { "team": "a" } }],
        "objectSelectors": [{ "matchLabels": { "run": "there" } }],
    });
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let patch = Patch::Merge(json!({ "spec": { "downsync": [clause] } }));
    policies
        .patch(&member.cluster, &PatchParams::default(), &patch)
        .await?;
    let workflows = fixture.workflows();
    let marked = |name: &str| {
        let mut workflow = unsuspended(name, names::KUBESTELLAR_LOCAL_CLUSTER);
        workflow.labels_mut().insert("run".to_owned(), "there".to_owned());
        workflow
    };
    let trying = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let tried = async || workflows.create(&trying, &marked("probe")).await;
    eventually("the policy selects by its new clause", async || {
        let by_cluster = try_unsuspended(&workflows, &member.cluster).await?;
        Ok(!by_cluster.labels().contains_key(names::CLUSTER_LABEL))
    })
    .await?;
    eventually("a namespace without the label is left alone", async || {
        // The policy may still select it for a moment after the webhook has stopped holding it.
        let tried = tried().await;
        Ok(refusal(&tried).is_none() && !is_held(&tried?))
    })
    .await?;
    let label = Patch::Merge(json!({ "metadata": { "labels": { "team": "a" } } }));
    let namespaces: Api<Namespace> = Api::all(fixture.control.clone());
    namespaces
        .patch(&fixture.namespace, &PatchParams::default(), &label)
        .await?;
    eventually("the webhook holds what its policy selects", async || {
        let tried = tried().await;
        // The policy may be in effect before the webhook is.
        Ok(refusal(&tried).is_none() && is_held(&tried?))
    })
    .await?;

    fixture.env.controller.kill()?;
    eventually("the policy argosy-create is in effect", async || {
        Ok(refusal(&tried().await).is_some())
    })
    .await?;
    let others: Api<Workflow> = Api::namespaced(fixture.control.clone(), elsewhere);
    assert!(!is_held(&create(&others, &marked("free")).await?));
    Ok(())
}

#[tokio::test]
async fn while_the_controller_is_down_a_selected_workflow_is_created_suspended_or_not_at_all() -> Result<()> {
    let (fixture, member) = guarded("guard-create").await?;
    let workflows = fixture.workflows();
    fixture.env.controller.kill()?;
    eventually("the policy argosy-create is in effect", async || {
        Ok(refusal(&try_unsuspended(&workflows, &member.cluster).await).is_some())
    })
    .await?;
    let refused = workflows
        .create(&PostParams::default(), &unsuspended("refused", &member.cluster))
        .await;
    let message = refusal(&refused).unwrap_or_default();
    assert!(
        message.contains("argosy-create") && message.contains("set spec.suspend: true"),
        "{refused:?}"
    );

    let local = unsuspended("local", names::KUBESTELLAR_LOCAL_CLUSTER);
    assert!(!is_held(&create(&workflows, &local).await?));
    let waiting = fixture.submit("waiting", &member).await?;
    assert!(!is_held(&waiting), "nobody claims it yet");

    fixture.env.controller.start_again().await?;
    let object = until(&member.workflows(), "waiting", "it is on the cluster", |_| true).await?;
    assert_eq!(
        Some(&object.labels()[names::ORIGIN_UID_LABEL]),
        waiting.uid().as_ref()
    );
    until_held(&fixture, &member).await
}

#[tokio::test]
async fn while_the_controller_is_down_nobody_lifts_the_hold_of_a_run() -> Result<()> {
    let (fixture, member) = guarded("guard-hold").await?;
    let workflows = fixture.workflows();
    fixture.dispatch("running", &member).await?;
    fixture.dispatch("ended", &member).await?;
    member.argo().finish("ended", "Succeeded").await?;
    until(&workflows, "ended", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    until_guarded(&fixture, "running").await?;
    fixture.env.controller.kill()?;

    let merge = async |name: &str, patch: serde_json::Value| {
        workflows
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
    };
    let lifts = [
        (
            "label workflows.argoproj.io/completed",
            json!({ "metadata": { "labels": { names::ARGO_COMPLETED_LABEL: null } } }),
        ),
        (
            "label argosy.dev/cluster",
            json!({ "metadata": { "labels": { names::CLUSTER_LABEL: "elsewhere" } } }),
        ),
        (
            "label argosy.dev/cluster",
            json!({ "metadata": { "labels": { names::CLUSTER_LABEL: null } } }),
        ),
        (
            "annotation argosy.dev/claim",
            json!({ "metadata": { "annotations": { names::CLAIM_ANNOTATION: null } } }),
        ),
        (
            "finalizer argosy.dev/controller",
            json!({ "metadata": { "finalizers": null } }),
        ),
        (
            "try again",
            json!({ "status": { "nodes": { "w-1": { "phase": "Succeeded" } } } }),
        ),
        ("try again", json!({ "status": null })),
    ];
    for (what, patch) in lifts {
        let refused = merge("running", patch).await;
        let message = refusal(&refused).unwrap_or_default();
        assert!(
            ["argosy-hold", "argosy-marks"]
                .iter()
                .any(|policy| message.contains(policy))
                && message.contains(what),
            "{what}: {refused:?}"
        );
    }
    let noted = merge(
        "running",
        json!({ "metadata": { "annotations": { "note": "mine" } } }),
    )
    .await?;
    assert_eq!(noted.annotations()["note"], "mine", "what lifts nothing passes");

    let local = workflows_as(&fixture, LOCAL_ARGO).await?;
    let error = json!({ "status": { "phase": "Error", "message": "lost" } });
    let refused = local
        .patch("running", &PatchParams::default(), &Patch::Merge(&error))
        .await;
    assert!(
        refusal(&refused).is_some_and(|message| message.contains("runs on another cluster")),
        "{refused:?}"
    );
    let refused = local.delete("running", &DeleteParams::default()).await;
    assert!(refusal(&refused).is_some(), "{refused:?}");
    local.delete("ended", &DeleteParams::default()).await?;
    workflows.delete("running", &DeleteParams::default()).await?;

    fixture.env.controller.start_again().await?;
    until_gone(&workflows, "ended", "it is let go").await?;
    until_gone(&member.workflows(), "running", "the user's deletion has arrived").await?;
    until_gone(&workflows, "running", "it is let go").await
}

/// Steps of a run; together they take about a megabyte, which is all that Argo keeps in an object.
const STEPS: usize = 3_000;

#[tokio::test]
async fn a_status_of_a_megabyte_is_compared_within_the_budget_of_the_admission_policy() -> Result<()> {
    let (fixture, member) = guarded("guard-large").await?;
    let workflows = fixture.workflows();
    fixture.dispatch("large", &member).await?;
    let mut status = fake_argo::running("large");
    for step in 0..STEPS {
        let id = format!("large-{step}");
        status["nodes"][&id] = json!({
            "id": id, "name": id, "displayName": id, "type": "Pod", "templateName": "main",
            "phase": "Succeeded", "message": "x".repeat(200),
        });
    }
    member.argo().report("large", status).await?;
    until(&workflows, "large", "its status is shown", |workflow| {
        let nodes = workflow
            .status
            .as_ref()
            .and_then(|status| status["nodes"].as_object());
        nodes.is_some_and(|nodes| nodes.len() >= STEPS)
    })
    .await?;
    until_guarded(&fixture, "large").await?;
    fixture.env.controller.kill()?;

    let merge = async |patch: serde_json::Value| {
        workflows
            .patch("large", &PatchParams::default(), &Patch::Merge(patch))
            .await
    };
    let noted = merge(json!({ "metadata": { "annotations": { "note": "mine" } } })).await?;
    assert_eq!(noted.annotations()["note"], "mine");
    let last = format!("large-{}", STEPS - 1);
    let refused = merge(json!({ "status": { "nodes": { last: { "message": "changed" } } } })).await;
    let message = refusal(&refused).unwrap_or_default();
    assert!(
        message.contains("argosy-hold") && message.contains("try again"),
        "{refused:?}"
    );
    fixture.env.controller.start_again().await
}
