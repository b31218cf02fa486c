//! A Workflow that names a cluster runs there or waits, regardless of policies. It never runs on
//! the control cluster unannounced.

use anyhow::{Context as _, Result};
use argosy_api::{BindingPolicy, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{eventually, is_held, refusal, try_unsuspended, unsuspended, until_held},
    binaries::{self, argosy},
    env::LONG,
    fake_argo,
    objects::{self, create, phase, says},
    waiting::{PATIENCE, until},
};
use futures::{TryStreamExt as _, pin_mut};
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
    events::v1::Event,
};
use kube::{
    Api, Resource as _, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::Body,
    core::Request,
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;
use tokio::time::timeout;

/// A separate environment with a working webhook, and a cluster.
async fn guarded(name: &str) -> Result<(Fixture, Member)> {
    let fixture = Fixture::on(TestEnv::own_guarded(name, LONG).await?, name).await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    Ok((fixture, member))
}

/// The name of a cluster that no policy selects.
const NAMED: &str = "clusterx";

async fn until_it_waits(fixture: &Fixture, name: &str) -> Result<Workflow> {
    until(&fixture.workflows(), name, "it says that it waits", |workflow| {
        says(workflow, "Dispatched", "False", "NoPolicy")
    })
    .await
}

/// True if the Workflow looks as if it has never begun and cannot begin.
fn is_handed_back(workflow: &Workflow) -> bool {
    let labels = workflow.labels();
    !is_held(workflow)
        && !labels.contains_key(names::ARGO_PHASE_LABEL)
        && phase(workflow).is_empty()
        && workflow.spec["suspend"] == true
        && workflow.finalizers().is_empty()
}

#[tokio::test]
async fn one_that_no_policy_selects_is_held_until_one_does_and_then_runs_there_once() -> Result<()> {
    let fixture = Fixture::on(TestEnv::guarded().await?, "named-later").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    let named = format!("{}-named", fixture.namespace);
    let suspended = objects::workflow("suspended", &named);
    for workflow in [unsuspended("plain", &named), suspended] {
        let created = create(&fixture.workflows(), &workflow).await?;
        assert!(is_held(&created), "{created:?}");
        assert_eq!(phase(&created), "Pending");
        let told = until_it_waits(&fixture, &workflow.name_any()).await?;
        assert!(is_held(&told) && !told.labels().contains_key(names::CLUSTER_LABEL));
        // Neither a resume nor the manual removal of the label starts it here.
        let lifted = json!({ "spec": { "suspend": null }, "metadata": { "labels": { names::ARGO_COMPLETED_LABEL: null } } });
        let workflows = fixture.workflows();
        let patched = workflows
            .patch(
                &workflow.name_any(),
                &PatchParams::default(),
                &Patch::Merge(lifted),
            )
            .await?;
        assert!(is_held(&patched));
    }
    let control = fixture.env.control.kubeconfig();
    let why = argosy(control, &["why", "plain", "-n", &fixture.namespace]).await?;
    let said = why.output.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("is not sent: no policy selects it"), "{said}");
    assert!(said.contains("and is held until a policy selects it"), "{said}");
    let doctor = argosy(control, &["doctor", "-o", "json"]).await?;
    assert!(
        doctor
            .output
            .contains("wait because no BindingPolicy selects them (NoPolicy)"),
        "{doctor:?}"
    );

    let mut policy = objects::policy(&named, &fixture.namespace, &named)?;
    let selectors = json!([{ "matchLabels": { "name": member.cluster } }]);
    policy.spec.cluster_selectors = serde_json::from_value(selectors)?;
    create(&Api::<BindingPolicy>::all(fixture.control.clone()), &policy).await?;
    for name in ["plain", "suspended"] {
        let object = until(&member.workflows(), name, "it is sent", |_| true).await?;
        member.argo().finish(name, "Succeeded").await?;
        until(&fixture.workflows(), name, "it has ended", |workflow| {
            phase(workflow) == "Succeeded"
        })
        .await?;
        fixture.round_trip(&format!("after-{name}"), &member).await?;
        assert_eq!(
            member.workflows().get(name).await?.uid(),
            object.uid(),
            "it was created once"
        );
    }
    Ok(())
}

#[tokio::test]
async fn with_the_label_off_or_local_it_is_handed_back_suspended_and_nothing_has_begun() -> Result<()> {
    let fixture = Fixture::on(TestEnv::guarded().await?, "named-off").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    let workflows = fixture.workflows();
    for (name, label) in [
        ("off", json!(null)),
        ("local", json!(names::KUBESTELLAR_LOCAL_CLUSTER)),
    ] {
        create(&workflows, &unsuspended(name, NAMED)).await?;
        until_it_waits(&fixture, name).await?;
        let unnamed = json!({ "metadata": { "labels": { names::KUBESTELLAR_CLUSTER_LABEL: label } } });
        workflows
            .patch(name, &PatchParams::default(), &Patch::Merge(unnamed))
            .await?;
        until(&workflows, name, "it is handed back", is_handed_back).await?;
    }
    Ok(())
}

#[tokio::test]
async fn while_the_controller_is_down_it_is_created_suspended_or_not_at_all() -> Result<()> {
    let (fixture, member) = guarded("named-down").await?;
    let workflows = fixture.workflows();
    fixture.env.controller.kill()?;
    eventually("the policy argosy-create is in effect", async || {
        Ok(refusal(&try_unsuspended(&workflows, NAMED).await).is_some())
    })
    .await?;
    let refused = try_unsuspended(&workflows, NAMED).await;
    let message = refusal(&refused).unwrap_or_default();
    assert!(
        message.contains("argosy-create") && message.contains("names a cluster"),
        "{refused:?}"
    );
    let local = unsuspended("local", names::KUBESTELLAR_LOCAL_CLUSTER);
    assert!(!is_held(&create(&workflows, &local).await?));
    create(&workflows, &objects::workflow("waiting", NAMED)).await?;
    fixture.env.controller.start_again().await?;
    let told = until_it_waits(&fixture, "waiting").await?;
    assert_eq!(told.spec["suspend"], true);
    fixture.round_trip("sentinel", &member).await
}

#[tokio::test]
async fn release_hands_it_back_suspended_and_nothing_has_begun() -> Result<()> {
    let (fixture, member) = guarded("named-release").await?;
    create(&fixture.workflows(), &unsuspended("waiting", NAMED)).await?;
    until_it_waits(&fixture, "waiting").await?;
    fixture.dispatch("sent", &member).await?;
    fixture.env.controller.terminate()?;
    // As the tests' user, which the policies do not treat as Argosy.
    binaries::release_control(fixture.env.control.kubeconfig())?;
    let waiting = fixture.workflows().get("waiting").await?;
    assert!(is_handed_back(&waiting), "{waiting:?}");
    let sent = fixture.workflows().get("sent").await?;
    assert!(is_held(&sent), "it runs elsewhere");
    assert_eq!(sent.finalizers(), [] as [String; 0]);
    Ok(())
}

#[tokio::test]
async fn what_runs_here_since_before_the_webhook_is_left_as_it_is() -> Result<()> {
    let (fixture, member) = guarded("named-upgrade").await?;
    let workflows = fixture.workflows();
    fixture.env.controller.kill()?;
    // As before the installation of Argosy, or with a version that ignored the label.
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(fixture.control.clone());
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(fixture.control.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(fixture.control.clone());
    let params = DeleteParams::default();
    webhooks.delete("argosy", &params).await?;
    bindings.delete("argosy-create", &params).await?;
    policies.delete("argosy-create", &params).await?;
    eventually("nothing refuses it any more", async || {
        Ok(refusal(&try_unsuspended(&workflows, NAMED).await).is_none())
    })
    .await?;
    for (name, status) in [
        ("new", None),
        ("running", Some(fake_argo::running("running"))),
        ("ended", Some(fake_argo::ended("ended", "Succeeded"))),
    ] {
        let mut workflow = unsuspended(name, NAMED);
        workflow.status = status;
        create(&workflows, &workflow).await?;
    }
    fixture.env.controller.start_again().await?;
    until_held(&fixture, &member).await?;
    let here = fake_argo::edit(&workflows, "running", |workflow| {
        workflow
            .annotations_mut()
            .insert("note".to_owned(), "mine".to_owned());
    })
    .await?;
    fixture.round_trip("sentinel", &member).await?;
    for name in ["new", "running", "ended"] {
        let there = workflows.get(name).await?;
        let is_touched = there.metadata.managed_fields.iter().flatten().any(|entry| {
            let manager = entry.manager.as_deref().unwrap_or_default();
            manager.starts_with("argosy-controller")
        });
        assert!(!is_touched && !is_held(&there), "{there:?}");
    }
    assert_eq!(
        workflows.get("running").await?.resource_version(),
        here.resource_version()
    );
    Ok(())
}

#[tokio::test]
async fn without_a_webhook_it_runs_here_and_an_event_and_why_say_so() -> Result<()> {
    let fixture = Fixture::new("named-without").await?;
    let member = fixture.pull().await?;
    let created = create(&fixture.workflows(), &unsuspended("hello", NAMED)).await?;
    let uid = created.uid().context("it has a UID")?;
    let events: Api<Event> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let is_it = |event: &Event| {
        let regarding = event.regarding.as_ref();
        regarding.is_some_and(|regarding| regarding.uid.as_deref() == Some(&uid))
    };
    let events = watcher(events, watcher::Config::default()).applied_objects();
    let events = events.try_filter(|event| std::future::ready(is_it(event)));
    pin_mut!(events);
    let event = timeout(PATIENCE, events.try_next())
        .await
        .context("waited for the Event")??
        .context("an Event")?;
    assert_eq!(
        (event.type_.as_deref(), event.reason.as_deref()),
        (Some("Warning"), Some("NoPolicy"))
    );
    assert!(
        event
            .note
            .is_some_and(|note| note.contains("it runs on the control cluster"))
    );
    let control = fixture.env.control.kubeconfig();
    let why = argosy(control, &["why", "hello", "-n", &fixture.namespace]).await?;
    assert!(
        why.output
            .starts_with("named-without/hello runs on the control cluster: no policy selects it"),
        "{why:?}"
    );
    fixture.round_trip("sentinel", &member).await?;
    let after = fixture.workflows().get("hello").await?;
    assert_eq!(
        after.resource_version(),
        created.resource_version(),
        "it was touched"
    );
    Ok(())
}

#[tokio::test]
async fn the_answer_of_the_webhook_warns_whoever_creates_it() -> Result<()> {
    let fixture = Fixture::on(TestEnv::guarded().await?, "named-warned").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let path = Workflow::url_path(&(), Some(&fixture.namespace));
    let body = serde_json::to_vec(&unsuspended("probe", NAMED))?;
    let request = Request::new(path).create(&params, body)?;
    let answer = fixture.control.send(request.map(Body::from)).await?;
    let warnings = answer.headers().get_all("warning").iter();
    let warnings: Vec<String> = warnings
        .map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned())
        .collect();
    let told = format!(
        "argosy: no BindingPolicy selects this Workflow ({}={NAMED})",
        names::KUBESTELLAR_CLUSTER_LABEL
    );
    assert!(
        warnings.iter().any(|warning| warning.contains(&told)),
        "{warnings:?}"
    );
    Ok(())
}
