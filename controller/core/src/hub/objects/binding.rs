//! The Binding of a policy: the objects that it selects and the clusters that they go to, for users
//! who want to see them. No decision depends on it.
//!
//! A Binding is bounded, so that a policy of a hundred thousand objects has one too. It is written
//! every five seconds at most, and less often the longer it is, because with every write the API
//! server reads, validates, stores and sends the whole Binding.

use std::collections::BTreeMap;

use argosy_api::{
    Binding, BindingSpec,
    binding::{Destination, ObjectRef, Workload},
    names,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde_json::json;

use super::{DownsyncAction, ObjectIndex, PolicyView};
use crate::{
    Decision,
    index::{compact_json::CompactJson, store::versioned},
    model::json_patch::JsonPatch,
};

/// Maximum number of objects in a Binding. The request that writes them stays far below the limit
/// of an API server.
const MOST: usize = 2000;

/// Minimum time between two checks, if no write is pending.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// The time after a change until the Binding is checked again and written. If it were written at once,
/// it would take the API server's time from the Workflow that is its newest object, whose user waits: a
/// Binding of 100 objects takes four times as long as one of ten.
const SETTLING: SignedDuration = SignedDuration::from_secs(4);

/// The time that each object adds to `PAUSE`. A write takes an API server about a third of a
/// millisecond per object, so one policy's Binding takes at most a hundredth of its time.
const PAUSE_OF_EACH: SignedDuration = SignedDuration::from_millis(50);

versioned!(Known);

/// A stored Binding.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) uid: String,
    pub(super) resource_version: String,
    /// The spec names up to thousands of objects, so it is packed, and only unpacked to compare it.
    spec: CompactJson,
    annotations: BTreeMap<String, String>,
}

impl Known {
    /// The view of an object.
    pub(super) fn new(binding: Binding) -> Self {
        Self {
            uid: binding.metadata.uid.unwrap_or_default(),
            resource_version: binding.metadata.resource_version.unwrap_or_default(),
            annotations: binding.metadata.annotations.unwrap_or_default(),
            spec: CompactJson::new(&binding.spec),
        }
    }
}

impl ObjectIndex {
    pub(super) fn decide_binding(&self, name: &str, now: Timestamp) -> Decision<DownsyncAction> {
        let Some(policy) = self.policies.get(name) else {
            return Decision::rest();
        };
        if let Some(later) = self.counts_later(policy, now) {
            return Decision::requeue_at(later);
        }
        let pace = &policy.binding_pace;
        if let Some(next) = pace.wait(pause_of(policy.selected.len()), now) {
            return Decision::requeue_at(next);
        }
        let Some(action) = self.wanted_binding(name, policy) else {
            pace.checked(now);
            return Decision::rest();
        };
        let settling = if self.bindings.contains_key(name) {
            SETTLING
        } else {
            SignedDuration::ZERO
        };
        match pace.take_turn(&self.rate_limiter, settling, now) {
            Some(later) => Decision::requeue_at(later),
            None => action.into(),
        }
    }

    /// The write that brings the Binding to the wanted state; `None` if it has that.
    fn wanted_binding(&self, name: &str, policy: &PolicyView) -> Option<DownsyncAction> {
        let known = self.bindings.get(name);
        let former: Option<BindingSpec> = known.and_then(|known| known.spec.read());
        let mut spec = self.binding_spec(policy, former.as_ref());
        let left_out = truncate(&mut spec);
        let Some(known) = known else {
            let binding = new_binding(name, policy, spec, left_out);
            return Some(DownsyncAction::CreateBinding(Box::new(binding)));
        };
        let annotations = annotated(known.annotations.clone(), left_out);
        let patch = (former.as_ref() != Some(&spec) || known.annotations != annotations).then(|| {
            JsonPatch::guarded(&known.uid, &known.resource_version)
                .set("/spec", json!(spec))
                .set("/metadata/annotations", json!(annotations))
        });
        patch.map(|patch| DownsyncAction::ChangeBinding {
            name: name.to_owned(),
            patch,
        })
    }

    /// The spec of the Binding. The version of an object is the one at which the object was added,
    /// because a changed object is no reason to write the whole Binding again.
    fn binding_spec(&self, policy: &PolicyView, former: Option<&BindingSpec>) -> BindingSpec {
        let written = |reference: &ObjectRef| {
            let workload = &former?.workload;
            let all = if reference.namespace.is_some() {
                &workload.namespace_scope
            } else {
                &workload.cluster_scope
            };
            let place = all
                .binary_search_by(|other| order(other).cmp(&order(reference)))
                .ok()?;
            all.get(place).map(|other| other.resource_version.clone())
        };
        let mut workload = Workload::default();
        for object in policy
            .selected
            .iter()
            .filter_map(|origin| self.objects.get(origin))
        {
            let kind = &object.kind;
            let mut reference = ObjectRef {
                group: kind.group.clone(),
                version: kind.version.clone(),
                resource: kind.resource.clone(),
                namespace: kind.is_namespaced.then(|| object.namespace.to_string()),
                name: object.name.to_string(),
                resource_version: object.resource_version.clone(),
            };
            if let Some(version) = written(&reference) {
                reference.resource_version = version;
            }
            if kind.is_namespaced {
                workload.namespace_scope.push(reference);
            } else {
                workload.cluster_scope.push(reference);
            }
        }
        for references in [&mut workload.cluster_scope, &mut workload.namespace_scope] {
            references.sort_by(|one, other| order(one).cmp(&order(other)));
        }
        BindingSpec {
            workload,
            destinations: policy
                .clusters
                .iter()
                .map(|cluster| Destination {
                    cluster_id: cluster.to_string(),
                })
                .collect(),
        }
    }
}

/// Minimum time between two checks of the Binding of a policy that selects so many objects.
fn pause_of(objects: usize) -> SignedDuration {
    let written = i32::try_from(objects.min(MOST)).unwrap_or(i32::MAX);
    PAUSE.saturating_add(PAUSE_OF_EACH.saturating_mul(written))
}

fn order(reference: &ObjectRef) -> (&str, &str, &str, &str) {
    (
        &reference.group,
        &reference.resource,
        reference.namespace.as_deref().unwrap_or_default(),
        &reference.name,
    )
}

/// Removes the objects beyond the limit, and returns their number.
fn truncate(spec: &mut BindingSpec) -> usize {
    let Workload {
        cluster_scope,
        namespace_scope,
    } = &mut spec.workload;
    let all = cluster_scope.len() + namespace_scope.len();
    cluster_scope.truncate(MOST);
    namespace_scope.truncate(MOST - cluster_scope.len());
    all - cluster_scope.len() - namespace_scope.len()
}

fn annotated(mut annotations: BTreeMap<String, String>, left_out: usize) -> BTreeMap<String, String> {
    annotations.remove(names::LEFT_OUT_ANNOTATION);
    if left_out > 0 {
        annotations.insert(names::LEFT_OUT_ANNOTATION.to_owned(), left_out.to_string());
    }
    annotations
}

fn new_binding(name: &str, policy: &PolicyView, spec: BindingSpec, left_out: usize) -> Binding {
    let mut binding = Binding::new(name, spec);
    let annotations = annotated(BTreeMap::new(), left_out);
    binding.metadata.annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
    binding.metadata.owner_references = Some(vec![OwnerReference {
        api_version: argosy_api::BindingPolicy::api_version(&()).into_owned(),
        kind: argosy_api::BindingPolicy::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: policy.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }]);
    binding
}
