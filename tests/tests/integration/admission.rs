//! The webhook: its changes to a Workflow within the request that creates or writes it.

use anyhow::{Result, ensure};
use argosy_api::{Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{LOCAL_ARGO, is_held, refusal, unsuspended, until_guarded, until_held, workflows_as},
    fake_argo,
    objects::{create, phase},
    waiting::until,
};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Request},
    client::Body,
};
use serde_json::{Value, json};

/// A fixture with a webhook, and a cluster for which it holds Workflows.
async fn guarded(name: &str) -> Result<(Fixture, Member)> {
    let fixture = Fixture::on(TestEnv::guarded().await?, name).await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    Ok((fixture, member))
}

#[tokio::test]
async fn a_selected_workflow_is_held_and_claimed_in_the_request_that_creates_it() -> Result<()> {
    let (fixture, member) = guarded("admission-held").await?;
    let created = create(&fixture.workflows(), &unsuspended("hello", &member.cluster)).await?;
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
    until(&fixture.workflows(), "hello", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    fixture.round_trip("sentinel", &member).await?;
    assert_eq!(
        member.workflows().get("hello").await?.uid(),
        object.uid(),
        "it was created once"
    );
    Ok(())
}

/// The warnings for a client that merges `patch` into the Workflow `name`.
async fn warnings(fixture: &Fixture, name: &str, patch: &Value) -> Result<Vec<String>> {
    let workflows = Workflow::url_path(&(), Some(&fixture.namespace));
    let request = Request::new(workflows).patch(name, &PatchParams::default(), &Patch::Merge(patch))?;
    let answer = fixture.control.send(request.map(Body::from)).await?;
    ensure!(answer.status().is_success(), "{}", answer.status());
    let warnings = answer.headers().get_all("warning").iter();
    warnings.map(|warning| Ok(warning.to_str()?.to_owned())).collect()
}

#[tokio::test]
async fn whoever_edits_what_was_sent_is_warned_and_whoever_labels_or_suspends_it_is_not() -> Result<()> {
    let (fixture, member) = guarded("admission-edited").await?;
    create(&fixture.workflows(), &unsuspended("hello", &member.cluster)).await?;
    until(&member.workflows(), "hello", "it is on the cluster", |_| true).await?;
    for patch in [
        json!({ "metadata": { "labels": { "team": "blue" } } }),
        json!({ "spec": { "suspend": true } }),
    ] {
        assert_eq!(
            warnings(&fixture, "hello", &patch).await?,
            Vec::<String>::new(),
            "{patch}"
        );
    }
    let edit = json!({ "spec": { "entrypoint": "other", "podGC": { "strategy": "OnPodCompletion" } } });
    let told = warnings(&fixture, "hello", &edit).await?;
    ensure!(
        told.len() == 1 && told[0].contains("a run is not changed") && told[0].contains(&member.cluster),
        "{told:?}"
    );
    // The API server first compares a patch with its watch cache. A list waits until the cache is
    // up to date.
    fixture.workflows().list(&ListParams::default()).await?;
    assert_eq!(
        warnings(&fixture, "hello", &edit).await?,
        Vec::<String>::new(),
        "nothing changes any more"
    );
    Ok(())
}

#[tokio::test]
async fn a_hold_that_is_taken_off_is_put_back_in_the_same_request() -> Result<()> {
    let (fixture, member) = guarded("admission-lifted").await?;
    create(&fixture.workflows(), &unsuspended("hello", &member.cluster)).await?;
    // As `kubectl label workflow hello workflows.argoproj.io/completed-` does, and as `kubectl
    // replace` may.
    let unlabeled =
        json!({ "metadata": { "labels": { names::ARGO_COMPLETED_LABEL: null, "team": "blue" } } });
    let stripped = json!({ "metadata": { "labels": null, "annotations": null, "finalizers": null } });
    let mut teams = Vec::new();
    for patch in [unlabeled, stripped] {
        let params = PatchParams::default();
        let written = fixture
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
    let (fixture, member) = guarded("admission-status").await?;
    fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    let running = until(&fixture.workflows(), "hello", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    let written = fake_argo::edit(&fixture.workflows(), "hello", |workflow| {
        workflow.status = Some(fake_argo::ended("hello", "Error"));
    })
    .await?;
    assert_eq!(written.status, running.status);
    let gone = json!({ "status": null });
    let params = PatchParams::default();
    let written = fixture
        .workflows()
        .patch("hello", &params, &Patch::Merge(gone))
        .await?;
    assert_eq!(written.status, running.status);
    Ok(())
}

#[tokio::test]
async fn the_local_workflow_controller_touches_a_run_only_when_it_has_ended() -> Result<()> {
    let (fixture, member) = guarded("admission-local").await?;
    fixture.dispatch("hello", &member).await?;
    until_guarded(&fixture, "hello").await?;
    let before = fixture.workflows().get("hello").await?;
    let local = workflows_as(&fixture, LOCAL_ARGO).await?;
    let params = PatchParams::default();
    let error = json!({ "status": { "phase": "Error", "message": "lost" } });
    let mended = local.patch("hello", &params, &Patch::Merge(&error)).await?;
    assert_eq!(mended.status, before.status, "its write changes nothing");
    let refused = local.delete("hello", &DeleteParams::default()).await;
    assert!(refusal(&refused).is_some(), "{refused:?}");

    member.argo().finish("hello", "Succeeded").await?;
    until(&fixture.workflows(), "hello", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    local.delete("hello", &DeleteParams::default()).await?;
    argosy_tests::testenv::waiting::until_gone(&fixture.workflows(), "hello", "its TTL is over").await
}

#[tokio::test]
async fn a_workflow_that_no_policy_selects_is_left_as_it_is() -> Result<()> {
    let (fixture, _member) = guarded("admission-foreign").await?;
    let mut asked = unsuspended("hello", names::KUBESTELLAR_LOCAL_CLUSTER);
    asked
        .annotations_mut()
        .insert("example.com/note".to_owned(), "mine".to_owned());
    let created = create(&fixture.workflows(), &asked).await?;
    assert_eq!(created.metadata.labels, asked.metadata.labels);
    assert_eq!(created.metadata.annotations, asked.metadata.annotations);
    assert_eq!(created.metadata.finalizers, None);
    assert_eq!(created.spec, asked.spec);
    assert_eq!(created.status, None);
    let local = workflows_as(&fixture, LOCAL_ARGO).await?;
    let run = fake_argo::edit(&local, "hello", |workflow| {
        workflow.status = Some(fake_argo::running("hello"));
    })
    .await?;
    assert_eq!(phase(&run), "Running");
    local.delete("hello", &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test]
async fn a_dry_run_creates_nothing_and_shows_what_would_be_created() -> Result<()> {
    let (fixture, member) = guarded("admission-dry").await?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut asked = unsuspended("hello", &member.cluster);
    asked.metadata.name = None;
    asked.metadata.generate_name = Some("hello-".to_owned());
    let shown = fixture.workflows().create(&params, &asked).await?;
    assert!(is_held(&shown));
    let left: Vec<Value> = fixture
        .workflows()
        .list(&ListParams::default())
        .await?
        .into_iter()
        .map(|workflow| json!(workflow.metadata.name))
        .collect();
    assert_eq!(left, [] as [Value; 0]);
    Ok(())
}
