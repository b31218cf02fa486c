//! Converts a CEL value for a table: to a cell, to a member of a group, or to a number to
//! aggregate.
//!
//! Differences from KubeStellar: null is `Null` and a list is an `Array` (there both are of type
//! `ObjectView`), and a time is a `String`.

use std::{borrow::Cow, cmp::Ordering, collections::BTreeMap};

use argosy_api::{Cell, CellType};
use base64::{Engine, engine::general_purpose::STANDARD};
use cel::Value as CelValue;
use chrono::SecondsFormat;
use serde_json::{Number, Value};

/// Maximum size of one cell, in bytes of JSON. A CombinedStatus must fit into one object.
pub(super) const LARGEST: usize = 16 * 1024;

/// The cell with `value`.
pub(super) fn cell(value: &CelValue) -> Result<Cell, String> {
    if let CelValue::Float(number) = value {
        return Ok(Cell::number(printed(*number)));
    }
    let value = json(value)?;
    let bytes = value.to_string().len();
    if bytes > LARGEST {
        return Err(format!("the value has {bytes} bytes; the limit is {LARGEST}"));
    }
    Ok(Cell::json(value))
}

fn json(value: &CelValue) -> Result<Value, String> {
    Ok(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(flag) => (*flag).into(),
        CelValue::Int(number) => (*number).into(),
        CelValue::UInt(number) => (*number).into(),
        CelValue::Float(number) => match (whole(*number), Number::from_f64(*number)) {
            // An API server writes `1.0` as `1`, and the value that is read back must equal the one
            // written.
            (Some(whole), _) => whole.into(),
            (None, Some(number)) => number.into(),
            // JSON has no infinity.
            (None, None) => printed(*number).into(),
        },
        CelValue::String(text) => text.as_str().into(),
        CelValue::Bytes(bytes) => STANDARD.encode(bytes.as_slice()).into(),
        CelValue::Timestamp(at) => at.to_utc().to_rfc3339_opts(SecondsFormat::AutoSi, true).into(),
        CelValue::Duration(duration) => seconds(duration).into(),
        CelValue::List(items) => items.iter().map(json).collect::<Result<Vec<_>, _>>()?.into(),
        CelValue::Map(map) => {
            // Two keys may have the same text (`1` and `"1"`). The order makes it always the same
            // one that stays.
            let entries: BTreeMap<_, _> = map.map.iter().collect();
            let fields = entries
                .into_iter()
                .map(|(key, value)| Ok((key.to_string(), json(value)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        other => {
            return Err(format!("a table cannot hold a value of type {}", other.type_of()));
        }
    })
}

/// A duration as CEL's `string` writes it: seconds, with a fraction if there is one.
fn seconds(duration: &chrono::Duration) -> String {
    let (whole, fraction) = (duration.num_seconds(), duration.subsec_nanos());
    let sign = if whole < 0 || fraction < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:09}", whole.unsigned_abs(), fraction.unsigned_abs());
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A floating-point number as Go's `strconv.FormatFloat(number, 'g', -1, 64)` and therefore
/// KubeStellar writes it: `3`, `0.5`, `1e+06`, `NaN`, `+Inf`, `-Inf`.
pub(super) fn printed(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(-4..=5) => number.to_string(),
        Ok(exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        Err(_) => scientific,
    }
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

/// The integer that equals `number`, if there is one.
fn whole(number: f64) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number within the bounds of an integer is one"
    )]
    (number.fract() == 0.0 && number.abs() < BOUND).then_some(number as i64)
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
