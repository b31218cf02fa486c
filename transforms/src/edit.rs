//! Removal and replacement of values at known locations of a document.
//!
//! Owned here: the order of the edits, so that no removal changes the meaning of another location.
//! Not here: the choice of the locations.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::location::{Location, Step};

/// Removes the locations and returns the number of those that existed. A location inside another
/// one is removed with that and not counted.
pub(crate) fn remove(document: &mut Value, locations: &BTreeSet<Location>) -> usize {
    let mut by_parent: BTreeMap<&[Step], BTreeSet<&Step>> = BTreeMap::new();
    for location in topmost(locations) {
        if let Some((last, parent)) = location.0.split_last() {
            by_parent.entry(parent).or_default().insert(last);
        }
    }
    // Descendants are edited before ancestors, because a removal changes the indexes of later
    // elements.
    by_parent
        .iter()
        .rev()
        .map(|(parent, steps)| resolve(document, parent).map_or(0, |value| remove_children(value, steps)))
        .sum()
}

/// The locations that are not inside another one of the set. An ancestor sorts directly before its
/// descendants.
pub(crate) fn topmost(locations: &BTreeSet<Location>) -> Vec<&Location> {
    let mut kept: Vec<&Location> = Vec::new();
    for location in locations {
        if !kept.last().is_some_and(|above| location.0.starts_with(&above.0)) {
            kept.push(location);
        }
    }
    kept
}

/// Puts a value in the place of another one, or adds a member to an object. Returns false if the
/// parent does not exist.
pub(crate) fn put(document: &mut Value, location: &Location, value: Value) -> bool {
    let Some((last, parent)) = location.0.split_last() else {
        return false;
    };
    match (resolve(document, parent), last) {
        (Some(Value::Object(members)), Step::Key(key)) => {
            members.insert(key.clone(), value);
            true
        }
        (Some(Value::Array(elements)), Step::Index(index)) => match elements.get_mut(*index) {
            Some(element) => {
                *element = value;
                true
            }
            None => false,
        },
        _ => false,
    }
}

fn resolve<'a>(document: &'a mut Value, steps: &[Step]) -> Option<&'a mut Value> {
    steps.iter().try_fold(document, |value, step| match step {
        Step::Key(key) => value.as_object_mut()?.get_mut(key),
        Step::Index(index) => value.as_array_mut()?.get_mut(*index),
    })
}

fn remove_children(parent: &mut Value, steps: &BTreeSet<&Step>) -> usize {
    match parent {
        Value::Object(members) => steps
            .iter()
            .filter(|step| matches!(step, Step::Key(key) if members.remove(key).is_some()))
            .count(),
        Value::Array(elements) => {
            let before = elements.len();
            let mut index = 0;
            // One pass for all removals: removing elements one by one is quadratic in a long list.
            elements.retain(|_| {
                let keep = !steps.contains(&Step::Index(index));
                index += 1;
                keep
            });
            before - elements.len()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Step {
        Step::Key(name.to_owned())
    }

    #[track_caller]
    fn check(mut document: Value, locations: &[&[Step]], expected: &Value, removed: usize) {
        let locations = locations.iter().map(|steps| Location(steps.to_vec())).collect();
        assert_eq!(remove(&mut document, &locations), removed);
        assert_eq!(&document, expected);
    }

    #[test]
    fn several_elements_of_one_array_go_by_their_old_index() {
        check(
            json!([0, 1, 2, 3]),
            &[&[Step::Index(0)], &[Step::Index(2)]],
            &json!([1, 3]),
            2,
        );
    }

    #[test]
    fn a_location_inside_another_goes_with_it_and_is_not_counted() {
        let document = json!({"a": {"b": {"c": 1}}, "z": 1});
        check(
            document,
            &[&[key("a")], &[key("a"), key("b"), key("c")]],
            &json!({"z": 1}),
            1,
        );
    }

    #[test]
    fn a_neighbor_with_a_common_prefix_is_another_location() {
        check(
            json!({"a": 1, "ab": 1, "b": 1}),
            &[&[key("a")], &[key("b")]],
            &json!({"ab": 1}),
            2,
        );
    }

    #[test]
    fn inner_and_outer_arrays_are_edited_from_the_inside() {
        let locations: [&[Step]; 3] = [
            &[Step::Index(0)],
            &[Step::Index(1), Step::Index(0)],
            &[Step::Index(2), Step::Index(1)],
        ];
        check(json!([[1, 2], [3, 4], [5, 6]]), &locations, &json!([[4], [5]]), 3);
    }

    #[test]
    fn what_is_not_there_is_not_counted() {
        let locations: [&[Step]; 4] = [
            &[key("x")],
            &[key("a"), key("b")],
            &[key("a"), Step::Index(0)],
            &[Step::Index(0)],
        ];
        check(json!({"a": 1}), &locations, &json!({"a": 1}), 0);
    }
}
