//! Locations in a JSON document, and the locations that no transform may remove.
//!
//! Owned here: the order of locations that editing relies on. Not here: finding them (`evaluate`)
//! and editing (`edit`).

use std::fmt;

use serde_json::Value;

/// One step from a value to one of its children.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Member of an object.
    Key(String),
    /// Element of an array, from 0.
    Index(usize),
}

/// The steps from the root to one value. Its `Display` is the normalized path of RFC 9535 §2.7.
///
/// The order is lexicographic by step: an ancestor comes directly before all its descendants.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location(pub Vec<Step>);

/// Fields that identify an object. Removing one of them, or an ancestor, makes the object invalid.
const PROTECTED: [&[&str]; 4] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
];

impl Location {
    /// The value at this location, if it exists.
    pub fn of<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(document, |value, step| match step {
            Step::Key(key) => value.as_object()?.get(key),
            Step::Index(index) => value.as_array()?.get(*index),
        })
    }

    /// Returns true if removing this location removes `apiVersion`, `kind`, `metadata.name` or
    /// `metadata.namespace`.
    pub(crate) fn is_protected(&self) -> bool {
        PROTECTED.iter().any(|field| {
            self.0.len() <= field.len()
                && self
                    .0
                    .iter()
                    .zip(*field)
                    .all(|(step, key)| matches!(step, Step::Key(k) if k == key))
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        self.0.iter().try_for_each(|step| write!(f, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(key) => {
                f.write_str("['")?;
                key.chars().try_for_each(|c| write_escaped(f, c))?;
                f.write_str("']")
            }
        }
    }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    match c {
        '\'' => f.write_str("\\'"),
        '\\' => f.write_str("\\\\"),
        '\u{8}' => f.write_str("\\b"),
        '\u{c}' => f.write_str("\\f"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c)),
        c => write!(f, "{c}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(keys: &[&str]) -> Location {
        Location(keys.iter().map(|key| Step::Key((*key).to_owned())).collect())
    }

    #[test]
    fn the_identity_of_an_object_and_its_ancestors_are_protected() {
        for keys in [
            &[][..],
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
        ] {
            assert!(at(keys).is_protected(), "{}", at(keys));
        }
    }

    #[test]
    fn fields_beside_or_named_like_the_identity_are_not_protected() {
        for keys in [
            &["spec"][..],
            &["spec", "name"],
            &["metadata", "labels"],
            &["metadata", "labels", "name"],
            &["spec", "kind"],
        ] {
            assert!(!at(keys).is_protected(), "{}", at(keys));
        }
    }

    #[test]
    fn locations_are_displayed_as_normalized_paths() {
        let location = Location(vec![
            Step::Key("it's".to_owned()),
            Step::Index(3),
            Step::Key("a\\b\n\u{b}\u{8}\u{c}\r\té/~\"".to_owned()),
        ]);
        assert_eq!(
            location.to_string(),
            "$['it\\'s'][3]['a\\\\b\\n\\u000b\\b\\f\\r\\té/~\"']"
        );
    }
}
