//! `printf`, with the verbs, flags, widths and precisions that texts and numbers need.
//!
//! For a mistake that Go prints into the text (`%!d(string=x)`, `%!v(MISSING)`), it returns an
//! error. Everything that is not in the table of [`piece`] is an error, too, including maps and
//! nil, widths in arguments (`%*d`) and numbered arguments (`%[1]s`).

use super::value::{self, Value, Writer};
use super::{Budget, Outcome, escape, shown};

/// Maximum width and precision, as in Go.
const MAX_WIDTH: usize = 1_000_000;

/// Maximum precision of a float: more digits than a float has.
const MAX_PLACES: usize = 1100;

/// A parsed directive such as `%-05.2f`.
#[derive(Debug)]
struct Directive<'a> {
    flags: &'a str,
    width: usize,
    precision: Option<usize>,
    verb: char,
}

/// The supported flags. `#` is not supported.
const FLAGS: [char; 4] = ['-', '0', '+', ' '];

/// Formats the values.
pub(super) fn format(format: &str, values: &[Value<'_>], budget: &mut Budget) -> Outcome<String> {
    let mut writer = Writer::new(budget);
    let mut values = values.iter();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        writer.write(before)?;
        let (directive, after) = read(after)?;
        rest = after;
        if directive.verb == '%' {
            writer.write("%")?;
            continue;
        }
        let value = values.next().ok_or_else(|| {
            let verb = directive.verb;
            format!("printf has no argument for %{verb}")
        })?;
        let piece = piece(&directive, value)?;
        pad(&directive, &piece, matches!(value, Value::Text(_)), &mut writer)?;
    }
    writer.write(rest)?;
    if values.next().is_some() {
        return Err("printf has more arguments than its format".to_owned());
    }
    Ok(writer.finish())
}

fn read(text: &str) -> Outcome<(Directive<'_>, &str)> {
    let after_flags = text.trim_start_matches(FLAGS);
    let flags = text.strip_suffix(after_flags).unwrap_or_default();
    let (width, rest) = number(after_flags)?;
    let (precision, rest) = match rest.strip_prefix('.') {
        Some(precision) => number(precision).map(|(digits, rest)| (Some(digits), rest))?,
        None => (None, rest),
    };
    let mut characters = rest.chars();
    let verb = characters.next().ok_or("printf has a % without a verb")?;
    let directive = Directive {
        flags,
        width,
        precision,
        verb,
    };
    Ok((directive, characters.as_str()))
}

/// Reads a number, 0 if there is none.
fn number(text: &str) -> Outcome<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let number = if digits.is_empty() { Ok(0) } else { digits.parse() };
    let number = number.ok().filter(|number| *number <= MAX_WIDTH);
    let number = number.ok_or_else(|| format!("printf has a width above {MAX_WIDTH}"))?;
    Ok((number, rest))
}

/// The value as the verb prints it, before padding.
fn piece(directive: &Directive<'_>, value: &Value<'_>) -> Outcome<String> {
    let &Directive {
        flags,
        precision,
        verb,
        ..
    } = directive;
    let piece = match value {
        Value::Text(text) if matches!(verb, 'v' | 's') || !flags.contains(['+', ' ']) => {
            let longest = precision.unwrap_or(usize::MAX);
            let cut = text.chars().take(longest);
            // For hexadecimal, the precision counts bytes.
            let bytes = text.bytes().take(longest);
            match verb {
                'v' | 's' => Some(cut.collect()),
                'q' => Some(escape::quote(&cut.collect::<String>())),
                'x' => Some(hexadecimal(bytes)),
                'X' => Some(hexadecimal(bytes).to_ascii_uppercase()),
                _ => None,
            }
        }
        Value::Int(_) | Value::Byte(_) if precision.is_none() => value.integer().and_then(|number| {
            let digits = integer(number.unsigned_abs(), verb)?;
            Some(signed(directive, number < 0, &digits))
        }),
        Value::Float(number) if matches!(verb, 'f' | 'F') => {
            let places = precision.unwrap_or(6);
            let digits = (places <= MAX_PLACES).then(|| format!("{:.places$}", number.abs()));
            digits.map(|digits| signed(directive, number.is_sign_negative(), &digits))
        }
        Value::Float(number) if precision.is_none() && matches!(verb, 'v' | 'g') => {
            let digits = value::float(number.abs());
            Some(signed(directive, number.is_sign_negative(), &digits))
        }
        Value::Bool(truth) if matches!(verb, 'v' | 't') => Some(truth.to_string()),
        _ => None,
    };
    piece.ok_or_else(|| {
        let written = shown(&format!("%{verb}"));
        format!(
            "printf cannot print {} with {written} and these flags",
            value.kind()
        )
    })
}

fn hexadecimal(bytes: impl Iterator<Item = u8>) -> String {
    let digits = bytes.flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

fn integer(magnitude: u64, verb: char) -> Option<String> {
    match verb {
        'v' | 'd' => Some(magnitude.to_string()),
        'b' => Some(format!("{magnitude:b}")),
        'o' => Some(format!("{magnitude:o}")),
        'x' => Some(format!("{magnitude:x}")),
        'X' => Some(format!("{magnitude:X}")),
        _ => None,
    }
}

fn signed(directive: &Directive<'_>, negative: bool, digits: &str) -> String {
    let sign = match directive.flags {
        _ if negative => "-",
        flags if flags.contains('+') => "+",
        flags if flags.contains(' ') => " ",
        _ => "",
    };
    format!("{sign}{digits}")
}

/// Pads to the width, which is counted in characters, with blanks or with zeros. Zeros are inserted
/// after the sign of a number.
fn pad(directive: &Directive<'_>, piece: &str, is_text: bool, writer: &mut Writer<'_>) -> Outcome<()> {
    let missing = directive.width.saturating_sub(piece.chars().count());
    let fill = |writer: &mut Writer<'_>, with: &str| (0..missing).try_for_each(|_| writer.write(with));
    if directive.flags.contains('-') {
        writer.write(piece)?;
        fill(writer, " ")
    } else if directive.flags.contains('0') {
        let digits = if is_text {
            piece
        } else {
            piece.trim_start_matches(['+', '-', ' '])
        };
        let sign = piece.strip_suffix(digits).unwrap_or_default();
        writer.write(sign)?;
        fill(writer, "0")?;
        writer.write(digits)
    } else {
        fill(writer, " ")?;
        writer.write(piece)
    }
}
