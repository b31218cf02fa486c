//! The gate in front of the WDS for every writer except Argosy: the webhook, and the admission
//! policies that the API server evaluates by itself, as the shell registers them.
//!
//! Without a guard, writes are checked only by the policy that protects Argosy's marks.

use argosy_api::{Workflow, names, workflow};
use argosy_core::{Failure, hub::admission::Request};
use serde_json::Value;

use crate::{
    api_server::{Kind, apply, text},
    ledger::{has_finalizer, is_claimed, noted, phase},
    servers::{Servers, annotation, label},
};

/// The writer of a Workflow of the WDS.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    User,
    LocalArgo,
}

fn read(object: &Value) -> Workflow {
    serde_json::from_value(object.clone()).expect("an object of the model decodes")
}

fn refused(why: &str) -> Failure {
    Failure::Refused(why.to_owned())
}

impl Servers {
    pub(crate) fn create_workflow(&mut self, object: Value) -> Result<Value, Failure> {
        if !self.is_guarded {
            marks(None, &object)?;
            return self.wds.create(Kind::Workflow, object);
        }
        let patch = self.review(None, &object);
        let is_selected = patch.iter().any(|one| one["path"] == "/status");
        let mended = self.mend(object, &patch);
        let is_held = label(&mended, names::ARGO_COMPLETED_LABEL) == "true";
        let is_over = workflow::is_final(phase(&mended));
        if is_selected && mended["spec"]["suspend"] != true && !is_held && !is_over {
            return Err(refused("argosy-create"));
        }
        marks(None, &mended)?;
        self.wds.create(Kind::Workflow, mended)
    }

    /// Replaces `before`, the current version, by `after`.
    pub(crate) fn update_workflow(
        &mut self,
        writer: Writer,
        before: &Value,
        after: Value,
    ) -> Result<Value, Failure> {
        if !self.is_guarded {
            marks(Some(before), &after)?;
            return self.wds.update(Kind::Workflow, after);
        }
        let concerns =
            |object: &Value| is_claimed(object) || !annotation(object, names::CLAIM_ANNOTATION).is_empty();
        let mended = if concerns(before) || concerns(&after) {
            let patch = self.review(Some(before), &after);
            self.mend(after, &patch)
        } else {
            after
        };
        if is_guarded_by_policy(before) {
            hold(writer, before, Some(&mended))?;
        }
        marks(Some(before), &mended)?;
        let written = self.wds.update(Kind::Workflow, mended)?;
        if writer == Writer::User {
            self.ledger.note_verbs(before, &written);
        }
        Ok(written)
    }

    pub(crate) fn delete_workflow(&mut self, writer: Writer, object: &Value) -> Result<(), Failure> {
        if self.is_guarded && is_guarded_by_policy(object) {
            hold(writer, object, None)?;
        }
        let name = text(object, "/metadata/name");
        self.wds.delete(Kind::Workflow, "argo", name, None).map(drop)
    }

    fn review(&self, old: Option<&Value>, new: &Value) -> Vec<Value> {
        let request = Request {
            namespace: text(new, "/metadata/namespace").to_owned(),
            name: text(new, "/metadata/name").to_owned(),
            old: old.map(read),
            new: read(new),
            is_edited: false,
        };
        self.admission.review(&request).patch
    }

    fn mend(&self, mut object: Value, patch: &[Value]) -> Value {
        if !self.is_webhook_down {
            for operation in patch {
                apply(&mut object, operation).unwrap_or_else(|why| panic!("{operation}: {why}: {object:#}"));
            }
        }
        object
    }
}

/// The validations of the policy `argosy-marks`.
fn marks(old: Option<&Value>, new: &Value) -> Result<(), Failure> {
    let claim = |object: &Value| annotation(object, names::CLAIM_ANNOTATION).to_owned();
    let is_of_another = |object: &Value| {
        let uid = noted(object, names::CLAIM_ANNOTATION)["uid"].clone();
        uid.as_str().is_some_and(|uid| !uid.is_empty())
    };
    let is_held = |object: &Value| {
        label(object, names::ARGO_COMPLETED_LABEL) == "true"
            && has_finalizer(object, names::CONTROLLER_FINALIZER)
    };
    let Some(old) = old else {
        let is_believed = !claim(new).is_empty() && !is_of_another(new);
        return if is_believed && !is_held(new) {
            Err(refused("a claim without a hold"))
        } else {
            Ok(())
        };
    };
    for mark in [
        names::CLAIM_ANNOTATION,
        names::RUNS_ON_ANNOTATION,
        names::PASSED_ON_ANNOTATION,
    ] {
        let (before, after) = (annotation(old, mark), annotation(new, mark));
        if !after.is_empty() && after != before {
            return Err(refused("a mark of Argosy's"));
        }
    }
    let is_born = !claim(old).is_empty() && !is_of_another(old) && is_held(old);
    if is_born && (claim(new).is_empty() || !is_held(new)) {
        return Err(refused("lifts what holds it from its birth"));
    }
    Ok(())
}

/// The match conditions of the policy `argosy-hold`.
fn is_guarded_by_policy(old: &Value) -> bool {
    let is_named = annotation(old, names::CLAIM_ANNOTATION).contains(text(old, "/metadata/uid"));
    is_claimed(old) && (is_named || has_finalizer(old, names::CONTROLLER_FINALIZER))
}

/// The validations of the policy `argosy-hold`.
fn hold(writer: Writer, old: &Value, new: Option<&Value>) -> Result<(), Failure> {
    if writer == Writer::LocalArgo && !workflow::is_final(phase(old)) {
        return Err(refused("the local workflow-controller, before the end"));
    }
    let Some(new) = new else { return Ok(()) };
    if label(old, names::ARGO_COMPLETED_LABEL) == "true" && label(new, names::ARGO_COMPLETED_LABEL) != "true"
    {
        return Err(refused("lifts the hold"));
    }
    let stays =
        |of: fn(&'static str, &Value) -> String, key| of(key, old).is_empty() || of(key, old) == of(key, new);
    let by_label = |key: &'static str, object: &Value| label(object, key).to_owned();
    let by_annotation = |key: &'static str, object: &Value| annotation(object, key).to_owned();
    if !stays(by_label, names::CLUSTER_LABEL) || !stays(by_annotation, names::CLAIM_ANNOTATION) {
        return Err(refused("changes the claim"));
    }
    let is_kept = |object: &Value| has_finalizer(object, names::CONTROLLER_FINALIZER);
    if is_kept(old) && !is_kept(new) {
        return Err(refused("takes the finalizer off"));
    }
    Ok(())
}
