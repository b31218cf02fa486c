//! A user who may write Workflows in one namespace and says on them, in Argosy's own words, that they run elsewhere. With the webhook, while
//! it is down and without one, a Workflow reaches only the clusters that policies select for it, and one that has begun here is not sent.

use std::fmt::Debug;

use anyhow::{Result, ensure};
use argosy_api::{ManifestWork, Workflow, names};
use argosy_tests::lab::{
    Member, Scene, Stage,
    admission::{eventually, is_held, refusal, unsuspended, until_held},
    objects::{create, says, workflow},
    stage::LONG,
    waiting::until,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// A member that a policy selects Workflows for, and one that it selects none of the user's for.
struct Case {
    scene: Scene,
    allowed: Member,
    forbidden: Member,
}

impl Case {
    async fn on(stage: std::sync::Arc<Stage>, name: &str) -> Result<Self> {
        let scene = Scene::on(stage, name).await?;
        let allowed = scene.pull().await?;
        let forbidden = scene.push().await?;
        Ok(Self {
            scene,
            allowed,
            forbidden,
        })
    }

    /// A suspended Workflow of the user's that no policy selects.
    async fn unselected(&self, name: &str) -> Result<Workflow> {
        create(&self.scene.workflows(), &workflow(name, "nobody")).await
    }

    fn claim(&self, uid: &str, more: &Value) -> String {
        let mut claim =
            json!({ "cluster": self.forbidden.cluster, "attempt": 1, "status": true, "guarded": true });
        for (key, value) in more.as_object().into_iter().flatten() {
            claim[key] = value.clone();
        }
        // Its UID at the end, as Argosy writes it.
        let text = claim.to_string();
        format!(r#"{},"uid":"{uid}"}}"#, text.trim_end_matches('}'))
    }

    /// Everything that was written before has had its effect, and nothing was sent to the cluster that no policy selects.
    async fn nothing_got_through(&self, round_trip: &str) -> Result<()> {
        self.scene.round_trip(round_trip, &self.allowed).await?;
        let objects = self.forbidden.workflows().list(&ListParams::default()).await?;
        ensure!(objects.items.is_empty(), "it was created: {objects:?}");
        let works: Api<ManifestWork> = Api::namespaced(self.scene.control.clone(), &self.forbidden.cluster);
        for work in works.list(&ListParams::default()).await? {
            let asks = work.annotations().contains_key(names::WITHDRAW_ANNOTATION);
            let manifests = json!(work.spec.workload.manifests);
            ensure!(asks && manifests[0]["spec"] == json!({}), "it was sent: {work:?}");
        }
        Ok(())
    }
}

/// Marks on a Workflow, in the ways in which they can be written.
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
        let workflows = case.scene.workflows();
        let answer = workflows
            .patch(&probe.name_any(), &params, &Patch::Merge(&marked))
            .await;
        // Where the webhook answers, it takes the mark off.
        let is_left_out = answer
            .as_ref()
            .is_ok_and(|answer| !answer.annotations().contains_key(names::CLAIM_ANNOTATION));
        Ok(is_left_out || refusal(&answer).is_some())
    })
    .await
}

#[tokio::test]
async fn a_claim_that_a_user_writes_is_left_out_by_the_webhook() -> Result<()> {
    let case = Case::on(Stage::guarded().await?, "forged-webhook").await?;
    until_held(&case.scene, &case.allowed).await?;
    until_marks_are_guarded(&case).await?;
    let workflows = case.scene.workflows();
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
    let mut born = workflow("born", "nobody");
    forge_birth(&mut born, &case.claim("", &json!({ "started": true })));
    let born = create(&workflows, &born).await?;
    assert!(
        !born.annotations().contains_key(names::CLAIM_ANNOTATION),
        "{born:?}"
    );
    case.nothing_got_through("after").await
}

/// Gives a Workflow that is about to be created the looks of one that the webhook has held and claimed.
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
    let case = Case::on(Stage::own_guarded("forged-down", LONG).await?, "forged-down").await?;
    until_held(&case.scene, &case.allowed).await?;
    until_marks_are_guarded(&case).await?;
    let workflows = case.scene.workflows();
    let victim = case.unselected("victim").await?;
    case.scene.stage.controller.kill()?;

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
    // Without what the webhook writes beside it, a claim of a new object could be given that later, when the object has run here.
    let mut unheld = workflow("unheld", "nobody");
    let held = r#"{"cluster":"","attempt":0,"held":true,"uid":""}"#;
    unheld
        .annotations_mut()
        .insert(names::CLAIM_ANNOTATION.to_owned(), held.to_owned());
    is_refused(&workflows.create(&PostParams::default(), &unheld).await);

    let forged = [
        ("started", json!({ "started": true })),
        ("retry", json!({ "retry": true })),
        ("run", json!({ "runOf": "x" })),
        ("later", json!({ "attempt": 9, "lost": "other" })),
    ];
    for (name, more) in &forged {
        let mut born = workflow(name, "nobody");
        forge_birth(&mut born, &case.claim("", more));
        let born = create(&workflows, &born).await?;
        assert!(is_held(&born));
        // What holds it from its birth stays, or it could run here and be sent later.
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
    // A copy of another object bears a claim with the UID of that one, which means nothing.
    let mut copy = workflow("copy", "nobody");
    let copied = case.claim("of-another", &json!({ "started": true }));
    copy.annotations_mut()
        .insert(names::CLAIM_ANNOTATION.to_owned(), copied);
    create(&workflows, &copy).await?;

    case.scene.stage.controller.start_again().await?;
    for (name, _) in &forged {
        until(&workflows, name, "it is handed back", |workflow| {
            !workflow.labels().contains_key(names::CLUSTER_LABEL) && !is_held(workflow)
        })
        .await?;
    }
    case.nothing_got_through("after").await
}

#[tokio::test]
async fn without_a_webhook_nobody_else_writes_a_claim_and_what_has_begun_here_is_not_sent() -> Result<()> {
    let case = Case::on(Stage::own("forged-without").await?, "forged-without").await?;
    until_marks_are_guarded(&case).await?;
    let workflows = case.scene.workflows();
    let victim = case.unselected("victim").await?;
    let uid = victim.uid().unwrap_or_default();
    let marks = json!({ names::CLAIM_ANNOTATION: case.claim(&uid, &json!({ "started": true })) });
    for answer in forge(&workflows, "victim", &marks).await {
        is_refused(&answer);
    }

    // It runs here, as Argo writes it; then its user would have it look as if it had not.
    let mut begun = unsuspended("begun", "nobody");
    begun.status = Some(json!({ "phase": "Running", "startedAt": "2026-11-23T10:00:00Z",
        "nodes": { "begun": { "id": "begun", "name": "begun", "displayName": "begun", "type": "Pod", "phase": "Running" } } }));
    create(&workflows, &begun).await?;
    case.scene.round_trip("between", &case.allowed).await?;
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
    case.nothing_got_through("after").await
}
