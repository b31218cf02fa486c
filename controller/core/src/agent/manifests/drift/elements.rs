//! The elements of a list that `managedFields` name, found by their keys in constant time.
//!
//! Not here: the fields of an element that are owned (`drift`).

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::Steps;

/// Maximum length in bytes of the notation of an element; a longer one names none. As a tree, some texts
/// take a hundred times their length.
const LONGEST: usize = 16 * 1024;

/// The values of some keys, in the order of the keys.
type Values = Vec<String>;

/// The elements of a list.
#[derive(Default)]
pub(super) struct Elements<'a> {
    /// The values of a set.
    values: HashSet<String>,
    /// The names of the keys of an element, which all elements of a list share.
    names: Vec<String>,
    /// The values of all keys of an element, and the owned part of it.
    keyed: Vec<(Values, &'a Value)>,
    /// The same by the values of those keys that some item has. A manifest may omit a key that the server
    /// defaults, such as the protocol of a port.
    by_some: HashMap<Vec<bool>, HashMap<Values, Vec<&'a Value>>>,
}

impl<'a> Elements<'a> {
    /// The elements that are named among the children of a field.
    pub(super) fn of(children: &'a Map<String, Value>) -> Self {
        let mut elements = Self::default();
        for (notation, owned) in children {
            let Some((tag, text)) = notation.split_once(':').filter(|(_, text)| text.len() <= LONGEST) else {
                continue;
            };
            match (tag, serde_json::from_str(text)) {
                ("v", Ok(value)) => {
                    elements.values.insert(canonical(&value));
                }
                ("k", Ok(Value::Object(keys))) => elements.add(&keys, owned),
                _ => {}
            }
        }
        elements
    }

    fn add(&mut self, keys: &Map<String, Value>, owned: &'a Value) {
        if self.keyed.is_empty() {
            self.names = keys.keys().cloned().collect();
        }
        let values = self.names.iter().map(|name| keys.get(name).map(canonical));
        if let Some(values) = values.collect::<Option<Values>>()
            && keys.len() == values.len()
        {
            self.keyed.push((values, owned));
        }
    }

    /// True if the item is a value of the set.
    pub(super) fn has_value(&self, item: &Value) -> bool {
        !self.values.is_empty() && self.values.contains(&canonical(item))
    }

    /// The owned parts of the elements that have the keys of an item, as far as the item has them. None if
    /// the steps do not suffice.
    pub(super) fn with_keys_of(&mut self, item: &Value, steps: &mut Steps) -> &[&'a Value] {
        let Some(fields) = item.as_object() else {
            return &[];
        };
        let has: Vec<bool> = self.names.iter().map(|name| fields.contains_key(name)).collect();
        let own = self.names.iter().filter_map(|name| fields.get(name));
        let own: Values = own.map(canonical).collect();
        if !self.by_some.contains_key(&has) {
            // An entry takes more memory than a step takes time.
            if !steps.take(self.keyed.len().saturating_mul(4)) {
                return &[];
            }
            let mut by: HashMap<Values, Vec<&Value>> = HashMap::new();
            for (values, owned) in &self.keyed {
                let some = values.iter().zip(&has).filter(|(_, has)| **has);
                let some = some.map(|(value, _)| value.clone()).collect();
                by.entry(some).or_default().push(owned);
            }
            self.by_some.insert(has.clone(), by);
        }
        let by = self.by_some.get(&has);
        by.and_then(|by| by.get(&own)).map_or(&[], Vec::as_slice)
    }
}

/// The text of a value. Numbers are equal regardless of their notation.
fn canonical(value: &Value) -> String {
    match value.as_f64() {
        // Zero has two signs.
        Some(number) => (number + 0.0).to_string(),
        None => value.to_string(),
    }
}
