//! The CustomTransforms of the WDS, compiled, and their statuses.
//!
//! Owned here: the choice of the transforms that apply to an object. Not here: the effect of a
//! transform on an object (crate `argosy-transforms`).

use std::collections::{BTreeMap, BTreeSet};

use argosy_api::{CustomTransform, CustomTransformStatus};
use argosy_transforms::{Compiled, Transform, kinds};
use kube::ResourceExt;
use serde_json::Value;

use crate::index::{
    decode_error,
    store::{Known, Version},
};

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
    /// The reason why a part of the object could not be read, if any.
    flaw: Option<String>,
    status: Option<CustomTransformStatus>,
}

/// The consequences of a change to one transform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Names of the transforms whose status may have changed.
    pub names: Vec<String>,
    /// Group and resource of the objects on which [`Transforms::apply_to`] may now have another
    /// effect: the old binding and the new one. Empty if only the status of a transform changed.
    pub resources: BTreeSet<(String, String)>,
}

impl Entry {
    /// True if both have the same effect on the same objects.
    fn equals(&self, other: &Self) -> bool {
        (&self.group, &self.resource) == (&other.group, &other.resource)
            && self.compiled.transform == other.compiled.transform
    }

    /// Group and resource of the objects that the transform affects; `None` if it has no valid
    /// path.
    fn bound(&self) -> Option<(String, String)> {
        let is_bound = !self.compiled.transform.is_empty();
        is_bound.then(|| (self.group.clone(), self.resource.clone()))
    }
}

impl Known<String> for Transforms {
    fn version_of(&self, name: &String) -> Option<Version<'_>> {
        let entry = self.by_name.get(name)?;
        Some(Version {
            uid: "",
            resource_version: &entry.resource_version,
        })
    }

    fn known(&self) -> impl Iterator<Item = String> {
        self.by_name.keys().cloned()
    }
}

impl Transforms {
    /// Learns a transform and returns the consequences of the change.
    pub fn apply(&mut self, mut transform: CustomTransform) -> Touched {
        let name = transform.name_any();
        let resource_version = transform.resource_version().unwrap_or_default();
        let mut names = self.siblings(&name);
        let entry = Entry {
            generation: transform.metadata.generation.unwrap_or_default(),
            resource_version,
            flaw: decode_error::take(&mut transform.metadata),
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

    /// Forgets a transform and returns the consequences of the change.
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

    /// Removes the fields of an object that belong to the API server and to the controllers of its
    /// kind, then the fields that the transforms name. Returns one sentence for each field that a
    /// transform could not remove.
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

    /// The status that the transform should have, or `None` if it already has that status.
    pub fn wanted_status(&self, name: &str) -> Option<CustomTransformStatus> {
        let entry = self.by_name.get(name)?;
        let mut warnings: Vec<String> = entry.compiled.warnings.iter().map(ToString::to_string).collect();
        let siblings = self.siblings(name);
        if !siblings.is_empty() {
            warnings.push(format!(
                "{} of group {:?} has other CustomTransforms, which are applied too: {}",
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
