//! The objects that a Workflow needs, on its cluster while it runs.

use anyhow::{Context, Result};
use argosy_api::{
    BindingPolicy, ManifestWork, Workflow,
    conditions::{manifest_work::APPLIED, reason},
    names,
};
use argosy_tests::testenv::{
    Fixture, Member,
    objects::{self, condition, create, says},
    waiting::until,
};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

pub(super) fn maps(client: &Client, fixture: &Fixture) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), &fixture.namespace)
}

fn secrets(client: &Client, fixture: &Fixture) -> Api<Secret> {
    Api::namespaced(client.clone(), &fixture.namespace)
}

pub(super) fn map(name: &str, value: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(
        json!({ "metadata": { "name": name }, "data": { "a": value } }),
    )?)
}

fn secret(name: &str, labels: &Value) -> Result<Secret> {
    Ok(serde_json::from_value(
        json!({ "metadata": { "name": name, "labels": labels }, "stringData": { "a": "1" } }),
    )?)
}

pub(super) fn value(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get("a").map(String::as_str)
}

/// The attempt of a Workflow, as its claim says.
fn attempt(workflow: &Workflow) -> Result<Value> {
    let claim: Value = serde_json::from_str(&workflow.annotations()[names::CLAIM_ANNOTATION])?;
    Ok(claim["attempt"].clone())
}

/// The policy of the member asks for ConfigMaps and Secrets.
pub(super) async fn ask(fixture: &Fixture, member: &Member) -> Result<()> {
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let asking =
        json!({ "metadata": { "annotations": { names::DEPENDENCIES_ANNOTATION: "configmaps,secrets" } } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(asking));
    policies.patch(&member.cluster, &parameters, &patch).await?;
    Ok(())
}

/// A Workflow that needs these objects.
pub(super) fn needing(name: &str, member: &Member, maps: &[&str], secrets: &[&str]) -> Workflow {
    let mut workflow = objects::workflow(name, &member.cluster);
    let of_maps = maps
        .iter()
        .map(|name| json!({ "configMapRef": { "name": name } }));
    let of_secrets = secrets
        .iter()
        .map(|name| json!({ "secretRef": { "name": name } }));
    let sources: Vec<Value> = of_maps.chain(of_secrets).collect();
    workflow.spec["templates"][0]["container"]["envFrom"] = json!(sources);
    workflow
}

/// Creates a Workflow that needs these objects.
async fn submit(fixture: &Fixture, member: &Member, maps: &[&str], secrets: &[&str]) -> Result<()> {
    create(&fixture.workflows(), &needing("needs", member, maps, secrets)).await?;
    Ok(())
}

/// Waits until the Workflow says that objects are missing. Returns the message.
pub(super) async fn says_what_is_missing(fixture: &Fixture) -> Result<String> {
    let waits = until(
        &fixture.workflows(),
        "needs",
        "it says what is missing",
        |workflow| says(workflow, "Dispatched", "False", reason::DEPENDENCY_MISSING),
    )
    .await?;
    Ok(condition(&waits, "Dispatched", "False")
        .unwrap_or_default()
        .to_owned())
}

#[tokio::test]
async fn a_workflow_finds_what_it_needs_on_its_cluster_and_there_it_follows() -> Result<()> {
    let fixture = Fixture::new("dependencies-follow").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    create(&maps(&fixture.control, &fixture), &map("settings", "1")?).await?;
    let open = secret("open", &json!({ names::TRAVELS_LABEL: "true" }))?;
    create(&secrets(&fixture.control, &fixture), &open).await?;
    create(
        &secrets(&fixture.control, &fixture),
        &secret("closed", &json!({}))?,
    )
    .await?;
    submit(&fixture, &member, &["settings"], &["open", "closed"]).await?;

    let there = maps(&member.wec, &fixture);
    until(&there, "settings", "it is there", |map| value(map) == Some("1")).await?;
    until(&secrets(&member.wec, &fixture), "open", "it is there", |_| true).await?;
    let change = Patch::Merge(json!({ "data": { "a": "2" } }));
    let here = maps(&fixture.control, &fixture);
    here.patch("settings", &PatchParams::default(), &change).await?;
    until(&there, "settings", "it follows", |map| value(map) == Some("2")).await?;
    let closed = secrets(&member.wec, &fixture).get_opt("closed").await?;
    assert!(closed.is_none(), "it has travelled without its own consent");
    Ok(())
}

#[tokio::test]
async fn what_a_workflow_needs_and_the_cluster_has_is_left_alone_and_named() -> Result<()> {
    let fixture = Fixture::new("dependencies-taken").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    create(&maps(&member.wec, &fixture), &map("taken", "of the cluster")?).await?;
    let here = create(
        &maps(&fixture.control, &fixture),
        &map("taken", "of the control cluster")?,
    )
    .await?;
    submit(&fixture, &member, &["taken"], &[]).await?;

    let name = names::work_name(&here.uid().context("it has a UID")?);
    let says = |work: &ManifestWork| {
        let status = work.status.as_ref()?;
        let applied = status.conditions.iter().find(|known| known.type_ == APPLIED)?;
        Some(applied.status == "False" && applied.message.contains("runs use it as it is"))
    };
    until(&member.works(), &name, "the condition names it", |work| {
        says(work) == Some(true)
    })
    .await?;
    let there = maps(&member.wec, &fixture).get("taken").await?;
    assert_eq!(value(&there), Some("of the cluster"));
    assert!(
        there.labels().is_empty() && there.annotations().is_empty(),
        "{there:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_workflow_begins_when_what_it_needs_is_there_and_until_then_says_what_is_missing() -> Result<()> {
    let fixture = Fixture::new("dependencies-missing").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    // Nothing requires this one, but its text decides where artifacts go.
    let here = maps(&fixture.control, &fixture);
    create(&here, &map("artifact-repositories", "1")?).await?;
    submit(&fixture, &member, &["settings"], &["open"]).await?;

    let message = says_what_is_missing(&fixture).await?;
    assert!(
        message.contains(&format!(
            "ConfigMap settings, Secret open does not exist on {}",
            member.cluster
        )),
        "{message}"
    );
    assert!(member.workflows().get_opt("needs").await?.is_none());

    create(&here, &map("settings", "1")?).await?;
    let open = secret("open", &json!({ names::TRAVELS_LABEL: "true" }))?;
    create(&secrets(&fixture.control, &fixture), &open).await?;
    until(&member.workflows(), "needs", "it begins", |_| true).await?;
    let there = maps(&member.wec, &fixture);
    for name in ["settings", "artifact-repositories"] {
        assert!(
            there.get_opt(name).await?.is_some(),
            "{name} came later than its Workflow"
        );
    }
    assert_no_attempt_was_spent(&fixture, &member).await
}

#[tokio::test]
async fn a_workflow_does_not_begin_with_an_earlier_version_of_what_it_needs() -> Result<()> {
    let fixture = Fixture::new("dependencies-earlier").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    let here = maps(&fixture.control, &fixture);
    create(&here, &map("settings", "1")?).await?;
    create(
        &fixture.workflows(),
        &needing("first", &member, &["settings"], &[]),
    )
    .await?;
    until(&member.workflows(), "first", "it begins", |_| true).await?;

    // The cluster refuses the change.
    let there = maps(&member.wec, &fixture);
    let parameters = PatchParams::default();
    let immutable = Patch::Merge(json!({ "immutable": true }));
    there.patch("settings", &parameters, &immutable).await?;
    let change = Patch::Merge(json!({ "data": { "a": "2" } }));
    here.patch("settings", &parameters, &change).await?;
    submit(&fixture, &member, &["settings"], &[]).await?;
    let message = says_what_is_missing(&fixture).await?;
    assert!(
        message.contains(&format!(
            "the agent of {} has not applied the present version of ConfigMap settings",
            member.cluster
        )),
        "{message}"
    );
    assert!(member.workflows().get_opt("needs").await?.is_none());

    there.delete("settings", &DeleteParams::default()).await?;
    until(&member.workflows(), "needs", "it begins", |_| true).await?;
    assert_eq!(value(&there.get("settings").await?), Some("2"));
    assert_no_attempt_was_spent(&fixture, &member).await
}

/// Waits until the Workflow says that it no longer waits.
async fn assert_no_attempt_was_spent(fixture: &Fixture, member: &Member) -> Result<()> {
    let claimed = until(&fixture.workflows(), "needs", "it no longer waits", |workflow| {
        says(workflow, "Dispatched", "True", reason::CLAIMED)
    })
    .await?;
    assert_eq!(attempt(&claimed)?, 1);
    let there = member.workflows().get("needs").await?;
    assert_eq!(there.annotations()[names::ATTEMPT_ANNOTATION], "1");
    Ok(())
}

#[tokio::test]
async fn a_workflow_begins_when_its_volume_is_on_its_cluster_and_no_volume_is_sent() -> Result<()> {
    let fixture = Fixture::new("dependencies-volume").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } },
    }))?;
    let here: Api<PersistentVolumeClaim> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let kept = create(&here, &claim).await?;
    create(&maps(&fixture.control, &fixture), &map("settings", "1")?).await?;
    let mut workflow = needing("needs", &member, &["settings"], &[]);
    workflow.spec["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    create(&fixture.workflows(), &workflow).await?;

    // All that is sent is sent at once.
    let there = maps(&member.wec, &fixture);
    until(&there, "settings", "what is sent is there", |_| true).await?;
    let message = says_what_is_missing(&fixture).await?;
    let said = format!("PersistentVolumeClaim data does not exist on {}", member.cluster);
    assert!(message.contains(&said), "{message}");
    assert!(member.workflows().get_opt("needs").await?.is_none());
    let there: Api<PersistentVolumeClaim> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    assert!(there.get_opt("data").await?.is_none(), "an empty volume was made");
    let work = names::work_name(&kept.uid().context("it has a UID")?);
    assert!(member.works().get_opt(&work).await?.is_none());

    create(&there, &claim).await?;
    until(&member.workflows(), "needs", "it begins", |_| true).await?;
    assert_no_attempt_was_spent(&fixture, &member).await
}

#[tokio::test]
async fn the_token_of_a_service_account_is_not_sent_even_with_the_label() -> Result<()> {
    let fixture = Fixture::new("dependencies-token").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    let here = secrets(&fixture.control, &fixture);
    let labels = json!({ names::TRAVELS_LABEL: "true" });
    let mut token = secret("token", &labels)?;
    token.type_ = Some("kubernetes.io/service-account-token".to_owned());
    let account = "kubernetes.io/service-account.name".to_owned();
    token.annotations_mut().insert(account, "default".to_owned());
    let token = create(&here, &token).await?;
    create(&here, &secret("open", &labels)?).await?;
    submit(&fixture, &member, &[], &["open", "token"]).await?;

    let there = secrets(&member.wec, &fixture);
    until(&there, "open", "the other one is there", |_| true).await?;
    let message = says_what_is_missing(&fixture).await?;
    let said = format!("Secret token does not exist on {}", member.cluster);
    assert!(message.contains(&said), "{message}");
    assert!(there.get_opt("token").await?.is_none(), "the token was sent");
    let work = names::work_name(&token.uid().context("it has a UID")?);
    assert!(member.works().get_opt(&work).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn what_many_workflows_need_is_sent_once() -> Result<()> {
    const WORKFLOWS: usize = 200;
    let fixture = Fixture::new("dependencies-shared").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    let shared = create(&maps(&fixture.control, &fixture), &map("shared", "1")?).await?;
    let workflows: Vec<String> = (0..WORKFLOWS).map(|number| format!("needs-{number}")).collect();
    for name in &workflows {
        create(&fixture.workflows(), &needing(name, &member, &["shared"], &[])).await?;
    }
    let there = maps(&member.wec, &fixture);
    let first = until(&there, "shared", "it is there", |_| true).await?;
    for name in &workflows {
        until(&member.workflows(), name, "it is on the cluster", |_| true).await?;
    }

    let works = member.works().list(&ListParams::default()).await?.items;
    let of_maps = works.iter().filter(|work| {
        let resource = work.annotations().get(names::ORIGIN_RESOURCE_ANNOTATION);
        resource.is_some_and(|resource| resource == "/v1/configmaps")
    });
    let sent: Vec<(String, Option<i64>)> = of_maps
        .map(|work| (work.name_any(), work.metadata.generation))
        .collect();
    let once = names::work_name(&shared.uid().context("it has a UID")?);
    assert_eq!(sent, [(once, Some(1))]);
    let last = there.get("shared").await?;
    assert_eq!(
        (last.uid(), last.resource_version()),
        (first.uid(), first.resource_version()),
        "it was written again"
    );
    Ok(())
}

#[tokio::test]
async fn a_workflow_begins_when_the_secrets_of_its_artifact_repository_are_there() -> Result<()> {
    let fixture = Fixture::new("dependencies-repository").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    let mut repositories = map("artifact-repositories", "")?;
    let text = |secret: &str| format!("s3: {{bucket: b, accessKeySecret: {{name: {secret}, key: a}}}}");
    let texts = [
        ("main".to_owned(), text("store")),
        ("archive".to_owned(), text("stays")),
    ];
    repositories.data = Some(texts.into());
    let default = "workflows.argoproj.io/default-artifact-repository".to_owned();
    repositories.metadata.annotations = Some([(default, "main".to_owned())].into());
    create(&maps(&fixture.control, &fixture), &repositories).await?;
    let mut workflow = objects::workflow("needs", &member.cluster);
    workflow.spec["archiveLogs"] = json!(true);
    create(&fixture.workflows(), &workflow).await?;

    let message = says_what_is_missing(&fixture).await?;
    let said = format!("Secret store does not exist on {}", member.cluster);
    assert!(message.contains(&said), "{message}");
    assert!(member.workflows().get_opt("needs").await?.is_none());

    let store = secret("store", &json!({ names::TRAVELS_LABEL: "true" }))?;
    create(&secrets(&fixture.control, &fixture), &store).await?;
    until(&member.workflows(), "needs", "it begins", |_| true).await?;
    let there = secrets(&member.wec, &fixture).get_opt("store").await?;
    assert!(there.is_some(), "it came later than its Workflow");
    Ok(())
}
