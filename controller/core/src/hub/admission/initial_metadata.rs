//! The metadata and the status that a Workflow gets when it is created with a hold, in addition to
//! the fields that its user wrote.
//!
//! The webhook writes them into the request that creates the object. The controller writes them
//! into the runs that it creates itself. Not here: the metadata of a held Workflow later on
//! (`model/hold`, `hub::workflows::mirror_patch`).

use std::{collections::BTreeMap, sync::Arc};

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use crate::{
    ClusterName,
    model::{
        claim::{Claim, Needs},
        hold::{
            GITOPS_ANNOTATIONS, PENDING, dispatched, hold, initial_status, keeps_suspend, unreported_status,
        },
    },
    policy::Placement,
};

/// Annotations of Argosy that mean nothing on another object.
pub(crate) const NEVER_COPIED: [&str; 5] = [
    names::CLAIM_ANNOTATION,
    names::SEEN_UNHELD_ANNOTATION,
    names::VERBS_ANNOTATION,
    names::RUNS_ON_ANNOTATION,
    names::PASSED_ON_ANNOTATION,
];

/// Metadata and status of an object that is created with a hold.
pub(crate) struct InitialMetadata {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) status: Value,
    /// The claim removes `spec.suspend`, which was the ticket that kept the Workflow from running
    /// here.
    pub(crate) takes_ticket: bool,
}

/// The first claim of the object `name`. The name is empty if the API server has yet to generate
/// it.
/// `needs` are the resources that the run asks for, see [`Claim::needs`].
pub(crate) fn first_claim(
    name: &str,
    cluster: &ClusterName,
    placement: &Placement,
    needs: Option<Arc<Needs>>,
) -> Claim {
    Claim {
        needs,
        wants_status: placement.wants_status,
        is_guarded: true,
        born_as: Some(name.to_owned()),
        lost_after: placement.lost_after,
        ..Claim::new(cluster, 1)
    }
}

/// The cluster that reported the status of a copied object, according to the marks on the copy.
pub(crate) fn reporter(metadata: &ObjectMeta) -> Option<ClusterName> {
    let labels = metadata.labels.as_ref();
    let former = labels.and_then(|labels| labels.get(names::CLUSTER_LABEL));
    let former = former.map(|former| former.as_str().into());
    former.or_else(|| Claim::copied_reporter(metadata))
}

/// An object with this metadata and status, held, and claimed if there is a claim. A claim that was
/// copied from another object is replaced.
///
/// A copy made by `argo resubmit` has the label of the cluster that the original was claimed for,
/// and that reported the status. Argo takes a status that an object brings along to a cluster for
/// its own, so the copied status is sent to no other cluster.
pub(crate) fn born(metadata: &ObjectMeta, status: Option<&Value>, claim: Option<&Claim>) -> InitialMetadata {
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.remove(names::CLUSTER_LABEL);
    let reporter = reporter(metadata);
    let is_elsewhere = claim.is_some_and(|claim| reporter.as_ref().is_some_and(|by| *by != claim.cluster));
    let initial = if is_elsewhere {
        Map::new()
    } else {
        initial_status(status)
    };
    let reporter = reporter.filter(|_| !initial.is_empty());
    labels.remove(names::ARGO_ARCHIVING_LABEL);
    hold(&mut labels, claim.map(|claim| &claim.cluster), PENDING);
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.remove(names::ARGO_LAST_SEEN_ANNOTATION);
    annotations.retain(|name, _| !NEVER_COPIED.contains(&name.as_str()));
    if labels.contains_key(names::ARGO_RESUBMITTED_LABEL) {
        // The original was kept as declared by a tool such as Helm; no tool keeps the copy.
        annotations.retain(|name, _| !GITOPS_ANNOTATIONS.contains(&name.as_str()));
    }
    let annotation = match claim {
        None => Claim::held_annotation(reporter.as_ref()),
        Some(claim) => Claim {
            reported_by: reporter,
            ..claim.clone()
        }
        .to_annotation(""),
    };
    annotations.insert(names::CLAIM_ANNOTATION.to_owned(), annotation);
    let kept = ObjectMeta {
        annotations: Some(annotations.clone()),
        ..metadata.clone()
    };
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    finalizers
        .retain(|name| name != names::ARGO_ARTIFACT_GC_FINALIZER && name != names::CONTROLLER_FINALIZER);
    finalizers.push(names::CONTROLLER_FINALIZER.to_owned());
    let conditions: Vec<_> = claim.map(dispatched).into_iter().collect();
    InitialMetadata {
        takes_ticket: claim.is_some() && !keeps_suspend(&kept),
        status: unreported_status(&initial, &conditions),
        labels,
        annotations,
        finalizers,
    }
}
