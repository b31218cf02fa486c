//! A restart in a settled state writes nothing and changes nothing.

use std::collections::BTreeMap;

use anyhow::Result;
use argosy_api::{Binding, BindingPolicy};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    fixture::work_name,
    objects::{self, create, phase},
    server::writes,
    waiting::until,
};
use kube::{Api, ResourceExt};

type Versions = BTreeMap<String, Option<String>>;

/// The resource versions of all objects that belong to the Workflows `names` of `member`.
async fn versions(fixture: &Fixture, member: &Member, names: &[&str]) -> Result<Versions> {
    let mut versions = Versions::new();
    for name in names {
        let workflow = fixture.workflows().get(name).await?;
        let work = work_name(&workflow);
        versions.insert(format!("{name} in the WDS"), workflow.resource_version());
        versions.insert(
            format!("{name} on the cluster"),
            member.workflows().get(name).await?.resource_version(),
        );
        versions.insert(
            format!("ManifestWork of {name}"),
            member.works().get(&work).await?.resource_version(),
        );
        let report = member.reports().get_opt(&work).await?;
        versions.insert(
            format!("WorkStatus of {name}"),
            report.and_then(|report| report.resource_version()),
        );
        let record = member.records().get_opt(&work).await?;
        versions.insert(
            format!("record of {name}"),
            record.and_then(|record| record.resource_version()),
        );
    }
    Ok(versions)
}

#[tokio::test]
async fn a_restart_of_controller_and_agent_writes_nothing() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own("restarts").await?, "restarts").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("waiting", &member).await?;
    fixture.dispatch("running", &member).await?;
    member.argo().start("running").await?;
    fixture.dispatch("ended", &member).await?;
    member.argo().finish("ended", "Succeeded").await?;
    until(&fixture.workflows(), "running", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    until(&fixture.workflows(), "ended", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    until(&member.workflows(), "ended", "it is let go", |object| {
        object.finalizers().is_empty()
    })
    .await?;
    for name in ["waiting", "running", "ended"] {
        let workflow = fixture.workflows().get(name).await?;
        until(&member.works(), &work_name(&workflow), "it is applied", |work| {
            work.status.is_some()
        })
        .await?;
    }
    // The agent has written everything about its cluster.
    until(
        &fixture.clusters(),
        &member.cluster,
        "it is described",
        |cluster| {
            cluster
                .status
                .as_ref()
                .is_some_and(|status| status.conditions.len() >= 4)
        },
    )
    .await?;

    // The status of a policy and its Binding are written only every few seconds.
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    until(&policies, &member.cluster, "it counts all three", |policy| {
        policy.status.as_ref().is_some_and(|status| status.objects == 3)
    })
    .await?;
    let bindings: Api<Binding> = Api::all(fixture.control.clone());
    until(&bindings, &member.cluster, "it names all three", |binding| {
        binding.spec.workload.namespace_scope.len() == 3
    })
    .await?;

    let names = ["waiting", "running", "ended"];
    let before = versions(&fixture, &member, &names).await?;
    let writes_before = writes(&fixture.control).await?;
    fixture.env.controller.restart().await?;
    member.agent()?.restart().await?;
    // Decided last, so that all writes that are under way are counted.
    create(
        &policies,
        &objects::policy("sentinel", &fixture.namespace, "nowhere")?,
    )
    .await?;
    until(&policies, "sentinel", "the controller has seen it", |policy| {
        policy.status.is_some()
    })
    .await?;
    until(&bindings, "sentinel", "its Binding is there", |_| true).await?;
    let mut writes_after = writes(&fixture.control).await?;

    // The sentinel, its status and its Binding.
    for (resource, of_sentinel) in [("bindingpolicies", 2), ("bindings", 1)] {
        if let Some(count) = writes_after.get_mut(resource) {
            *count -= of_sentinel;
        }
    }
    assert_eq!(writes_after, writes_before);
    assert_eq!(versions(&fixture, &member, &names).await?, before);
    Ok(())
}
