//! WDS and ITS are put back to a backup of their etcd while controller, agent and cluster go on: nothing starts again, nothing
//! that runs is deleted, and what ended meanwhile is shown as it ended.

use std::time::{Duration, Instant};

use anyhow::Result;
use argosy_api::{
    Workflow,
    conditions::{reason, workflow as types},
};
use argosy_tests::lab::{
    Member, Scene, Stage,
    admission::until_held,
    objects::{phase, says},
    waiting::{until, until_gone},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

async fn starts(scene: &Scene, name: &str, member: &Member) -> Result<Workflow> {
    let (_, object) = scene.dispatch(name, member).await?;
    member.argo().start(name).await?;
    shows(scene, name, "Running").await?;
    Ok(object)
}

async fn shows(scene: &Scene, name: &str, wanted: &'static str) -> Result<Workflow> {
    until(&scene.workflows(), name, wanted, |workflow| {
        phase(workflow) == wanted
    })
    .await
}

/// The object is the one that it was.
async fn is_the_same(member: &Member, object: &Workflow) -> Result<()> {
    let now = member.workflows().get(&object.name_any()).await?;
    assert_eq!((now.uid(), now.metadata.deletion_timestamp), (object.uid(), None));
    Ok(())
}

/// How long others write: controller and agent look at the version every three seconds, and must see what is lost later.
const LIFE: Duration = Duration::from_secs(8);

/// What others write meanwhile: a backup is older than the few writes of a start.
async fn life_goes_on(scene: &Scene) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(scene.control.clone());
    let begin = Instant::now();
    for number in 0.. {
        if number >= 300 && begin.elapsed() >= LIFE {
            break;
        }
        let note = json!({ "metadata": { "annotations": { "example.com/note": number.to_string() } } });
        namespaces
            .patch(&scene.namespace, &PatchParams::default(), &Patch::Merge(note))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn after_a_restore_nothing_runs_twice_and_what_ended_meanwhile_is_shown_as_it_ended() -> Result<()> {
    let (stage, store) = Stage::own_store("restored").await?;
    let scene = Scene::on(stage, "restored").await?;
    let member = scene.pull().await?;
    until_held(&scene, &member).await?;
    let running = starts(&scene, "running", &member).await?;
    let ended = starts(&scene, "ended", &member).await?;
    starts(&scene, "removed", &member).await?;

    let control = &scene.stage.control;
    control.kill()?;
    store.back_up()?;
    control.start_again().await?;

    for name in ["ended", "removed"] {
        member.argo().finish(name, "Succeeded").await?;
        shows(&scene, name, "Succeeded").await?;
    }
    member
        .workflows()
        .delete("removed", &DeleteParams::default())
        .await?;
    until_gone(&member.workflows(), "removed", "its TTL is over").await?;
    let young = starts(&scene, "young", &member).await?;
    life_goes_on(&scene).await?;

    control.kill()?;
    store.restore()?;
    control.start_again().await?;
    // Both notice it, and begin anew.
    tokio::try_join!(
        scene.stage.controller.start_again_when_ended(),
        member.agent()?.start_again_when_ended()
    )?;

    shows(&scene, "ended", "Succeeded").await?;
    let removed = until(
        &scene.workflows(),
        "removed",
        "it is shown as ended",
        |workflow| says(workflow, types::STATUS_COMPLETE, "False", reason::REPORT_LOST),
    )
    .await?;
    assert_eq!(phase(&removed), "Succeeded");
    member.argo().finish("running", "Failed").await?;
    shows(&scene, "running", "Failed").await?;
    scene.round_trip("sentinel", &member).await?;

    assert!(
        member.workflows().get_opt("removed").await?.is_none(),
        "it was created again"
    );
    for object in [&running, &ended] {
        is_the_same(&member, object).await?;
    }
    // The control cluster knows nothing of it any more; on its cluster it goes on.
    assert!(scene.workflows().get_opt("young").await?.is_none());
    is_the_same(&member, &young).await
}
