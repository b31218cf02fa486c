//! Counts the lists and the errors of watches.
//!
//! There is one set per process: a watch belongs to no loop, and many modules start one.

use std::sync::LazyLock;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::catalog::{WATCH_ERRORS, WATCH_LISTS};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: String,
}

#[derive(Debug, Default)]
struct Watches {
    lists: Family<Kind, Counter>,
    errors: Family<Kind, Counter>,
}

static WATCHES: LazyLock<Watches> = LazyLock::new(Watches::default);

/// Metrics of the watch of one kind.
#[derive(Clone, Debug)]
pub(crate) struct WatchCount {
    lists: Counter,
    errors: Counter,
}

impl WatchCount {
    /// Metrics of a watch of `kind`, which must not name an object.
    pub(crate) fn of(kind: &str) -> Self {
        let kind = Kind {
            kind: kind.to_owned(),
        };
        Self {
            lists: WATCHES.lists.get_or_create_owned(&kind),
            errors: WATCHES.errors.get_or_create_owned(&kind),
        }
    }

    /// Counts a list.
    pub(crate) fn listed(&self) {
        self.lists.inc();
    }

    /// Counts an error.
    pub(crate) fn failed(&self) {
        self.errors.inc();
    }
}

pub(super) fn register(registry: &mut Registry) {
    WATCH_LISTS.register(registry, WATCHES.lists.clone());
    WATCH_ERRORS.register(registry, WATCHES.errors.clone());
}
