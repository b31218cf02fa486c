//! The kinds of the WDS that are watched: those that a policy can select. If every policy asks for
//! a common label, only objects with this label are watched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    ObjectIndex,
    kind::{Kind, KindName},
};

/// The kinds to be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedKinds {
    kinds: BTreeMap<KindName, WantedKind>,
    /// True if the reports of Workflows are watched here too, because a policy has StatusCollectors
    /// for them.
    pub run_reports: bool,
}

/// One kind to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedKind {
    /// The kind.
    pub kind: Arc<Kind>,
    /// The key of a label that all objects have which any policy selects; empty if there is none.
    pub label: String,
}

impl WantedKinds {
    /// All kinds.
    pub fn iter(&self) -> impl Iterator<Item = (&KindName, &WantedKind)> {
        self.kinds.iter()
    }

    /// The kind of that name, if it is to be watched.
    pub fn get(&self, name: &KindName) -> Option<&WantedKind> {
        self.kinds.get(name)
    }
}

impl ObjectIndex {
    /// True if any policy can select objects of the kind.
    pub(super) fn may_select(&self, kind: &KindName) -> bool {
        let mut policies = self.policies.values();
        policies.any(|policy| policy.rules().may_select(&kind.group, &kind.resource))
    }

    /// True if objects of the kind may be sent: a policy can select them, or runs can need them.
    pub(super) fn may_send(&self, kind: &KindName) -> bool {
        self.may_select(kind) || self.needed_label(kind).is_some()
    }

    /// Determines the kinds again, after policies or the kinds of the WDS have changed.
    pub(super) fn renew_wanted_kinds(&mut self) {
        let Some(catalog) = &self.catalog else {
            return;
        };
        let selectable = catalog.iter().filter(|(name, _)| self.may_send(name));
        let wanted = selectable.map(|(name, kind)| {
            let wanted = WantedKind {
                kind: Arc::clone(kind),
                label: self.common_label(name),
            };
            (name.clone(), wanted)
        });
        let wanted = WantedKinds {
            kinds: wanted.collect(),
            run_reports: self.collects_of_runs(),
        };
        if *self.wanted_kinds != wanted {
            self.wanted_kinds = Arc::new(wanted);
        }
    }

    fn common_label(&self, kind: &KindName) -> String {
        let policies = self.policies.values();
        let of_clauses =
            policies.flat_map(|policy| policy.rules().required_keys(&kind.group, &kind.resource));
        let needed = self.needed_label(kind).map(|label| {
            let keys = (!label.is_empty()).then(|| label.to_owned());
            keys.into_iter().collect::<BTreeSet<String>>()
        });
        let common = of_clauses.fold(needed, |common: Option<BTreeSet<String>>, keys| {
            Some(match common {
                None => keys.clone(),
                Some(common) => common.intersection(keys).cloned().collect(),
            })
        });
        common.into_iter().flatten().next().unwrap_or_default()
    }
}
