//! The pods whose logs an agent serves to the controller: those of the runs that it has created.
//!
//! The controller names the Workflow of the WDS that a pod belongs to. The pod must be owned by the
//! run of that Workflow here, so a controller that was taken over can read no other pod. Not here:
//! the requests and their answers (the shell).

use argosy_api::{names, workflow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::workflows::is_born_here;

/// Name and UID of the Workflow that owns a pod. Argo makes the Workflow the controller of each pod.
pub fn owner(pod: &ObjectMeta) -> Option<(&str, &str)> {
    let group = format!("{}/", workflow::GROUP);
    let is_workflow = |owner: &&OwnerReference| {
        owner.controller == Some(true)
            && owner.kind == workflow::KIND
            && owner.api_version.starts_with(&group)
    };
    let owner = pod.owner_references.iter().flatten().find(is_workflow)?;
    Some((owner.name.as_str(), owner.uid.as_str()))
}

/// True if `pod` is owned by `run`, which the agent of `cluster` has created for the Workflow of the
/// WDS with the UID `origin`.
pub fn belongs(pod: &ObjectMeta, run: &ObjectMeta, origin: &str, cluster: &str) -> bool {
    is_owned(pod, run) && is_run(run, origin, cluster)
}

/// True if `pod` is owned by the Workflow `run`.
pub(super) fn is_owned(pod: &ObjectMeta, run: &ObjectMeta) -> bool {
    owner(pod).is_some_and(|(_, uid)| run.uid.as_deref() == Some(uid))
}

/// True if the agent of `cluster` has created `run` for the Workflow of the WDS with the UID
/// `origin`.
pub fn is_run(run: &ObjectMeta, origin: &str, cluster: &str) -> bool {
    let label = |key: &str| run.labels.as_ref().and_then(|labels| labels.get(key));
    label(names::ORIGIN_UID_LABEL).is_some_and(|uid| uid == origin)
        && label(names::CLUSTER_LABEL).is_some_and(|name| name == cluster)
        && is_born_here(run)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::read;

    fn pod(owner: &Value) -> ObjectMeta {
        read(json!({ "name": "w-a-1", "namespace": "argo", "ownerReferences": [owner] }))
    }

    fn by(kind: &str, api: &str, uid: &str, controls: bool) -> ObjectMeta {
        pod(&json!({ "apiVersion": api, "kind": kind, "name": "w", "uid": uid, "controller": controls }))
    }

    fn run(origin: &str, cluster: &str, born_as: &str) -> ObjectMeta {
        read(json!({
            "name": "w", "namespace": "argo", "uid": "r",
            "labels": { names::ORIGIN_UID_LABEL: origin, names::CLUSTER_LABEL: cluster },
            "annotations": { names::BORN_AS_ANNOTATION: born_as },
        }))
    }

    #[test]
    fn a_pod_belongs_to_the_run_that_the_agent_has_created_and_that_owns_it() {
        let argo = "argoproj.io/v1alpha1";
        let own = || run("o", "c", "argo/w");
        for (pod, run, expected) in [
            (by("Workflow", argo, "r", true), own(), true),
            // Of another Workflow, or of something else.
            (by("Workflow", argo, "s", true), own(), false),
            (by("Workflow", argo, "r", false), own(), false),
            (by("Job", "batch/v1", "r", true), own(), false),
            (by("Workflow", "example.org/v1", "r", true), own(), false),
            (ObjectMeta::default(), own(), false),
            // Of another origin or cluster, or a copy of the run.
            (by("Workflow", argo, "r", true), run("p", "c", "argo/w"), false),
            (by("Workflow", argo, "r", true), run("o", "d", "argo/w"), false),
            (by("Workflow", argo, "r", true), run("o", "c", "argo/v"), false),
            (by("Workflow", argo, "r", true), ObjectMeta::default(), false),
        ] {
            assert_eq!(belongs(&pod, &run, "o", "c"), expected, "{pod:?} {run:?}");
        }
    }
}
