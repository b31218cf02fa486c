//! The next step for one object and one cluster: its ManifestWork is there, as it should be, or gone.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Downsync, DownsyncAction, DownsyncKey, Object, Work, kind::KindName, work::digest};
use crate::{ClusterName, Failure, OriginUid, patch::JsonPatch};

impl Downsync {
    pub(super) fn decide_copy(&self, origin: &OriginUid, cluster: &ClusterName) -> Option<DownsyncAction> {
        let work = self.works.get(origin).and_then(|works| works.get(cluster));
        if self.clusters.get(cluster).is_some_and(|known| known.is_removed) {
            return self.release_copy(origin, cluster, work?);
        }
        let object = self.objects.get(origin);
        if let Some(object) = object.filter(|object| self.is_destined(object, cluster)) {
            return self.send(origin, object, cluster, work.map(Box::as_ref));
        }
        let work = work.filter(|work| !work.is_deleting && (object.is_some() || self.is_absent(work)))?;
        Some(DownsyncAction::DeleteWork {
            cluster: cluster.clone(),
            origin: origin.clone(),
            uid: work.uid.clone(),
        })
    }

    /// What lies in the mailbox of a cluster that left the fleet is let go once its agent is cut off, of whichever WDS of our name it is; what
    /// was applied there stays. Without finalizers first, so that an agent that is still there sees nothing going.
    fn release_copy(&self, origin: &OriginUid, cluster: &ClusterName, work: &Work) -> Option<DownsyncAction> {
        let is_cut_off = self.clusters.get(cluster).is_some_and(|known| known.is_cut_off);
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
        object: &Object,
        cluster: &ClusterName,
        work: Option<&Work>,
    ) -> Option<DownsyncAction> {
        if work.is_some_and(|work| work.is_deleting) {
            // It comes back when the cluster has confirmed that the object is gone.
            return None;
        }
        // What cannot be expanded leaves what is out there as it is.
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

    /// Whether the object is to be on the cluster.
    pub(super) fn is_destined(&self, object: &Object, cluster: &ClusterName) -> bool {
        !object.kind.is_run()
            && object
                .selection
                .keys()
                .filter_map(|name| self.policies.get(name))
                .any(|policy| policy.clusters.contains(cluster))
    }

    /// Where the object is to be.
    pub(super) fn destinations(&self, object: &Object) -> BTreeSet<ClusterName> {
        if object.kind.is_run() {
            return BTreeSet::new();
        }
        let policies = object.selection.keys().filter_map(|name| self.policies.get(name));
        policies
            .flat_map(|policy| policy.clusters.iter().cloned())
            .collect()
    }

    /// Whether the object of a ManifestWork, which is not known, is known not to be there or not to be sent: it is of this very WDS, and
    /// its kind has been listed, or no policy can select it. A kind that the WDS does not serve says nothing: a server that has just started does not know its
    /// custom kinds for a moment.
    fn is_absent(&self, work: &Work) -> bool {
        let Some(kind) = &work.kind else {
            return false;
        };
        self.is_of_this_space(work) && self.is_told(kind)
    }

    /// Whether a ManifestWork is of an object of this very WDS.
    pub(super) fn is_of_this_space(&self, work: &Work) -> bool {
        work.space.is_some() && work.space == self.space
    }

    /// Whether an object of the kind that is not known is not there, or is not to be sent. Kinds that no policy can select are not
    /// listed; which of them there are is to be known, so that what is left on an object can be looked for.
    pub(super) fn is_told(&self, kind: &KindName) -> bool {
        self.listed.contains(kind) || (self.catalogue.is_some() && !self.may_select(kind))
    }

    /// Everything that a change of an object may concern.
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

    /// Notes what in the templates of these copies cannot be expanded, or can again, and adds the policies that say so.
    pub(super) fn with_templates_checked(
        &mut self,
        mut keys: BTreeSet<DownsyncKey>,
    ) -> BTreeSet<DownsyncKey> {
        let mut concerned = BTreeSet::new();
        for key in &keys {
            let DownsyncKey::Copy(origin, cluster) = key else {
                continue;
            };
            let address = (origin.clone(), cluster.clone());
            let object = self.objects.get(origin);
            let errors = object
                .filter(|object| object.is_templated && self.is_destined(object, cluster))
                .and_then(|object| self.manifest_work(origin, object, cluster)?.err());
            if self.template_errors.get(&address) == errors.as_ref() {
                continue;
            }
            concerned.extend(object.into_iter().flat_map(Object::policy_keys));
            match errors {
                Some(errors) => drop(self.template_errors.insert(address, errors)),
                None => drop(self.template_errors.remove(&address)),
            }
        }
        keys.append(&mut concerned);
        keys
    }

    pub(super) fn learn_send_failure(
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
        let object = self.objects.get(origin);
        object
            .map(|object| object.policy_keys().collect())
            .unwrap_or_default()
    }
}
