//! The CustomTransforms of the WDS, compiled, and what each of them has to say about itself.
//!
//! What a transform does to an object is the crate `argosy-transforms`; here is only which transforms apply.

use std::collections::{BTreeMap, BTreeSet};

use argosy_api::{CustomTransform, CustomTransformStatus};
use argosy_transforms::{Compiled, Transform, kinds};
use kube::ResourceExt;
use serde_json::Value;

use crate::flaw;

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
    /// What of it could not be read.
    flaw: Option<String>,
    status: Option<CustomTransformStatus>,
}

/// What a change of one transform concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Names of the transforms whose status may have changed.
    pub names: Vec<String>,
    /// Group and resource of the objects to which [`Transforms::apply_to`] may do something else than before: the old binding and
    /// the new one. Empty where only the status of a transform changed.
    pub resources: BTreeSet<(String, String)>,
}

impl Entry {
    /// Whether the two do the same to the same objects.
    fn equals(&self, other: &Self) -> bool {
        (&self.group, &self.resource) == (&other.group, &other.resource)
            && self.compiled.transform == other.compiled.transform
    }

    /// What the transform has an effect on: none if no path of it is left.
    fn bound(&self) -> Option<(String, String)> {
        let is_bound = !self.compiled.transform.is_empty();
        is_bound.then(|| (self.group.clone(), self.resource.clone()))
    }
}

impl Transforms {
    /// Learns a transform and returns what its change concerns.
    pub fn apply(&mut self, mut transform: CustomTransform) -> Touched {
        let name = transform.name_any();
        let resource_version = transform.resource_version().unwrap_or_default();
        let mut names = self.siblings(&name);
        let entry = Entry {
            generation: transform.metadata.generation.unwrap_or_default(),
            resource_version,
            flaw: flaw::take(&mut transform.metadata),
            compiled: Transform::compile(&transform.spec.remove),
            group: transform.spec.api_group,
            resource: transform.spec.resource,
            status: transform.status,
        };
        let new = entry.bound();
        let resources = match self.by_name.get(&name) {
            Some(known) if known.equals(&entry) => BTreeSet::new(),
            known => known.and_then(Entry::bound).into_iter().chain(new).collect(),
        };
        self.by_name.insert(name.clone(), entry);
        names.extend(self.siblings(&name));
        names.push(name);
        Touched { names, resources }
    }

    /// Forgets a transform and returns what that concerns.
    pub fn delete(&mut self, name: &str) -> Touched {
        let names = self.siblings(name);
        let gone = self.by_name.remove(name);
        Touched {
            names,
            resources: gone.and_then(|entry| entry.bound()).into_iter().collect(),
        }
    }

    /// The names of all transforms.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    /// Removes from an object of this resource what belongs to the API server and to the controllers of its kind, then what the
    /// transforms name. Returns what they could not remove, a sentence each.
    pub fn apply_to(&self, group: &str, resource: &str, object: &mut Value) -> Vec<String> {
        kinds::strip(group, resource, object);
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
        let errors = entry.compiled.errors.iter().map(ToString::to_string);
        let wanted = CustomTransformStatus {
            observed_generation: entry.generation,
            errors: entry.flaw.iter().cloned().chain(errors).collect(),
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

#[cfg(test)]
mod tests;
