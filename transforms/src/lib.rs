//! The `CustomTransform` engine: JSON in, JSON out.
//!
//! Owned here: compiling the paths of `spec.remove` ([`Transform::compile`]), removing the selected
//! values from an object ([`Transform::apply`]), finding the locations that a path of `spec.set`
//! sets ([`set`]), and the built-in rules for objects that are sent to a WEC ([`kinds`],
//! [`object`], [`workflow`]). Not here: the assignment of transforms to objects, the values that
//! `spec.set` sets, the reporting of errors, and the fields that Argosy adds to an object
//! afterwards.
//! The crate has no Kubernetes client, no I/O and no clock.
//!
//! Paths are RFC 9535 `JSONPath`, which includes KubeStellar's own dialect (`$`, `.name`,
//! `["name"]`); indexes, slices, wildcards, descendants and filters with the functions of the
//! standard are an extension.
//!
//! Every path of `spec.remove` selects from the object before the transform. The order of the paths
//! therefore does not matter, and `$.spec.args[0]` selects the same element at any position in
//! `spec.remove`.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "a table has many cases"))]

mod edit;
mod evaluate;
mod filter;
mod iregexp;
pub mod kinds;
mod lexical;
mod location;
pub mod object;
mod owned;
mod path;
mod pattern;
pub mod set;
pub mod template;
mod typing;
pub mod workflow;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

pub use evaluate::MAX_WORK;
pub use lexical::MAX_NESTING;
pub use location::{Location, Step};
pub use path::{MAX_PATH_BYTES, PathProblem};

use path::Path;

/// Maximum number of entries of `spec.remove` that are used. Further entries are rejected.
pub const MAX_RULES: usize = 64;

/// The valid paths of a `CustomTransform`, parsed once and applied to any number of objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transform {
    rules: Vec<Rule>,
}

/// A path and its index in `spec.remove`.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    index: usize,
    path: Path,
}

/// The result of compiling `spec.remove`. Invalid paths do not invalidate the valid ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compiled {
    /// The transform with the valid paths.
    pub transform: Transform,
    /// The rejected paths, in the order of `spec.remove`. `to_string` gives the text for
    /// `status.errors`.
    pub errors: Vec<PathError>,
    /// Valid paths without an effect of their own. `to_string` gives the text for
    /// `status.warnings`.
    pub warnings: Vec<PathWarning>,
}

/// A rejected entry of `spec.remove`. Its `Display` is KubeStellar's wording for
/// `CustomTransform.status.errors`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} spec.remove[{index}]: {problem}", problem.prefix())]
pub struct PathError {
    /// Position in `spec.remove`, from 0.
    pub index: usize,
    /// The path as written, cut to [`MAX_PATH_BYTES`].
    pub path: String,
    /// The reason of the rejection.
    pub problem: PathProblem,
}

impl PathError {
    fn new(index: usize, text: &str, problem: PathProblem) -> Self {
        Self {
            index,
            path: path::cut(text).to_owned(),
            problem,
        }
    }
}

/// An entry of `spec.remove` that repeats an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathWarning {
    /// Position in `spec.remove`, from 0.
    pub index: usize,
    /// Position of the first entry with the same text.
    pub first: usize,
}

impl fmt::Display for PathWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "spec.remove[{}] repeats spec.remove[{}]",
            self.index, self.first
        )
    }
}

/// The result of applying a transform to one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Number of removed members and elements. Values inside a removed value are not counted.
    pub removed: usize,
    /// Selected locations that were not removed, and paths that could not be evaluated.
    pub refused: Vec<Refusal>,
}

/// A path that was not applied completely to one object; the other paths were applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Position in `spec.remove`, from 0.
    pub index: usize,
    /// The path as written.
    pub path: String,
    /// The reason.
    pub reason: RefusalReason,
}

/// The reason why a path was not applied completely to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The path selected a field that identifies the object. The field is kept; the path's other
    /// values are removed.
    Protected(Location),
    /// Evaluating the path took more than [`MAX_WORK`] steps. It removed nothing.
    TooMuchWork,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            RefusalReason::Protected(location) => write!(
                f,
                "spec.remove[{}] selects {location}, which must stay; narrow the path",
                self.index
            ),
            RefusalReason::TooMuchWork => write!(
                f,
                "spec.remove[{}] took more than {MAX_WORK} steps on this object and removed nothing; narrow the path",
                self.index
            ),
        }
    }
}

impl Transform {
    /// Compiles the entries of `spec.remove` without duplicates. The entries after [`MAX_RULES`]
    /// get one common error.
    pub fn compile<S: AsRef<str>>(remove: &[S]) -> Compiled {
        let mut compiled = Compiled::default();
        let mut first_index = BTreeMap::new();
        for (index, text) in remove.iter().map(AsRef::as_ref).enumerate().take(MAX_RULES) {
            if let Some(&first) = first_index.get(text) {
                compiled.warnings.push(PathWarning { index, first });
                continue;
            }
            first_index.insert(text, index);
            match Path::parse(text) {
                Ok(path) => compiled.transform.rules.push(Rule { index, path }),
                Err(problem) => compiled.errors.push(PathError::new(index, text, problem)),
            }
        }
        if let Some(text) = remove.get(MAX_RULES) {
            // One error for all further entries, because a status must stay small for any spec.
            compiled.errors.push(PathError::new(
                MAX_RULES,
                text.as_ref(),
                PathProblem::TooManyRules,
            ));
        }
        compiled
    }

    /// Returns true if there are no valid paths, so that [`Transform::apply`] changes nothing.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Removes all values that the paths select from `document`. Parents that become empty are
    /// kept, as in KubeStellar.
    pub fn apply(&self, document: &mut Value) -> Applied {
        let mut locations = BTreeSet::new();
        let mut refused = Vec::new();
        for Rule { index, path } in &self.rules {
            let mut refuse = |reason| {
                refused.push(Refusal {
                    index: *index,
                    path: path.text().to_owned(),
                    reason,
                });
            };
            match path.locate(document) {
                Ok(found) => {
                    for location in found {
                        if location.is_protected() {
                            refuse(RefusalReason::Protected(location));
                        } else {
                            locations.insert(location);
                        }
                    }
                }
                Err(evaluate::OutOfWork) => refuse(RefusalReason::TooMuchWork),
            }
        }
        Applied {
            removed: edit::remove(document, &locations),
            refused,
        }
    }
}

#[cfg(test)]
mod tests;
