//! An agent's memory under attack by a tenant of its cluster, who writes objects with the cluster's
//! label, and makes those heavy that the agent has applied.

#![allow(clippy::print_stdout, reason = "the figures are for the reader of the log")]

use anyhow::{Context, Result, ensure};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture,
    objects::create,
    poison::Writer,
    waiting::{turn, until, until_gone},
};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::{
    memory::noise,
    poison::{define_things, select_things},
    siege::heavy,
};

const GROUP: &str = "agent-memory.example";

/// The limit of the chart of agents.
const LIMIT_MIB: u64 = 256;

/// Objects of the tenant. Each takes 1 MB of text that cannot be compressed, and every twentieth 45 MiB as
/// a tree.
const STRANGE: u64 = 200;

/// Objects that the agent has applied and that the tenant makes as heavy, all of them as trees.
const NAMED: u64 = 8;

#[tokio::test]
#[ignore = "takes minutes on two processors: scripts/test.sh --all"]
async fn a_tenant_of_a_cluster_fills_no_memory_of_its_agent() -> Result<()> {
    let _turn = turn().await;
    let fixture = Fixture::new("agent-memory").await?;
    let mut member = fixture.join("pull", &fixture.env.servers.wecs[0]).await?;
    // Without optimization, a page of such objects takes seconds to parse, and a leader may not be silent for ten.
    let patient = [
        ("ARGOSY_LEADER_ELECT_LEASE_DURATION", "5m".to_owned()),
        ("ARGOSY_LEADER_ELECT_RENEW_DEADLINE", "4m".to_owned()),
    ];
    fixture.start_agent_with(&mut member, 300, &patient).await?;
    define_things([&fixture.control, &member.wec], GROUP).await?;
    select_things(&fixture, &member, GROUP).await?;
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Thing"), "things");
    let on_control: Api<DynamicObject> =
        Api::namespaced_with(fixture.control.clone(), &fixture.namespace, &kind);
    let there: Api<DynamicObject> = Api::namespaced_with(member.wec.clone(), &fixture.namespace, &kind);
    let send = async |name: &str| {
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Thing",
            "metadata": { "name": name, "labels": { "app": "things" } }, "spec": { "x": 1 },
        });
        create(&on_control, &serde_json::from_value(object)?).await?;
        until(&there, name, "it is on the cluster", |_| true).await
    };
    for number in 0..NAMED {
        let name = format!("named-{number}");
        send(&name).await?;
        let content: Value = serde_json::from_str(&heavy(number))?;
        let patch = Patch::Merge(json!({ "y": content }));
        there.patch(&name, &PatchParams::default(), &patch).await?;
    }
    let tenant = Writer {
        client: member.wec.clone(),
        path: format!("/apis/{GROUP}/v1/namespaces/{}/things", fixture.namespace),
        form: format!(
            r#"{{"apiVersion":"{GROUP}/v1","kind":"Thing","metadata":{{"name":"{{name}}","labels":{{"{}":"{}"}}}},"spec":{{"x":{{poison}}}}}}"#,
            names::CLUSTER_LABEL,
            member.cluster
        ),
    };
    let write = async |number: u64| {
        let name = format!("strange-{number}");
        let is_heavy = number.is_multiple_of(20);
        let content = if is_heavy {
            heavy(number)
        } else {
            noise(number).to_string()
        };
        let is_taken = tenant.put(&name, &content, false).await?;
        ensure!(is_taken, "{name} was not taken, so it tests nothing");
        Ok(())
    };
    stream::iter((0..STRANGE).map(write))
        .buffer_unordered(4)
        .try_for_each(async |()| Ok(()))
        .await?;
    let agent = member.agent()?;
    let took_little = |when: &str| {
        let peak = agent.peak_memory().context("the agent has ended")?;
        println!("{when}, the agent's resident memory was {peak} MiB at most");
        ensure!(peak < LIMIT_MIB, "{when} it took {peak} MiB");
        anyhow::Ok(())
    };
    send("meanwhile").await?;
    took_little("while they were written")?;
    agent.restart().await?;
    send("after-a-restart").await?;
    // The agent has its place in the list of the heavy ones, too.
    for number in 0..NAMED {
        let name = format!("named-{number}");
        on_control.delete(&name, &DeleteParams::default()).await?;
        until_gone(&there, &name, "it was deleted").await?;
    }
    took_little("after a restart")?;
    until(&there, "strange-0", "it stays", |_| true).await?;
    Ok(())
}
