//! StatusCollectors: values collected from the clusters that an object goes to, as a table.
//!
//! Owned here: the compilation of a collector, its evaluation for one object, the bounds on its
//! table, and the CombinedStatus that contains the tables. Not here: expressions themselves
//! (`cel`), the choice of the collectors for an object, and the time of their evaluation (the
//! controller's index).
//!
//! The rules are KubeStellar's, with these deliberate differences:
//!
//! - A null cell has the type `Null`, a list `Array`, a time `String`.
//! - A filter that is null counts as false. A filter that fails, or is no boolean, leaves the
//!   cluster out, with an error of the row in the column `filter`.
//! - A cell that failed has the error as its text, as in KubeStellar, and an error of the row too.
//! - Rows are in the order of their clusters' names, groups in that of their values.
//! - `limit` is applied. The first rows are kept, and an annotation of the CombinedStatus
//!   ([`argosy_api::names::LEFT_OUT_ANNOTATION`]) counts the others.
//! - Expressions, cells, tables and costs are bounded, and an exceeded bound is reported.

mod cell;
mod combined;
mod compile;
mod groups;
mod inputs;
mod results;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use argosy_api::{AggregationError, NamedStatusCombination, StatusCollector};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;

use crate::{ClusterName, cel::deep};
use compile::Plan;

pub use combined::{Subject, combined_status, label_value};

/// A compiled StatusCollector, to be kept and used for every object.
pub struct Collector {
    name: String,
    plan: Plan,
    warnings: Vec<String>,
}

/// The facts about one cluster that the object goes to. A cluster that has not reported yet has a
/// row too.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// `inventory.name`.
    pub cluster: &'a ClusterName,
    /// `returned.status`; null if there is none.
    pub status: Option<&'a Value>,
    /// `propagation.lastReturnedUpdateTimestamp`; null if there is none.
    pub last_returned: Option<Timestamp>,
}

/// The result of one collector for one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The table, with the name of the collector.
    pub combination: NamedStatusCombination,
    /// The number of rows that are left out because of `limit`, or because the table would be too
    /// large.
    pub rows_left_out: usize,
    /// The number of row errors that are left out because there are too many, or because the table
    /// would be too large.
    pub errors_left_out: usize,
}

impl Collector {
    /// Compiles a collector. Takes milliseconds, on a thread of its own.
    ///
    /// # Errors
    ///
    /// The errors of its specification, a sentence each, for its status. An invalid collector
    /// counts as missing.
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

    /// Warnings about fields that do not work as they are written, a sentence each, for the
    /// collector's status.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The table for `object`, as it is in the WDS, and the clusters that it goes to, in any order.
    /// The same input gives the same table. The evaluation has a bounded cost (`table`) and a
    /// thread of its own. It is cheaper to keep a table that was built from the same object and
    /// rows.
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
