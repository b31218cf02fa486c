//! The clusters that a policy matches.
//!
//! Policies that match the same clusters share one set, so a Workflow that several of them select costs
//! one pass over its clusters, and a thousand policies take the memory of one. Not here: the labels that
//! a policy matches clusters by (`selectors`), and the sets that there are (`snapshot`).

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use crate::ClusterName;

/// Clusters in the order of their names, each once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClusterSet {
    /// Compared first: most sets differ in it.
    digest: u64,
    names: Box<[ClusterName]>,
}

impl ClusterSet {
    /// The set of these clusters, which are in the order of their names.
    pub(super) fn of_sorted(names: impl Iterator<Item = ClusterName>) -> Self {
        let names: Box<[ClusterName]> = names.collect();
        let mut hasher = DefaultHasher::new();
        names.hash(&mut hasher);
        Self {
            digest: hasher.finish(),
            names,
        }
    }

    /// The clusters, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ClusterName> {
        self.names.iter()
    }

    /// Returns true if the cluster is one of them.
    pub(super) fn contains(&self, cluster: &ClusterName) -> bool {
        self.names.binary_search(cluster).is_ok()
    }

    /// The set after these clusters have joined it (true) or left it.
    pub(super) fn changed(&self, changes: &[(&ClusterName, bool)]) -> Self {
        let mut names: BTreeMap<&ClusterName, bool> = self.iter().map(|name| (name, true)).collect();
        names.extend(changes.iter().copied());
        let names = names.into_iter().filter(|(_, is_in)| *is_in);
        Self::of_sorted(names.map(|(name, _)| name.clone()))
    }
}

/// The one of these sets that is equal to a new one, or else the new one.
pub(super) fn shared<'a>(
    mut known: impl Iterator<Item = &'a Arc<ClusterSet>>,
    set: ClusterSet,
) -> Arc<ClusterSet> {
    let same = known.find(|known| ***known == set);
    same.map_or_else(|| Arc::new(set), Arc::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> ClusterSet {
        ClusterSet::of_sorted(names.iter().map(|name| (*name).into()))
    }

    #[test]
    fn clusters_join_and_leave_in_the_order_of_their_names() {
        let (a, c, d): (ClusterName, ClusterName, ClusterName) = ("a".into(), "c".into(), "d".into());
        let changed = set(&["b", "c"]).changed(&[(&d, true), (&c, false), (&a, true)]);
        assert_eq!(changed, set(&["a", "b", "d"]));
        assert!(changed.contains(&a) && !changed.contains(&c));
        assert_eq!(
            changed.iter().map(ClusterName::as_str).collect::<Vec<_>>(),
            ["a", "b", "d"]
        );
    }

    #[test]
    fn an_equal_set_is_the_one_that_there_is() {
        let known = [Arc::new(set(&["a"])), Arc::new(set(&["a", "b"]))];
        assert!(Arc::ptr_eq(&shared(known.iter(), set(&["a", "b"])), &known[1]));
        assert_eq!(*shared(known.iter(), set(&["b"])), set(&["b"]));
    }
}
