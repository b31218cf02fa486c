//! WDS and ITS are restored from a backup of their etcd while controller, agent and cluster
//! continue. Nothing starts again, no active run is deleted, and the ends of the meantime are
//! shown.

use std::time::{Duration, Instant};

use anyhow::Result;
use argosy_api::{
    Workflow,
    conditions::{reason, workflow as types},
};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::until_held,
    objects::{phase, says},
    supervisor,
    waiting::{until, until_gone},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

async fn starts(fixture: &Fixture, name: &str, member: &Member) -> Result<Workflow> {
    let (_, object) = fixture.dispatch(name, member).await?;
    member.argo().start(name).await?;
    shows(fixture, name, "Running").await?;
    Ok(object)
}

async fn shows(fixture: &Fixture, name: &str, wanted: &'static str) -> Result<Workflow> {
    until(&fixture.workflows(), name, wanted, |workflow| {
        phase(workflow) == wanted
    })
    .await
}

/// Checks that the object is still the same one and is not being deleted.
async fn is_the_same(member: &Member, object: &Workflow) -> Result<()> {
    let now = member.workflows().get(&object.name_any()).await?;
    assert_eq!((now.uid(), now.metadata.deletion_timestamp), (object.uid(), None));
    Ok(())
}

/// Duration of the foreign writes. The controller checks the version every three seconds, and an
/// agent with each renewal of its Lease, every ten seconds. Both must see versions that are later
/// lost.
const LIFE: Duration = Duration::from_secs(12);

/// Foreign writes: a real backup is older than the few writes of a start.
async fn life_goes_on(fixture: &Fixture) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(fixture.control.clone());
    let begin = Instant::now();
    for number in 0.. {
        if number >= 300 && begin.elapsed() >= LIFE {
            break;
        }
        let note = json!({ "metadata": { "annotations": { "example.com/note": number.to_string() } } });
        namespaces
            .patch(&fixture.namespace, &PatchParams::default(), &Patch::Merge(note))
            .await?;
    }
    Ok(())
}

/// The events after the backup. Returns the Workflow that the backup does not contain.
async fn go_on(fixture: &Fixture, member: &Member) -> Result<Workflow> {
    for name in ["ended", "removed"] {
        member.argo().finish(name, "Succeeded").await?;
        shows(fixture, name, "Succeeded").await?;
    }
    member
        .workflows()
        .delete("removed", &DeleteParams::default())
        .await?;
    until_gone(&member.workflows(), "removed", "its TTL is over").await?;
    let young = starts(fixture, "young", member).await?;
    life_goes_on(fixture).await?;
    Ok(young)
}

#[tokio::test]
async fn after_a_restore_nothing_runs_twice_and_what_ended_meanwhile_is_shown_as_it_ended() -> Result<()> {
    let (env, store) = TestEnv::own_store("restored").await?;
    let fixture = Fixture::on(env, "restored").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    let running = starts(&fixture, "running", &member).await?;
    let ended = starts(&fixture, "ended", &member).await?;
    starts(&fixture, "removed", &member).await?;

    let control = &fixture.env.control;
    // The controller ends if the API server does not answer for ten seconds, as on a busy machine.
    let processes = [&fixture.env.controller, member.agent()?];
    let (young, _) = supervisor::beside(&processes, async {
        control.kill()?;
        store.back_up()?;
        control.start_again().await?;
        go_on(&fixture, &member).await
    })
    .await?;

    control.kill()?;
    store.restore()?;
    control.start_again().await?;
    // Both notice it, end, and are started again.
    tokio::try_join!(
        fixture.env.controller.start_again_when_ended(),
        member.agent()?.start_again_when_ended()
    )?;

    shows(&fixture, "ended", "Succeeded").await?;
    let removed = until(
        &fixture.workflows(),
        "removed",
        "it is shown as ended",
        |workflow| says(workflow, types::STATUS_COMPLETE, "False", reason::REPORT_LOST),
    )
    .await?;
    assert_eq!(phase(&removed), "Succeeded");
    member.argo().finish("running", "Failed").await?;
    shows(&fixture, "running", "Failed").await?;
    fixture.round_trip("sentinel", &member).await?;

    assert!(
        member.workflows().get_opt("removed").await?.is_none(),
        "it was created again"
    );
    for object in [&running, &ended] {
        is_the_same(&member, object).await?;
    }
    // The control cluster has lost it. The run continues on its cluster.
    assert!(fixture.workflows().get_opt("young").await?.is_none());
    is_the_same(&member, &young).await
}
