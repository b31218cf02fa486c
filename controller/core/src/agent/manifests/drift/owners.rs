//! Finds the owner of a single value of an object, for the fields that a ManifestWork ignores.
//!
//! Not here: the decision about such a field (`desired`).

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    super::jsonpath::Step, Elements, NEVER_OWNED, Steps, field, is_untracked, is_whole, owns, owns_metadata,
};

/// The owned part of a value of a set.
static WHOLE: Value = Value::Null;

/// The owner of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Owner {
    /// Our manager, perhaps besides others.
    Ours,
    /// Others, or nobody.
    Others,
    /// The search has taken too many steps.
    Unknown,
}

/// A search for owners of values of one object.
pub(in super::super) struct Owners<'a> {
    /// The fields that our manager has applied. `None` if it never applied the object.
    owned: Option<&'a Value>,
    /// The elements of lists, by the address of what is owned of them, because many values may be in one
    /// list.
    lists: HashMap<*const Map<String, Value>, Option<Elements<'a>>>,
    steps: Steps,
}

impl<'a> Owners<'a> {
    /// Creates a search in the fields that our manager has applied.
    pub(in super::super) fn new(owned: Option<&'a Value>) -> Self {
        Self {
            owned,
            lists: HashMap::new(),
            steps: Steps::default(),
        }
    }

    /// The owner of the value at a location in an object that is to be applied.
    pub(in super::super) fn of(&mut self, object: &Value, location: &[Step]) -> Owner {
        let Some(owned) = self.owned else {
            return Owner::Others;
        };
        let is_ours = match location {
            [Step::Field(first), ..] if matches!(first.as_str(), "apiVersion" | "kind" | "status") => true,
            [Step::Field(first), Step::Field(name), ..]
                if first == "metadata" && NEVER_OWNED.contains(&name.as_str()) =>
            {
                true
            }
            [Step::Field(first)] if first == "metadata" => object
                .get(first)
                .is_some_and(|metadata| owns_metadata(owned, metadata, &mut self.steps)),
            [Step::Field(first), rest @ ..] => self.owns_field_at(owned, object, first, rest),
            _ => false,
        };
        if is_ours {
            Owner::Ours
        } else if self.steps.are_left() {
            Owner::Others
        } else {
            Owner::Unknown
        }
    }

    fn owns_field_at(&mut self, owned: &'a Value, parent: &Value, name: &str, rest: &[Step]) -> bool {
        let Some(value) = parent.get(name) else {
            return false;
        };
        (rest.is_empty() && is_untracked(value))
            || field(owned, name).is_some_and(|owned| self.owns_at(owned, value, rest))
    }

    /// True if the value at a location below `value` is owned.
    fn owns_at(&mut self, owned: &'a Value, value: &Value, location: &[Step]) -> bool {
        match location {
            [] => owns(owned, value, &mut self.steps),
            _ if is_whole(owned) => true,
            [Step::Field(name), rest @ ..] => self.owns_field_at(owned, value, name, rest),
            [Step::Index(index), rest @ ..] => value.get(*index).is_some_and(|item| {
                let elements = self.elements_of(owned, item);
                elements.is_some_and(|elements| elements.iter().any(|owned| self.owns_at(owned, item, rest)))
            }),
        }
    }

    /// The owned parts of those elements of a list that `item` may be. `None` if nothing of it is a list.
    fn elements_of(&mut self, list: &'a Value, item: &Value) -> Option<Vec<&'a Value>> {
        let children = list.as_object()?;
        let steps = &mut self.steps;
        let elements = self
            .lists
            .entry(std::ptr::from_ref(children))
            .or_insert_with(|| Elements::of(children, steps))
            .as_mut()?;
        if elements.has_value(item, steps) {
            return Some(vec![&WHOLE]);
        }
        Some(elements.with_keys_of(item, steps).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{super::jsonpath::JsonPath, STEPS},
        *,
    };

    /// The owners of the values that a path selects.
    fn found(owners: &mut Owners<'_>, object: &Value, path: &str) -> Vec<Owner> {
        let locations = JsonPath::parse(path).unwrap().locate(object);
        locations
            .iter()
            .map(|location| owners.of(object, location))
            .collect()
    }

    #[test]
    fn each_value_has_its_own_owner_in_lists_too() {
        use Owner::{Others, Ours};
        let object = json!({
            "kind": "Any",
            "metadata": { "name": "x", "labels": { "a": "1", "b": "2" } },
            "spec": {
                "replicas": 1, "empty": [], "atomic": [{ "x": 1 }], "set": ["a", "b"],
                "ports": [{ "port": 1, "x": 1 }, { "port": 2, "x": 1 }, { "port": 3, "x": 1 }],
            },
        });
        let owned = json!({
            "f:metadata": { "f:labels": { "f:a": {} } },
            "f:spec": {
                "f:replicas": {}, "f:atomic": {}, "f:set": { "v:\"a\"": {} },
                "f:ports": {
                    "k:{\"port\":1,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {}, "f:x": {} },
                    "k:{\"port\":2,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {} },
                },
            },
        });
        for (path, owner) in [
            (".kind", vec![Ours]),
            (".metadata", vec![Others]),
            (".metadata.name", vec![Ours]),
            (".metadata.labels.*", vec![Ours, Others]),
            (".metadata.labels", vec![Others]),
            (".spec.replicas", vec![Ours]),
            (".spec.empty", vec![Ours]),
            (".spec.atomic[0].x", vec![Ours]),
            (".spec.set[*]", vec![Ours, Others]),
            (".spec.ports[*].x", vec![Ours, Others, Others]),
            (".spec.ports[*].port", vec![Ours, Ours, Others]),
            (".spec.ports[*]", vec![Ours, Others, Others]),
            (".spec.ports", vec![Others]),
        ] {
            assert_eq!(
                found(&mut Owners::new(Some(&owned)), &object, path),
                owner,
                "{path}"
            );
            let never_applied = found(&mut Owners::new(None), &object, path);
            assert!(never_applied.iter().all(|owner| *owner == Others), "{path}");
        }
    }

    #[test]
    fn values_of_a_long_list_take_a_few_steps_each() {
        let count = 20_000;
        let items: Vec<Value> = (0..count).map(|name| json!({ "name": name, "x": 1 })).collect();
        let object = json!({ "items": items });
        let elements =
            (0..count).map(|name| (format!("k:{{\"name\":{name}}}"), json!({ ".": {}, "f:x": {} })));
        let owned = json!({ "f:items": elements.collect::<Map<_, _>>() });
        let mut owners = Owners::new(Some(&owned));
        let found = found(&mut owners, &object, ".items[*].x");
        assert!(found.iter().all(|owner| *owner == Owner::Ours));
        let taken = STEPS - owners.steps.0.unwrap();
        assert!(taken <= 10 * count, "{taken}");
    }

    #[test]
    fn an_owner_that_takes_too_many_steps_is_unknown() {
        let long = "a".repeat(20_000);
        let object = json!({ "set": [long], "other": 1 });
        let owned = json!({ "f:set": { format!("v:{}", json!(long)): {} } });
        let mut owners = Owners::new(Some(&owned));
        assert_eq!(found(&mut owners, &object, ".other"), [Owner::Others]);
        assert_eq!(found(&mut owners, &object, ".set[0]"), [Owner::Unknown]);
        assert_eq!(found(&mut owners, &object, ".other"), [Owner::Unknown]);
    }
}
