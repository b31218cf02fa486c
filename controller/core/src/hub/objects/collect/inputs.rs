//! The variables of an expression, converted from JSON as far as the expression uses them.
//!
//! The evaluator asks for the longest name first: `returned.status.phase`, then `returned.status`.
//! So only the phase is converted, and not the megabyte beside it.

use cel::{
    common::{
        types::CelTimestamp,
        value::{CowVal, Val},
    },
    context::VariableResolver,
};
use chrono::DateTime;
use jiff::Timestamp;
use serde_json::Value;

use crate::cel::{
    Dialect, Functions,
    json::{convert, map, null, text},
};

/// The object in the WDS.
pub(super) const OBJECT: &str = "obj";
/// The content that has come back from the cluster.
const RETURNED: &str = "returned";
/// The facts about the cluster.
const INVENTORY: &str = "inventory";
/// The facts about the transport of that content.
const PROPAGATION: &str = "propagation";

/// The variables and functions that the expressions of a collector may use.
pub(super) const DIALECT: Dialect = Dialect {
    variables: &[OBJECT, RETURNED, INVENTORY, PROPAGATION],
    functions: Functions::Standard,
};

/// The keys of the maps that are built here.
const STATUS: &str = "status";
const NAME: &str = "name";
const LAST_RETURNED: &str = "lastReturnedUpdateTimestamp";

/// The values of the variables for one cluster.
pub(super) struct Inputs<'a> {
    pub(super) object: &'a Value,
    pub(super) status: Option<&'a Value>,
    pub(super) cluster: &'a str,
    pub(super) last_returned: Option<Timestamp>,
}

impl VariableResolver for Inputs<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let mut path = name.split('.');
        let root = path.next()?;
        let value = match root {
            OBJECT => convert(path.try_fold(self.object, |value, key| value.get(key))?),
            RETURNED => {
                let status = self.status.unwrap_or(&Value::Null);
                match path.next() {
                    None => map([(STATUS, convert(status))]),
                    Some(STATUS) => convert(path.try_fold(status, |value, key| value.get(key))?),
                    Some(_) => return None,
                }
            }
            INVENTORY => member(path, NAME, || text(self.cluster))?,
            PROPAGATION => member(path, LAST_RETURNED, || {
                self.last_returned.map_or_else(null, timestamp)
            })?,
            _ => return None,
        };
        Some(CowVal::Owned(value))
    }
}

/// The map with one key, or the value of that key.
fn member<'b, 'n>(
    mut path: impl Iterator<Item = &'n str>,
    key: &'static str,
    value: impl FnOnce() -> Box<dyn Val + 'b>,
) -> Option<Box<dyn Val + 'b>> {
    match path.next() {
        None => Some(map([(key, value())])),
        Some(asked) if asked == key && path.next().is_none() => Some(value()),
        Some(_) => None,
    }
}

fn timestamp<'b>(at: Timestamp) -> Box<dyn Val + 'b> {
    let nanoseconds = u32::try_from(at.subsec_nanosecond()).unwrap_or_default();
    DateTime::from_timestamp(at.as_second(), nanoseconds)
        .map_or_else(null, |at| Box::new(CelTimestamp::from(at.fixed_offset())))
}
