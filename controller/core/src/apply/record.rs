//! The record, on the cluster, of what was applied from a ManifestWork that somebody else wrote: OCM's AppliedManifestWork.
//!
//! It is written before the first apply, so that an object whose manifest was taken out while the agent was away is still found
//! and deleted. Argosy's own ManifestWorks hold one object that never changes, and need none.

use argosy_api::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus,
    applied_manifest_work::AppliedResource, names,
};
use kube::ResourceExt;
use serde_json::json;

use super::{
    Applier, ApplyAction, ObjectKey,
    naming::Naming,
    views::{How, Item, Work, key_of},
};
use crate::{WorkName, patch::JsonPatch};

impl Applier {
    /// Writes down what is about to be applied.
    pub(super) fn record_ahead(&self, name: &WorkName, work: &Work) -> Option<ApplyAction> {
        let wanted = self.recorded_of(name, work);
        let Some(record) = self.records.get(name) else {
            return (!wanted.is_empty()).then(|| ApplyAction::Record(Box::new(self.first(name, wanted))));
        };
        let is_there = |wanted: &AppliedResource| record.resources.iter().any(|known| is_same(known, wanted));
        if wanted.iter().all(is_there) {
            return None;
        }
        let missing = wanted.into_iter().filter(|wanted| !is_there(wanted));
        Some(ApplyAction::Rewrite {
            resource_version: record.resource_version.clone(),
            resources: record.resources.iter().cloned().chain(missing).collect(),
        })
    }

    /// Writes down what is there, once everything was applied and `left` are the objects that are not gone yet.
    pub(super) fn record_after(
        &self,
        name: &WorkName,
        work: &Work,
        left: &[ObjectKey],
    ) -> Option<ApplyAction> {
        let record = self.records.get(name)?;
        let mut resources = self.recorded_of(name, work);
        for known in &record.resources {
            let key = key_of(known);
            let stays = left.contains(&key) || self.may_be_named(work, known);
            if stays && !resources.iter().any(|wanted| is_same(wanted, known)) {
                resources.push(known.clone());
            }
        }
        (resources != record.resources).then(|| ApplyAction::Rewrite {
            resource_version: record.resource_version.clone(),
            resources,
        })
    }

    /// The objects in the record that no manifest names any more.
    pub(super) fn leftovers(&self, name: &WorkName, work: &Work) -> Vec<ObjectKey> {
        let recorded = self.records.get(name).into_iter();
        recorded
            .flat_map(|record| &record.resources)
            .filter(|known| !self.may_be_named(work, known))
            .map(key_of)
            .collect()
    }

    /// Takes the record away, when nothing of it is left.
    pub(super) fn drop_record(&self, name: &WorkName) -> Option<ApplyAction> {
        let record = self.records.get(name)?;
        let patch = JsonPatch::guarded(&record.uid, &record.resource_version);
        let others: Vec<_> = record
            .finalizers
            .iter()
            .filter(|finalizer| *finalizer != names::APPLIED_MANIFEST_WORK_FINALIZER)
            .cloned()
            .collect();
        Some(ApplyAction::DropRecord(patch.set("/metadata/finalizers", others)))
    }

    /// Whether a manifest names the object, in whatever version. While a kind is not served, every object of its group that has
    /// the manifest's name may be the one.
    fn may_be_named(&self, work: &Work, known: &AppliedResource) -> bool {
        let names = |item: &Item| match self.naming(item) {
            Naming::Known(key) => {
                let own = (
                    &*key.resource.api.group,
                    &*key.resource.plural,
                    &*key.namespace,
                    &*key.name,
                );
                own == (
                    known.group.as_str(),
                    known.resource.as_str(),
                    known.namespace.as_str(),
                    known.name.as_str(),
                )
            }
            Naming::Unknown => *item.api.group == *known.group && item.name == known.name,
            Naming::Malformed(_) => false,
        };
        work.items.iter().any(names)
    }

    /// What the manifests make, with the UIDs that are known.
    fn recorded_of(&self, name: &WorkName, work: &Work) -> Vec<AppliedResource> {
        let mut resources: Vec<AppliedResource> = Vec::new();
        for item in &work.items {
            let Naming::Known(key) = self.naming(item) else {
                continue;
            };
            if work.how(&key) == How::ReadOnly {
                continue;
            }
            let own = self.objects.get(&key).filter(|there| self.holds(name, there));
            let mut resource = AppliedResource {
                group: key.resource.api.group.to_string(),
                version: key.resource.api.version.to_string(),
                resource: key.resource.plural.to_string(),
                namespace: key.namespace.to_string(),
                name: key.name.to_string(),
                uid: String::new(),
            };
            let known = self
                .records
                .get(name)
                .into_iter()
                .flat_map(|record| &record.resources);
            let known_uid = known
                .filter(|known| is_same(known, &resource))
                .map(|known| known.uid.clone())
                .next();
            resource.uid = own
                .map(|there| there.uid.clone())
                .or(known_uid)
                .unwrap_or_default();
            if !resources.iter().any(|other| is_same(other, &resource)) {
                resources.push(resource);
            }
        }
        resources
    }

    fn first(&self, name: &WorkName, resources: Vec<AppliedResource>) -> AppliedManifestWork {
        let hub_hash = self.config.hub_hash.clone();
        let mut record = AppliedManifestWork::new(
            &format!("{hub_hash}-{name}"),
            AppliedManifestWorkSpec {
                manifest_work_name: name.to_string(),
                agent_id: self.config.cluster.to_string(),
                hub_hash,
            },
        );
        record.metadata.finalizers = Some(vec![names::APPLIED_MANIFEST_WORK_FINALIZER.to_owned()]);
        record.metadata.labels =
            Some([(names::CLUSTER_LABEL.to_owned(), self.config.cluster.to_string())].into());
        record.status = Some(AppliedManifestWorkStatus {
            applied_resources: resources,
            ..AppliedManifestWorkStatus::default()
        });
        record
    }
}

/// Makes a record that is there already, because OCM's agent has left it, the one that is `wanted`: our label and finalizer next to
/// all that others have put on it. `None` where it says, whatever its name, that it is of another hub or ManifestWork.
pub fn taking_over(there: &AppliedManifestWork, wanted: &AppliedManifestWork) -> Option<JsonPatch> {
    let of = |record: &AppliedManifestWork| {
        let AppliedManifestWorkSpec {
            hub_hash,
            manifest_work_name,
            ..
        } = record.spec.clone();
        (hub_hash, manifest_work_name)
    };
    if of(there) != of(wanted) {
        return None;
    }
    let (uid, resource_version) = (there.metadata.uid.as_deref()?, there.resource_version()?);
    let mut labels = there.labels().clone();
    labels.extend(wanted.labels().clone());
    let mut finalizers = there.finalizers().to_vec();
    let missing = wanted
        .finalizers()
        .iter()
        .filter(|wanted| !there.finalizers().contains(wanted));
    finalizers.extend(missing.cloned());
    let patch = JsonPatch::guarded(uid, &resource_version);
    Some(
        patch
            .set("/metadata/labels", json!(labels))
            .set("/metadata/finalizers", finalizers),
    )
}

/// Whether two entries name the same object in the same version.
fn is_same(one: &AppliedResource, other: &AppliedResource) -> bool {
    key_of(one) == key_of(other)
}
