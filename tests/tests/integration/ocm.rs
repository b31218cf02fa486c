//! ManifestWorks as Argosy writes them, applied by Open Cluster Management's own work agent. An
//! installation of KubeStellar has this agent on every cluster, beside Argosy's agent or in its
//! place.

use std::collections::BTreeMap;

use anyhow::Result;
use argosy_api::{AppliedManifestWork, ManifestWork, Workflow, manifest_work::UpdateStrategy, names};
use argosy_tests::testenv::{
    Fixture, Member, fake_argo,
    fixture::work_name,
    objects::{create, phase},
    ocm::{Line, WorkAgent},
    waiting::{until, until_gone},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Duration, interval};

/// A cluster without an agent of Argosy, but with one of OCM.
async fn serve(fixture: &Fixture, line: Line) -> Result<(Member, WorkAgent)> {
    let member = fixture.join("ocm", &fixture.env.servers.wecs[0]).await?;
    let its = fixture.env.control.kubeconfig();
    let agent = WorkAgent::start(line, &member.cluster, its, &member.kubeconfig)?;
    Ok((member, agent))
}

/// The ManifestWork of a ConfigMap with `data`, as the controller writes it.
fn work_of_config(fixture: &Fixture, member: &Member, data: &Value) -> Result<ManifestWork> {
    let uid = format!("uid-{}", fixture.namespace);
    Ok(serde_json::from_value(json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {
            "name": names::work_name(&uid),
            "namespace": member.cluster,
            "labels": { names::OBJECT_UID_LABEL: uid, names::ORIGIN_WDS_LABEL: "elsewhere" },
            "annotations": { names::ORIGIN_RESOURCE_ANNOTATION: "/v1/configmaps" },
            "finalizers": [names::MANIFEST_WORK_FINALIZER],
        },
        "spec": {
            "workload": { "manifests": [{
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "settings",
                    "namespace": fixture.namespace,
                    "labels": { names::OBJECT_UID_LABEL: uid },
                },
                "data": data,
            }] },
            "manifestConfigs": [{
                "resourceIdentifier": {
                    "group": "", "resource": "configmaps", "namespace": fixture.namespace, "name": "settings",
                },
                "updateStrategy": {
                    "type": "ServerSideApply",
                    "serverSideApply": { "force": true, "fieldManager": names::APPLIER },
                },
            }],
        },
    }))?)
}

fn configs(member: &Member, fixture: &Fixture) -> Api<ConfigMap> {
    Api::namespaced(member.wec.clone(), &fixture.namespace)
}

fn holds(config: &ConfigMap, data: &[(&str, &str)]) -> bool {
    let wanted: BTreeMap<String, String> = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    config.data.as_ref() == Some(&wanted)
}

fn is_true(work: &ManifestWork, type_: &str) -> bool {
    let conditions = work.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|known| known.type_ == type_ && known.status == "True")
}

/// Waits until OCM's agent has applied the ManifestWork. After a failure, the agent waits for
/// minutes or for the next change, so this changes an annotation periodically.
async fn until_carried_out(works: &Api<ManifestWork>, name: &str) -> Result<()> {
    let carried_out = until(works, name, "it is carried out", |work| is_true(work, "Applied"));
    let mut pauses = interval(Duration::from_secs(15));
    pauses.tick().await;
    let changing = async {
        for number in 1_u32.. {
            pauses.tick().await;
            let patch =
                Patch::Merge(json!({ "metadata": { "annotations": { "look": number.to_string() } } }));
            works.patch(name, &PatchParams::default(), &patch).await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        done = carried_out => done.map(|_| ()),
        failed = changing => failed,
    }
}

/// Makes OCM's agent apply the ManifestWork again by a change without effect, and waits until it
/// has.
async fn carry_out_again(works: &Api<ManifestWork>, name: &str) -> Result<()> {
    let patch = json!({ "spec": { "deleteOption": { "propagationPolicy": "Foreground" } } });
    let changed = works
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    until(works, name, "it is carried out again", |work| {
        let conditions = work.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|known| known.type_ == "Applied" && known.observed_generation == changed.metadata.generation)
    })
    .await?;
    Ok(())
}

/// The record that OCM's agent keeps of the ManifestWork. Its name begins with a digest of the
/// hub's address.
async fn record_by_ocm(member: &Member, work: &str) -> Result<Option<AppliedManifestWork>> {
    let records = member.records().list(&ListParams::default()).await?;
    let agent = format!("ocm-{}", member.cluster);
    Ok(records
        .into_iter()
        .find(|record| record.spec.manifest_work_name == work && record.spec.agent_id == agent))
}

async fn is_carried_out(line: Line) -> Result<()> {
    let fixture = Fixture::new(&format!("ocm-config-{}", line.name())).await?;
    let (member, agent) = serve(&fixture, line).await?;
    let (works, configs) = (member.works(), configs(&member, &fixture));
    let created = create(
        &works,
        &work_of_config(&fixture, &member, &json!({ "a": "1", "b": "1" }))?,
    )
    .await?;
    let name = created.name_any();

    let config = until(&configs, "settings", "it is applied", |config| {
        holds(config, &[("a", "1"), ("b", "1")])
    })
    .await?;
    assert_eq!(
        config.labels()[names::OBJECT_UID_LABEL],
        created.labels()[names::OBJECT_UID_LABEL]
    );
    assert!(
        config.managed_fields().iter().any(|entry| {
            entry.manager.as_deref() == Some(names::APPLIER) && entry.operation.as_deref() == Some("Apply")
        }),
        "it is not applied with our field manager"
    );
    let work = until(&works, &name, "it says so", |work| {
        is_true(work, "Applied") && is_true(work, "Available")
    })
    .await?;
    assert_eq!(work.finalizers(), [names::MANIFEST_WORK_FINALIZER]);
    let told = work
        .status
        .and_then(|status| status.resource_status)
        .unwrap_or_default();
    assert_eq!(told.manifests[0].resource_meta.name, "settings");

    let changed = work_of_config(&fixture, &member, &json!({ "a": "2" }))?;
    let patch = json!({ "spec": changed.spec });
    works
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    until(
        &configs,
        "settings",
        "a change is applied, and what is no longer sent is gone",
        |config| holds(config, &[("a", "2")]),
    )
    .await?;

    let foreign = json!({ "data": { "a": "3" } });
    configs
        .patch("settings", &PatchParams::default(), &Patch::Merge(foreign))
        .await?;
    carry_out_again(&works, &name).await?;
    until(&configs, "settings", "a foreign change is taken back", |config| {
        holds(config, &[("a", "2")])
    })
    .await?;

    let record = record_by_ocm(&member, &name).await?;
    assert_eq!(
        record.map(|record| record.status.unwrap_or_default().applied_resources.len()),
        Some(1)
    );
    works.delete(&name, &DeleteParams::default()).await?;
    until_gone(&works, &name, "the ManifestWork is gone").await?;
    until_gone(&configs, "settings", "the object is gone").await?;
    assert_eq!(record_by_ocm(&member, &name).await?, None);
    agent.check_running()
}

#[tokio::test]
async fn an_object_is_carried_out_by_the_newest_work_agent_of_ocm() -> Result<()> {
    is_carried_out(Line::Current).await
}

#[tokio::test]
#[ignore = "that line is built for itself: scripts/toolchain.sh ensure ocm10"]
async fn an_object_is_carried_out_by_the_work_agent_that_kubestellar_installs() -> Result<()> {
    is_carried_out(Line::KubeStellars).await
}

async fn is_created_once(line: Line) -> Result<()> {
    let fixture = Fixture::new(&format!("ocm-workflow-{}", line.name())).await?;
    let (member, agent) = serve(&fixture, line).await?;
    let workflow = fixture.submit("hello", &member).await?;
    let name = work_name(&workflow);
    let object = until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    assert_eq!(object.spec["suspend"], json!(null), "the hold went along");
    assert_eq!(
        object.labels()[names::ORIGIN_UID_LABEL],
        workflow.uid().unwrap_or_default()
    );
    assert!(
        object.finalizers().is_empty(),
        "OCM's agent knows of no finalizer"
    );
    until(&member.works(), &name, "it says so", |work| {
        is_true(work, "Applied")
    })
    .await?;

    member.argo().finish("hello", "Succeeded").await?;
    fake_argo::edit(&member.workflows(), "hello", |object| {
        object.spec["entrypoint"] = json!("other");
    })
    .await?;
    carry_out_again(&member.works(), &name).await?;
    let later = member.workflows().get("hello").await?;
    assert_eq!(later.uid(), object.uid());
    assert_eq!(phase(&later), "Succeeded", "its status was written over");
    assert_eq!(later.spec["entrypoint"], "other", "its spec was written over");

    is_deleted(&fixture, &member, &workflow).await?;
    agent.check_running()
}

/// OCM's agent deletes the object. Only the controller can remove the finalizer of Argosy's agent.
async fn is_deleted(fixture: &Fixture, member: &Member, workflow: &Workflow) -> Result<()> {
    fixture
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until_gone(&member.workflows(), "hello", "OCM's agent has deleted the object").await?;
    until_gone(&member.works(), &work_name(workflow), "the ManifestWork is gone").await?;
    until_gone(&fixture.workflows(), "hello", "the Workflow is let go").await
}

#[tokio::test]
async fn a_workflow_is_created_once_by_the_newest_work_agent_of_ocm() -> Result<()> {
    is_created_once(Line::Current).await
}

#[tokio::test]
#[ignore = "that line is built for itself: scripts/toolchain.sh ensure ocm10"]
async fn a_workflow_is_created_once_by_the_work_agent_that_kubestellar_installs() -> Result<()> {
    is_created_once(Line::KubeStellars).await
}

/// A possible way to keep OCM's agent away from an object that Argosy's own agent creates.
async fn is_left_alone_where_read_only(line: Line) -> Result<()> {
    let fixture = Fixture::new(&format!("ocm-read-only-{}", line.name())).await?;
    let (member, agent) = serve(&fixture, line).await?;
    let (works, configs) = (member.works(), configs(&member, &fixture));
    let mut work = work_of_config(&fixture, &member, &json!({ "a": "1" }))?;
    for config in &mut work.spec.manifest_configs {
        config.update_strategy = Some(UpdateStrategy {
            type_: "ReadOnly".to_owned(),
            ..UpdateStrategy::default()
        });
    }
    let name = create(&works, &work).await?.name_any();
    until_carried_out(&works, &name).await?;
    assert!(configs.get_opt("settings").await?.is_none(), "it was created");

    let mut own = ConfigMap::default();
    own.metadata.name = Some("settings".to_owned());
    create(&configs, &own).await?;
    until(&works, &name, "it is found", |work| is_true(work, "Available")).await?;
    carry_out_again(&works, &name).await?;
    works.delete(&name, &DeleteParams::default()).await?;
    until_gone(&works, &name, "the ManifestWork is gone").await?;
    let kept = configs.get("settings").await?;
    assert!(
        kept.metadata.deletion_timestamp.is_none()
            && kept.data.is_none()
            && kept.owner_references().is_empty()
    );
    agent.check_running()
}

#[tokio::test]
async fn an_object_to_be_read_only_is_left_alone_by_the_newest_work_agent_of_ocm() -> Result<()> {
    is_left_alone_where_read_only(Line::Current).await
}

#[tokio::test]
#[ignore = "that line is built for itself: scripts/toolchain.sh ensure ocm10"]
async fn an_object_to_be_read_only_is_left_alone_by_the_work_agent_that_kubestellar_installs() -> Result<()> {
    is_left_alone_where_read_only(Line::KubeStellars).await
}
