//! The admission policies, while the webhook does not answer.

use anyhow::Result;
use argosy_api::{BindingPolicy, Workflow, names};
use argosy_tests::lab::{
    Member, Scene, Stage,
    admission::{
        LOCAL_ARGO, eventually, is_held, refusal, try_unsuspended, unsuspended, until_guarded, until_held,
        workflows_as,
    },
    objects::{create, create_namespace, phase},
    stage::LONG,
    waiting::{until, until_gone},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

/// A scene of its own, whose controller may be killed.
async fn guarded(name: &str) -> Result<(Scene, Member)> {
    let scene = Scene::on(Stage::own_guarded(name, LONG).await?, name).await?;
    let member = scene.pull().await?;
    until_held(&scene, &member).await?;
    Ok((scene, member))
}

#[tokio::test]
async fn what_is_selected_by_the_labels_of_its_namespace_is_held_and_guarded_there_and_nowhere_else()
-> Result<()> {
    let (scene, member) = guarded("guard-namespaces").await?;
    let elsewhere = "guard-namespaces-other";
    create_namespace(&scene.control, elsewhere).await?;
    let clause = json!({
        "resources": ["workflows"], "wantSingletonReportedState": true,
        "namespaceSelectors": [{ "matchLabels": { "team": "a" } }],
        "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: member.cluster } }],
    });
    let policies: Api<BindingPolicy> = Api::all(scene.control.clone());
    let patch = Patch::Merge(json!({ "spec": { "downsync": [clause] } }));
    policies
        .patch(&member.cluster, &PatchParams::default(), &patch)
        .await?;
    let workflows = scene.workflows();
    eventually("a namespace without the label is left alone", async || {
        // The policy may still select it for a moment, when the webhook does not hold it any more.
        let tried = try_unsuspended(&workflows, &member.cluster).await;
        Ok(refusal(&tried).is_none() && !is_held(&tried?))
    })
    .await?;
    let label = Patch::Merge(json!({ "metadata": { "labels": { "team": "a" } } }));
    let namespaces: Api<Namespace> = Api::all(scene.control.clone());
    namespaces
        .patch(&scene.namespace, &PatchParams::default(), &label)
        .await?;
    until_held(&scene, &member).await?;

    scene.stage.controller.kill()?;
    eventually("the policy argosy-create is in effect", async || {
        Ok(refusal(&try_unsuspended(&workflows, &member.cluster).await).is_some())
    })
    .await?;
    let others: Api<Workflow> = Api::namespaced(scene.control.clone(), elsewhere);
    let free = create(&others, &unsuspended("free", &member.cluster)).await?;
    assert!(!is_held(&free));
    Ok(())
}

#[tokio::test]
async fn while_the_controller_is_down_a_selected_workflow_is_created_suspended_or_not_at_all() -> Result<()> {
    let (scene, member) = guarded("guard-create").await?;
    let workflows = scene.workflows();
    scene.stage.controller.kill()?;
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

    let local = create(&workflows, &unsuspended("local", "nobody")).await?;
    assert!(!is_held(&local));
    let waiting = scene.submit("waiting", &member).await?;
    assert!(!is_held(&waiting), "nobody claims it yet");

    scene.stage.controller.start_again().await?;
    let object = until(&member.workflows(), "waiting", "it is on the cluster", |_| true).await?;
    assert_eq!(
        Some(&object.labels()[names::ORIGIN_UID_LABEL]),
        waiting.uid().as_ref()
    );
    until_held(&scene, &member).await
}

#[tokio::test]
async fn while_the_controller_is_down_nobody_lifts_the_hold_of_a_run() -> Result<()> {
    let (scene, member) = guarded("guard-hold").await?;
    let workflows = scene.workflows();
    scene.dispatch("running", &member).await?;
    scene.dispatch("ended", &member).await?;
    member.argo().finish("ended", "Succeeded").await?;
    until(&workflows, "ended", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    until_guarded(&scene, "running").await?;
    scene.stage.controller.kill()?;

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

    let local = workflows_as(&scene, LOCAL_ARGO).await?;
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

    scene.stage.controller.start_again().await?;
    until_gone(&workflows, "ended", "it is let go").await?;
    until_gone(&member.workflows(), "running", "the user's deletion has arrived").await?;
    until_gone(&workflows, "running", "it is let go").await
}
