//! A user with write access to Workflows in one namespace forges Argosy's marks, which say that the
//! Workflows run elsewhere. With the webhook, while it is down, and without one, a Workflow reaches
//! only the clusters that policies select for it, and a Workflow that has begun on the control
//! cluster is not sent.

use std::fmt::Debug;

use anyhow::{Context as _, Result, ensure};
use argosy_api::{ManifestWork, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{eventually, is_held, refusal, unsuspended, until_held},
    env::LONG,
    objects::{create, says, workflow},
    waiting::{until, until_gone},
};
use kube::{
    Api, Resource as _, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// No policy selects a Workflow with this value of the cluster label, and nothing holds it.
const LOCAL: &str = names::KUBESTELLAR_LOCAL_CLUSTER;

/// A member for which a policy selects Workflows, and one for which it selects none of the user's.
struct Case {
    fixture: Fixture,
    allowed: Member,
    forbidden: Member,
}

impl Case {
    async fn on(env: std::sync::Arc<TestEnv>, name: &str) -> Result<Self> {
        let fixture = Fixture::on(env, name).await?;
        let allowed = fixture.pull().await?;
        let forbidden = fixture.push().await?;
        Ok(Self {
            fixture,
            allowed,
            forbidden,
        })
    }

    /// A suspended Workflow of the user that no policy selects.
    async fn unselected(&self, name: &str) -> Result<Workflow> {
        create(&self.fixture.workflows(), &workflow(name, LOCAL)).await
    }

    fn claim(&self, uid: &str, more: &Value) -> String {
        let mut claim =
            json!({ "cluster": self.forbidden.cluster, "attempt": 1, "status": true, "guarded": true });
        for (key, value) in more.as_object().into_iter().flatten() {
            claim[key] = value.clone();
        }
        // With the UID last, as Argosy writes it.
        let text = claim.to_string();
        format!(r#"{},"uid":"{uid}"}}"#, text.trim_end_matches('}'))
    }

    /// Waits until earlier writes have taken effect, and checks that nothing was sent to the
    /// cluster that no policy selects.
    async fn nothing_got_through(&self, round_trip: &str) -> Result<()> {
        self.fixture.round_trip(round_trip, &self.allowed).await?;
        let objects = self.forbidden.workflows().list(&ListParams::default()).await?;
        ensure!(objects.items.is_empty(), "it was created: {objects:?}");
        let works: Api<ManifestWork> = Api::namespaced(self.fixture.control.clone(), &self.forbidden.cluster);
        for work in works.list(&ListParams::default()).await? {
            let asks = work.annotations().contains_key(names::WITHDRAW_ANNOTATION);
            let manifests = json!(work.spec.workload.manifests);
            ensure!(asks && manifests[0]["spec"] == json!({}), "it was sent: {work:?}");
        }
        Ok(())
    }
}

/// Writes marks to a Workflow in each possible way.
async fn forge(workflows: &Api<Workflow>, name: &str, annotations: &Value) -> [kube::Result<Workflow>; 3] {
    let merge = json!({ "metadata": { "annotations": annotations } });
    let applied = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": { "name": name, "annotations": annotations },
    });
    let merged = workflows
        .patch(name, &PatchParams::default(), &Patch::Merge(&merge))
        .await;
    let applied = workflows
        .patch(
            name,
            &PatchParams::apply("argosy-controller").force(),
            &Patch::Apply(&applied),
        )
        .await;
    let replaced = match workflows.get(name).await {
        Ok(mut there) => {
            for (key, value) in annotations.as_object().into_iter().flatten() {
                let value = value.as_str().unwrap_or_default().to_owned();
                there.annotations_mut().insert(key.clone(), value);
            }
            workflows.replace(name, &PostParams::default(), &there).await
        }
        Err(error) => Err(error),
    };
    [merged, applied, replaced]
}

#[track_caller]
fn is_refused<T: Debug>(answer: &kube::Result<T>) {
    let message = refusal(answer).unwrap_or_default();
    assert!(message.contains("argosy-marks"), "{answer:?}");
}

/// Waits until the policy argosy-marks is in effect.
async fn until_marks_are_guarded(case: &Case) -> Result<()> {
    let probe = case.unselected("marks-probe").await?;
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let uid = probe.uid().unwrap_or_default();
    let marked =
        json!({ "metadata": { "annotations": { names::CLAIM_ANNOTATION: case.claim(&uid, &json!({})) } } });
    eventually("the policy argosy-marks is in effect", async || {
        let workflows = case.fixture.workflows();
        let answer = workflows
            .patch(&probe.name_any(), &params, &Patch::Merge(&marked))
            .await;
        // If the webhook answers, it removes the mark.
        let is_left_out = answer
            .as_ref()
            .is_ok_and(|answer| !answer.annotations().contains_key(names::CLAIM_ANNOTATION));
        Ok(is_left_out || refusal(&answer).is_some())
    })
    .await
}

#[tokio::test]
async fn a_claim_that_a_user_writes_is_left_out_by_the_webhook() -> Result<()> {
    let case = Case::on(TestEnv::guarded().await?, "forged-webhook").await?;
    until_held(&case.fixture, &case.allowed).await?;
    until_marks_are_guarded(&case).await?;
    let workflows = case.fixture.workflows();
    let victim = case.unselected("victim").await?;
    let uid = victim.uid().unwrap_or_default();
    for more in [
        json!({ "started": true }),
        json!({ "retry": true }),
        json!({ "runOf": "x" }),
    ] {
        for answer in forge(
            &workflows,
            "victim",
            &json!({ names::CLAIM_ANNOTATION: case.claim(&uid, &more) }),
        )
        .await
        {
            assert!(
                !answer?.annotations().contains_key(names::CLAIM_ANNOTATION),
                "{more}"
            );
        }
    }
    let mut born = workflow("born", LOCAL);
    forge_birth(&mut born, &case.claim("", &json!({ "started": true })));
    let born = create(&workflows, &born).await?;
    assert!(
        !born.annotations().contains_key(names::CLAIM_ANNOTATION),
        "{born:?}"
    );
    // A copy of a dispatched run that no policy selects runs on the control cluster and begins from
    // the start.
    let mut copy = unsuspended("memoized", LOCAL);
    let labels = copy.labels_mut();
    labels.insert(names::CLUSTER_LABEL.to_owned(), case.forbidden.cluster.clone());
    copy.status = Some(json!({ "phase": "", "storedTemplates": { "t": { "name": "t" } } }));
    let copy = create(&workflows, &copy).await?;
    assert_eq!(copy.status, Some(json!({ "phase": "" })));
    assert!(!copy.labels().contains_key(names::CLUSTER_LABEL), "{copy:?}");
    case.nothing_got_through("after").await
}

/// Makes a new Workflow look as if the webhook had held and claimed it.
fn forge_birth(workflow: &mut Workflow, claim: &str) {
    workflow
        .labels_mut()
        .insert(names::ARGO_COMPLETED_LABEL.to_owned(), "true".to_owned());
    workflow
        .annotations_mut()
        .insert(names::CLAIM_ANNOTATION.to_owned(), claim.to_owned());
    workflow
        .finalizers_mut()
        .push(names::CONTROLLER_FINALIZER.to_owned());
}

#[tokio::test]
async fn while_the_webhook_is_down_a_claim_that_a_user_writes_is_refused_or_corrected() -> Result<()> {
    let case = Case::on(TestEnv::own_guarded("forged-down", LONG).await?, "forged-down").await?;
    until_held(&case.fixture, &case.allowed).await?;
    until_marks_are_guarded(&case).await?;
    let workflows = case.fixture.workflows();
    let victim = case.unselected("victim").await?;
    case.fixture.env.controller.kill()?;

    let uid = victim.uid().unwrap_or_default();
    for mark in [
        names::CLAIM_ANNOTATION,
        names::RUNS_ON_ANNOTATION,
        names::PASSED_ON_ANNOTATION,
    ] {
        let marks = json!({ mark: case.claim(&uid, &json!({ "started": true })) });
        for answer in forge(&workflows, "victim", &marks).await {
            is_refused(&answer);
        }
    }
    // A claim on a new object without the webhook's other marks is refused: it could be completed
    // later, after the object has run here.
    let mut unheld = workflow("unheld", LOCAL);
    let held = r#"{"cluster":"","attempt":0,"held":true,"uid":""}"#;
    unheld
        .annotations_mut()
        .insert(names::CLAIM_ANNOTATION.to_owned(), held.to_owned());
    is_refused(&workflows.create(&PostParams::default(), &unheld).await);

    // A run of an existing Workflow, for a cluster that no policy selects for it.
    let run = case.claim("", &json!({ "runOf": uid }));
    for claim in [run.clone(), run.replace("runOf", r"run\u004ff")] {
        let mut born = workflow("run", LOCAL);
        forge_birth(&mut born, &claim);
        born.owner_references_mut()
            .push(victim.owner_ref(&()).context("it has a UID")?);
        is_refused(&workflows.create(&PostParams::default(), &born).await);
    }

    copies_of_runs_elsewhere_begin_nothing(&case).await?;

    let forged = [
        ("started", json!({ "started": true })),
        ("retry", json!({ "retry": true })),
        ("later", json!({ "attempt": 9, "lost": "other" })),
        // Namespaces of the ITS that are not mailboxes, and a reserved word.
        ("system", json!({ "cluster": "kube-system" })),
        ("team", json!({ "cluster": case.fixture.namespace })),
        ("all", json!({ "cluster": names::EVERY_CLUSTER })),
    ];
    for (name, more) in &forged {
        let mut born = workflow(name, LOCAL);
        forge_birth(&mut born, &case.claim("", more));
        let born = create(&workflows, &born).await?;
        assert!(is_held(&born));
        // The marks that hold it from birth stay. Without them it could run here and be sent later.
        let lifts = [
            json!({ "metadata": { "labels": { names::ARGO_COMPLETED_LABEL: null } } }),
            json!({ "metadata": { "finalizers": null } }),
            json!({ "metadata": { "annotations": { names::CLAIM_ANNOTATION: null } } }),
        ];
        for lift in &lifts {
            is_refused(
                &workflows
                    .patch(name, &PatchParams::default(), &Patch::Merge(lift))
                    .await,
            );
        }
    }
    // A copy of another object has a claim with that object's UID, which is ignored.
    let mut copy = workflow("copy", LOCAL);
    let copied = case.claim("of-another", &json!({ "started": true }));
    copy.annotations_mut()
        .insert(names::CLAIM_ANNOTATION.to_owned(), copied);
    create(&workflows, &copy).await?;

    case.fixture.env.controller.start_again().await?;
    for (name, _) in &forged {
        until(&workflows, name, "it is handed back", |workflow| {
            !workflow.labels().contains_key(names::CLUSTER_LABEL) && !is_held(workflow)
        })
        .await?;
    }
    for namespace in ["kube-system", &case.fixture.namespace] {
        let works: Api<ManifestWork> = Api::namespaced(case.fixture.control.clone(), namespace);
        let works = works.list(&ListParams::default()).await?;
        ensure!(works.items.is_empty(), "in {namespace}: {works:?}");
    }
    case.nothing_got_through("after").await?;
    for (name, _) in &forged {
        workflows.delete(name, &DeleteParams::default()).await?;
        until_gone(&workflows, name, "nobody holds it any more").await?;
    }
    Ok(())
}

/// A copy of a dispatched run, as `argo resubmit --memoized` creates it. No webhook has removed the
/// other cluster's report from it.
async fn copies_of_runs_elsewhere_begin_nothing(case: &Case) -> Result<()> {
    let workflows = case.fixture.workflows();
    let copy = |name: &str, status: &Value| {
        let mut copy = unsuspended(name, LOCAL);
        let labels = copy.labels_mut();
        labels.insert(names::CLUSTER_LABEL.to_owned(), case.forbidden.cluster.clone());
        copy.status = Some(status.clone());
        copy
    };
    for status in [
        json!({ "nodes": { "a": { "type": "Pod" } } }),
        json!({ "compressedNodes": "H4sI" }),
        json!({ "phase": "", "storedTemplates": { "t": { "name": "t" } } }),
        json!({ "phase": "Running", "storedWorkflowTemplateSpec": { "templates": [] } }),
    ] {
        is_refused(
            &workflows
                .create(&PostParams::default(), &copy("memoized", &status))
                .await,
        );
    }
    for (name, status) in [
        (
            "anew",
            json!({ "conditions": [{ "type": "Completed", "status": "False" }] }),
        ),
        (
            "archived",
            json!({ "phase": "Failed", "nodes": { "a": { "type": "Pod" } } }),
        ),
    ] {
        create(&workflows, &copy(name, &status)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn without_a_webhook_nobody_else_writes_a_claim_and_what_has_begun_here_is_not_sent() -> Result<()> {
    let case = Case::on(TestEnv::own("forged-without").await?, "forged-without").await?;
    until_marks_are_guarded(&case).await?;
    let workflows = case.fixture.workflows();
    let victim = case.unselected("victim").await?;
    let uid = victim.uid().unwrap_or_default();
    let marks = json!({ names::CLAIM_ANNOTATION: case.claim(&uid, &json!({ "started": true })) });
    for answer in forge(&workflows, "victim", &marks).await {
        is_refused(&answer);
    }

    // It runs here, as Argo writes it. Then its user removes the traces of the run.
    let mut begun = unsuspended("begun", LOCAL);
    begun.status = Some(json!({ "phase": "Running", "startedAt": "2026-11-23T10:00:00Z",
        "nodes": { "begun": { "id": "begun", "name": "begun", "displayName": "begun", "type": "Pod", "phase": "Running" } } }));
    create(&workflows, &begun).await?;
    case.fixture.round_trip("between", &case.allowed).await?;
    let held = json!({ "metadata": {
        "labels": { names::ARGO_COMPLETED_LABEL: "true" }, "finalizers": [names::CONTROLLER_FINALIZER],
        "annotations": { names::CLAIM_ANNOTATION: r#"{"cluster":"","attempt":0,"held":true,"uid":""}"# },
    } });
    let params = PatchParams::default();
    is_refused(&workflows.patch("begun", &params, &Patch::Merge(held)).await);
    let wiped = json!({ "spec": { "suspend": true }, "status": null,
        "metadata": { "labels": { names::KUBESTELLAR_CLUSTER_LABEL: case.allowed.cluster } } });
    workflows.patch("begun", &params, &Patch::Merge(wiped)).await?;
    until(&workflows, "begun", "it is not sent", |workflow| {
        says(workflow, "NotDispatchable", "True", "AlreadyStarted")
    })
    .await?;
    // A controller that has not seen it run does not send it either, although its user has removed
    // the status meanwhile.
    case.fixture.env.controller.kill()?;
    let wiped = json!({ "status": null });
    workflows.patch("begun", &params, &Patch::Merge(wiped)).await?;
    case.fixture.env.controller.start_again().await?;
    until(&workflows, "begun", "it is not sent either", |workflow| {
        says(workflow, "NotDispatchable", "True", "NotHeld")
    })
    .await?;
    case.nothing_got_through("after").await
}

#[tokio::test]
async fn what_nothing_held_when_it_was_seen_is_not_sent_although_its_user_suspends_it_then() -> Result<()> {
    let fixture = Fixture::new("forged-free").await?;
    let member = fixture.pull().await?;
    let workflows = fixture.workflows();
    create(&workflows, &unsuspended("free", &member.cluster)).await?;
    let is_told = |workflow: &Workflow| says(workflow, "NotDispatchable", "True", "NotHeld");
    until(&workflows, "free", "it is told", is_told).await?;
    let suspended = json!({ "spec": { "suspend": true }, "status": null });
    workflows
        .patch("free", &PatchParams::default(), &Patch::Merge(suspended))
        .await?;
    until(&workflows, "free", "it is told again", is_told).await?;
    fixture.round_trip("sentinel", &member).await?;
    assert!(member.workflows().get_opt("free").await?.is_none());
    Ok(())
}
