//! One path of `spec.set`: the values that it replaces, and the members that it adds.
//!
//! Owned here: the choice of the locations, and the protection of fields that no transform may set.
//! Not here: the new values, which may be computed by an expression (`argosy-core`).

use std::collections::BTreeSet;

use jsonpath_rust::parser::model::{Segment, Selector};
use serde_json::{Value, json};

use crate::evaluate::{self, MAX_WORK, OutOfWork, Work};
use crate::location::{Location, Step};
use crate::path::{Path, PathProblem};
use crate::{edit, owned, typing};

/// The work that the paths of `spec.set` may take together on one object: [`MAX_WORK`] steps.
#[derive(Debug)]
pub struct Steps(Work);

impl Default for Steps {
    fn default() -> Self {
        Self(Work::new(MAX_WORK))
    }
}

/// A valid path of `spec.set`, parsed once.
#[derive(Clone, Debug, PartialEq)]
pub struct SetPath {
    path: Path,
    group: String,
    resource: String,
}

impl SetPath {
    /// Parses a path for the objects of a resource. `value` is the value to be set, if it is known.
    ///
    /// # Errors
    ///
    /// The path cannot be used, or it sets a field in every object that no transform may set.
    pub fn parse(
        text: &str,
        group: &str,
        resource: &str,
        value: Option<&Value>,
    ) -> Result<Self, PathProblem> {
        let path = Self {
            path: Path::read(text)?,
            group: group.to_owned(),
            resource: resource.to_owned(),
        };
        if typing::has_filter(path.path.segments()) {
            return Ok(path);
        }
        let bare = json!({
            "apiVersion": "", "kind": "", "spec": {},
            "metadata": { "name": "", "namespace": "", "labels": {}, "annotations": {} },
        });
        let set = path.locate(&bare, &mut Steps::default()).unwrap_or_default();
        let value = value.unwrap_or(&Value::Null);
        match set.iter().find_map(|location| path.owned(location, value)) {
            Some(field) => Err(PathProblem::Owned(field)),
            None => Ok(path),
        }
    }

    /// The path as written.
    pub fn text(&self) -> &str {
        self.path.text()
    }

    /// The locations that the path sets in `document`: the values that it selects, except those
    /// inside another one, and, if its last segment is a name, this member of each object that the
    /// other segments select and that does not have it. `None` if there are no `steps` left.
    pub fn locate(&self, document: &Value, steps: &mut Steps) -> Option<Vec<Location>> {
        let located = self.all(document, &mut steps.0).ok()?;
        Some(edit::topmost(&located).into_iter().cloned().collect())
    }

    fn all(&self, document: &Value, work: &mut Work) -> Result<BTreeSet<Location>, OutOfWork> {
        let segments = self.path.segments();
        let mut located = evaluate::locate(segments, document, work)?;
        if let Some((Segment::Selector(Selector::Name(name)), rest)) = segments.split_last() {
            for mut parent in evaluate::locate(rest, document, work)? {
                work.spend(parent.0.len() + evaluate::to_copy(name))?;
                let members = parent.of(document).and_then(Value::as_object);
                if members.is_some_and(|members| !members.contains_key(name)) {
                    parent.0.push(Step::Key(name.clone()));
                    located.insert(parent);
                }
            }
        }
        Ok(located)
    }

    /// The field that `value` at `location` would set and that no transform may set: the location
    /// itself, or a member of `value`.
    pub fn owned(&self, location: &Location, value: &Value) -> Option<Location> {
        owned::touched(&self.group, &self.resource, location, value)
    }
}

/// Puts values at locations of [`SetPath::locate`], which were found in the same document.
pub fn put(document: &mut Value, values: impl IntoIterator<Item = (Location, Value)>) {
    for (location, value) in values {
        edit::put(document, &location, value);
    }
}

#[cfg(test)]
mod tests;
