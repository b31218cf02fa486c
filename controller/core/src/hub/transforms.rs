//! The CustomTransforms of the WDS, compiled, and their statuses.
//!
//! Owned here: the choice of the transforms that apply to an object for a cluster, and their order.
//! Not here: removals and the built-in rules (crate `argosy-transforms`), and templates
//! (`properties`).

mod scope;
mod set;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use argosy_api::{CustomTransform, CustomTransformStatus};
use argosy_transforms::{Compiled, Transform, kinds};
use kube::ResourceExt;
use serde_json::Value;

use crate::{
    index::{
        decode_error,
        store::{Known, Version},
        text::shortened,
    },
    policy::Labels,
};
use scope::Scope;
use set::{Limits, Setter};

/// Maximum number of errors that are reported for one object, and the length of each in characters.
const MOST_ERRORS: usize = 8;
const LONGEST_ERROR: usize = 512;

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
    scope: Scope,
    set: Vec<Setter>,
    /// The errors in `scope` and `set`.
    errors: Vec<String>,
    /// The reason why a part of the object could not be read, if any.
    decode_error: Option<String>,
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

impl Touched {
    /// Adds the consequences of another change.
    pub(crate) fn add(&mut self, other: Self) {
        self.names.extend(other.names);
        self.resources.extend(other.resources);
    }
}

/// The cluster for which an object is transformed.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The labels of its ManagedCluster.
    pub labels: &'a Labels,
    /// Its properties, as templates have them; `None` if they are unknown or no transform of the
    /// object's kind reads them ([`Transforms::read_properties`]).
    pub properties: Option<&'a BTreeMap<String, String>>,
}

/// The sentences about the transforms of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Fields that a path of `remove` selects and that were kept.
    pub refused: Vec<String>,
    /// Errors of `set`. If there are any, no transform has set anything.
    pub errors: Vec<SetError>,
    /// Transforms that depend on the cluster, and the cluster is unknown. They were not applied.
    pub undecided: Vec<String>,
}

/// An entry of `set` that could not be applied to an object. Its `Display` is one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetError {
    /// The transform and the index of the entry.
    pub entry: String,
    /// The location, if known, and the reason. Both may quote the object: an earlier entry may have
    /// made a key of a value.
    pub reason: String,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = format!("{}: {}", self.entry, self.reason);
        f.write_str(&shortened(&sentence, LONGEST_ERROR))
    }
}

impl Effect {
    /// Like [`Self::obstacles`], for a Secret, which the reasons of errors may quote.
    pub(crate) fn obstacles_of_secret(mut self) -> Vec<String> {
        for error in &mut self.errors {
            "the value cannot be set; argosy render prints the reason to those who may read the Secret"
                .clone_into(&mut error.reason);
        }
        self.obstacles()
    }

    /// The reasons why the object must not be sent.
    pub(crate) fn obstacles(self) -> Vec<String> {
        let unknown = self
            .undecided
            .into_iter()
            .map(|name| format!("CustomTransform {name} depends on the cluster, which is not known yet"));
        let errors = self.errors.iter().map(ToString::to_string);
        errors.chain(unknown).collect()
    }
}

impl Entry {
    fn compile(mut transform: CustomTransform) -> Self {
        let mut errors = Vec::new();
        let scope = Scope::compile(&transform.spec, &mut errors);
        let set = set::compile(&transform.spec, &mut errors);
        Self {
            generation: transform.metadata.generation.unwrap_or_default(),
            resource_version: transform.resource_version().unwrap_or_default(),
            decode_error: decode_error::take(&mut transform.metadata),
            compiled: Transform::compile(&transform.spec.remove),
            scope,
            set,
            errors: errors
                .iter()
                .map(|error| shortened(error, LONGEST_ERROR))
                .collect(),
            group: transform.spec.api_group,
            resource: transform.spec.resource,
            status: transform.status,
        }
    }

    /// True if both have the same effect on the same objects.
    fn equals(&self, other: &Self) -> bool {
        self.is_of(&other.group, &other.resource)
            && self.compiled.transform == other.compiled.transform
            && (&self.scope, &self.set) == (&other.scope, &other.set)
    }

    fn is_of(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }

    /// Group and resource of the objects that the transform affects; `None` if it has no valid
    /// path.
    fn bound(&self) -> Option<(String, String)> {
        let is_bound = !self.compiled.transform.is_empty() || !self.set.is_empty();
        is_bound.then(|| (self.group.clone(), self.resource.clone()))
    }

    fn reads_properties(&self) -> bool {
        self.set.iter().any(Setter::reads_cluster)
    }

    /// True if the transform applies to objects with these labels for the target; `None` if that
    /// depends on a target that is unknown.
    fn applies(&self, labels: &Labels, target: Option<&Target<'_>>) -> Option<bool> {
        if !self.scope.has_object(labels) {
            return Some(false);
        }
        let Some(target) = target else {
            return (!self.scope.names_clusters() && !self.reads_properties()).then_some(true);
        };
        let applies = self.scope.has_cluster(target.labels);
        (!applies || target.properties.is_some() || !self.reads_properties()).then_some(applies)
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
    pub fn apply(&mut self, transform: CustomTransform) -> Touched {
        let name = transform.name_any();
        let mut names = self.siblings(&name);
        let entry = Entry::compile(transform);
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

    /// True if there are transforms of this kind.
    pub(crate) fn are_bound_to(&self, group: &str, resource: &str) -> bool {
        self.of(group, resource).next().is_some()
    }

    /// True if an error of a transform may keep an object of this kind from being sent.
    pub fn may_fail(&self, group: &str, resource: &str) -> bool {
        let mut entries = self.of(group, resource);
        entries.any(|(_, entry)| !entry.set.is_empty() || entry.scope.names_clusters())
    }

    /// True if a transform of this kind reads the properties of the cluster.
    pub fn read_properties(&self, group: &str, resource: &str) -> bool {
        self.of(group, resource)
            .any(|(_, entry)| entry.reads_properties())
    }

    /// Group and resource of the objects that the transforms may change differently for a cluster
    /// that had the labels `before` and has the labels `after`. With `has_new_properties`, its
    /// properties have changed too.
    pub(crate) fn touched_by(
        &self,
        before: Option<&Labels>,
        after: Option<&Labels>,
        has_new_properties: bool,
    ) -> BTreeSet<(String, String)> {
        let touched = self.by_name.values().filter(|entry| {
            let [was, is] =
                [before, after].map(|labels| labels.is_some_and(|it| entry.scope.has_cluster(it)));
            was != is && entry.scope.names_clusters() || is && has_new_properties && entry.reads_properties()
        });
        touched.filter_map(Entry::bound).collect()
    }

    /// Removes the fields of an object that belong to the API server and to the controllers of its
    /// kind, then the fields that the transforms name, and sets the values that the transforms set
    /// for the target.
    pub fn apply_to(
        &self,
        group: &str,
        resource: &str,
        object: &mut Value,
        target: Option<&Target<'_>>,
    ) -> Effect {
        let is_labeled = self
            .of(group, resource)
            .any(|(_, entry)| entry.scope.names_objects());
        let labels = if is_labeled { labels(object) } else { Labels::new() };
        kinds::strip(group, resource, object);
        let mut effect = Effect::default();
        let mut setting = Vec::new();
        for (name, entry) in self.of(group, resource) {
            match entry.applies(&labels, target) {
                None => effect.undecided.push(name.clone()),
                Some(false) => {}
                Some(true) => {
                    let applied = entry.compiled.transform.apply(object);
                    let sentences = applied.refused.iter();
                    let sentences = sentences.map(|refusal| format!("CustomTransform {name}: {refusal}"));
                    effect.refused.extend(sentences);
                    setting.extend(entry.set.iter().map(|setter| (name.as_str(), setter)));
                }
            }
        }
        if !setting.is_empty() {
            let properties = target.and_then(|target| target.properties);
            match set_all(&setting, object, properties.unwrap_or(&BTreeMap::new())) {
                Ok(changed) => *object = changed,
                Err(errors) => effect.errors = errors,
            }
        }
        effect
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
        let errors = errors.chain(entry.errors.iter().cloned());
        let wanted = CustomTransformStatus {
            observed_generation: entry.generation,
            errors: entry.decode_error.iter().cloned().chain(errors).collect(),
            warnings,
        };
        (entry.status.as_ref() != Some(&wanted)).then_some(wanted)
    }

    /// The transforms of a kind, in the order of their names.
    fn of<'a>(&'a self, group: &'a str, resource: &'a str) -> impl Iterator<Item = (&'a String, &'a Entry)> {
        let all = self.by_name.iter();
        all.filter(move |(_, entry)| entry.is_of(group, resource))
    }

    fn siblings(&self, name: &str) -> Vec<String> {
        let Some(entry) = self.by_name.get(name) else {
            return Vec::new();
        };
        self.by_name
            .iter()
            .filter(|(other, known)| *other != name && known.is_of(&entry.group, &entry.resource))
            .map(|(other, _)| other.clone())
            .collect()
    }
}

/// The object with all values set, or the errors.
fn set_all(
    setting: &[(&str, &Setter)],
    object: &Value,
    properties: &BTreeMap<String, String>,
) -> Result<Value, Vec<SetError>> {
    let is_computed = setting.iter().any(|(_, setter)| setter.is_computed());
    let work = || {
        let (mut object, mut limits, mut errors) = (object.clone(), Limits::default(), Vec::new());
        for (name, setter) in setting {
            if let Err(reason) = setter.apply(&mut object, properties, &mut limits) {
                let entry = format!("CustomTransform {name}: spec.set[{}]", setter.index);
                errors.push(SetError { entry, reason });
            }
            if errors.len() == MOST_ERRORS {
                break;
            }
        }
        if errors.is_empty() {
            Ok(object)
        } else {
            Err(errors)
        }
    };
    set::run(is_computed, work).unwrap_or_else(|reason| {
        let entry = "spec.set".to_owned();
        Err(vec![SetError { entry, reason }])
    })
}

fn labels(object: &Value) -> Labels {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let texts = labels.into_iter().flatten();
    texts
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests;
