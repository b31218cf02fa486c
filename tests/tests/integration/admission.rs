//! The webhook: what becomes of a Workflow in the very request that creates or writes it.

use anyhow::Result;
use argosy_api::names;
use argosy_tests::lab::{
    Member, Scene, Stage,
    admission::{LOCAL_ARGO, is_held, refusal, unsuspended, until_guarded, until_held, workflows_as},
    argo,
    objects::{create, phase},
    waiting::until,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// A scene with a webhook, and a cluster that it holds Workflows for.
async fn guarded(name: &str) -> Result<(Scene, Member)> {
    let scene = Scene::on(Stage::guarded().await?, name).await?;
    let member = scene.pull().await?;
    until_held(&scene, &member).await?;
    Ok((scene, member))
}

#[tokio::test]
async fn a_selected_workflow_is_held_and_claimed_in_the_request_that_creates_it() -> Result<()> {
    let (scene, member) = guarded("admission-held").await?;
    let created = create(&scene.workflows(), &unsuspended("hello", &member.cluster)).await?;
    assert!(is_held(&created));
    assert_eq!(created.labels()[names::CLUSTER_LABEL], member.cluster);
    assert_eq!(created.labels()[names::ARGO_PHASE_LABEL], "Pending");
    assert_eq!(phase(&created), "Pending");
    assert!(created.annotations().contains_key(names::CLAIM_ANNOTATION));
    assert!(
        created
            .finalizers()
            .contains(&names::CONTROLLER_FINALIZER.to_owned())
    );

    let object = until(&member.workflows(), "hello", "it is on the cluster", |_| true).await?;
    assert_eq!(
        Some(&object.labels()[names::ORIGIN_UID_LABEL]),
        created.uid().as_ref()
    );
    member.argo().finish("hello", "Succeeded").await?;
    until(&scene.workflows(), "hello", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    scene.round_trip("sentinel", &member).await?;
    assert_eq!(
        member.workflows().get("hello").await?.uid(),
        object.uid(),
        "it was created once"
    );
    Ok(())
}

#[tokio::test]
async fn a_hold_that_is_taken_off_is_put_back_in_the_same_request() -> Result<()> {
    let (scene, member) = guarded("admission-lifted").await?;
    create(&scene.workflows(), &unsuspended("hello", &member.cluster)).await?;
    // As `kubectl label workflow hello workflows.argoproj.io/completed-` does, and as `kubectl replace` may.
    let unlabelled =
        json!({ "metadata": { "labels": { names::ARGO_COMPLETED_LABEL: null, "team": "blue" } } });
    let stripped = json!({ "metadata": { "labels": null, "annotations": null, "finalizers": null } });
    let mut teams = Vec::new();
    for patch in [unlabelled, stripped] {
        let params = PatchParams::default();
        let written = scene
            .workflows()
            .patch("hello", &params, &Patch::Merge(patch))
            .await?;
        assert!(is_held(&written));
        assert_eq!(written.labels()[names::CLUSTER_LABEL], member.cluster);
        assert!(written.annotations().contains_key(names::CLAIM_ANNOTATION));
        assert!(
            written
                .finalizers()
                .contains(&names::CONTROLLER_FINALIZER.to_owned())
        );
        teams.push(written.labels().get("team").cloned());
    }
    assert_eq!(
        teams,
        [Some("blue".to_owned()), None],
        "the user's own labels are the user's"
    );
    Ok(())
}

#[tokio::test]
async fn a_status_that_is_not_the_runs_is_mended_in_the_same_request() -> Result<()> {
    let (scene, member) = guarded("admission-status").await?;
    scene.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    let running = until(&scene.workflows(), "hello", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    let written = argo::edit(&scene.workflows(), "hello", |workflow| {
        workflow.status = Some(argo::ended("hello", "Error"));
    })
    .await?;
    assert_eq!(written.status, running.status);
    let gone = json!({ "status": null });
    let params = PatchParams::default();
    let written = scene
        .workflows()
        .patch("hello", &params, &Patch::Merge(gone))
        .await?;
    assert_eq!(written.status, running.status);
    Ok(())
}

#[tokio::test]
async fn the_local_workflow_controller_touches_a_run_only_when_it_has_ended() -> Result<()> {
    let (scene, member) = guarded("admission-local").await?;
    scene.dispatch("hello", &member).await?;
    until_guarded(&scene, "hello").await?;
    let before = scene.workflows().get("hello").await?;
    let local = workflows_as(&scene, LOCAL_ARGO).await?;
    let params = PatchParams::default();
    let error = json!({ "status": { "phase": "Error", "message": "lost" } });
    let mended = local.patch("hello", &params, &Patch::Merge(&error)).await?;
    assert_eq!(mended.status, before.status, "its write changes nothing");
    let refused = local.delete("hello", &DeleteParams::default()).await;
    assert!(refusal(&refused).is_some(), "{refused:?}");

    member.argo().finish("hello", "Succeeded").await?;
    until(&scene.workflows(), "hello", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    local.delete("hello", &DeleteParams::default()).await?;
    argosy_tests::lab::waiting::until_gone(&scene.workflows(), "hello", "its TTL is over").await
}

#[tokio::test]
async fn a_workflow_that_no_policy_selects_is_left_as_it_is() -> Result<()> {
    let (scene, _member) = guarded("admission-foreign").await?;
    let mut asked = unsuspended("hello", "nobody");
    asked
        .annotations_mut()
        .insert("example.com/note".to_owned(), "mine".to_owned());
    let created = create(&scene.workflows(), &asked).await?;
    assert_eq!(created.metadata.labels, asked.metadata.labels);
    assert_eq!(created.metadata.annotations, asked.metadata.annotations);
    assert_eq!(created.metadata.finalizers, None);
    assert_eq!(created.spec, asked.spec);
    assert_eq!(created.status, None);
    let local = workflows_as(&scene, LOCAL_ARGO).await?;
    let run = argo::edit(&local, "hello", |workflow| {
        workflow.status = Some(argo::running("hello"));
    })
    .await?;
    assert_eq!(phase(&run), "Running");
    local.delete("hello", &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test]
async fn a_dry_run_creates_nothing_and_shows_what_would_be_created() -> Result<()> {
    let (scene, member) = guarded("admission-dry").await?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut asked = unsuspended("hello", &member.cluster);
    asked.metadata.name = None;
    asked.metadata.generate_name = Some("hello-".to_owned());
    let shown = scene.workflows().create(&params, &asked).await?;
    assert!(is_held(&shown));
    let left: Vec<Value> = scene
        .workflows()
        .list(&kube::api::ListParams::default())
        .await?
        .into_iter()
        .map(|workflow| json!(workflow.metadata.name))
        .collect();
    assert_eq!(left, [] as [Value; 0]);
    Ok(())
}
