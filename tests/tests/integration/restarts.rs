//! A restart with everything settled: nothing is written, nothing changes.

use std::collections::BTreeMap;

use anyhow::Result;
use argosy_api::{Binding, BindingPolicy};
use argosy_tests::lab::{
    Member, Scene, Stage,
    objects::{self, create, phase},
    scene::work_name,
    server::writes,
    waiting::until,
};
use kube::{Api, ResourceExt};

type Versions = BTreeMap<String, Option<String>>;

/// The version of everything that belongs to the Workflows `names` of `member`.
async fn versions(scene: &Scene, member: &Member, names: &[&str]) -> Result<Versions> {
    let mut versions = Versions::new();
    for name in names {
        let workflow = scene.workflows().get(name).await?;
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
    let scene = Scene::on(Stage::own("restarts").await?, "restarts").await?;
    let member = scene.pull().await?;
    scene.dispatch("waiting", &member).await?;
    scene.dispatch("running", &member).await?;
    member.argo().start("running").await?;
    scene.dispatch("ended", &member).await?;
    member.argo().finish("ended", "Succeeded").await?;
    until(&scene.workflows(), "running", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    until(&scene.workflows(), "ended", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    until(&member.workflows(), "ended", "it is let go", |object| {
        object.finalizers().is_empty()
    })
    .await?;
    for name in ["waiting", "running", "ended"] {
        let workflow = scene.workflows().get(name).await?;
        until(&member.works(), &work_name(&workflow), "it is applied", |work| {
            work.status.is_some()
        })
        .await?;
    }
    // All that the agent says about its cluster is said.
    until(&scene.clusters(), &member.cluster, "it is described", |cluster| {
        cluster
            .status
            .as_ref()
            .is_some_and(|status| status.conditions.len() >= 4)
    })
    .await?;

    // What a policy and its Binding say is looked at every few seconds only.
    let policies: Api<BindingPolicy> = Api::all(scene.control.clone());
    until(&policies, &member.cluster, "it counts all three", |policy| {
        policy.status.as_ref().is_some_and(|status| status.objects == 3)
    })
    .await?;
    let bindings: Api<Binding> = Api::all(scene.control.clone());
    until(&bindings, &member.cluster, "it names all three", |binding| {
        binding.spec.workload.namespace_scope.len() == 3
    })
    .await?;

    let names = ["waiting", "running", "ended"];
    let before = versions(&scene, &member, &names).await?;
    let writes_before = writes(&scene.control).await?;
    scene.stage.controller.restart().await?;
    member.agent()?.restart().await?;
    // The last thing to be decided; what is under way by then is counted.
    create(
        &policies,
        &objects::policy("sentinel", &scene.namespace, "nowhere")?,
    )
    .await?;
    until(&policies, "sentinel", "the controller has seen it", |policy| {
        policy.status.is_some()
    })
    .await?;
    until(&bindings, "sentinel", "its Binding is there", |_| true).await?;
    let mut writes_after = writes(&scene.control).await?;

    // The sentinel, its status and its Binding.
    for (resource, of_sentinel) in [("bindingpolicies", 2), ("bindings", 1)] {
        if let Some(count) = writes_after.get_mut(resource) {
            *count -= of_sentinel;
        }
    }
    assert_eq!(writes_after, writes_before);
    assert_eq!(versions(&scene, &member, &names).await?, before);
    Ok(())
}
