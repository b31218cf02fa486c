//! Templates that a Workflow refers to. A template that is missing on its cluster is reported
//! before the start, however the Workflow was submitted.

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, conditions::reason};
use argosy_tests::testenv::{
    Fixture, TestEnv,
    admission::{unsuspended, until_held},
    definitions::install_argo_templates,
    objects::{condition, create, create_template, says},
    waiting::until,
};
use jiff::SignedDuration;
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// The only template in `work`, as Argo writes it.
fn main() -> Value {
    json!({
        "name": "main", "inputs": {}, "outputs": {}, "metadata": {},
        "container": { "name": "", "image": "busybox:1.36", "command": ["true"], "resources": {} },
    })
}

/// The status with which argo submits: its validation stores each template that it has looked up.
fn validated() -> Value {
    json!({ "startedAt": null, "finishedAt": null, "storedTemplates": { "namespaced/work/main": main() } })
}

/// As `argo submit --from workflowtemplate/work` and the UI's form create it.
fn from_template(cluster: &str) -> Workflow {
    let mut workflow = unsuspended("from", cluster);
    let label = "workflows.argoproj.io/workflow-template".to_owned();
    workflow.labels_mut().insert(label, "work".to_owned());
    workflow.spec = json!({ "arguments": {}, "workflowTemplateRef": { "name": "work" } });
    workflow.status = Some(validated());
    workflow
}

/// As `argo submit` creates it from a file whose step refers to the template.
fn with_reference(name: &str, cluster: &str) -> Workflow {
    let mut workflow = unsuspended(name, cluster);
    let step =
        json!({ "name": "one", "arguments": {}, "templateRef": { "name": "work", "template": "main" } });
    workflow.spec["templates"] = json!([{ "name": "main", "steps": [[step]] }]);
    workflow.status = Some(validated());
    workflow
}

/// As `argo resubmit --memoized` creates it: with the steps that need not run again.
fn memoized(cluster: &str) -> Workflow {
    let mut workflow = with_reference("memoized", cluster);
    let step = json!({ "id": "memoized-1", "name": "memoized[0].one", "displayName": "one", "type": "Skipped", "phase": "Skipped" });
    let mut status = validated();
    status["nodes"] = json!({ "memoized-1": step });
    workflow.status = Some(status);
    workflow
}

#[tokio::test]
async fn what_argo_has_submitted_waits_for_its_templates_whatever_is_stored_in_its_status() -> Result<()> {
    let fixture = Fixture::on(TestEnv::guarded().await?, "templates-stored").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    install_argo_templates(&member.wec).await?;
    let cluster = &member.cluster;
    let submitted = [
        from_template(cluster),
        with_reference("reference", cluster),
        memoized(cluster),
    ];
    for workflow in &submitted {
        let name = &create(&fixture.workflows(), workflow).await?.name_any();
        let waits = until(
            &fixture.workflows(),
            name,
            "it waits for its template",
            |workflow| says(workflow, "Dispatched", "False", reason::TEMPLATE_MISSING),
        )
        .await?;
        let message = condition(&waits, "Dispatched", "False").unwrap_or_default();
        assert!(
            message.contains(&format!("WorkflowTemplate work does not exist on {cluster}")),
            "{message}"
        );
        assert!(member.workflows().get_opt(name).await?.is_none(), "{name}");
    }
    let spec = json!({ "entrypoint": "main", "templates": [main()] });
    let made = create_template(&member.wec, &fixture.namespace, "work", &spec).await?;
    for workflow in &submitted {
        let name = &workflow.name_any();
        let object = until(&member.workflows(), name, "it is on its cluster", |_| true).await?;
        // Argo reads templates from a watch, so an object right after its template ends with "not found".
        let (template, run) = (
            made.creation_timestamp().context("no time")?,
            object.creation_timestamp(),
        );
        let age = run.context("no time")?.0.duration_since(template.0);
        assert!(
            age >= SignedDuration::from_secs(2),
            "{name} came {age:#} after its template"
        );
        let status = object.status.unwrap_or_default();
        assert_eq!(
            status["storedTemplates"]["namespaced/work/main"],
            main(),
            "{name}"
        );
    }
    Ok(())
}
