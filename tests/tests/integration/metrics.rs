//! The metrics that processes export, and with them the number of writes that a Workflow costs,
//! which does not depend on the machine.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result};
use argosy_api::{Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::until_held,
    binaries::Binary,
    fake_argo,
    fixture::work_name,
    mailbox::{condition, config_map, says},
    objects::{create, phase, workflow},
    signing::Signing,
    waiting::until,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::dependencies::{ask, needing};

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
            "pods",
            "namespaces",
            "configmaps",
            "serviceaccounts",
            "rolebindings",
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

/// The status of a Workflow whose step has just started, so its pod is not shown yet.
fn just_started(name: &str) -> Value {
    let mut status = fake_argo::running(name);
    for node in status["nodes"].as_object_mut().into_iter().flatten() {
        node.1["startedAt"] = json!(Timestamp::now().to_string());
    }
    status
}

/// Runs Workflows to their end in sequence, with two statuses each, and deletes none.
async fn run(fixture: &Fixture, member: &Member, runs: &[Workflow]) -> Result<()> {
    for run in runs {
        let name = &run.name_any();
        let created = create(&fixture.workflows(), run).await?;
        until(&member.workflows(), name, "it is on the cluster", |_| true).await?;
        for wanted in ["Running", "Succeeded"] {
            match wanted {
                "Running" => member.argo().report(name, just_started(name)).await?,
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
        // The agent may write it last, when it has nothing else to write.
        until(
            &member.works(),
            &work_name(&created),
            "it says that it is applied",
            |work| says(work, "Applied", "True"),
        )
        .await?;
    }
    Ok(())
}

/// The writes of the controller, and of the agent, while Workflows run to their end.
async fn spent(fixture: &Fixture, member: &Member, runs: &[Workflow]) -> Result<[BTreeMap<String, u64>; 2]> {
    let processes = [&fixture.env.controller, member.agent()?];
    let before = [
        writes(processes[0], REQUESTS).await?,
        writes(processes[1], REQUESTS).await?,
    ];
    run(fixture, member, runs).await?;
    let mut spent = [
        writes(processes[0], REQUESTS).await?,
        writes(processes[1], REQUESTS).await?,
    ];
    for (spent, before) in spent.iter_mut().zip(&before) {
        for (name, count) in spent.iter_mut() {
            *count -= before.get(name).copied().unwrap_or_default();
        }
        spent.retain(|_, count| *count > 0);
    }
    Ok(spent)
}

const RUNS: u64 = 5;

/// Asserts that each of [`RUNS`] Workflows has cost what a Workflow costs.
fn assert_one_write_for_each_step(spent: &[BTreeMap<String, u64>; 2]) {
    let of = |wanted: &[(&str, u64)]| -> BTreeMap<String, u64> {
        let wanted = wanted.iter().map(|(name, count)| ((*name).to_owned(), *count));
        wanted.collect()
    };
    // The webhook has written the claim. The rest is the ManifestWork and two statuses.
    let of_controller = of(&[
        ("wds create manifestworks", RUNS),
        ("wds patch workflows", 2 * RUNS),
    ]);
    assert_eq!(spent[0], of_controller);
    // Object and condition, two statuses, and at the end the record and the removal of the
    // finalizer.
    let of_agent = of(&[
        ("wec create workflows", RUNS),
        ("its patch manifestworks/status", RUNS),
        ("its create workstatuses", RUNS),
        ("its patch workstatuses", RUNS),
        ("wec create appliedmanifestworks", RUNS),
        ("wec patch workflows", RUNS),
    ]);
    assert_eq!(spent[1], of_agent);
}

#[tokio::test]
async fn a_workflow_costs_one_write_for_each_step_of_its_way() -> Result<()> {
    let env = TestEnv::own_guarded("metrics", "30d").await?;
    let fixture = Fixture::on(Arc::clone(&env), "metrics").await?;
    let member = fixture.pull().await?;
    // Up to its last write, so that none of its writes is counted.
    run(&fixture, &member, &[workflow("first", &member.cluster)]).await?;
    let runs: Vec<Workflow> = (0..RUNS)
        .map(|number| workflow(&format!("run-{number}"), &member.cluster))
        .collect();
    assert_one_write_for_each_step(&spent(&fixture, &member, &runs).await?);
    Ok(())
}

#[tokio::test]
async fn a_workflow_of_short_steps_costs_no_more_writes_with_virtual_nodes() -> Result<()> {
    let (signing, _) = Signing::with_nodes("metrics-nodes").await?;
    let fixture = Fixture::on(Arc::clone(&signing.env), "metrics-nodes").await?;
    let member = fixture.pull().await?;
    let nodes: Api<Node> = Api::all(fixture.control.clone());
    let node = names::virtual_node(&member.cluster);
    until(&nodes, &node, "the cluster is a Node", |_| true).await?;
    until_held(&fixture, &member).await?;
    run(&fixture, &member, &[workflow("first", &member.cluster)]).await?;
    let runs: Vec<Workflow> = (0..RUNS)
        .map(|number| workflow(&format!("run-{number}"), &member.cluster))
        .collect();
    assert_one_write_for_each_step(&spent(&fixture, &member, &runs).await?);
    Ok(())
}

#[tokio::test]
async fn a_workflow_whose_needs_are_on_its_cluster_costs_no_more_writes_than_one_without_needs() -> Result<()>
{
    let env = TestEnv::own_guarded("metrics-needs", "30d").await?;
    let fixture = Fixture::on(Arc::clone(&env), "metrics-needs").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    let needed: ConfigMap = serde_json::from_value(config_map(&fixture.namespace, "settings", "1"))?;
    let maps: Api<ConfigMap> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let needed = create(&maps, &needed).await?;
    let namespaces: Api<Namespace> = Api::all(fixture.control.clone());
    let namespace = namespaces.get(&fixture.namespace).await?;
    run(
        &fixture,
        &member,
        &[needing("first", &member, &["settings"], &[])],
    )
    .await?;
    // Up to the last writes for the objects that it needs, so that none of them is counted.
    for uid in [needed.uid(), namespace.uid()] {
        let work = names::work_name(&uid.context("it has a UID")?);
        until(&member.works(), &work, "it says if it is applied", |work| {
            condition(work, None, "Applied").is_some()
        })
        .await?;
    }
    let runs: Vec<Workflow> = (0..RUNS)
        .map(|number| needing(&format!("run-{number}"), &member, &["settings"], &[]))
        .collect();
    assert_one_write_for_each_step(&spent(&fixture, &member, &runs).await?);
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
