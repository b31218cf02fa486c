//! Converts a CEL value for a table: to a cell, to a member of a group, or to a number to
//! aggregate.
//!
//! Differences from KubeStellar: null is `Null` and a list is an `Array` (there both are of type
//! `ObjectView`), and a time is a `String`.

use std::{borrow::Cow, cmp::Ordering};

use argosy_api::{Cell, CellType};
use cel::Value as CelValue;

use crate::cel::to_json::{printed, to_json, whole};

/// Maximum size of one cell, in bytes of JSON. A CombinedStatus must fit into one object.
pub(super) const LARGEST: usize = 16 * 1024;

/// The cell with `value`.
pub(super) fn cell(value: &CelValue) -> Result<Cell, String> {
    if let CelValue::Float(number) = value {
        return Ok(Cell::number(printed(*number)));
    }
    let value = to_json(value)?;
    let bytes = value.to_string().len();
    if bytes > LARGEST {
        return Err(format!("the value has {bytes} bytes; the limit is {LARGEST}"));
    }
    Ok(Cell::json(value))
}

/// The number to aggregate for `value`: a number, or a string that can be parsed as one.
pub(super) fn number(value: &CelValue) -> Result<f64, String> {
    match value {
        #[expect(
            clippy::cast_precision_loss,
            reason = "KubeStellar aggregates floating-point numbers, whatever they were"
        )]
        CelValue::Int(number) => Ok(*number as f64),
        #[expect(clippy::cast_precision_loss, reason = "as above")]
        CelValue::UInt(number) => Ok(*number as f64),
        CelValue::Float(number) => Ok(*number),
        CelValue::String(text) => text
            .parse()
            .map_err(|_| "the value is a string, but not a number".to_owned()),
        other => Err(format!(
            "the value is of type {}, but must be a number",
            other.type_of()
        )),
    }
}

/// One value of a group. Values are ordered, so the order of groups does not depend on that of
/// clusters.
#[derive(Clone, Debug)]
pub(super) struct Atom {
    cell: Cell,
    number: f64,
}

impl Atom {
    /// The value to group by. `1` and `1.0` are the same group, because they are equal in CEL.
    pub(super) fn of(value: &CelValue) -> Result<Self, String> {
        let whole = match value {
            CelValue::Float(number) if number.is_nan() => {
                return Err("the value is NaN, which cannot be grouped".to_owned());
            }
            CelValue::Float(number) => {
                whole(*number).map_or(Cow::Borrowed(value), |whole| Cow::Owned(CelValue::Int(whole)))
            }
            _ => Cow::Borrowed(value),
        };
        let cell = cell(&whole)?;
        match cell.type_ {
            CellType::Object | CellType::Array => Err(format!(
                "the value is of type {}, which cannot be grouped",
                value.type_of()
            )),
            CellType::Number => Ok(Self {
                cell,
                number: number(value)?,
            }),
            CellType::String | CellType::Bool | CellType::Null => Ok(Self { cell, number: 0.0 }),
        }
    }

    /// The value as a cell of the group's row.
    pub(super) fn into_cell(self) -> Cell {
        self.cell
    }

    fn rank(&self) -> u8 {
        match self.cell.type_ {
            CellType::Null => 0,
            CellType::Bool => 1,
            CellType::Number => 2,
            _ => 3,
        }
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_kind = self.rank().cmp(&other.rank());
        by_kind
            .then_with(|| self.number.total_cmp(&other.number))
            .then_with(|| self.cell.bool.cmp(&other.cell.bool))
            .then_with(|| self.cell.float.cmp(&other.cell.float))
            .then_with(|| self.cell.string.cmp(&other.cell.string))
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Atom {}
