//! The CustomTransforms of the WDS, compiled, and what each of them has to say about itself.
//!
//! What a transform does to an object is the crate `argosy-transforms`; here is only which transforms apply.

use std::collections::BTreeMap;

use argosy_api::{CustomTransform, CustomTransformStatus, workflow};
use argosy_transforms::{Compiled, Transform};
use kube::ResourceExt;
use serde_json::Value;

/// All CustomTransforms, by name.
#[derive(Debug, Default)]
pub struct Transforms {
    by_name: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    generation: i64,
    resource_version: String,
    group: String,
    resource: String,
    compiled: Compiled,
    status: Option<CustomTransformStatus>,
}

impl Transforms {
    /// Learns a transform and returns the names of those whose status may have changed with it.
    pub fn apply(&mut self, transform: CustomTransform) -> Vec<String> {
        let name = transform.name_any();
        let resource_version = transform.resource_version().unwrap_or_default();
        let mut touched = self.siblings(&name);
        let entry = Entry {
            generation: transform.metadata.generation.unwrap_or_default(),
            resource_version,
            compiled: Transform::compile(&transform.spec.remove),
            group: transform.spec.api_group,
            resource: transform.spec.resource,
            status: transform.status,
        };
        self.by_name.insert(name.clone(), entry);
        touched.extend(self.siblings(&name));
        touched.push(name);
        touched
    }

    /// Forgets a transform and returns the names of those whose status may have changed with it.
    pub fn delete(&mut self, name: &str) -> Vec<String> {
        let touched = self.siblings(name);
        self.by_name.remove(name);
        touched
    }

    /// The names of all transforms.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    /// Removes from an object of this resource what belongs to the API server and to the controllers of its kind, then what the
    /// transforms name. Returns what they could not remove, a sentence each.
    pub fn apply_to(&self, group: &str, resource: &str, object: &mut Value) -> Vec<String> {
        if (group, resource) == (workflow::GROUP, workflow::PLURAL) {
            argosy_transforms::workflow::strip(object);
        } else {
            argosy_transforms::object::strip(object);
        }
        let mut refused = Vec::new();
        let bound = |entry: &(&String, &Entry)| entry.1.group == group && entry.1.resource == resource;
        for (name, entry) in self.by_name.iter().filter(bound) {
            let applied = entry.compiled.transform.apply(object);
            let sentences = applied.refused.iter();
            refused.extend(sentences.map(|refusal| format!("CustomTransform {name}: {refusal}")));
        }
        refused
    }

    /// The status that the transform should have, with its resource version, if it has another one.
    pub fn wanted_status(&self, name: &str) -> Option<CustomTransformStatus> {
        let entry = self.by_name.get(name)?;
        let mut warnings: Vec<String> = entry.compiled.warnings.iter().map(ToString::to_string).collect();
        let siblings = self.siblings(name);
        if !siblings.is_empty() {
            warnings.push(format!(
                "{} of group {:?} has other transforms too, and all of them apply: {}",
                entry.resource,
                entry.group,
                siblings.join(", ")
            ));
        }
        let wanted = CustomTransformStatus {
            observed_generation: entry.generation,
            errors: entry.compiled.errors.iter().map(ToString::to_string).collect(),
            warnings,
        };
        (entry.status.as_ref() != Some(&wanted)).then_some(wanted)
    }

    /// Whether `resource_version` is at least as new as what is known of the transform.
    pub(crate) fn is_newer(&self, name: &str, resource_version: Option<&str>) -> bool {
        self.by_name
            .get(name)
            .is_none_or(|entry| crate::reconcile::is_newer(resource_version, &entry.resource_version))
    }

    fn siblings(&self, name: &str) -> Vec<String> {
        let Some(entry) = self.by_name.get(name) else {
            return Vec::new();
        };
        self.by_name
            .iter()
            .filter(|(other, known)| {
                *other != name && known.group == entry.group && known.resource == entry.resource
            })
            .map(|(other, _)| other.clone())
            .collect()
    }
}
