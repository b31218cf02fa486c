//! The metrics that processes export, and with them the number of writes that a Workflow costs,
//! which does not depend on the machine.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Result;
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    binaries::Binary,
    objects::{create, phase, workflow},
    waiting::until,
};
use kube::ResourceExt;
use serde_json::{Value, json};

const REQUESTS: &str = "argosy_requests_total";
const BYTES: &str = "argosy_sent_bytes_total";

/// The counts of a process's writes to objects of Argosy and Argo, by space, verb and resource, as
/// in `its create manifestworks`.
async fn writes(process: &Binary, counter: &str) -> Result<BTreeMap<String, u64>> {
    let text = process.metrics().await?;
    let mut writes = BTreeMap::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(counter).and_then(|rest| rest.strip_prefix('{')) else {
            continue;
        };
        let label = |name: &str| {
            let (_, value) = rest.split_once(&format!("{name}=\"")).unwrap_or_default();
            value.split('"').next().unwrap_or_default()
        };
        let (verb, resource) = (label("verb"), label("resource"));
        let is_write = !matches!(verb, "get" | "list" | "watch");
        let is_of_a_workflow = [
            "workflows",
            "manifestworks",
            "workstatuses",
            "appliedmanifestworks",
        ]
        .iter()
        .any(|kind| resource.split('/').next() == Some(kind));
        if is_write && is_of_a_workflow {
            let count: u64 = rest.rsplit(' ').next().unwrap_or_default().parse()?;
            *writes
                .entry(format!("{} {verb} {resource}", label("space")))
                .or_default() += count;
        }
    }
    Ok(writes)
}

/// Runs Workflows to their end in sequence, with two statuses each, and deletes none.
async fn run(fixture: &Fixture, member: &Member, names: &[String]) -> Result<()> {
    for name in names {
        create(&fixture.workflows(), &workflow(name, &member.cluster)).await?;
        until(&member.workflows(), name, "it is on the cluster", |_| true).await?;
        for wanted in ["Running", "Succeeded"] {
            match wanted {
                "Running" => member.argo().start(name).await?,
                _ => member.argo().finish(name, wanted).await?,
            };
            until(&fixture.workflows(), name, "its status is shown", |workflow| {
                phase(workflow) == wanted
            })
            .await?;
        }
        until(&member.workflows(), name, "it is let go", |object| {
            object.finalizers().is_empty()
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_workflow_costs_one_write_for_each_step_of_its_way() -> Result<()> {
    const RUNS: u64 = 5;
    let env = TestEnv::own_guarded("metrics", "30d").await?;
    let fixture = Fixture::on(Arc::clone(&env), "metrics").await?;
    let member = fixture.pull().await?;
    // Up to its last write, so that none of its writes is counted.
    run(&fixture, &member, &["first".to_owned()]).await?;
    let names: Vec<String> = (0..RUNS).map(|number| format!("run-{number}")).collect();
    let before = [
        writes(&env.controller, REQUESTS).await?,
        writes(member.agent()?, REQUESTS).await?,
    ];
    run(&fixture, &member, &names).await?;
    let after = [
        writes(&env.controller, REQUESTS).await?,
        writes(member.agent()?, REQUESTS).await?,
    ];
    let spent = |process: usize| -> BTreeMap<&str, u64> {
        let spent = after[process].iter().map(|(name, count)| {
            let earlier = before[process].get(name).copied().unwrap_or_default();
            (name.as_str(), count - earlier)
        });
        spent.filter(|(_, count)| *count > 0).collect()
    };
    // The webhook has written the claim. The rest is the ManifestWork and two statuses.
    let of_controller = [
        ("wds create manifestworks", RUNS),
        ("wds patch workflows", 2 * RUNS),
    ];
    assert_eq!(spent(0), of_controller.into());
    // Object and condition, two statuses, and at the end the record and the removal of the
    // finalizer.
    let of_agent = [
        ("wec create workflows", RUNS),
        ("its patch manifestworks/status", RUNS),
        ("its create workstatuses", RUNS),
        ("its patch workstatuses", RUNS),
        ("wec create appliedmanifestworks", RUNS),
        ("wec patch workflows", RUNS),
    ];
    assert_eq!(spent(1), of_agent.into());
    Ok(())
}

/// The status of a run with `nodes` active nodes, like `running` of a player.
fn of_nodes(nodes: usize, progress: usize) -> Value {
    let nodes = (0..nodes).map(|number| {
        let id = format!("big-{number}");
        let node = json!({
            "id": id, "name": format!("big.step-{number}"), "displayName": format!("step-{number}"), "type": "Pod",
            "phase": "Running", "templateName": "step", "startedAt": "2026-11-21T10:00:00Z",
            "progress": format!("{progress}/9"),
        });
        (id, node)
    });
    let nodes: serde_json::Map<String, Value> = nodes.collect();
    json!({ "phase": "Running", "startedAt": "2026-11-21T10:00:00Z", "progress": format!("{progress}/9"), "nodes": nodes })
}

#[tokio::test]
async fn a_long_status_goes_up_packed_and_is_shown_once_with_little_beside_it() -> Result<()> {
    const UPDATES: usize = 4;
    let env = TestEnv::own_guarded("bytes", "30d").await?;
    let fixture = Fixture::on(Arc::clone(&env), "bytes").await?;
    let member = fixture.pull().await?;
    create(&fixture.workflows(), &workflow("big", &member.cluster)).await?;
    until(&member.workflows(), "big", "it is on the cluster", |_| true).await?;
    let report = async |progress: usize| {
        member.argo().report("big", of_nodes(200, progress)).await?;
        let wanted = format!("{progress}/9");
        until(&fixture.workflows(), "big", "its status is shown", |workflow| {
            let status = workflow.status.as_ref();
            status.is_some_and(|status| status["progress"] == wanted)
        })
        .await
    };
    report(0).await?;
    let before = [
        writes(&env.controller, BYTES).await?,
        writes(member.agent()?, BYTES).await?,
    ];
    for progress in 1..=UPDATES {
        report(progress).await?;
    }
    let after = [
        writes(&env.controller, BYTES).await?,
        writes(member.agent()?, BYTES).await?,
    ];
    let text = of_nodes(200, 1).to_string().len();
    let sent = |process: usize, name: &str| -> Result<usize> {
        let earlier = before[process].get(name).copied().unwrap_or_default();
        Ok(usize::try_from(after[process][name] - earlier)? / UPDATES)
    };
    let shown = sent(0, "wds patch workflows")?;
    // Labels, conditions and guards of the write.
    assert!(
        (text..text + 2_048).contains(&shown),
        "{shown} bytes are shown of a status of {text}"
    );
    let told = sent(1, "its patch workstatuses")?;
    assert!(
        told < text / 8 + 2_048,
        "{told} bytes are sent for a status of {text}"
    );
    Ok(())
}
