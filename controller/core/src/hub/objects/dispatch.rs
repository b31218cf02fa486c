//! The next step for one object and one cluster: to create, change or delete its ManifestWork.

use std::collections::BTreeSet;

use argosy_api::conditions::reason;
use jiff::Timestamp;
use serde_json::json;

use super::{
    Cluster, DownsyncAction, DownsyncKey, ManifestWorkView, ObjectEvent, ObjectIndex, ObjectView,
    kind::KindName, status::place, work::digest,
};
use crate::{
    ClusterName, Decision, Failure, OriginUid,
    model::{cron, json_patch::JsonPatch},
};

impl ObjectIndex {
    pub(super) fn decide_copy(
        &self,
        origin: &OriginUid,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Decision<DownsyncAction> {
        let object = self.objects.get(origin);
        let needed_until = object
            .filter(|object| !self.is_selected_for(object, cluster))
            .and_then(|object| self.needed_until(object, cluster));
        // What runs have needed is kept for a while, but not sent anew: another object may have its name.
        let is_sent = self
            .works
            .get(origin)
            .is_some_and(|works| works.contains_key(cluster));
        let is_over = needed_until.is_some_and(|until| until <= now || (until < Timestamp::MAX && !is_sent));
        Decision {
            action: self.next_for_copy(origin, cluster, is_over),
            requeue_at: needed_until.filter(|until| *until > now && *until < Timestamp::MAX),
            ..Decision::rest()
        }
    }

    /// The next request for a copy. With `is_over`, only runs that have ended needed it, and their time
    /// is over, or there is no copy.
    fn next_for_copy(
        &self,
        origin: &OriginUid,
        cluster: &ClusterName,
        is_over: bool,
    ) -> Option<DownsyncAction> {
        let work = self.works.get(origin).and_then(|works| works.get(cluster));
        if self.clusters.get(cluster).is_some_and(|known| known.is_removed) {
            return self.release_copy(origin, cluster, work?);
        }
        let object = self.objects.get(origin);
        if let Some(object) = object.filter(|object| !is_over && self.is_destined(object, cluster)) {
            return self.send(origin, object, cluster, work.map(Box::as_ref));
        }
        let work = work.filter(|work| !work.is_deleting && (object.is_some() || self.is_absent(work)))?;
        if work.is_dependency && self.may_be_needed() {
            return None;
        }
        let told = object.filter(|object| object.kind.is_cron()).map(|object| {
            Box::new(ObjectEvent {
                place: place(origin, object),
                reason: reason::TAKEN_BACK,
                message: cron::taken_back(cluster, object.fires_here && !object.selection.is_empty()),
            })
        });
        Some(DownsyncAction::DeleteWork {
            cluster: cluster.clone(),
            origin: origin.clone(),
            uid: work.uid.clone(),
            told,
        })
    }

    /// Releases a ManifestWork in the mailbox of a cluster that left the fleet, once the cluster's
    /// agent is cut off. It may belong to any WDS of this name. Objects that were applied stay on
    /// the cluster. The finalizers are removed first, so that an agent that still runs sees no
    /// deletion.
    fn release_copy(
        &self,
        origin: &OriginUid,
        cluster: &ClusterName,
        work: &ManifestWorkView,
    ) -> Option<DownsyncAction> {
        let is_cut_off = self.clusters.get(cluster).is_some_and(Cluster::is_cut_off);
        if !is_cut_off {
            return None;
        }
        if !work.is_released {
            return Some(DownsyncAction::ReleaseWork {
                cluster: cluster.clone(),
                origin: origin.clone(),
                patch: JsonPatch::guarded(&work.uid, &work.resource_version)
                    .set("/metadata/finalizers", json!([])),
            });
        }
        (!work.is_deleting).then(|| DownsyncAction::DropWork {
            cluster: cluster.clone(),
            origin: origin.clone(),
            uid: work.uid.clone(),
            resource_version: work.resource_version.clone(),
        })
    }

    fn send(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        cluster: &ClusterName,
        work: Option<&ManifestWorkView>,
    ) -> Option<DownsyncAction> {
        if work.is_some_and(|work| work.is_deleting) {
            // The ManifestWork is created again when the cluster has confirmed that the object is
            // gone.
            return None;
        }
        // If a transform or a template cannot be applied, the existing ManifestWork stays as it is.
        let wanted = self.manifest_work(origin, object, cluster)?.ok()?;
        let digest = digest(&wanted);
        let Some(work) = work else {
            return Some(DownsyncAction::CreateWork {
                cluster: cluster.clone(),
                work: Box::new(wanted),
                digest,
            });
        };
        (!work.asks_for(digest)).then(|| DownsyncAction::ChangeWork {
            cluster: cluster.clone(),
            origin: origin.clone(),
            patch: JsonPatch::guarded(&work.uid, &work.resource_version)
                .set("/spec", json!(wanted.spec))
                .set("/metadata/annotations", json!(wanted.metadata.annotations)),
            digest,
        })
    }

    /// True if it is certain that the object of a ManifestWork, which is unknown here, does not
    /// exist or is not to be sent. This requires that the ManifestWork is of this very WDS, and
    /// that the kind has been listed or no policy can select it. A kind that the WDS does not serve
    /// proves nothing, because an API server that has just started does not serve its custom kinds
    /// for a moment.
    fn is_absent(&self, work: &ManifestWorkView) -> bool {
        let Some(kind) = &work.kind else {
            return false;
        };
        self.is_of_this_space(work) && self.is_told(kind)
    }

    /// True if a ManifestWork is of an object of this very WDS.
    pub(super) fn is_of_this_space(&self, work: &ManifestWorkView) -> bool {
        work.space.is_some() && work.space.as_deref() == self.namespaces.space()
    }

    /// True if any object of the kind that is unknown here does not exist or is not to be sent.
    /// Kinds that no policy can select are not listed. For these the catalog must be known, so
    /// that leftovers on their objects can be looked for.
    pub(super) fn is_told(&self, kind: &KindName) -> bool {
        self.listed.contains(kind) || (self.catalog.is_some() && !self.may_send(kind))
    }

    /// All keys that a change of an object may affect.
    pub(super) fn keys_of(&self, origin: &OriginUid) -> BTreeSet<DownsyncKey> {
        let mut keys = BTreeSet::from([DownsyncKey::Object(origin.clone())]);
        let works = self.works.get(origin).into_iter().flatten();
        let object = self.objects.get(origin);
        let destined = object.map(|object| self.destinations(object));
        keys.extend(
            works
                .map(|(cluster, _)| cluster.clone())
                .chain(destined.into_iter().flatten())
                .map(|cluster| DownsyncKey::Copy(origin.clone(), cluster)),
        );
        keys.extend(self.combined_of(origin));
        keys.extend(self.combined_known(origin));
        keys
    }

    /// Records the transforms and templates of these copies that cannot be applied, or can be again,
    /// and adds the keys of the policies that report them.
    pub(super) fn with_content_checked(&mut self, mut keys: BTreeSet<DownsyncKey>) -> BTreeSet<DownsyncKey> {
        let mut concerned = BTreeSet::new();
        for key in &keys {
            let DownsyncKey::Copy(origin, cluster) = key else {
                continue;
            };
            let address = (origin.clone(), cluster.clone());
            let object = self.objects.get(origin);
            let errors = object
                .filter(|object| self.may_fail(object) && self.is_destined(object, cluster))
                .and_then(|object| self.manifest_work(origin, object, cluster)?.err());
            if self.content_errors.get(&address) == errors.as_ref() {
                continue;
            }
            concerned.extend(self.concerned_policies(origin));
            match errors {
                Some(errors) => drop(self.content_errors.insert(address, errors)),
                None => drop(self.content_errors.remove(&address)),
            }
        }
        keys.append(&mut concerned);
        keys
    }

    /// True if a transform or a template may keep the object from being sent.
    fn may_fail(&self, object: &ObjectView) -> bool {
        let kind = &object.kind;
        object.is_templated || self.transforms.may_fail(&kind.group, &kind.resource)
    }

    pub(super) fn on_send_failure(
        &mut self,
        origin: &OriginUid,
        cluster: &ClusterName,
        failure: &Failure,
    ) -> BTreeSet<DownsyncKey> {
        let sentence = match failure {
            Failure::NotFound { namespace: true, .. } => format!(
                "namespace {cluster}, the cluster's mailbox, does not exist in the ITS; has the cluster joined?"
            ),
            Failure::Refused(message)
            | Failure::NotFound { message, .. }
            | Failure::Unserved(message)
            | Failure::Foreign(message) => {
                format!("the ITS refused the ManifestWork: {message}")
            }
            _ => return BTreeSet::new(),
        };
        self.send_failures
            .insert((origin.clone(), cluster.clone()), sentence);
        self.concerned_policies(origin)
    }
}
