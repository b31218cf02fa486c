//! Features of OCM's ManifestWork that only foreign writers use: condition rules, a TTL, read-only
//! objects, and the leftovers of OCM's own agent.

use std::time::{Duration, Instant};

use anyhow::Result;
use argosy_api::{AppliedManifestWork, ManifestWork, names};
use argosy_tests::testenv::{
    Fixture, Member,
    mailbox::{change, condition, config_map, is_applied, says, send, tamper, theirs, value},
    objects::create,
    ocm::{Line, WorkAgent},
    waiting::{until, until_gone},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

fn maps(fixture: &Fixture, member: &Member) -> Api<ConfigMap> {
    Api::namespaced(member.wec.clone(), &fixture.namespace)
}

/// Writes the status as the cluster's job controller does.
async fn advance(jobs: &Api<Job>, status: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "status": status }));
    jobs.patch_status("j", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Status, reason and message of a condition of the first manifest.
fn of_first(work: &ManifestWork, type_: &str) -> Option<[String; 3]> {
    condition(work, Some(0), type_).map(|(status, reason, message)| [status, reason, message])
}

fn is(work: &ManifestWork, type_: &str, expected: [&str; 3]) -> bool {
    of_first(work, type_).is_some_and(|said| said == expected)
}

#[tokio::test]
async fn a_job_is_complete_by_rule_stays_away_when_it_is_cleaned_up_and_ends_its_manifest_work() -> Result<()>
{
    let fixture = Fixture::new("applying-complete").await?;
    let member = fixture.pull().await?;
    let jobs: Api<Job> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "namespace": fixture.namespace, "name": "j" },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "busybox" }] } } },
    });
    let mut work = theirs("complete", &[job])?;
    work.spec.manifest_configs = serde_json::from_value(json!([{
        "resourceIdentifier": { "group": "batch", "resource": "jobs", "namespace": "*", "name": "j*" },
        "conditionRules": [
            { "type": "WellKnownConditions", "condition": "Complete" },
            {
                "type": "CEL", "condition": "Busy", "celExpressions": ["object.status.active > 0"],
                "messageExpression": "result ? string(object.status.active) + ' at work' : 'idle'",
            },
        ],
    }]))?;
    send(&member.works(), &work).await?;
    advance(
        &until_there(&jobs).await?,
        &json!({ "active": 1, "startTime": "2026-11-21T09:00:00Z" }),
    )
    .await?;
    let evaluated = "ConditionRuleEvaluated";
    until(&member.works(), "complete", "its rules are evaluated", |work| {
        is(work, "Complete", ["False", evaluated, "Job is not finished"])
            && is(work, "Busy", ["True", evaluated, "1 at work"])
            && says(work, "Complete", "False")
    })
    .await?;
    let ended = json!({
        "active": null, "succeeded": 1, "completionTime": "2026-11-21T09:01:00Z",
        "uncountedTerminatedPods": {},
        "conditions": [{ "type": "SuccessCriteriaMet", "status": "True" }, { "type": "Complete", "status": "True" }],
    });
    advance(&jobs, &ended).await?;
    until(&member.works(), "complete", "it is complete", |work| {
        is(work, "Complete", ["True", evaluated, "Job is finished"]) && says(work, "Complete", "True")
    })
    .await?;
    jobs.delete("j", &DeleteParams::background()).await?;
    let is_cleaned = |work: &ManifestWork| says(work, "Available", "False");
    until(
        &member.works(),
        "complete",
        "it is told to be cleaned up",
        is_cleaned,
    )
    .await?;
    member.agent()?.restart().await?;
    send(
        &member.works(),
        &theirs("after-complete", &[config_map(&fixture.namespace, "after", "1")])?,
    )
    .await?;
    until(&member.works(), "after-complete", "it is applied", is_applied).await?;
    assert!(jobs.get_opt("j").await?.is_none(), "it was made again");
    let option = json!({ "spec": { "deleteOption": { "propagationPolicy": "Foreground", "ttlSecondsAfterFinished": 1 } } });
    let told = change(&member.works(), "complete", &option).await?;
    assert!(says(&told, "Complete", "True"));
    until_gone(&member.works(), "complete", "its time is over").await?;
    Ok(())
}

async fn until_there(jobs: &Api<Job>) -> Result<Api<Job>> {
    until(jobs, "j", "it is applied", |_| true).await?;
    Ok(jobs.clone())
}

/// No agent serves the mailbox, so only the test writes to it. A deletion that was decided earlier
/// is under way while the user writes.
#[tokio::test]
async fn a_manifest_work_that_its_user_keeps_as_its_time_ends_stays() -> Result<()> {
    let fixture = Fixture::new("applying-keeping").await?;
    let member = fixture.join("quiet", &fixture.env.servers.wecs[0]).await?;
    let works = member.works();
    let complete = json!({ "status": { "conditions": [{
        "type": "Complete", "status": "True", "reason": "ConditionRulesAggregated", "message": "",
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    }] } });
    let end = async |name: &str| -> Result<()> {
        let mut work = theirs(name, &[config_map(&fixture.namespace, name, "1")])?;
        let option = json!({ "propagationPolicy": "Foreground", "ttlSecondsAfterFinished": 0 });
        work.spec.delete_option = serde_json::from_value(option)?;
        send(&works, &work).await?;
        works
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&complete))
            .await?;
        Ok(())
    };
    let keeping = Patch::Merge(json!({ "spec": { "deleteOption": { "ttlSecondsAfterFinished": null } } }));
    let mut kept = Vec::new();
    for number in 0..40 {
        let name = format!("keeping-{number}");
        end(&name).await?;
        match works.patch(&name, &PatchParams::default(), &keeping).await {
            Ok(_) => kept.push(name),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
    }
    end("keeping-last").await?;
    until_gone(&works, "keeping-last", "its time is over").await?;
    assert!(!kept.is_empty(), "every one went before it could be kept");
    for name in kept {
        assert!(works.get_opt(&name).await?.is_some(), "{name} was deleted");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_only_looked_at_is_told_as_soon_as_it_changes() -> Result<()> {
    let fixture = Fixture::new("applying-looking").await?;
    let member = fixture.pull().await?;
    let maps = maps(&fixture, &member);
    create(
        &maps,
        &serde_json::from_value(config_map(&fixture.namespace, "seen", "0"))?,
    )
    .await?;
    let mut work = theirs("looking", &[config_map(&fixture.namespace, "seen", "")])?;
    work.spec.manifest_configs = serde_json::from_value(json!([{
        "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": fixture.namespace, "name": "seen" },
        "updateStrategy": { "type": "ReadOnly" },
        "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": [{ "name": "a", "path": ".data.a" }] }],
    }]))?;
    send(&member.works(), &work).await?;
    let tells = |work: &ManifestWork, wanted: &str| {
        let status = serde_json::to_value(&work.status).unwrap_or_default();
        let values = &status["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
        values[0]["fieldValue"]["string"] == wanted
    };
    until(&member.works(), "looking", "its value is told", |work| {
        tells(work, "0")
    })
    .await?;
    // A read-only object is read a second after it has changed, at the earliest.
    let started = Instant::now();
    for change in 1..=20 {
        let wanted = change.to_string();
        tamper(&maps, "seen", "a", &wanted).await?;
        until(&member.works(), "looking", "its new value is told", |work| {
            tells(work, &wanted)
        })
        .await?;
    }
    let took = started.elapsed();
    assert!(
        took < Duration::from_secs(15),
        "{took:?} for 20 changes: it is not watched"
    );
    maps.delete("seen", &DeleteParams::default()).await?;
    until(&member.works(), "looking", "it is told to be gone", |work| {
        says(work, "Available", "False")
    })
    .await?;
    Ok(())
}

/// A finalizer on a record that belongs neither to OCM's agent nor to ours.
const OTHERS_FINALIZER: &str = "example.com/others";

/// The single record of a ManifestWork.
async fn record_of(member: &Member, work: &str) -> Result<AppliedManifestWork> {
    let records = member.records().list(&ListParams::default()).await?;
    let of_work = records
        .into_iter()
        .filter(|record| record.spec.manifest_work_name == work);
    let [record] = <[_; 1]>::try_from(of_work.collect::<Vec<_>>())
        .map_err(|records| anyhow::anyhow!("{} records", records.len()))?;
    Ok(record)
}

async fn finalize(records: &Api<AppliedManifestWork>, name: &str, finalizers: &[&str]) -> Result<()> {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    records.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test]
async fn what_ocms_agent_has_left_is_gone_on_with() -> Result<()> {
    let fixture = Fixture::new("applying-taken").await?;
    let mut member = fixture.join("ocm", &fixture.env.servers.wecs[0]).await?;
    let its = fixture.env.control.kubeconfig();
    let ocm = WorkAgent::start(Line::Current, &member.cluster, its, &member.kubeconfig)?;
    let maps = maps(&fixture, &member);
    let both = ["kept", "dropped"].map(|name| config_map(&fixture.namespace, name, "1"));
    let mut work = theirs("taken", &both)?;
    work.metadata.finalizers = Some(vec![names::MANIFEST_WORK_FINALIZER.to_owned()]);
    send(&member.works(), &work).await?;
    until(&member.works(), "taken", "OCM's agent has applied it", is_applied).await?;
    let record = record_of(&member, "taken").await?;
    assert_eq!(record.status.unwrap_or_default().applied_resources.len(), 2);
    ocm.check_running()?;
    drop(ocm);
    let records = member.records();
    let name = record_of(&member, "taken").await?.name_any();
    let finalizers = [OTHERS_FINALIZER, names::APPLIED_MANIFEST_WORK_FINALIZER];
    finalize(&records, &name, &finalizers).await?;
    let patch =
        json!({ "spec": { "workload": { "manifests": [config_map(&fixture.namespace, "kept", "2")] } } });
    change(&member.works(), "taken", &patch).await?;
    fixture.start_agent(&mut member, 30).await?;
    until_gone(&maps, "dropped", "nobody names it any more").await?;
    until(&maps, "kept", "it follows its manifest", |map| {
        value(map, "a") == Some("2")
    })
    .await?;
    until(&member.works(), "taken", "it is applied", is_applied).await?;
    until(
        &records,
        &name,
        "it names what is there, and nothing else",
        |record| {
            let named = record.status.clone().unwrap_or_default().applied_resources;
            named.iter().map(|resource| resource.name.as_str()).eq(["kept"])
        },
    )
    .await?;
    let record = record_of(&member, "taken").await?;
    assert_eq!(record.name_any(), name, "it was not taken over");
    assert_eq!(record.finalizers(), finalizers);
    assert!(record.labels().contains_key(names::CLUSTER_LABEL));
    member.works().delete("taken", &DeleteParams::default()).await?;
    until_gone(&member.works(), "taken", "it is let go").await?;
    assert!(maps.get_opt("kept").await?.is_none());
    assert_eq!(
        record_of(&member, "taken").await?.finalizers(),
        [OTHERS_FINALIZER]
    );
    finalize(&records, &name, &[]).await?;
    until_gone(&records, &name, "nobody holds it any more").await?;
    Ok(())
}
