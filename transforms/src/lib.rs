//! The `CustomTransform` engine: JSON in, JSON out.
//!
//! Owns: compiling the paths of `spec.remove` ([`Transform::compile`]), taking what they select out of an object
//! ([`Transform::apply`]), and the built-in rules for objects on their way to a WEC ([`kinds`], [`object`], [`workflow`]).
//! Does not own: which transforms are bound to an object, where their errors are reported, or what Argosy adds
//! to an object afterwards. No Kubernetes client, no I/O, no clock.
//!
//! Paths are RFC 9535 `JSONPath`, of which KubeStellar's own dialect (`$`, `.name`, `["name"]`) is a part; indexes,
//! slices, wildcards, descendants and filters are an extension. The functions `match` and `search` are refused.
//!
//! Every path of a transform selects from the object as it was before the transform, so the order of the paths
//! does not matter and `$.spec.args[0]` means the same element wherever it stands in the list.

mod edit;
mod evaluate;
mod filter;
pub mod kinds;
mod lexical;
mod location;
pub mod object;
mod path;
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

/// How many entries of `spec.remove` are used. The ones after it are refused.
pub const MAX_RULES: usize = 64;

/// The good paths of a `CustomTransform`, parsed once and applied to any number of objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transform {
    rules: Vec<Rule>,
}

/// A path and its place in `spec.remove`.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    index: usize,
    path: Path,
}

/// What came of compiling `spec.remove`: broken paths do not void the good ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compiled {
    /// The transform of the good paths.
    pub transform: Transform,
    /// The refused paths, in the order of `spec.remove`. `to_string` gives the text for `status.errors`.
    pub errors: Vec<PathError>,
    /// Paths that work but add nothing. `to_string` gives the text for `status.warnings`.
    pub warnings: Vec<PathWarning>,
}

/// A refused entry of `spec.remove`. Displayed as KubeStellar words it in `CustomTransform.status.errors`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} spec.remove[{index}]: {problem}", problem.prefix())]
pub struct PathError {
    /// Position in `spec.remove`, from 0.
    pub index: usize,
    /// The path as written, cut to [`MAX_PATH_BYTES`].
    pub path: String,
    /// Why it is refused.
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

/// What applying a transform to one object did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// How many members and elements were taken out. One inside another that went is not counted again.
    pub removed: usize,
    /// What was selected and left in place, or could not be evaluated.
    pub refused: Vec<Refusal>,
}

/// A path that could not do all it says for one object; the other paths did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Position in `spec.remove`, from 0.
    pub index: usize,
    /// The path as written.
    pub path: String,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a path was held back for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The path selected a field without which the object is not this object any more. The field stays;
    /// whatever else the path selected is removed.
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
    /// Compiles the entries of `spec.remove`, each once; those after [`MAX_RULES`] share one error.
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
            // One error for all the rest: a status must stay small whatever the spec holds.
            compiled.errors.push(PathError::new(
                MAX_RULES,
                text.as_ref(),
                PathProblem::TooManyRules,
            ));
        }
        compiled
    }

    /// Whether no path is left, so that [`Transform::apply`] changes nothing.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Removes from `document` everything that the paths select. Emptied parents stay, as in KubeStellar.
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
