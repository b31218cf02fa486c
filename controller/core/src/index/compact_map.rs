//! Labels or annotations of thousands of objects, each stored in one allocation: a B-tree of ten
//! strings takes four times as much memory. Lookups scan all pairs; for many lookups, convert to a
//! map.

use std::collections::BTreeMap;

/// A map of strings, in order of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompactMap {
    /// All keys and values, concatenated.
    text: Box<str>,
    /// The end of each of them, in bytes.
    ends: Box<[u32]>,
}

impl CompactMap {
    /// The value of `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.iter()
            .find_map(|(known, value)| (known == key).then_some(value))
    }

    /// Memory use in bytes.
    pub(crate) fn size(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }

    /// Keys and values, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut begin = 0;
        let mut next = move |end: &u32| {
            let end = usize::try_from(*end).unwrap_or_default();
            let text = self.text.get(begin..end).unwrap_or_default();
            begin = end;
            text
        };
        self.ends.chunks_exact(2).filter_map(move |pair| match pair {
            [key, value] => Some((next(key), next(value))),
            _ => None,
        })
    }

    /// Converts to a map.
    pub(crate) fn to_map(&self) -> BTreeMap<String, String> {
        let owned = self.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        owned.collect()
    }
}

impl<'a> FromIterator<(&'a String, &'a String)> for CompactMap {
    fn from_iter<I: IntoIterator<Item = (&'a String, &'a String)>>(pairs: I) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (key, value) in pairs {
            for part in [key, value] {
                text.push_str(part);
                // An API server accepts at most 3 MiB.
                ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            }
        }
        Self {
            text: text.into(),
            ends: ends.into(),
        }
    }
}

impl From<&BTreeMap<String, String>> for CompactMap {
    fn from(map: &BTreeMap<String, String>) -> Self {
        map.iter().collect()
    }
}

impl From<Option<BTreeMap<String, String>>> for CompactMap {
    fn from(map: Option<BTreeMap<String, String>>) -> Self {
        map.iter().flatten().collect()
    }
}

impl PartialEq<BTreeMap<String, String>> for CompactMap {
    fn eq(&self, map: &BTreeMap<String, String>) -> bool {
        let of_map = map.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        self.iter().eq(of_map)
    }
}

/// The texts of a list that is kept, without the room for more that reading it leaves.
pub(crate) fn compact(list: Option<Vec<String>>) -> Vec<String> {
    let mut list = list.unwrap_or_default();
    list.shrink_to_fit();
    list
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(map in prop::collection::btree_map(".{0,8}", ".{0,8}", 0..6), key in ".{0,2}") {
            let pairs = CompactMap::from(Some(map.clone()));
            prop_assert_eq!(pairs.to_map(), map.clone());
            prop_assert_eq!(&pairs, &map);
            for key in map.keys().chain([&key]) {
                prop_assert_eq!(pairs.get(key), map.get(key).map(String::as_str));
            }
        }

        #[test]
        fn maps_that_differ_are_told_apart(map in prop::collection::btree_map("[ab]{0,2}", "[ab]{0,2}", 0..3), other in prop::collection::btree_map("[ab]{0,2}", "[ab]{0,2}", 0..3)) {
            prop_assert_eq!(CompactMap::from(Some(map.clone())) == other, map == other);
            prop_assert_eq!(CompactMap::from(Some(map.clone())) == CompactMap::from(Some(other.clone())), map == other);
        }
    }

    #[test]
    fn no_labels_take_nothing() {
        let none = CompactMap::from(None);
        assert_eq!(none.iter().count(), 0);
        assert_eq!(none, CompactMap::default());
    }
}
