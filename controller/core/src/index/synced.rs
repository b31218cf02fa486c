//! The kinds that an index waits for before it decides anything. An object that is not listed yet
//! looks like one that is gone.
//!
//! Owned here: the kinds whose first list has not arrived, and their names for the operator. Not
//! here: the choice of the kinds, which each index declares with [`kinds`], and the effect of the
//! last list (`tracked`).

use std::collections::BTreeSet;

/// The kinds that one index waits for.
pub(crate) trait Kinds: Copy + Ord + 'static {
    /// All of them, in the order in which the operator reads them.
    const ALL: &'static [Self];

    /// The plural of a kind, as `kubectl` prints it.
    fn plural(self) -> &'static str;
}

/// Declares the kinds that an index waits for, each with its plural.
macro_rules! kinds {
    ($(#[$doc:meta])* enum $kinds:ident { $($kind:ident = $plural:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        enum $kinds {
            $($kind),+
        }

        impl $crate::index::synced::Kinds for $kinds {
            const ALL: &'static [Self] = &[$(Self::$kind),+];

            fn plural(self) -> &'static str {
                match self {
                    $(Self::$kind => $plural),+
                }
            }
        }
    };
}

pub(crate) use kinds;

/// The kinds whose first list has not arrived.
#[derive(Debug)]
pub(crate) struct Synced<K>(BTreeSet<K>);

impl<K: Kinds> Synced<K> {
    /// No kind has been listed.
    pub(crate) fn new() -> Self {
        Self(K::ALL.iter().copied().collect())
    }

    /// Counts `kind` as listed if `is_list`.
    pub(crate) fn mark(&mut self, kind: K, is_list: bool) {
        if is_list {
            self.0.remove(&kind);
        }
    }

    /// Waits for a list of `kind` again.
    pub(crate) fn unmark(&mut self, kind: K) {
        self.0.insert(kind);
    }

    /// True if `kind` has been listed.
    pub(crate) fn has(&self, kind: K) -> bool {
        !self.0.contains(&kind)
    }

    /// True if every kind has been listed.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.is_empty()
    }

    /// The kinds that have not been listed.
    pub(crate) fn missing(&self) -> impl Iterator<Item = K> {
        self.0.iter().copied()
    }

    /// The plurals of the kinds that have not been listed.
    pub(crate) fn unlisted(&self) -> Vec<&'static str> {
        self.missing().map(Kinds::plural).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    kinds! {
        enum Fruit {
            Pears = "pears",
            Apples = "apples",
            Figs = "figs",
        }
    }

    #[test]
    fn it_waits_for_each_kind_and_names_the_missing_ones_in_their_order() {
        use Fruit::{Apples, Figs, Pears};
        for (changes, unlisted) in [
            (vec![], vec!["pears", "apples", "figs"]),
            (vec![(Apples, true)], vec!["pears", "figs"]),
            // A change of one object is no list, and a second list changes nothing.
            (
                vec![(Pears, false), (Apples, true), (Apples, true), (Apples, false)],
                vec!["pears", "figs"],
            ),
            (vec![(Figs, true), (Pears, true)], vec!["apples"]),
            (vec![(Figs, true), (Apples, true), (Pears, true)], vec![]),
        ] {
            let mut synced = Synced::<Fruit>::new();
            for (kind, is_list) in &changes {
                synced.mark(*kind, *is_list);
            }
            assert_eq!(synced.unlisted(), unlisted, "{changes:?}");
            assert_eq!(synced.is_complete(), unlisted.is_empty(), "{changes:?}");
            for kind in Fruit::ALL {
                assert_eq!(
                    synced.has(*kind),
                    !unlisted.contains(&kind.plural()),
                    "{changes:?}"
                );
            }
        }
    }

    #[test]
    fn a_kind_can_be_awaited_again() {
        let mut synced = Synced::<Fruit>::new();
        for kind in Fruit::ALL {
            synced.mark(*kind, true);
        }
        synced.unmark(Fruit::Apples);
        assert_eq!(synced.missing().collect::<Vec<_>>(), [Fruit::Apples]);
        synced.mark(Fruit::Apples, true);
        assert!(synced.is_complete());
    }
}
