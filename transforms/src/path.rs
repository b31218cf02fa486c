//! One path of a transform: parsing, checks, and the rejection of paths of `spec.remove` that would
//! always break the object.
//!
//! Owned here: the limits on a path and the reasons of a rejection. Not here: evaluation
//! (`evaluate`), the number of paths, and the paths of `spec.set` (`set`).

use std::collections::BTreeSet;

use jsonpath_rust::parser::errors::JsonPathError;
use jsonpath_rust::parser::model::{JpQuery, Segment};
use jsonpath_rust::parser::parse_json_path;
use serde_json::{Value, json};

use crate::evaluate::{self, MAX_WORK, OutOfWork, Work};
use crate::lexical::{self, Flaw, MAX_NESTING};
use crate::location::Location;
use crate::{MAX_RULES, typing};

/// Maximum length of a path in bytes of UTF-8.
pub const MAX_PATH_BYTES: usize = 1024;

/// The reason why a path is rejected. Its `Display` omits the position, which [`crate::PathError`]
/// adds for `spec.remove`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// There are more than [`MAX_RULES`] entries; this one and all later ones are not used.
    #[error(
        "only the first {MAX_RULES} paths are used; move this path and the following ones to another CustomTransform"
    )]
    TooManyRules,
    /// The path is longer than [`MAX_PATH_BYTES`].
    #[error("the path has {0} bytes; the limit is {MAX_PATH_BYTES}")]
    TooLong(usize),
    /// More than [`MAX_NESTING`] parentheses and brackets are open at once.
    #[error("more than {MAX_NESTING} parentheses and brackets are nested")]
    TooDeep,
    /// The text is not a path of RFC 9535.
    #[error("not a JSONPath of RFC 9535: {0}")]
    Syntax(String),
    /// A filter is not well typed, has an invalid pattern, or uses an unsupported function.
    #[error("in a filter: {0}")]
    Filter(String),
    /// The path is `$`.
    #[error("it identifies the whole object")]
    WholeObject,
    /// The path selects a field that must be kept in every object.
    #[error("it would remove {0}, which must stay; narrow the path, for instance to $.spec")]
    Protected(Location),
    /// The path sets a field that Argosy or the API server sets itself.
    #[error("it would set {0}, which only Argosy or the API server sets; choose another path")]
    Owned(Location),
}

impl PathProblem {
    /// Prefix of the message, as in KubeStellar: `Error in` if the path cannot be parsed, `Invalid`
    /// if it must not be applied.
    pub fn prefix(&self) -> &'static str {
        match self {
            Self::TooManyRules | Self::TooLong(_) | Self::TooDeep | Self::Syntax(_) | Self::Filter(_) => {
                "Error in"
            }
            Self::WholeObject | Self::Protected(_) | Self::Owned(_) => "Invalid",
        }
    }
}

/// A path that was parsed and has passed every check that needs no object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    text: String,
    query: JpQuery,
}

impl Path {
    /// A path of `spec.remove`.
    pub(crate) fn parse(text: &str) -> Result<Self, PathProblem> {
        let path = Self::read(text)?;
        path.refuse_certain_harm()?;
        Ok(path)
    }

    /// A path of any use. It names more than the whole object.
    pub(crate) fn read(text: &str) -> Result<Self, PathProblem> {
        if text.len() > MAX_PATH_BYTES {
            return Err(PathProblem::TooLong(text.len()));
        }
        lexical::check(text).map_err(|error| match error {
            Flaw::TooDeep => PathProblem::TooDeep,
            Flaw::StrayBlank(character) => {
                PathProblem::Syntax(format!("unexpected blank before character {character}"))
            }
        })?;
        let query = parse_json_path(text).map_err(|error| PathProblem::Syntax(describe(text, &error)))?;
        typing::check(&query.segments).map_err(PathProblem::Filter)?;
        if query.segments.is_empty() {
            return Err(PathProblem::WholeObject);
        }
        Ok(Self {
            text: text.to_owned(),
            query,
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.query.segments
    }

    /// The locations that the path selects in `document`.
    pub(crate) fn locate(&self, document: &Value) -> Result<BTreeSet<Location>, OutOfWork> {
        evaluate::locate(&self.query.segments, document, &mut Work::new(MAX_WORK))
    }

    /// Every object has the protected fields. If a path without filters selects one of them in a
    /// minimal object, it does so in every object. The result of a filter depends on the object, so
    /// [`crate::Transform::apply`] checks such paths.
    fn refuse_certain_harm(&self) -> Result<(), PathProblem> {
        if typing::has_filter(&self.query.segments) {
            return Ok(());
        }
        let bare = json!({"apiVersion": "", "kind": "", "metadata": {"name": "", "namespace": ""}});
        let selected = self.locate(&bare).unwrap_or_default();
        match selected.into_iter().find(Location::is_protected) {
            Some(location) => Err(PathProblem::Protected(location)),
            None => Ok(()),
        }
    }
}

/// The beginning of `text`, at most [`MAX_PATH_BYTES`] long.
pub(crate) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_PATH_BYTES))
        .unwrap_or_default()
}

/// The parser's message on one line, or a better one for the most common mistake.
fn describe(text: &str, error: &JsonPathError) -> String {
    if !text.starts_with('$') {
        return "a path must begin with $, for instance $.spec.suspend".to_owned();
    }
    let JsonPathError::PestError(error) = error else {
        return error.to_string().replace('\n', " ");
    };
    // The parser's message contains rules of its grammar, but only the position is useful. The
    // first line of the message contains it as ` --> LINE:CHARACTER`.
    let drawn = error.to_string();
    let place = drawn
        .lines()
        .next()
        .and_then(|line| line.trim_start_matches(" --> ").split_once(':'));
    let Some((Ok(line), Ok(column))) = place.map(|(l, c)| (l.parse::<usize>(), c.parse::<usize>())) else {
        return "it cannot be parsed".to_owned();
    };
    let rest = text.split('\n').nth(line.saturating_sub(1)).unwrap_or_default();
    match rest.chars().nth(column.saturating_sub(1)) {
        Some(c) if line == 1 => {
            format!("unexpected {c:?} at character {column} (unusual names need quotes: $[\"a-b\"])")
        }
        Some(c) => format!("unexpected {c:?} at character {column} of line {line}"),
        None => "it ends too early".to_owned(),
    }
}

#[cfg(test)]
mod tests;
