//! The elements of a list that `managedFields` name, found by their keys in constant time.
//!
//! Not here: the fields of an element that are owned (`drift`).

use std::{collections::HashMap, slice};

use serde_json::{Map, Value};

use super::{STEP, Steps};

/// The values of some keys, in the order of the keys.
type Values = Vec<String>;

/// The elements of a list, and what is owned of each.
#[derive(Default)]
pub(in super::super) struct Elements<'a> {
    /// The values of a set.
    values: HashMap<String, &'a Value>,
    /// The names of the keys of an element, which all elements of a list share.
    names: Vec<String>,
    /// The values of all keys of an element, and the owned part of it.
    keyed: Vec<(Values, &'a Value)>,
    /// The same by the values of those keys that some item has. A manifest may omit a key that the server
    /// defaults, such as the protocol of a port.
    by_some: HashMap<Vec<bool>, HashMap<Values, Vec<&'a Value>>>,
}

impl<'a> Elements<'a> {
    /// The elements that are named among the children of a field. `None` if the steps do not suffice.
    pub(in super::super) fn of(children: &'a Map<String, Value>, steps: &mut Steps) -> Option<Self> {
        let mut elements = Self::default();
        for (notation, owned) in children {
            if !steps.take(1 + notation.len() / STEP) {
                return None;
            }
            let Some((tag, text)) = notation.split_once(':') else {
                continue;
            };
            match (tag, serde_json::from_str(text)) {
                ("v", Ok(value)) => {
                    elements
                        .values
                        .extend(canonical(&value).map(|value| (value, owned)));
                }
                ("k", Ok(Value::Object(keys))) => elements.add(&keys, owned),
                _ => {}
            }
        }
        Some(elements)
    }

    /// The elements of a list of an object, found by the keys by which these elements are. `None` if the
    /// steps do not suffice.
    pub(in super::super) fn of_items(&self, items: &'a [Value], steps: &mut Steps) -> Option<Self> {
        let mut elements = Self {
            names: self.names.clone(),
            ..Self::default()
        };
        let looking = self.looking();
        for item in items {
            let keys = elements.names.iter().map(|name| item.get(name));
            let length_of_keys = keys.clone().flatten().map(length).sum::<usize>();
            if !steps.take(1 + looking + (length_of_keys + length(item)) / STEP) {
                return None;
            }
            elements.values.extend(canonical(item).map(|value| (value, item)));
            if let Some(values) = keys
                .map(|key| key.and_then(canonical))
                .collect::<Option<Values>>()
                && !values.is_empty()
            {
                elements.keyed.push((values, item));
            }
        }
        Some(elements)
    }

    /// True if the elements are named by keys or values, not only by their order.
    pub(in super::super) fn are_named(&self) -> bool {
        !self.keyed.is_empty() || !self.values.is_empty()
    }

    /// True if the item has all keys.
    pub(in super::super) fn has_keys(&self, item: &Value) -> bool {
        self.names.iter().all(|name| item.get(name).is_some())
    }

    /// The steps that it takes to look for all keys in an item.
    fn looking(&self) -> usize {
        self.names.iter().map(|name| 1 + name.len() / STEP).sum()
    }

    fn add(&mut self, keys: &Map<String, Value>, owned: &'a Value) {
        if self.keyed.is_empty() {
            self.names = keys.keys().cloned().collect();
        }
        let values = self.names.iter().map(|name| keys.get(name).and_then(canonical));
        if let Some(values) = values.collect::<Option<Values>>()
            && keys.len() == values.len()
        {
            self.keyed.push((values, owned));
        }
    }

    /// The elements that an item can be: those with its value, or with its keys, as far as it has them. None
    /// if the steps do not suffice.
    pub(in super::super) fn like(&mut self, item: &Value, steps: &mut Steps) -> &[&'a Value] {
        let Some(fields) = item.as_object() else {
            let value = steps
                .take(1 + length(item) / STEP)
                .then(|| canonical(item))
                .flatten();
            let found = value.and_then(|value| self.values.get(&value));
            return found.map_or(&[], slice::from_ref);
        };
        let own = || self.names.iter().filter_map(|name| fields.get(name));
        if !steps.take(own().map(|value| 1 + length(value) / STEP).sum::<usize>() + self.looking()) {
            return &[];
        }
        let has: Vec<bool> = self.names.iter().map(|name| fields.contains_key(name)).collect();
        let Some(own) = own().map(canonical).collect::<Option<Values>>() else {
            return &[];
        };
        if !self.by_some.contains_key(&has) {
            let texts = self.keyed.iter().flat_map(|(values, _)| values);
            let costs = texts.map(|text| 1 + text.len() / STEP).sum::<usize>();
            if !steps.take(costs + 4 * self.keyed.len()) {
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

/// The text of a value that is neither a list nor a map, as no key and no value of a set is. Numbers are
/// equal regardless of their notation.
fn canonical(value: &Value) -> Option<String> {
    match value.as_f64() {
        // Zero has two signs.
        Some(number) => Some((number + 0.0).to_string()),
        None if value.is_array() || value.is_object() => None,
        None => Some(value.to_string()),
    }
}

/// The length of a text in bytes; zero for other values.
fn length(value: &Value) -> usize {
    value.as_str().map_or(0, str::len)
}
