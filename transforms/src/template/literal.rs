//! Literals of a template, parsed like Go's `strconv`.

use super::value::Value;
use super::{Outcome, shown};

/// The value of a literal in double quotes. `literal` includes the quotes.
pub(super) fn quoted(literal: &str) -> Outcome<String> {
    let inside = literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let mut rest = inside.ok_or("a literal is not closed with \"")?;
    let mut bytes = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        rest = unescape(rest, '"', &mut bytes).ok_or_else(|| wrong(literal))?;
    }
    // Go keeps single bytes that are not UTF-8, but JSON cannot represent them.
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", shown(literal)))
}

/// The value of a literal in back quotes. Go removes carriage returns in it.
pub(super) fn raw(literal: &str) -> String {
    literal.trim_matches('`').replace('\r', "")
}

/// The code point of a literal in single quotes.
pub(super) fn character(literal: &str) -> Outcome<Value<'static>> {
    let inside = literal
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    let mut bytes = Vec::new();
    let rest = inside.and_then(|inside| unescape(inside, '\'', &mut bytes));
    let code = match (rest, bytes.as_slice()) {
        // One byte from `\xff`. It is a code point here, and not UTF-8.
        (Some(""), &[byte]) => Some(i64::from(byte)),
        (Some(""), bytes) => std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.chars().next())
            .map(|c| i64::from(u32::from(c))),
        _ => None,
    };
    code.map(Value::Int).ok_or_else(|| wrong(literal))
}

/// Reads one character or escape sequence, appends its bytes, and returns the rest of the text.
fn unescape<'a>(text: &'a str, quote: char, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let mut characters = text.chars();
    let first = characters.next()?;
    if first != '\\' {
        let mut buffer = [0; 4];
        bytes.extend_from_slice(first.encode_utf8(&mut buffer).as_bytes());
        return (first != quote && first != '\n').then_some(characters.as_str());
    }
    let escape = characters.next()?;
    let rest = characters.as_str();
    let simple = match escape {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        c if c == quote => u8::try_from(c).ok()?,
        'x' => return digits(rest, 2, 16, bytes),
        'u' => return digits(rest, 4, 16, bytes),
        'U' => return digits(rest, 8, 16, bytes),
        '0'..='7' => return digits(text.strip_prefix('\\')?, 3, 8, bytes),
        _ => return None,
    };
    bytes.push(simple);
    Some(rest)
}

/// Reads the digits of an escape sequence: two or three digits are a byte, more are a code point.
fn digits<'a>(text: &'a str, count: usize, radix: u32, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let (digits, rest) = text.split_at_checked(count)?;
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let code = u32::from_str_radix(digits, radix).ok()?;
    if count <= 3 {
        bytes.push(u8::try_from(code).ok()?);
    } else {
        let mut buffer = [0; 4];
        bytes.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut buffer).as_bytes());
    }
    Some(rest)
}

/// A number: an integer in Go's syntax, with prefixes and underscores, or a decimal number with a
/// point or an exponent.
pub(super) fn number(literal: &str) -> Outcome<Value<'static>> {
    let magnitude = literal.strip_prefix(['+', '-']).unwrap_or(literal);
    let negative = literal.starts_with('-');
    let lower = magnitude.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)),
        Some("0o") => (8, lower.get(2..)),
        Some("0b") => (2, lower.get(2..)),
        _ => (10, Some(lower.as_str())),
    };
    let digits = digits.unwrap_or_default();
    if radix == 10 && digits.contains(['.', 'e']) {
        return float(digits, negative).ok_or_else(|| wrong(literal));
    }
    if radix == 16 && digits.contains(['.', 'p']) {
        return Err(format!(
            "{} is hexadecimal but not an integer; write it in decimal",
            shown(literal)
        ));
    }
    // As in C, a leading zero without a letter means octal.
    let (radix, digits) = match digits.strip_prefix('0') {
        Some(octal) if radix == 10 && !octal.is_empty() => (8, octal),
        _ => (radix, digits),
    };
    let has_prefix = digits.len() < lower.len();
    let integer = integer(digits, radix, has_prefix).and_then(|magnitude| {
        let signed = if negative { -magnitude } else { magnitude };
        i64::try_from(signed).ok()
    });
    integer.map(Value::Int).ok_or_else(|| wrong(literal))
}

/// Underscores are allowed between digits and after a prefix.
fn integer(digits: &str, radix: u32, has_prefix: bool) -> Option<i128> {
    let misplaced = digits.starts_with('_') && !has_prefix || digits.ends_with('_') || digits.contains("__");
    let digits = digits.replace('_', "");
    let all_digits = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    (all_digits && !misplaced)
        .then(|| i128::from_str_radix(&digits, radix).ok())
        .flatten()
}

fn float(digits: &str, negative: bool) -> Option<Value<'static>> {
    // In floating-point numbers, Go accepts underscores only after a hexadecimal prefix.
    let is_plain = digits.chars().all(|c| c.is_ascii_digit() || "+-.e".contains(c));
    let magnitude: f64 = digits.parse().ok().filter(|_| is_plain)?;
    magnitude
        .is_finite()
        .then_some(Value::Float(if negative { -magnitude } else { magnitude }))
}

fn wrong(literal: &str) -> String {
    format!("{} is not a Go literal that can be used here", shown(literal))
}
