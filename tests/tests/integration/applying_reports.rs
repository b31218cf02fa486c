//! Reports about objects of any kind: a WorkStatus if it is wanted, feedback if rules ask for it.

use anyhow::{Context, Result};
use argosy_api::{WorkStatus, names};
use argosy_tests::testenv::{
    Fixture,
    mailbox::{change, condition, config_map, is_applied, ours, send, theirs},
    waiting::{until, until_gone},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

fn job(namespace: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "namespace": namespace, "name": "j" },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "busybox" }] } } },
    })
}

/// Writes the status as the cluster's job controller does.
async fn advance(jobs: &Api<Job>, status: &Value) -> Result<()> {
    let params = PatchParams {
        field_manager: Some("kube-controller-manager".to_owned()),
        ..PatchParams::default()
    };
    jobs.patch_status("j", &params, &Patch::Merge(json!({ "status": status })))
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_work_status_appears_follows_the_object_and_goes() -> Result<()> {
    let fixture = Fixture::new("applying-status").await?;
    let member = fixture.pull().await?;
    let jobs: Api<Job> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    let mut work = ours(
        &fixture.namespace,
        "batch/v1/jobs",
        &job(&fixture.namespace),
        "ServerSideApply",
    )?;
    work.annotations_mut()
        .insert(names::WANT_STATUS_ANNOTATION.to_owned(), "true".to_owned());
    let name = work.name_any();
    send(&member.works(), &work).await?;
    until(&member.works(), &name, "it is applied", is_applied).await?;
    advance(
        &jobs,
        &json!({ "active": 1, "startTime": "2026-11-21T09:00:00Z" }),
    )
    .await?;
    let is_active = |report: &WorkStatus| report.status.as_ref().is_some_and(|status| status["active"] == 1);
    let report = until(&member.reports(), &name, "it is reported", is_active).await?;
    assert_eq!(report.labels()[names::OBJECT_UID_LABEL], fixture.namespace);
    assert_eq!(report.labels()[names::ORIGIN_WDS_LABEL], "wds");
    let source = &report.spec.source_ref;
    assert_eq!(
        (
            source.group.as_str(),
            source.resource.as_str(),
            source.kind.as_str()
        ),
        ("batch", "jobs", "Job")
    );
    let reported = report.reported.context("it says more than the status")?;
    assert_eq!(Some(reported.uid), jobs.get("j").await?.uid());
    assert!(reported.changed_at.is_some());
    advance(&jobs, &json!({ "active": 2 })).await?;
    let follows = |report: &WorkStatus| report.status.as_ref().is_some_and(|status| status["active"] == 2);
    until(&member.reports(), &name, "it follows", follows).await?;
    let wish =
        |wish: Value| json!({ "metadata": { "annotations": { names::WANT_STATUS_ANNOTATION: wish } } });
    change(&member.works(), &name, &wish(Value::Null)).await?;
    until_gone(&member.reports(), &name, "it goes with the wish").await?;
    change(&member.works(), &name, &wish(json!("true"))).await?;
    until(&member.reports(), &name, "it comes with the wish", follows).await?;
    member.works().delete(&name, &DeleteParams::default()).await?;
    until_gone(&member.works(), &name, "the ManifestWork is let go").await?;
    assert!(member.reports().get_opt(&name).await?.is_none());
    assert!(jobs.get_opt("j").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn feedback_is_given_by_well_known_names_and_by_paths() -> Result<()> {
    let fixture = Fixture::new("applying-feedback").await?;
    let member = fixture.pull().await?;
    let jobs: Api<Job> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    let mut work = theirs("job", &[job(&fixture.namespace)])?;
    work.spec.manifest_configs = serde_json::from_value(json!([{
        "resourceIdentifier": { "group": "batch", "resource": "jobs", "namespace": fixture.namespace, "name": "j" },
        "feedbackRules": [
            { "type": "WellKnownStatus" },
            { "type": "JSONPaths", "jsonPaths": [
                { "name": "active", "path": ".status.active" },
                { "name": "kind", "path": ".kind" },
            ] },
        ],
    }]))?;
    send(&member.works(), &work).await?;
    until(&member.works(), "job", "it is applied", is_applied).await?;
    advance(
        &jobs,
        &json!({ "active": 3, "startTime": "2026-11-21T09:00:00Z" }),
    )
    .await?;
    let values = |work: &argosy_api::ManifestWork| {
        let status = serde_json::to_value(&work.status).unwrap_or_default();
        status["resourceStatus"]["manifests"][0]["statusFeedback"]["values"].clone()
    };
    let wanted = json!([
        { "name": "active", "fieldValue": { "type": "Integer", "integer": 3 } },
        { "name": "kind", "fieldValue": { "type": "String", "string": "Job" } },
    ]);
    let told = until(&member.works(), "job", "the values are there", |work| {
        values(work) == wanted
    })
    .await?;
    let (status, reason, _) = condition(&told, Some(0), "StatusFeedbackSynced").context("it says so")?;
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("True", "StatusFeedbackSynced")
    );
    let rules = json!({ "spec": { "manifestConfigs": [{
        "resourceIdentifier": { "group": "batch", "resource": "jobs", "namespace": fixture.namespace, "name": "j" },
        "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": [{ "name": "all", "path": ".status" }] }],
    }] } });
    change(&member.works(), "job", &rules).await?;
    until(
        &member.works(),
        "job",
        "it says that objects cannot be told",
        |work| condition(work, Some(0), "StatusFeedbackSynced").is_some_and(|(status, ..)| status == "False"),
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_report_follows_an_object_that_is_made_again() -> Result<()> {
    let fixture = Fixture::new("applying-made-again").await?;
    let member = fixture.pull().await?;
    let maps: Api<ConfigMap> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    let map = config_map(&fixture.namespace, "c", "1");
    let mut work = ours(&fixture.namespace, "/v1/configmaps", &map, "ServerSideApply")?;
    work.annotations_mut()
        .insert(names::WANT_STATUS_ANNOTATION.to_owned(), "true".to_owned());
    send(&member.works(), &work).await?;
    let uid_of = |report: &WorkStatus| report.reported.as_ref().map(|reported| reported.uid.clone());
    let report = until(&member.reports(), &work.name_any(), "it is reported", |_| true).await?;
    let former = uid_of(&report);
    assert_eq!(former, maps.get("c").await?.uid());
    maps.delete("c", &DeleteParams::default()).await?;
    let again = until(
        &member.reports(),
        &work.name_any(),
        "the new one is reported",
        |report| uid_of(report) != former,
    )
    .await?;
    assert_eq!(uid_of(&again), maps.get("c").await?.uid());
    Ok(())
}
