//! Conversion of the values of an expression to JSON. The result is the same for the same value.
//!
//! Not here: the conversion of JSON to such values (`json`), and limits on the size of a value.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use cel::Value as CelValue;
use chrono::SecondsFormat;
use serde_json::{Number, Value};

/// Converts a value. Bytes become Base64; times, durations and infinite numbers become text.
///
/// # Errors
///
/// The value contains a function or a type, as a sentence.
pub(crate) fn to_json(value: &CelValue) -> Result<Value, String> {
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
        CelValue::List(items) => items.iter().map(to_json).collect::<Result<Vec<_>, _>>()?.into(),
        CelValue::Map(map) => {
            // Two keys may have the same text (`1` and `"1"`). The order makes it always the same
            // one that stays.
            let entries: BTreeMap<_, _> = map.map.iter().collect();
            let fields = entries
                .into_iter()
                .map(|(key, value)| Ok((key.to_string(), to_json(value)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        other => {
            return Err(format!(
                "a value of type {} cannot be written as JSON",
                other.type_of()
            ));
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
pub(crate) fn printed(number: f64) -> String {
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

/// The integer that equals `number`, if there is one.
pub(crate) fn whole(number: f64) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number within the bounds of an integer is one"
    )]
    (number.fract() == 0.0 && number.abs() < BOUND).then_some(number as i64)
}
