//! The record of applied objects on the cluster, for ManifestWorks that somebody other than Argosy
//! wrote, or that have had a RoleBinding besides a ServiceAccount: OCM's AppliedManifestWork.
//!
//! The record is written before the first apply. If a manifest is removed while the agent does not
//! run, the record still names its object, so the agent can delete it. Most of Argosy's own
//! ManifestWorks need no record: each holds exactly one object, always the same.

use argosy_api::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus,
    applied_manifest_work::AppliedResource, names,
};
use kube::ResourceExt;
use serde_json::json;

use super::{
    ApplyAction, ManifestIndex, ObjectKey,
    rest_mapping::RestMapping,
    views::{How, Item, ManifestWorkView, key_of},
};
use crate::{WorkName, model::json_patch::JsonPatch};

impl ManifestIndex {
    /// True if the ManifestWork has a record, or is to have one.
    pub(super) fn is_recorded(&self, name: &WorkName, work: &ManifestWorkView) -> bool {
        work.object_uid.is_none() || work.items.len() > 1 || self.records.contains_key(name)
    }

    /// Adds the objects that are about to be applied to the record, or creates it.
    pub(super) fn record_ahead(&self, name: &WorkName, work: &ManifestWorkView) -> Option<ApplyAction> {
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

    /// Updates the record after everything was applied. Objects in `left` are not deleted yet, so
    /// they stay in the record.
    pub(super) fn record_after(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
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

    /// Objects in the record that no manifest names any more.
    pub(super) fn leftovers(&self, name: &WorkName, work: &ManifestWorkView) -> Vec<ObjectKey> {
        let recorded = self.records.get(name).into_iter();
        recorded
            .flat_map(|record| &record.resources)
            .filter(|known| !self.may_be_named(work, known))
            // A run may use the account `default`, of which only the RoleBinding is sent.
            .filter(|known| work.object_uid.is_none() || known.resource != "serviceaccounts")
            .map(key_of)
            .collect()
    }

    /// Deletes the record of a ManifestWork of which no object is left.
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

    /// True if a manifest names the object, in any version. While the kind of a manifest is not
    /// served, every object of its group with the manifest's name counts as named.
    fn may_be_named(&self, work: &ManifestWorkView, known: &AppliedResource) -> bool {
        let names = |item: &Item| match self.naming(item) {
            RestMapping::Known(key) => {
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
            RestMapping::Unknown => *item.api.group == *known.group && item.name == known.name,
            RestMapping::Malformed(_) => false,
        };
        work.items.iter().any(names)
    }

    /// The record entries of all manifests, with UIDs if they are known.
    fn recorded_of(&self, name: &WorkName, work: &ManifestWorkView) -> Vec<AppliedResource> {
        let mut resources: Vec<AppliedResource> = Vec::new();
        for item in &work.items {
            let RestMapping::Known(key) = self.naming(item) else {
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

/// Patch that turns an existing record, which OCM's agent left behind, into `wanted`: it adds
/// Argosy's label and finalizer and keeps all others. `None` if the spec of the record is for
/// another hub or ManifestWork, whatever its name is.
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

/// True if two entries name the same object in the same version.
fn is_same(one: &AppliedResource, other: &AppliedResource) -> bool {
    key_of(one) == key_of(other)
}
