//! Objects of any kind are applied, corrected after drift, adopted, and deleted. The ManifestWorks
//! are written by hand.

use anyhow::{Context, Result};
use argosy_api::{ManifestWork, names};
use argosy_tests::testenv::{
    Fixture, Member, binaries,
    mailbox::{
        change, condition, config_map, is_applied, is_marked, ours, says, send, tamper, theirs, value,
    },
    objects::create,
    waiting::{until, until_gone},
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

const APPLY: &str = "ServerSideApply";

fn maps(fixture: &Fixture, member: &Member) -> Api<ConfigMap> {
    Api::namespaced(member.wec.clone(), &fixture.namespace)
}

/// The ManifestWork of ConfigMap `c`, as Argosy's controller creates it.
fn own(fixture: &Fixture, map: &Value, strategy: &str) -> Result<ManifestWork> {
    ours(&fixture.namespace, "/v1/configmaps", map, strategy)
}

async fn settled(member: &Member, name: &str) -> Result<ManifestWork> {
    until(&member.works(), name, "it is applied", is_applied).await
}

/// Sends another ManifestWork through the agent. After this, all earlier decisions about others
/// have been carried out.
async fn sentinel(fixture: &Fixture, member: &Member, name: &str) -> Result<()> {
    let work = theirs(name, &[config_map(&fixture.namespace, name, "1")])?;
    send(&member.works(), &work).await?;
    settled(member, name).await.map(|_| ())
}

#[tokio::test]
async fn a_config_map_is_applied_into_a_namespace_that_is_made_for_it() -> Result<()> {
    let fixture = Fixture::new("applying-namespace").await?;
    for member in [fixture.pull().await?, fixture.push().await?] {
        let namespace = format!("{}-made", member.cluster);
        let work = ours(
            &member.cluster,
            "/v1/configmaps",
            &config_map(&namespace, "c", "1"),
            APPLY,
        )?;
        send(&member.works(), &work).await?;
        settled(&member, &work.name_any()).await?;
        let there: Api<Namespace> = Api::all(member.wec.clone());
        let made = there.get(&namespace).await?;
        assert_eq!(made.labels()[names::MADE_FOR_LABEL], member.cluster);
        let maps: Api<ConfigMap> = Api::namespaced(member.wec.clone(), &namespace);
        let map = maps.get("c").await?;
        assert_eq!(value(&map, "a"), Some("1"));
        assert_eq!(map.labels()[names::OBJECT_UID_LABEL], member.cluster);
        member
            .works()
            .delete(&work.name_any(), &DeleteParams::default())
            .await?;
        until_gone(&maps, "c", "it goes with its ManifestWork").await?;
        until_gone(&member.works(), &work.name_any(), "the ManifestWork is let go").await?;
        assert!(there.get_opt(&namespace).await?.is_some());
    }
    Ok(())
}

#[tokio::test]
async fn a_changed_field_is_put_back_and_a_foreign_field_is_left_alone() -> Result<()> {
    let fixture = Fixture::new("applying-drift").await?;
    let member = fixture.pull().await?;
    let maps = maps(&fixture, &member);
    let work = own(&fixture, &config_map(&fixture.namespace, "c", "1"), APPLY)?;
    send(&member.works(), &work).await?;
    settled(&member, &work.name_any()).await?;
    tamper(&maps, "c", "theirs", "kept").await?;
    tamper(&maps, "c", "a", "changed").await?;
    let is_mended = |map: &ConfigMap| value(map, "a") == Some("1") && value(map, "theirs") == Some("kept");
    until(&maps, "c", "the field is put back", is_mended).await?;
    // A change while the agent is down is also corrected.
    member.agent()?.kill()?;
    tamper(&maps, "c", "a", "changed again").await?;
    member.agent()?.start_again().await?;
    until(&maps, "c", "the field is put back after a restart", is_mended).await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_written_after_a_restart_when_nothing_has_changed() -> Result<()> {
    let fixture = Fixture::new("applying-restart").await?;
    let member = fixture.pull().await?;
    let maps = maps(&fixture, &member);
    let mut own = own(&fixture, &config_map(&fixture.namespace, "c", "1"), APPLY)?;
    own.annotations_mut()
        .insert(names::WANT_STATUS_ANNOTATION.to_owned(), "true".to_owned());
    let other = theirs("other", &[config_map(&fixture.namespace, "d", "1")])?;
    for work in [&own, &other] {
        send(&member.works(), work).await?;
        settled(&member, &work.name_any()).await?;
    }
    let report = until(&member.reports(), &own.name_any(), "it is reported", |_| true).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": fixture.namespace, "name": "s" },
        "stringData": { "password": "x" },
    });
    send(&member.works(), &theirs("secret", &[secret])?).await?;
    settled(&member, "secret").await?;
    sentinel(&fixture, &member, "before").await?;
    let versions = async || -> Result<Vec<Option<String>>> {
        let mut versions = Vec::new();
        for name in ["c", "d"] {
            versions.push(maps.get(name).await?.resource_version());
        }
        for name in [&own.name_any(), "other", "secret"] {
            versions.push(member.works().get(name).await?.resource_version());
        }
        versions.push(member.reports().get(&own.name_any()).await?.resource_version());
        let secrets: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(member.wec.clone(), &fixture.namespace);
        versions.push(secrets.get("s").await?.resource_version());
        Ok(versions)
    };
    let before = versions().await?;
    assert_eq!(before[5], report.resource_version());
    member.agent()?.restart().await?;
    sentinel(&fixture, &member, "after").await?;
    assert_eq!(versions().await?, before);
    Ok(())
}

#[tokio::test]
async fn what_is_created_only_is_never_changed_and_made_again_when_it_is_deleted() -> Result<()> {
    let fixture = Fixture::new("applying-create-only").await?;
    let member = fixture.pull().await?;
    let maps = maps(&fixture, &member);
    let work = own(&fixture, &config_map(&fixture.namespace, "c", "1"), "CreateOnly")?;
    send(&member.works(), &work).await?;
    settled(&member, &work.name_any()).await?;
    let tampered = tamper(&maps, "c", "a", "changed").await?;
    let patch =
        json!({ "spec": { "workload": { "manifests": [config_map(&fixture.namespace, "c", "2")] } } });
    change(&member.works(), &work.name_any(), &patch).await?;
    settled(&member, &work.name_any()).await?;
    member.agent()?.restart().await?;
    sentinel(&fixture, &member, "sentinel").await?;
    assert_eq!(
        maps.get("c").await?.resource_version(),
        tampered.resource_version()
    );
    maps.delete("c", &DeleteParams::default()).await?;
    until(&maps, "c", "it is made again", |map| value(map, "a") == Some("2")).await?;
    Ok(())
}

#[tokio::test]
async fn what_was_there_before_is_adopted_and_left_behind_with_its_fields() -> Result<()> {
    let fixture = Fixture::new("applying-adopt").await?;
    let member = fixture.pull().await?;
    let maps = maps(&fixture, &member);
    let before: ConfigMap = serde_json::from_value(config_map(&fixture.namespace, "c", "0"))?;
    create(&maps, &before).await?;
    let work = own(&fixture, &config_map(&fixture.namespace, "c", "1"), APPLY)?;
    send(&member.works(), &work).await?;
    settled(&member, &work.name_any()).await?;
    let adopted = maps.get("c").await?;
    assert_eq!(value(&adopted, "a"), Some("1"));
    assert_eq!(adopted.annotations()[names::ADOPTED_ANNOTATION], "true");
    member
        .works()
        .delete(&work.name_any(), &DeleteParams::default())
        .await?;
    until_gone(&member.works(), &work.name_any(), "the ManifestWork is let go").await?;
    let left = maps.get("c").await?;
    assert_eq!(value(&left, "a"), Some("1"));
    assert!(!is_marked(&left), "{left:?}");
    let managers: Vec<_> = left
        .managed_fields()
        .iter()
        .filter_map(|entry| entry.manager.as_deref())
        .collect();
    assert!(!managers.contains(&names::APPLIER), "{managers:?}");
    Ok(())
}

#[tokio::test]
async fn an_object_whose_manifest_is_taken_out_goes_also_while_the_agent_is_away() -> Result<()> {
    let fixture = Fixture::new("applying-removed").await?;
    let member = fixture.pull().await?;
    let maps = maps(&fixture, &member);
    let manifests = ["a", "b", "c"].map(|name| config_map(&fixture.namespace, name, "1"));
    let work = theirs("several", &manifests)?;
    send(&member.works(), &work).await?;
    settled(&member, "several").await?;
    let works = member.works();
    let leave = async |manifests: &[Value]| {
        let patch = json!({ "spec": { "workload": { "manifests": manifests } } });
        change(&works, "several", &patch).await
    };
    leave(&manifests[..2]).await?;
    until_gone(&maps, "c", "it goes with its manifest").await?;
    member.agent()?.kill()?;
    leave(&manifests[..1]).await?;
    member.agent()?.start_again().await?;
    until_gone(&maps, "b", "it goes after a restart").await?;
    assert!(maps.get_opt("a").await?.is_some());
    member.works().delete("several", &DeleteParams::default()).await?;
    until_gone(&maps, "a", "the last goes with the ManifestWork").await?;
    until_gone(&member.works(), "several", "the ManifestWork is let go").await?;
    let records = member.records().list(&ListParams::default()).await?;
    let left = records
        .items
        .iter()
        .filter(|record| record.spec.agent_id == member.cluster);
    assert_eq!(left.count(), 0);
    Ok(())
}

#[tokio::test]
async fn what_is_to_be_orphaned_stays() -> Result<()> {
    let fixture = Fixture::new("applying-orphan").await?;
    let member = fixture.pull().await?;
    let maps = maps(&fixture, &member);
    let mut work = theirs(
        "some",
        &["gone", "stays"].map(|name| config_map(&fixture.namespace, name, "1")),
    )?;
    work.spec.delete_option = serde_json::from_value(json!({
        "propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": { "orphaningRules": [
            { "group": "", "resource": "configmaps", "namespace": fixture.namespace, "name": "stays" },
        ] },
    }))?;
    send(&member.works(), &work).await?;
    settled(&member, "some").await?;
    member.works().delete("some", &DeleteParams::default()).await?;
    until_gone(&member.works(), "some", "the ManifestWork is let go").await?;
    assert!(maps.get_opt("gone").await?.is_none());
    assert!(!is_marked(&maps.get("stays").await?));
    Ok(())
}

#[tokio::test]
async fn one_object_belongs_to_one_manifest_work_at_a_time() -> Result<()> {
    let fixture = Fixture::new("applying-foreign").await?;
    let member = fixture.pull().await?;
    let maps = maps(&fixture, &member);
    send(
        &member.works(),
        &theirs("first", &[config_map(&fixture.namespace, "c", "first")])?,
    )
    .await?;
    settled(&member, "first").await?;
    send(
        &member.works(),
        &theirs("second", &[config_map(&fixture.namespace, "c", "second")])?,
    )
    .await?;
    let second = until(&member.works(), "second", "it says who is in the way", |work| {
        says(work, "Applied", "False")
    })
    .await?;
    let (_, reason, message) = condition(&second, Some(0), "Applied").context("it says something")?;
    assert_eq!(reason, "ForeignObject");
    assert!(message.contains("first"), "{message}");
    member.works().delete("first", &DeleteParams::default()).await?;
    settled(&member, "second").await?;
    assert_eq!(value(&maps.get("c").await?, "a"), Some("second"));
    Ok(())
}

#[tokio::test]
async fn a_released_cluster_keeps_its_objects_and_nothing_waits_for_the_agent() -> Result<()> {
    let fixture = Fixture::new("applying-release").await?;
    let member = fixture.pull().await?;
    send(
        &member.works(),
        &theirs("kept", &[config_map(&fixture.namespace, "c", "1")])?,
    )
    .await?;
    settled(&member, "kept").await?;
    member.agent()?.kill()?;
    binaries::release(&member.cluster, &member.kubeconfig).await?;
    let records = member.records().list(&ListParams::default()).await?;
    let own: Vec<_> = records
        .items
        .iter()
        .filter(|record| record.spec.agent_id == member.cluster)
        .collect();
    assert_eq!(own.len(), 1);
    assert!(own[0].finalizers().is_empty());
    assert!(maps(&fixture, &member).get_opt("c").await?.is_some());
    Ok(())
}
