//! The metrics that processes export, and with them the number of writes that a Workflow costs,
//! which does not depend on the machine.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result};
use argosy_api::{BindingPolicy, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{eventually, until_held, until_selected},
    binaries::Binary,
    fake_argo,
    fixture::work_name,
    mailbox::{condition, config_map, says},
    objects::{create, phase, policy, workflow},
    signing::Signing,
    waiting::until,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
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

/// The status of a Workflow whose step has run for a minute, or has ended in `phase`, so its log is in
/// the bucket.
pub(super) fn of_a_long_step(name: &str, phase: &str) -> Value {
    let mut status = fake_argo::running(name);
    status["phase"] = json!(phase);
    let started = Timestamp::now().saturating_sub(SignedDuration::from_mins(1));
    let started = started.unwrap_or(Timestamp::MIN).to_string();
    for (_, node) in status["nodes"].as_object_mut().into_iter().flatten() {
        node["phase"] = json!(phase);
        node["startedAt"] = json!(started);
        if phase != "Running" && node["type"] == "Pod" {
            node["outputs"] = json!({ "artifacts": [{ "name": "main-logs", "s3": { "key": name } }] });
        }
    }
    status
}

/// Creates a Workflow that the policy of this label selects. Returns it once its step runs.
pub(super) async fn begin(fixture: &Fixture, member: &Member, name: &str, label: &str) -> Result<Workflow> {
    let created = create(&fixture.workflows(), &workflow(name, label)).await?;
    until(&member.workflows(), name, "it is on the cluster", |_| true).await?;
    report(fixture, member, name, of_a_long_step(name, "Running")).await?;
    Ok(created)
}

/// Lets Argo report a status, and waits until the control cluster shows its phase.
pub(super) async fn report(fixture: &Fixture, member: &Member, name: &str, status: Value) -> Result<()> {
    let wanted = status["phase"].clone();
    member.argo().report(name, status).await?;
    until(&fixture.workflows(), name, "its status is shown", |workflow| {
        wanted == phase(workflow)
    })
    .await?;
    Ok(())
}

/// Waits until the last write for a Workflow that has ended.
async fn is_done(fixture: &Fixture, member: &Member, workflow: &Workflow) -> Result<()> {
    until(
        &member.workflows(),
        &workflow.name_any(),
        "it is let go",
        |object| object.finalizers().is_empty(),
    )
    .await?;
    // The agent may write it last, when it has nothing else to write.
    until(
        &member.works(),
        &work_name(workflow),
        "it says that it is applied",
        |work| says(work, "Applied", "True"),
    )
    .await?;
    // The controller may have more to do than to show a status.
    shows(fixture, workflow, false).await
}

/// Waits until the pod of a Workflow is shown as a running one, or until none is shown.
pub(super) async fn shows(fixture: &Fixture, workflow: &Workflow, is_shown: bool) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let name = workflow.name_any();
    let of_workflow = format!("{},{}={name}", names::SHADOW_OF_LABEL, names::ARGO_WORKFLOW_LABEL);
    let of_workflow = ListParams::default().labels(&of_workflow);
    eventually(&format!("{name}: its pod is shown: {is_shown}"), async || {
        let listed = pods.list(&of_workflow).await?.items;
        let is_running = |pod: &Pod| {
            let status = pod.status.as_ref();
            status.and_then(|status| status.phase.as_deref()) == Some("Running")
        };
        Ok(if is_shown {
            listed.iter().any(is_running)
        } else {
            listed.is_empty()
        })
    })
    .await
}

/// Runs Workflows to their end in sequence, with two statuses each, and deletes none.
async fn run(fixture: &Fixture, member: &Member, runs: &[Workflow]) -> Result<()> {
    for run in runs {
        let name = &run.name_any();
        let created = create(&fixture.workflows(), run).await?;
        until(&member.workflows(), name, "it is on the cluster", |_| true).await?;
        report(fixture, member, name, just_started(name)).await?;
        report(fixture, member, name, fake_argo::ended(name, "Succeeded")).await?;
        is_done(fixture, member, &created).await?;
    }
    Ok(())
}

/// The writes of the controller, and of the agent, so far.
async fn written(fixture: &Fixture, member: &Member) -> Result<[BTreeMap<String, u64>; 2]> {
    Ok([
        writes(&fixture.env.controller, REQUESTS).await?,
        writes(member.agent()?, REQUESTS).await?,
    ])
}

/// The writes of the controller, and of the agent, since `before`.
async fn since(
    fixture: &Fixture,
    member: &Member,
    before: &[BTreeMap<String, u64>; 2],
) -> Result<[BTreeMap<String, u64>; 2]> {
    let mut spent = written(fixture, member).await?;
    for (spent, before) in spent.iter_mut().zip(before) {
        for (name, count) in spent.iter_mut() {
            *count -= before.get(name).copied().unwrap_or_default();
        }
        spent.retain(|_, count| *count > 0);
    }
    Ok(spent)
}

/// The writes of the controller, and of the agent, while Workflows run to their end.
async fn spent(fixture: &Fixture, member: &Member, runs: &[Workflow]) -> Result<[BTreeMap<String, u64>; 2]> {
    let before = written(fixture, member).await?;
    run(fixture, member, runs).await?;
    since(fixture, member, &before).await
}

const RUNS: u64 = 5;

/// Asserts that each of `runs` Workflows has cost what a Workflow costs, and each pod that was shown
/// three writes more.
fn assert_cost(spent: &[BTreeMap<String, u64>; 2], runs: u64, shown: u64) {
    let of = |wanted: &[(&str, u64)]| -> BTreeMap<String, u64> {
        let wanted = wanted.iter().map(|(name, count)| ((*name).to_owned(), *count));
        wanted.filter(|(_, count)| *count > 0).collect()
    };
    // The webhook has written the claim. The rest is the ManifestWork and two statuses.
    let of_controller = of(&[
        ("wds create manifestworks", runs),
        ("wds patch workflows", 2 * runs),
        ("wds create pods", shown),
        ("wds patch pods/status", shown),
        ("wds delete pods", shown),
    ]);
    assert_eq!(spent[0], of_controller);
    // Object and condition, two statuses, and at the end the record and the removal of the
    // finalizer.
    let of_agent = of(&[
        ("wec create workflows", runs),
        ("its patch manifestworks/status", runs),
        ("its create workstatuses", runs),
        ("its patch workstatuses", runs),
        ("wec create appliedmanifestworks", runs),
        ("wec patch workflows", runs),
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
    assert_cost(&spent(&fixture, &member, &runs).await?, RUNS, 0);
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
    assert_cost(&spent(&fixture, &member, &runs).await?, RUNS, 0);
    Ok(())
}

/// Sends the Workflows with the label `shown` to `member`, and shows these pods of them.
pub(super) async fn show(fixture: &Fixture, member: &Member, shown: &str) -> Result<()> {
    let mut policy = policy(shown, &fixture.namespace, &member.cluster)?;
    policy
        .annotations_mut()
        .insert(names::PODS_ANNOTATION.to_owned(), shown.to_owned());
    let mut policy = serde_json::to_value(policy)?;
    policy["spec"]["downsync"][0]["objectSelectors"] =
        json!([{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: shown } }]);
    let policy: BindingPolicy = serde_json::from_value(policy)?;
    create(&Api::all(fixture.control.clone()), &policy).await?;
    until_selected(fixture, shown).await
}

#[tokio::test]
async fn a_long_step_costs_three_writes_more_if_its_pod_is_shown_and_none_if_it_is_not() -> Result<()> {
    let (signing, _) = Signing::with_nodes("metrics-shown").await?;
    let fixture = Fixture::on(Arc::clone(&signing.env), "metrics-shown").await?;
    let member = fixture.pull().await?;
    let nodes: Api<Node> = Api::all(fixture.control.clone());
    let node = names::virtual_node(&member.cluster);
    until(&nodes, &node, "the cluster is a Node", |_| true).await?;
    for shown in ["off", "asked", "long"] {
        show(&fixture, &member, shown).await?;
    }
    until_held(&fixture, &member).await?;
    run(&fixture, &member, &[workflow("first", &member.cluster)]).await?;

    let before = written(&fixture, &member).await?;
    let unseen = [
        begin(&fixture, &member, "off", "off").await?,
        begin(&fixture, &member, "unasked", "asked").await?,
    ];
    // The pods of the former two were decided about before those of the next two are shown.
    let asked = begin(&fixture, &member, "asked", "asked").await?;
    let end = Timestamp::now().saturating_add(SignedDuration::from_mins(10))?;
    let watched =
        json!({ "metadata": { "annotations": { names::WATCHED_UNTIL_ANNOTATION: end.to_string() } } });
    fixture
        .workflows()
        .patch("asked", &PatchParams::default(), &Patch::Merge(watched))
        .await?;
    shows(&fixture, &asked, true).await?;
    let long = begin(&fixture, &member, "long", "long").await?;
    shows(&fixture, &long, true).await?;
    for run in &unseen {
        shows(&fixture, run, false).await?;
    }
    let runs = [&unseen[0], &unseen[1], &asked, &long];
    for run in runs {
        let name = &run.name_any();
        report(&fixture, &member, name, of_a_long_step(name, "Succeeded")).await?;
        is_done(&fixture, &member, run).await?;
    }
    // A request is counted when its answer has come, which is after the pod is gone.
    eventually("the last deletion is counted", async || {
        let spent = since(&fixture, &member, &before).await?;
        Ok(spent[0].get("wds delete pods") == Some(&2))
    })
    .await?;
    assert_cost(&since(&fixture, &member, &before).await?, 4, 2);
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
    assert_cost(&spent(&fixture, &member, &runs).await?, RUNS, 0);
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
