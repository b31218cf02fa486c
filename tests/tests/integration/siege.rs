//! All attacks on the controller's memory at once, beside a thousand live Workflows: requests to
//! the webhook, objects of tenants, and reports and ManifestWorks in a mailbox. `flood`, `memory`
//! and `poison` test each attack alone.

#![allow(clippy::print_stdout, reason = "the figures are for the reader of the log")]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{unsuspended, until_held},
    fake_argo,
    objects::{create, phase},
    poison::{Writer, nested},
    supervisor,
    waiting::{turn, until},
};
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    flood::{bomb, post_reviews, touch},
    memory::{Packer, fill, fill_with_empty, noise},
    poison::{define_things, select_things},
};

/// The limit of the chart.
const LIMIT_MIB: u64 = 512;

/// Workflows that run all the time.
const LIVE: usize = 1000;

/// Nodes that take 7 MB unpacked and 0.5 MB packed.
const NODES: u32 = 40_000;

/// Objects of each kind that have the maximum size for etcd and the heaviest tree that is still
/// parsed.
const HEAVY: u64 = 12;

/// Reports with a million characters. With as many as `memory` writes alone, an API server on two
/// processors could do nothing else.
const REPORTS: u64 = 100;

/// Empty reports.
const EMPTY_REPORTS: u64 = 5_000;

/// Tries to write one of the heavy objects.
const ATTEMPTS: u32 = 20;

/// A value whose tree takes 45 MiB and whose text takes 1.4 MB.
pub(super) fn heavy(seed: u64) -> String {
    format!("[{}{}]", r#"{"a":0},"#.repeat(54_000), noise(seed))
}

/// Starts the live Workflows on the cluster.
async fn live(fixture: &Fixture, member: &Member) -> Result<()> {
    stream::iter(0..LIVE)
        .map(async |number| {
            let name = format!("live-{number}");
            create(&fixture.workflows(), &unsuspended(&name, &member.cluster)).await?;
            until(&member.workflows(), &name, "it is on the cluster", |_| true).await?;
            member.argo().start(&name).await?;
            until(&fixture.workflows(), &name, "it runs", |workflow| {
                phase(workflow) == "Running"
            })
            .await
        })
        .buffer_unordered(16)
        .try_for_each(async |_| Ok(()))
        .await
}

/// A writer of objects of which only few fit into memory at once, and of some that are nested too
/// deep.
struct Tenant {
    writer: Writer,
    prefix: &'static str,
}

impl Tenant {
    async fn write(&self) -> Result<()> {
        let writes = (0..HEAVY).map(|number| async move {
            self.write_heavy(number).await?;
            let name = format!("{}-deep-{number}", self.prefix);
            self.writer.put(&name, &nested(140), false).await.map(|_| ())
        });
        stream::iter(writes)
            .buffer_unordered(2)
            .try_for_each(async |()| Ok(()))
            .await
    }

    /// Writes one object, with another name if the API server has not answered in time: all writers
    /// together exceed its capacity.
    async fn write_heavy(&self, number: u64) -> Result<()> {
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            let name = format!("{}-{number}-{attempt}", self.prefix);
            match self.writer.put(&name, &heavy(number), false).await {
                Ok(true) => return Ok(()),
                Ok(false) => last = Some(anyhow!("{name} was not taken, so it tests nothing")),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("it was never tried")?)
    }
}

/// Tenants of the control cluster, whose objects policies send to `member`, and a writer of
/// ManifestWorks in `mailbox`.
fn tenants(fixture: &Fixture, member: &Member, mailbox: &Member) -> [Tenant; 3] {
    let writer = |path: String, form: String| Writer {
        client: fixture.control.clone(),
        path,
        form,
    };
    let namespace = &fixture.namespace;
    let workflow = format!(
        r#"{{"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow","metadata":{{"name":"{{name}}","labels":{{"{}":"{}"}}}},"spec":{{"suspend":true,"entrypoint":"main","x":{{poison}}}}}}"#,
        names::KUBESTELLAR_CLUSTER_LABEL,
        member.cluster
    );
    let thing = format!(
        r#"{{"apiVersion":"{namespace}.example/v1","kind":"Thing","metadata":{{"name":"{{name}}","labels":{{"app":"things"}}}},"spec":{{"x":{{poison}}}}}}"#
    );
    let work = r#"{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"{name}"},"spec":{"deleteOption":{"ttlSecondsAfterFinished":1},"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"{name}","namespace":"nowhere"},"data":{poison}}]}}}"#;
    [
        Tenant {
            writer: writer(
                format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"),
                workflow,
            ),
            prefix: "heavy",
        },
        Tenant {
            writer: writer(
                format!("/apis/{namespace}.example/v1/namespaces/{namespace}/things"),
                thing,
            ),
            prefix: "thing",
        },
        Tenant {
            writer: writer(
                format!(
                    "/apis/work.open-cluster-management.io/v1/namespaces/{}/manifestworks",
                    mailbox.cluster
                ),
                work.to_owned(),
            ),
            prefix: "theirs",
        },
    ]
}

/// Timeout of the first answer of the webhook.
const LONGEST_FLOOD: Duration = Duration::from_mins(3);

/// Sends the most expensive requests to the webhook at least `rounds` times.
async fn flood(fixture: &Fixture, rounds: usize) -> Result<()> {
    let port = fixture.env.webhook_port.context("there is a webhook")?;
    let packed = bomb()?;
    let (mut answered, mut round) = (0, 0);
    let deadline = Instant::now() + LONGEST_FLOOD;
    // A controller that has just started does not answer yet.
    while round < rounds || (answered == 0 && Instant::now() < deadline) {
        round += 1;
        let (posted, touched) = tokio::join!(post_reviews(port), touch(fixture, "tenants", Some(&packed)));
        answered += posted?;
        touched?;
    }
    ensure!(answered > 0, "no review was answered");
    Ok(())
}

/// Measures the peak resident memory of the controller's processes in MiB during `attack`. A
/// process that cannot renew its Lease on a busy API server ends, and the next one starts over all
/// objects written so far.
async fn peak_beside(
    fixture: &Fixture,
    member: &Member,
    when: &str,
    attack: impl Future<Output = Result<()>>,
) -> Result<()> {
    let controller = &fixture.env.controller;
    let processes = [controller, member.agent()?];
    let mut peak = 0;
    let looking = async {
        loop {
            peak = peak.max(controller.peak_memory().unwrap_or_default());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let started = tokio::select! {
        done = supervisor::beside(&processes, attack) => done?.1,
        () = looking => 0,
    };
    println!(
        "{when}, the controller's resident memory was {peak} MiB at most; it and the agent were started {started} \
         times"
    );
    ensure!(peak > 0 && peak < LIMIT_MIB, "{when} it took {peak} MiB");
    Ok(())
}

#[tokio::test]
#[ignore = "takes minutes on two processors: scripts/test.sh --all"]
async fn under_all_attacks_at_once_beside_a_thousand_live_workflows_the_controller_keeps_below_its_limit()
-> Result<()> {
    let _turn = turn().await;
    let (env, store) = TestEnv::own_store("siege").await?;
    let fixture = Fixture::on(env, "siege").await?;
    let neighbor = fixture.pull().await?;
    let hostile = fixture.join("hostile", &fixture.env.servers.wecs[0]).await?;
    until_held(&fixture, &neighbor).await?;
    define_things([&fixture.control, &neighbor.wec], "siege.example").await?;
    select_things(&fixture, &neighbor, "siege.example").await?;
    live(&fixture, &neighbor).await?;
    let quiet = fixture.env.controller.peak_memory();
    println!("beside {LIVE} live Workflows it was {quiet:?} MiB");
    create(&fixture.workflows(), &unsuspended("tenants", &neighbor.cluster)).await?;
    let packer = Packer::new(&fixture, &hostile, 4, NODES).await?;
    let [heavy, things, works] = tenants(&fixture, &neighbor, &hostile);
    let writing = async {
        tokio::try_join!(
            heavy.write(),
            things.write(),
            works.write(),
            fill(&hostile, "siege", REPORTS),
            fill_with_empty(&hostile, EMPTY_REPORTS),
            flood(&fixture, 10),
        )?;
        Ok(())
    };
    peak_beside(
        &fixture,
        &neighbor,
        "under all attacks",
        Box::pin(packer.beside(writing)),
    )
    .await?;
    // The next process may end as well while the API server is busy, so no step waits for it.
    let beginning = async {
        fixture.env.controller.kill()?;
        flood(&fixture, 1).await
    };
    peak_beside(
        &fixture,
        &neighbor,
        "when it has begun anew over all that",
        Box::pin(packer.beside(beginning)),
    )
    .await?;
    // The API server is busy, too, until the attacks end.
    let going_on = fixture.round_trip("afterwards", &neighbor);
    peak_beside(&fixture, &neighbor, "afterwards", Box::pin(going_on)).await?;
    let last = fake_argo::ended("live-0", "Succeeded");
    neighbor.argo().report("live-0", last).await?;
    until(&fixture.workflows(), "live-0", "its end is shown", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    fixture.env.controller.kill()?;
    fixture.env.control.kill()?;
    store.discard()
}
