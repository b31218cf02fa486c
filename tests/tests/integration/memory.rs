//! The controller's memory under attack by a member that fills its mailbox with arbitrary data.

use std::convert::Infallible;

use anyhow::{Context, Result, ensure};
use argosy_api::{WorkStatus, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    fixture::work_name,
    objects::{create, phase, says},
    waiting::{persistently, turn, until},
};
use futures::{Stream, StreamExt, TryStreamExt, future::try_join_all, stream};
use k8s_openapi::ByteString;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::flood::pack;

/// The chart permits 512.
const MOST_MIB: u64 = 300;

/// This number of objects with a million characters each is more than 512 MiB.
const OBJECTS: u64 = 560;

/// Incompressible text.
pub(super) fn noise(seed: u64) -> Value {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = (0..750_000_u32).map(|_| {
        // xorshift
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    json!(ByteString(bytes.collect()))
}

/// A report about a Workflow or another object that does not exist on the control cluster.
fn report(number: u64, wds: &str) -> Result<WorkStatus> {
    let uid = format!("00000000-0000-4000-8000-{number:012}");
    let labels = if number.is_multiple_of(2) {
        json!({ names::ORIGIN_UID_LABEL: uid })
    } else {
        json!({ names::OBJECT_UID_LABEL: uid, names::ORIGIN_WDS_LABEL: wds })
    };
    report_of(
        &uid,
        &labels,
        &json!({ "phase": "Running", "message": noise(number) }),
    )
}

fn report_of(uid: &str, labels: &Value, status: &Value) -> Result<WorkStatus> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
        "metadata": { "name": names::work_name(uid), "labels": labels },
        "spec": { "sourceRef": {
            "group": "argoproj.io", "version": "v1alpha1", "resource": "workflows", "kind": "Workflow", "name": "x", "namespace": "y",
        } },
        "status": status,
        "reported": { "attempt": 1 },
    }))?)
}

/// Writes this number of reports with a million characters each.
pub(super) async fn fill(hostile: &Member, wds: &str, objects: u64) -> Result<()> {
    write(
        hostile,
        stream::iter(0..objects).map(|number| report(number, wds)),
    )
    .await
}

/// Writes empty reports about unknown runs.
pub(super) async fn fill_with_empty(hostile: &Member, objects: u64) -> Result<()> {
    let empty = |number: u64| {
        let uid = format!("00000000-0000-4000-9000-{number:012}");
        report_of(&uid, &json!({ names::ORIGIN_UID_LABEL: uid }), &json!({}))
    };
    write(hostile, stream::iter(0..objects).map(empty)).await
}

async fn write(hostile: &Member, objects: impl Stream<Item = Result<WorkStatus>>) -> Result<()> {
    let reports: Api<WorkStatus> = hostile.reports();
    objects
        .map(async |report| {
            let report = report?;
            let name = report.name_any();
            persistently(&name, async || {
                match reports.create(&PostParams::default(), &report).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                    created => created.map(|_| ()),
                }
            })
            .await
        })
        .buffer_unordered(4)
        .try_for_each(async |()| Ok(()))
        .await
}

/// A member with runs of its own, for which it reports compressed nodes.
pub(super) struct Packer {
    reports: Api<WorkStatus>,
    names: Vec<String>,
}

impl Packer {
    /// Sends `runs` Workflows to `hostile`. Reports `nodes` nodes for each, with artifacts at
    /// locations that nobody on the control cluster has named. The controller must unpack the
    /// nodes, inspect each, and pack them again.
    pub(super) async fn new(fixture: &Fixture, hostile: &Member, runs: u32, nodes: u32) -> Result<Self> {
        let node = |number: u32| {
            let hash = number.wrapping_mul(2_654_435_761) % 0x1_0000;
            format!(
                r#""n-{number}":{{"id":"n-{number}","type":"Pod","phase":"Running","templateName":"process","boundaryID":"n","outputs":{{"artifacts":[{{"name":"a","http":{{"url":"https://{hash:04x}.example/"}}}}]}}}}"#
            )
        };
        let nodes: Vec<String> = (0..nodes).map(node).collect();
        let packed = pack(format!("{{{}}}", nodes.join(",")))?;
        let status = json!({ "phase": "Running", "compressedNodes": packed });
        ensure!(
            status.to_string().len() < 1 << 20,
            "it is too long to be looked at"
        );
        let mut names = Vec::new();
        for number in 0..runs {
            let workflow: Workflow = fixture.submit(&format!("packed-{number}"), hostile).await?;
            let name = work_name(&workflow);
            until(&hostile.works(), &name, "it was sent", |_| true).await?;
            let uid = workflow.uid().context("it has a UID")?;
            let report = report_of(&uid, &json!({ names::ORIGIN_UID_LABEL: uid }), &status)?;
            create(&hostile.reports(), &report).await?;
            names.push(name);
        }
        Ok(Self {
            reports: hostile.reports(),
            names,
        })
    }

    /// Reports changes of all runs again and again until `other` is done.
    pub(super) async fn beside<T>(&self, other: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = other => done,
            ended = self.go_on() => match ended {
                Ok(never) => match never {},
                Err(error) => Err(error),
            },
        }
    }

    async fn go_on(&self) -> Result<Infallible> {
        let mut round = 0_u64;
        loop {
            round += 1;
            let patch = Patch::Merge(json!({ "status": { "message": format!("round {round}") } }));
            let params = PatchParams::default();
            let writes = self.names.iter().map(|name| {
                persistently(name, async || {
                    self.reports.patch(name, &params, &patch).await.map(|_| ())
                })
            });
            try_join_all(writes).await?;
        }
    }
}

fn took_little(env: &TestEnv, when: &str) -> Result<()> {
    let peak = env.controller.peak_memory().context("the controller has ended")?;
    ensure!(peak < MOST_MIB, "{when} it took {peak} MiB");
    Ok(())
}

#[tokio::test]
#[ignore = "takes minutes on two processors: scripts/test.sh --all"]
async fn a_member_fills_no_memory_with_reports_of_what_nobody_knows() -> Result<()> {
    let _turn = turn().await;
    let (env, store) = TestEnv::own_store("memory").await?;
    let fixture = Fixture::on(env, "memory").await?;
    let neighbor = fixture.pull().await?;
    let hostile = fixture.join("hostile", &fixture.env.servers.wecs[0]).await?;
    fill(&hostile, "memory", OBJECTS).await?;
    fixture.round_trip("meanwhile", &neighbor).await?;
    took_little(&fixture.env, "while they were written")?;
    fixture.env.controller.restart().await?;
    fixture.round_trip("after-a-restart", &neighbor).await?;
    took_little(&fixture.env, "after a restart")?;
    fixture.env.controller.kill()?;
    fixture.env.control.kill()?;
    store.discard()
}

/// The controller waits for two lists, each of which has half of the reports: more than a large page may
/// have.
#[tokio::test]
async fn a_controller_lists_reports_that_are_too_long_for_a_large_page() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own("large-pages").await?, "large-pages").await?;
    let neighbor = fixture.pull().await?;
    let hostile = fixture.join("hostile", &fixture.env.servers.wecs[0]).await?;
    fill(&hostile, "large-pages", 80).await?;
    fixture.env.controller.restart().await?;
    fixture.round_trip("after-a-restart", &neighbor).await
}

#[tokio::test]
async fn a_member_that_packs_nodes_again_and_again_holds_up_no_other() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own("packing").await?, "packing").await?;
    let neighbor = fixture.pull().await?;
    let hostile = fixture.join("hostile", &fixture.env.servers.wecs[0]).await?;
    let packer = Packer::new(&fixture, &hostile, 4, 10_000).await?;
    packer.beside(fixture.round_trip("meanwhile", &neighbor)).await?;
    // Its own statuses are still shown, one after the other.
    until(
        &fixture.workflows(),
        "packed-0",
        "its status is shown",
        |workflow| {
            phase(workflow) == "Running" && says(workflow, "StatusComplete", "False", "LocationsWithheld")
        },
    )
    .await?;
    took_little(&fixture.env, "while its nodes were unpacked")
}
