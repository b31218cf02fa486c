//! Which kinds of the WDS are watched: those that a policy can select, and of those only what bears a label that every policy asks for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Downsync,
    kind::{Kind, KindName},
};

/// The kinds to be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedKinds {
    kinds: BTreeMap<KindName, WantedKind>,
    /// Whether the reports of Workflows are wanted here too, because some policy has StatusCollectors for them.
    pub run_reports: bool,
}

/// One kind to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedKind {
    /// The kind.
    pub kind: Arc<Kind>,
    /// A label that every object has that any policy selects; empty where there is none.
    pub label: String,
}

impl WantedKinds {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&KindName, &WantedKind)> {
        self.kinds.iter()
    }

    /// The kind of that name, if it is to be watched.
    pub fn get(&self, name: &KindName) -> Option<&WantedKind> {
        self.kinds.get(name)
    }
}

impl Downsync {
    /// Whether any policy could select objects of the kind.
    pub(super) fn may_select(&self, kind: &KindName) -> bool {
        let mut policies = self.policies.values();
        policies.any(|policy| policy.rules.may_select(&kind.group, &kind.resource))
    }

    /// Makes the set of kinds anew: policies or the kinds of the WDS have changed.
    pub(super) fn renew_wanted_kinds(&mut self) {
        let Some(catalogue) = &self.catalogue else {
            return;
        };
        let selectable = catalogue.iter().filter(|(name, _)| self.may_select(name));
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
        let of_clauses = policies.flat_map(|policy| policy.rules.required_keys(&kind.group, &kind.resource));
        let common = of_clauses.fold(None, |common: Option<BTreeSet<String>>, keys| {
            Some(match common {
                None => keys.clone(),
                Some(common) => common.intersection(keys).cloned().collect(),
            })
        });
        common.into_iter().flatten().next().unwrap_or_default()
    }
}
