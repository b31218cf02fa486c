//! StatusCollectors: values collected from the clusters that an object goes to, as a table.
//!
//! Owned here: compiling a collector, evaluating it for one object, bounds on its table, and the CombinedStatus that the tables
//! are put into. Not here: expressions themselves (`expression`), which collectors a policy names for which object, and when they
//! are evaluated (the controller's index).
//!
//! The rules are KubeStellar's. Other than there, and on purpose:
//!
//! - A null cell has the type `Null`, a list `Array`, a time `String`.
//! - A filter that is null counts as false; one that fails, or is no boolean, leaves the cluster out, with an error of the
//!   row in the column `filter`.
//! - A cell that failed has the error as its text, as there, and an error of the row too.
//! - Rows are in the order of their clusters' names, groups in that of their values.
//! - `limit` is honoured: the first rows are there, and an annotation of the CombinedStatus
//!   ([`argosy_api::names::LEFT_OUT_ANNOTATION`]) counts those that are not.
//! - Expressions, cells, tables and costs are bounded, and what exceeds them says so.

mod cell;
mod combined;
mod compile;
mod groups;
mod inputs;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use argosy_api::{AggregationError, NamedStatusCombination, StatusCollector};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;

use crate::{ClusterName, expression::deep};
use compile::Plan;

pub use combined::{Subject, combined_status, label_value};

/// A StatusCollector, compiled: to be kept and used for every object.
pub struct Collector {
    name: String,
    plan: Plan,
    warnings: Vec<String>,
}

/// What is known of one cluster that the object goes to. A cluster that has not reported yet has a row too.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// `inventory.name`.
    pub cluster: &'a ClusterName,
    /// `returned.status`; null where there is none.
    pub status: Option<&'a Value>,
    /// `propagation.lastReturnedUpdateTimestamp`; null where there is none.
    pub last_returned: Option<Timestamp>,
}

/// What one collector gives for one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The table, with the name of the collector.
    pub combination: NamedStatusCombination,
    /// How many rows are not in it because of `limit`, or because it would be too large.
    pub rows_left_out: usize,
    /// How many errors of rows are not in it because it would be too large.
    pub errors_left_out: usize,
}

impl Collector {
    /// Compiles a collector. Takes milliseconds, and a thread of its own for that time.
    ///
    /// # Errors
    ///
    /// What is wrong with it, a sentence each, for its status. An invalid collector counts as missing.
    pub fn compile(collector: &StatusCollector) -> Result<Self, Vec<String>> {
        let (plan, warnings) =
            deep::run(|| compile::plan(&collector.spec)).map_err(|error| vec![error])??;
        Ok(Self {
            name: collector.name_any(),
            plan,
            warnings,
        })
    }

    /// Name of the StatusCollector.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What works otherwise than it is written, a sentence each, for the collector's status.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The table for `object`, as it is in the workload description space, and the clusters that it goes to, in any order. The
    /// same input gives the same table. What it may cost is bounded (`table`), and takes a thread of its own; where a table that
    /// was made of the same object and rows can be kept, that is cheaper.
    pub fn evaluate(&self, object: &Value, rows: &[Row<'_>]) -> Results {
        let mut results = deep::run(|| self.plan.evaluate(object, rows)).unwrap_or_else(failed);
        results.combination.name.clone_from(&self.name);
        results
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn failed(error: String) -> Results {
    let column_name = String::new();
    Results {
        combination: NamedStatusCombination {
            aggregation_errors: vec![AggregationError { column_name, error }],
            ..NamedStatusCombination::default()
        },
        ..Results::default()
    }
}
