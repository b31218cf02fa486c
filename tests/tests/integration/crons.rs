//! A CronWorkflow is fired by only one Argo: the control cluster's. If a policy asks for copies,
//! the Argos of its clusters fire it.

use anyhow::{Context, Result, ensure};
use argosy_api::{BindingPolicy, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{eventually, until_held},
    definitions,
    objects::{self, create},
    waiting::{PATIENCE, until, until_gone},
};
use futures::{TryStreamExt as _, pin_mut};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, Request},
    client::Body,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watcher},
    },
};
use serde_json::{Value, json};
use tokio::time::timeout;

const CRON: &str = "nightly";

fn crons(client: &Client, fixture: &Fixture) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("argoproj.io", "v1alpha1", "CronWorkflow"));
    Api::namespaced_with(client.clone(), &fixture.namespace, &kind)
}

fn nightly() -> Result<DynamicObject> {
    let labels = json!({ "app": CRON });
    Ok(serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow", "metadata": { "name": CRON, "labels": labels },
        "spec": { "schedules": ["0 0 * * *"], "workflowSpec": { "entrypoint": "main" } },
    }))?)
}

/// A policy that names no kind, like KubeStellar's samples.
fn policy(fixture: &Fixture, cluster: &str) -> Result<BindingPolicy> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": { "name": fixture.namespace },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": cluster } }],
            "downsync": [{ "namespaces": [fixture.namespace], "objectSelectors": [{ "matchLabels": { "app": CRON } }] }],
        },
    }))?)
}

async fn merge<K>(api: &Api<K>, name: &str, patch: &Value) -> Result<K>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    Ok(api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?)
}

/// Sends another CronWorkflow through a policy that asks for copies. After this, the controller, which
/// watches both with one watch, has decided about each earlier change of the CronWorkflow.
async fn sentinel(fixture: &Fixture, member: &Member) -> Result<()> {
    let name = "sentinel";
    let mut asking = policy(fixture, &member.cluster)?;
    asking.metadata.name = Some(format!("{}-{name}", fixture.namespace));
    asking
        .annotations_mut()
        .insert(names::CRON_ANNOTATION.to_owned(), names::EACH_CLUSTER.to_owned());
    asking.spec.downsync = serde_json::from_value(json!([{
        "namespaces": [fixture.namespace], "objectSelectors": [{ "matchLabels": { "app": name } }],
    }]))?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    create(&policies, &asking).await?;
    let mut cron = nightly()?;
    cron.metadata.name = Some(name.to_owned());
    cron.labels_mut().insert("app".to_owned(), name.to_owned());
    cron.data["spec"]["suspend"] = json!(true);
    create(&crons(&fixture.control, fixture), &cron).await?;
    until(
        &crons(&member.wec, fixture),
        name,
        "the policy has sent it",
        |_| true,
    )
    .await?;
    Ok(())
}

/// The message of the Event about the withdrawal of the object.
async fn told(client: &Client, fixture: &Fixture, uid: &str) -> Result<String> {
    let api: Api<Event> = Api::namespaced(client.clone(), &fixture.namespace);
    let is_it = |event: &Event| {
        let regarding = event.regarding.as_ref();
        regarding.is_some_and(|regarding| regarding.uid.as_deref() == Some(uid))
            && event.reason.as_deref() == Some("TakenBack")
    };
    let events = watcher(api, watcher::Config::default()).applied_objects();
    let events = events.try_filter(|event| std::future::ready(is_it(event)));
    pin_mut!(events);
    let event = timeout(PATIENCE, events.try_next())
        .await
        .context("waited for the Event")??;
    Ok(event.and_then(|event| event.note).unwrap_or_default())
}

/// A Workflow that a CronWorkflow has created on a cluster, as Argo does.
fn child(parent: &DynamicObject) -> Result<Workflow> {
    let mut child = objects::workflow("nightly-1700000000", "nowhere");
    child.metadata.owner_references = Some(vec![serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow", "name": CRON, "uid": parent.uid(),
        "controller": true, "blockOwnerDeletion": true,
    }))?]);
    Ok(child)
}

#[tokio::test]
async fn one_that_a_policy_selects_fires_here_alone_unless_the_policy_asks_for_copies() -> Result<()> {
    let fixture = Fixture::new("crons").await?;
    let member = fixture.pull().await?;
    for client in [&fixture.control, &member.wec] {
        definitions::install_argo_cron(client).await?;
    }
    let (here, there) = (crons(&fixture.control, &fixture), crons(&member.wec, &fixture));
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    create(&policies, &policy(&fixture, &member.cluster)?).await?;
    let cron = create(&here, &nightly()?).await?;
    let uid = cron.uid().context("it has a UID")?;
    let work = names::work_name(&uid);
    sentinel(&fixture, &member).await?;
    assert!(member.works().get_opt(&work).await?.is_none(), "it was sent");

    let asking = json!({ "metadata": { "annotations": { names::CRON_ANNOTATION: names::EACH_CLUSTER } } });
    merge(&policies, &fixture.namespace, &asking).await?;
    let says_why = |policy: &BindingPolicy| {
        let errors = policy.status.iter().flat_map(|status| &status.errors);
        errors
            .into_iter()
            .any(|error| error.contains("once its spec.suspend is true on the control cluster"))
    };
    until(&policies, &fixture.namespace, "it says what is missing", says_why).await?;
    assert!(
        member.works().get_opt(&work).await?.is_none(),
        "it would fire twice"
    );

    merge(&here, CRON, &json!({ "spec": { "suspend": true } })).await?;
    let copy = until(&there, CRON, "it is on the cluster", |_| true).await?;
    assert_eq!(copy.data["spec"]["suspend"], Value::Null);
    assert_eq!(copy.data["spec"]["schedules"], json!(["0 0 * * *"]));
    create(&member.workflows(), &child(&copy)?).await?;

    merge(
        &policies,
        &fixture.namespace,
        &json!({ "metadata": { "annotations": { names::CRON_ANNOTATION: null } } }),
    )
    .await?;
    let is_orphaning = |copy: &DynamicObject| {
        copy.metadata.deletion_timestamp.is_some() && copy.finalizers() == [names::ORPHAN_FINALIZER]
    };
    until(&there, CRON, "its Workflows are to stay", is_orphaning).await?;
    // Plays the garbage collector, which does not run here: it first removes the owner references
    // of the Workflows.
    let child = "nightly-1700000000";
    merge(
        &member.workflows(),
        child,
        &json!({ "metadata": { "ownerReferences": null } }),
    )
    .await?;
    merge(&there, CRON, &json!({ "metadata": { "finalizers": null } })).await?;
    until_gone(&there, CRON, "it is taken back").await?;
    until_gone(&member.works(), &work, "its ManifestWork is let go").await?;
    assert!(member.workflows().get_opt(child).await?.is_some());
    let sentence = told(&fixture.control, &fixture, &uid).await?;
    assert!(
        sentence.starts_with(&format!("removed from {}, ", member.cluster)),
        "{sentence}"
    );
    let sentence = told(&member.wec, &fixture, &copy.uid().unwrap_or_default()).await?;
    assert!(
        sentence.ends_with("the Workflows that it has created stay"),
        "{sentence}"
    );
    Ok(())
}

/// The warnings for a client that merges `patch` into the CronWorkflow.
async fn warnings(fixture: &Fixture, patch: &Value) -> Result<Vec<String>> {
    let collection = format!(
        "/apis/argoproj.io/v1alpha1/namespaces/{}/cronworkflows",
        fixture.namespace
    );
    let request = Request::new(collection).patch(CRON, &PatchParams::default(), &Patch::Merge(patch))?;
    let answer = fixture.control.send(request.map(Body::from)).await?;
    ensure!(answer.status().is_success(), "{}", answer.status());
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings.map(|warning| Ok(warning.to_str()?.to_owned()));
    warnings.collect()
}

#[tokio::test]
async fn whoever_writes_one_whose_workflows_no_policy_selects_is_told_the_label() -> Result<()> {
    let fixture = Fixture::on(TestEnv::guarded().await?, "crons-warned").await?;
    let member = fixture.pull().await?;
    definitions::install_argo_cron(&fixture.control).await?;
    until_held(&fixture, &member).await?;
    let here = crons(&fixture.control, &fixture);
    create(&here, &nightly()?).await?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    create(&policies, &policy(&fixture, &member.cluster)?).await?;
    // Each write changes the specification, because the webhook is asked only then.
    let mut minute = 0;
    let mut edit = |labels: Value| {
        minute += 1;
        json!({ "spec": { "schedules": [format!("{minute} 0 * * *")], "workflowMetadata": { "labels": labels } } })
    };
    let told = format!("add app: \\\"{CRON}\\\" to spec.workflowMetadata.labels");
    eventually("the webhook knows the policy", async || {
        let warnings = warnings(&fixture, &edit(json!({ "team": "a" }))).await?;
        Ok(warnings.iter().any(|warning| warning.contains(&told)))
    })
    .await?;
    let status = json!({ "status": { "phase": "Active" } });
    assert_eq!(
        warnings(&fixture, &status).await?,
        Vec::<String>::new(),
        "Argo writes a status"
    );
    let labeled = edit(json!({ "app": CRON }));
    assert_eq!(warnings(&fixture, &labeled).await?, Vec::<String>::new());
    Ok(())
}
