//! The status that is written back to an object of the WDS: that of its only cluster or an
//! aggregate of all, and the label that marks it as one or the other.
//!
//! The rules are KubeStellar's. Only policies that ask for a status count, and only the clusters
//! that these policies match.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argosy_api::names;
use serde_json::{Value, json};

use super::{
    DownsyncAction, ObjectIndex, ObjectView, Place, PolicyView,
    object::{Presence, digest_of_status},
};
use crate::{
    ClusterName, OriginUid, hub::objects::status_aggregate::aggregate, index::fingerprint::Fingerprint,
    model::json_patch::JsonPatch, policy::Modulation,
};

/// The status that the object is to have.
#[derive(Debug, PartialEq)]
enum Shown {
    /// The status of one cluster, as reported.
    Single(Arc<Value>),
    /// An aggregate of the statuses of several clusters.
    Aggregate(Value),
    /// No status from Argosy.
    Nothing,
    /// Unchanged, because the cluster has the object but the object has no status yet.
    AsItIs,
}

/// Maximum number of objects that are named as examples of a misused singleton status.
const EXAMPLES: usize = 4;

impl ObjectIndex {
    pub(super) fn decide_object(&self, origin: &OriginUid) -> Option<DownsyncAction> {
        let object = self.objects.get(origin)?;
        let place = || place(origin, object);
        let is_wanted = if object.kind.is_run() {
            self.is_unread_run(origin)
        } else {
            !object.selection.is_empty() || self.is_used(object)
        };
        if object.presence == Presence::Missing {
            return None;
        }
        let is_unread = object.presence == Presence::Leaving;
        let is_readable = object.content.is_none() && object.decode_error.is_none();
        if (is_readable && is_wanted) || is_unread {
            return Some(DownsyncAction::Read(place()));
        }
        // Of a Workflow, its CombinedStatuses read what they need.
        if object.kind.is_run() {
            return None;
        }
        if let Some(read) = self.read_report(origin, object) {
            return Some(read);
        }
        if !object.kind.takes_status() {
            return None;
        }
        let (patch, is_status) = self.show(origin, object)?;
        Some(DownsyncAction::PatchObject {
            place: place(),
            patch,
            is_status,
        })
    }

    /// Reads a report on a selected object of which only the address is kept.
    pub(super) fn read_report(&self, origin: &OriginUid, object: &ObjectView) -> Option<DownsyncAction> {
        let reports = self.reports.get(origin).filter(|_| !object.selection.is_empty());
        let (cluster, report) = reports?.iter().find(|(_, report)| report.is_shed)?;
        Some(DownsyncAction::ReadReport {
            cluster: cluster.clone(),
            origin: origin.clone(),
            is_of_run: report.is_of_run,
            version: report.resource_version.clone(),
        })
    }

    /// The next patch that brings the object's label and status to the wanted state. The flag is
    /// true if it is a patch of the status subresource.
    fn show(&self, origin: &OriginUid, object: &ObjectView) -> Option<(JsonPatch, bool)> {
        let (label, status) = match self.shown(origin, object) {
            Shown::AsItIs => return None,
            Shown::Single(status) => (Some(names::SINGLETON_STATUS_LABEL), Some(status)),
            Shown::Aggregate(status) => (Some(names::MULTI_STATUS_LABEL), Some(Arc::new(status))),
            // A status that Argosy did not write is not removed.
            Shown::Nothing if !is_marked(object) => return None,
            Shown::Nothing => (None, None),
        };
        let guard = JsonPatch::guarded(origin.as_str(), &object.resource_version);
        let with_labels = |patch: JsonPatch| {
            let labels = marked(object, label);
            if object.labels == labels {
                patch
            } else {
                patch.set("/metadata/labels", json!(labels))
            }
        };
        let wanted = digest_of_status(status.as_deref());
        let is_made_so = object
            .wrote
            .is_some_and(|(asked, made)| (Some(asked), made) == (wanted, object.status));
        let is_written = object.status == wanted || is_made_so;
        let with_status = |patch: JsonPatch| match &status {
            _ if is_written => patch,
            Some(status) => patch.set("/status", Value::clone(status)),
            None => patch.set("/status", json!({})),
        };
        if !object.kind.has_status {
            let patch = with_status(with_labels(guard.clone()));
            return (patch != guard).then_some((patch, false));
        }
        // The label is set before the first status and removed after the last one, so that a status
        // from Argosy is never unmarked.
        let (labels, status) = (with_labels(guard.clone()), with_status(guard.clone()));
        let by_order = if label.is_some() {
            [(labels, false), (status, true)]
        } else {
            [(status, true), (labels, false)]
        };
        by_order.into_iter().find(|(patch, _)| *patch != guard)
    }

    fn shown(&self, origin: &OriginUid, object: &ObjectView) -> Shown {
        let singles = self.requested(object, |wanted| wanted.singleton);
        let multis = self.requested(object, |wanted| wanted.multi);
        let wants_multi = object.wanted().multi;
        let clusters: BTreeSet<&ClusterName> = singles.union(&multis).copied().collect();
        let reports = self.reports.get(origin);
        let report = |cluster: &ClusterName| reports.and_then(|reports| reports.get(cluster));
        let single = |cluster: &ClusterName| match report(cluster) {
            None => Shown::Nothing,
            Some(report) => report
                .status
                .as_ref()
                .map_or(Shown::AsItIs, |status| Shown::Single(Arc::clone(status))),
        };
        let mut each = clusters.iter();
        match (each.next(), each.next()) {
            (None, _) => Shown::Nothing,
            (Some(only), None) => single(only),
            (Some(_), Some(_)) if !wants_multi => Shown::Nothing,
            _ => {
                let statuses = clusters
                    .iter()
                    .filter_map(|cluster| Some(((*cluster).clone(), report(cluster)?.status.as_deref()?)));
                let statuses: BTreeMap<ClusterName, &Value> = statuses.collect();
                let mut reporting = statuses.keys();
                if let (Some(only), None) = (reporting.next(), reporting.next()) {
                    return single(only);
                }
                aggregate(&object.kind.group, &object.kind.resource, &statuses)
                    .map_or(Shown::Nothing, Shown::Aggregate)
            }
        }
    }

    /// The clusters of the policies that ask for something. There are none for a CronWorkflow,
    /// because its status belongs to the control cluster's Argo, which would not keep the Workflows
    /// of another Argo among the active ones.
    fn requested(&self, object: &ObjectView, asks: impl Fn(&Modulation) -> bool) -> BTreeSet<&ClusterName> {
        if object.kind.is_cron() {
            return BTreeSet::new();
        }
        let asking = object.selection.iter().filter(|(_, wanted)| asks(wanted));
        let policies = asking.filter_map(|(name, _)| self.policies.get(name));
        policies.flat_map(|policy| &policy.clusters).collect()
    }

    /// Reports objects that are to have the status of their only cluster, but have no cluster or
    /// several. The sentence is KubeStellar's.
    pub(super) fn misuse(&self, name: &str, policy: &PolicyView) -> Option<String> {
        let mut examples = Vec::new();
        let objects = policy
            .selected
            .iter()
            .filter_map(|origin| self.objects.get(origin));
        for object in objects.filter(|object| !object.kind.is_run() && !object.kind.is_cron()) {
            let asks = object.selection.get(name).is_some_and(|wanted| wanted.singleton);
            let count = self.requested(object, |wanted| wanted.singleton).len();
            if !asks || count == 1 || (object.wanted().multi && count > 0) {
                continue;
            }
            examples.push(json!({ "ObjectID": object.title(), "NumWECs": count }));
            if examples.len() == EXAMPLES {
                break;
            }
        }
        (!examples.is_empty()).then(|| {
            format!(
                "Singleton reported status return is requested but some objects have the wrong number of associated WECs, for example: {}",
                Value::Array(examples)
            )
        })
    }
}

pub(super) fn place(origin: &OriginUid, object: &ObjectView) -> Place {
    Place {
        kind: Arc::clone(&object.kind),
        namespace: Arc::clone(&object.namespace),
        name: Arc::clone(&object.name),
        uid: origin.clone(),
    }
}

/// The labels by which KubeStellar marks an object whose status comes from other clusters.
const MARKS: [&str; 2] = [names::SINGLETON_STATUS_LABEL, names::MULTI_STATUS_LABEL];

pub(super) fn is_marked(object: &ObjectView) -> bool {
    MARKS.iter().any(|mark| object.labels.get(mark).is_some())
}

/// The labels of the object with only this one of the marks, or with none.
pub(super) fn marked(object: &ObjectView, mark: Option<&str>) -> BTreeMap<String, String> {
    let mut labels = object.labels.to_map();
    labels.retain(|label, _| !MARKS.contains(&label.as_str()));
    labels.extend(mark.map(|mark| (mark.to_owned(), "true".to_owned())));
    labels
}

/// The digest of the status that a patch sets; `None` if it sets none.
pub fn status_in(patch: &JsonPatch) -> Option<Fingerprint> {
    digest_of_status(patch.value_at("/status"))
}
