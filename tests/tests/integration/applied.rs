//! A Workflow that somebody applies server-side, as Flux, Argo CD and `kubectl apply --server-side`
//! do. Like every sample, it has `spec.suspend: true`. Applying it again neither suspends the run
//! nor starts a conflict between writers.

use anyhow::{Context, Result};
use argosy_api::{BindingPolicy, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{eventually, is_held, until_held},
    binaries::argosy,
    definitions::install_argo_in_full,
    fixture::work_name,
    objects::{condition, workflow},
    waiting::until,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// The field managers of kubectl, Flux and Argo CD.
const MANAGERS: [&str; 4] = [
    "kubectl",
    "kustomize-controller",
    "helm-controller",
    "argocd-controller",
];

/// Applies with force, as Flux and Argo CD do, which takes the ownership of fields from others.
async fn apply(fixture: &Fixture, manifest: &Value, manager: &str) -> Result<Workflow> {
    let params = PatchParams::apply(manager).force();
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    let workflows = fixture.workflows();
    let applied = workflows.patch(name, &params, &Patch::Apply(manifest)).await;
    applied.with_context(|| format!("{manager} applies {name}"))
}

/// The part of the spec that `manager` owns because it has applied it.
fn owned(workflow: &Workflow, manager: &str) -> Option<Value> {
    let is_its = |entry: &&ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(manager) && entry.operation.as_deref() == Some("Apply")
    };
    let mut entries = workflow.metadata.managed_fields.iter().flatten();
    let fields = entries.find(is_its)?.fields_v1.as_ref()?;
    fields.0.get("f:spec").cloned()
}

fn is_suspended(workflow: &Workflow) -> bool {
    workflow.spec["suspend"] == true
}

/// The run is not asked to suspend, and no condition says so. Earlier writes have taken effect
/// before `sentinel` comes back.
async fn assert_goes_on(fixture: &Fixture, member: &Member, name: &str, sentinel: &str) -> Result<()> {
    fixture.round_trip(sentinel, member).await?;
    let here = fixture.workflows().get(name).await?;
    assert_eq!(condition(&here, "Suspended", "True"), None, "{here:?}");
    let work = member.works().get(&work_name(&here)).await?;
    let asked = work.annotations().get(names::CONTROL_ANNOTATION);
    assert!(!asked.is_some_and(|asked| asked.contains("suspend")), "{asked:?}");
    let run = member.workflows().get(name).await?;
    assert!(!is_suspended(&run), "{run:?}");
    Ok(())
}

/// Applies a Workflow as `manager`, again, after a change, and as another manager.
async fn goes_on_whoever_applies_it(fixture: &Fixture, member: &Member, manager: &str) -> Result<String> {
    let name = format!("by-{manager}");
    let mut manifest = json!(workflow(&name, &member.cluster));
    let created = apply(fixture, &manifest, manager).await?;
    assert!(is_held(&created) && is_suspended(&created), "{created:?}");
    until(&member.workflows(), &name, "it is on its cluster", |_| true).await?;
    member.argo().start(&name).await?;
    let again = apply(fixture, &manifest, manager).await?;
    assert_eq!(again.spec, created.spec, "{manager}");
    assert_goes_on(fixture, member, &name, &format!("again-{manager}")).await?;

    manifest["spec"]["priority"] = json!(5);
    manifest["metadata"]["labels"]["team"] = json!("blue");
    let next = MANAGERS
        .iter()
        .find(|other| **other != manager)
        .copied()
        .unwrap_or_default();
    for other in [manager, next] {
        let changed = apply(fixture, &manifest, other).await?;
        assert!(
            is_suspended(&changed) && owned(&changed, other).is_some(),
            "{changed:?}"
        );
    }
    assert_goes_on(fixture, member, &name, &format!("changed-{manager}")).await?;
    Ok(name)
}

/// The verb is sent as an annotation.
async fn is_suspended_and_resumed(fixture: &Fixture, member: &Member, name: &str) -> Result<()> {
    let ask = async |verb: &str| {
        let arguments = [verb, name, "--namespace", &fixture.namespace];
        let answer = argosy(fixture.env.control.kubeconfig(), &arguments).await?;
        anyhow::ensure!(answer.code == Some(0), "{answer:?}");
        anyhow::Ok(answer.output)
    };
    ask("suspend").await?;
    until(&member.workflows(), name, "it is suspended", is_suspended).await?;
    let told = until(&fixture.workflows(), name, "it says so", |workflow| {
        condition(workflow, "Suspended", "True").is_some()
    })
    .await?;
    let by = "by argosy (argosy.dev/suspend); no step starts until it is resumed with argosy resume";
    let message = condition(&told, "Suspended", "True").unwrap_or_default();
    assert_eq!(message, format!("Asked: {by}"));
    let page = ask("why").await?;
    assert!(page.contains(&format!("\n  - it is suspended {by}\n")), "{page}");

    apply(fixture, &json!(workflow(name, &member.cluster)), "kubectl").await?;
    fixture.round_trip(&format!("kept-{name}"), member).await?;
    assert!(
        is_suspended(&member.workflows().get(name).await?),
        "applied again, it has gone on"
    );

    ask("resume").await?;
    let goes_on = |workflow: &Workflow| !is_suspended(workflow);
    until(&member.workflows(), name, "it goes on", goes_on).await?;
    let resumed = until(&fixture.workflows(), name, "it says so no more", |workflow| {
        condition(workflow, "Suspended", "True").is_none()
    })
    .await?;
    assert!(is_suspended(&resumed), "what somebody applies was written over");
    let page = ask("why").await?;
    assert!(
        page.contains("\n  - lists show it as suspended, because the tool that applies it"),
        "{page}"
    );
    assert!(owned(&resumed, "kubectl").is_some(), "{resumed:?}");
    Ok(())
}

/// `argo stop` writes the spec, which may have only one owner.
async fn is_stopped(fixture: &Fixture, member: &Member, name: &str) -> Result<Workflow> {
    let stop = Patch::Merge(json!({ "spec": { "shutdown": "Stop" } }));
    let params = PatchParams {
        field_manager: Some("argo".to_owned()),
        ..PatchParams::default()
    };
    let written = fixture.workflows().patch(name, &params, &stop).await?;
    let run = until(&member.workflows(), name, "it is to stop", |workflow| {
        workflow.spec["shutdown"] == "Stop"
    })
    .await?;
    assert!(!is_suspended(&run), "{run:?}");
    Ok(written)
}

#[tokio::test]
async fn with_argos_minimal_definition_whoever_applies_a_workflow_again_leaves_its_run_alone() -> Result<()> {
    let fixture = Fixture::on(TestEnv::guarded().await?, "applied-minimal").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    for manager in MANAGERS {
        let name = goes_on_whoever_applies_it(&fixture, &member, manager).await?;
        let here = fixture.workflows().get(&name).await?;
        assert_eq!(owned(&here, manager), Some(json!({})), "{here:?}");
    }
    is_suspended_and_resumed(&fixture, &member, "by-kubectl").await?;
    let stopped = is_stopped(&fixture, &member, "by-kubectl").await?;
    assert_eq!(owned(&stopped, "kubectl"), None, "{stopped:?}");
    assert!(!is_suspended(&stopped), "{stopped:?}");
    let applied = apply(
        &fixture,
        &json!(workflow("by-kubectl", &member.cluster)),
        "kubectl",
    )
    .await?;
    assert!(is_suspended(&applied));
    assert_goes_on(&fixture, &member, "by-kubectl", "stopped").await
}

/// The webhook sets `spec.archiveLogs` for such a policy.
#[tokio::test]
async fn a_manifest_that_is_applied_again_keeps_the_logs_that_its_policy_wants() -> Result<()> {
    let fixture = Fixture::on(TestEnv::guarded().await?, "applied-logs").await?;
    let member = fixture.pull().await?;
    let annotated = json!({ "metadata": { "annotations": { names::ARCHIVE_LOGS_ANNOTATION: "true" } } });
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    policies
        .patch(&member.cluster, &PatchParams::default(), &Patch::Merge(annotated))
        .await?;
    let wants_logs = |workflow: &Workflow| workflow.spec["archiveLogs"] == true;
    eventually("a Workflow is created with its logs", async || {
        let dry = PatchParams {
            dry_run: true,
            ..PatchParams::apply("probe")
        };
        let probe = Patch::Apply(json!(workflow("probe", &member.cluster)));
        Ok(wants_logs(
            &fixture.workflows().patch("probe", &dry, &probe).await?,
        ))
    })
    .await?;
    let manifest = json!(workflow("logs", &member.cluster));
    let created = apply(&fixture, &manifest, "kubectl").await?;
    for manager in MANAGERS {
        let again = apply(&fixture, &manifest, manager).await?;
        assert_eq!(again.spec, created.spec, "{manager}");
    }
    until(&member.workflows(), "logs", "it keeps its logs", wants_logs).await?;
    Ok(())
}

#[tokio::test]
async fn with_argos_full_definition_whoever_applies_a_workflow_again_leaves_its_run_alone() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own_guarded("applied-full", "30d").await?, "applied-full").await?;
    install_argo_in_full(&fixture.control).await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::apply("probe")
    };
    let probe = Patch::Apply(json!(workflow("probe", &member.cluster)));
    eventually("the API server knows the fields of spec", async || {
        let tried = fixture.workflows().patch("probe", &dry, &probe).await?;
        Ok(owned(&tried, "probe").is_some_and(|spec| spec.get("f:suspend").is_some()))
    })
    .await?;
    for manager in MANAGERS {
        let name = goes_on_whoever_applies_it(&fixture, &member, manager).await?;
        let spec = owned(&fixture.workflows().get(&name).await?, manager).unwrap_or_default();
        assert_eq!(spec.get("f:suspend"), Some(&json!({})), "{spec}");
    }
    is_suspended_and_resumed(&fixture, &member, "by-kubectl").await?;
    let stopped = is_stopped(&fixture, &member, "by-kubectl").await?;
    assert!(
        is_suspended(&stopped) && owned(&stopped, "kubectl").is_some(),
        "{stopped:?}"
    );
    assert_goes_on(&fixture, &member, "by-kubectl", "stopped").await
}
