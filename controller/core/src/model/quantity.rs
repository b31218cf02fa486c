//! Sums of Kubernetes quantities (`500m`, `16Gi`), computed exactly and formatted as Kubernetes
//! formats them.
//!
//! The rules are those of `resource.Quantity` in apimachinery: a sum has the notation of its first
//! operand that is not zero. Not here: other arithmetic, because no caller needs it.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// An amount in billionths, with its notation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Amount {
    billionths: i128,
    notation: Notation,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Notation {
    /// `16Gi`
    Binary,
    /// `500m`
    Decimal,
    /// `5e3`
    Exponent,
}

const ONE: i128 = 1_000_000_000;
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Decimal suffixes, each with its power of ten.
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Returns the sum of two quantities. A text that is not a quantity counts as nothing.
pub(crate) fn sum(one: &Quantity, other: &Quantity) -> Quantity {
    let (one, other) = match (parse(&one.0), parse(&other.0)) {
        (Some(one), Some(other)) => (one, other),
        (Some(_), None) => return one.clone(),
        (None, _) => return other.clone(),
    };
    let notation = if one.billionths == 0 { other } else { one }.notation;
    let billionths = one.billionths.saturating_add(other.billionths);
    Quantity(render(Amount { billionths, notation }))
}

/// Returns the quantity as Kubernetes formats it: `16777216Ki` becomes `16Gi`. A text that is not a
/// quantity is returned unchanged.
pub(crate) fn canonical(quantity: &Quantity) -> Quantity {
    parse(&quantity.0).map_or_else(|| quantity.clone(), |amount| Quantity(render(amount)))
}

/// Returns true if an API server takes this quantity.
pub(crate) fn is_quantity(quantity: &Quantity) -> bool {
    parse(&quantity.0).is_some()
}

/// Returns a quantity in thousandths, rounded down. `None` if the text is no quantity, is negative,
/// or is too large.
pub(crate) fn thousandths(quantity: &Quantity) -> Option<u64> {
    let billionths = parse(&quantity.0)?.billionths;
    u64::try_from(billionths.div_euclid(ONE / 1000)).ok()
}

/// Formats an amount in thousandths: `1500m`, or with binary suffixes `4Gi`.
pub(crate) fn from_thousandths(amount: u128, is_binary: bool) -> String {
    let notation = if is_binary {
        Notation::Binary
    } else {
        Notation::Decimal
    };
    let billionths = i128::try_from(amount)
        .unwrap_or(i128::MAX)
        .saturating_mul(ONE / 1000);
    render(Amount { billionths, notation })
}

fn parse(text: &str) -> Option<Amount> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (factor, power, notation) = scale(suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    let scaled = digits.checked_mul(factor)?;
    let billionths = shift(scaled, power.checked_sub(places)?.checked_add(9)?)?;
    Some(Amount { billionths, notation })
}

/// Returns the multiplier of a suffix, as a factor and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32, Notation)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((1, *power, Notation::Decimal));
    }
    if let Some(step) = BINARY.iter().position(|known| *known == suffix) {
        return Some((1 << (10 * step), 0, Notation::Binary));
    }
    let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((1, power, Notation::Exponent))
}

/// Returns `value` times ten to the `power`, rounded up as Kubernetes does.
fn shift(value: i128, power: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 {
        return value.checked_mul(factor);
    }
    let floor = value.div_euclid(factor);
    Some(if value.rem_euclid(factor) == 0 {
        floor
    } else {
        floor + 1
    })
}

fn render(amount: Amount) -> String {
    let units = amount.billionths / ONE;
    match amount.notation {
        // Kubernetes formats fractions of a byte, and amounts below the smallest suffix, as
        // decimals.
        Notation::Binary if units.abs() >= 1024 && amount.billionths % ONE == 0 => binary(units),
        Notation::Exponent => decimal(amount.billionths, |power| match power {
            0 => String::new(),
            _ => format!("e{power}"),
        }),
        Notation::Binary | Notation::Decimal => decimal(amount.billionths, |power| {
            let known = DECIMAL.iter().find(|(_, known)| *known == power);
            known.map(|(suffix, _)| (*suffix).to_owned()).unwrap_or_default()
        }),
    }
}

fn binary(mut units: i128) -> String {
    let mut suffix = "";
    for larger in BINARY.iter().skip(1) {
        if units % 1024 != 0 {
            break;
        }
        units /= 1024;
        suffix = larger;
    }
    format!("{units}{suffix}")
}

/// Formats `value` with the highest power of ten, in steps of three, that leaves a whole number.
fn decimal(mut value: i128, suffix: impl Fn(i32) -> String) -> String {
    let mut power = -9;
    if value == 0 {
        return "0".to_owned();
    }
    while value % 1000 == 0 && power < 18 {
        value /= 1000;
        power += 3;
    }
    format!("{value}{}", suffix(power))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity(text.to_owned())
    }

    #[test]
    fn quantities_are_written_as_kubernetes_writes_them() {
        let table = [
            ("4", "4"),
            ("0", "0"),
            ("0Ki", "0"),
            ("4000m", "4"),
            ("3920m", "3920m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("100000", "100k"),
            ("1.5k", "1500"),
            ("16777216Ki", "16Gi"),
            ("8142348Ki", "8142348Ki"),
            ("1.5Gi", "1536Mi"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("1.1Ki", "1126400m"),
            ("5e3", "5e3"),
            ("5000e-3", "5"),
            ("1E", "1E"),
            ("-2", "-2"),
            ("0.0000000001", "1n"),
        ];
        for (text, expected) in table {
            assert_eq!(canonical(&quantity(text)), quantity(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_left_alone_and_counts_for_nothing() {
        for text in ["", "much", "1 Gi", "1.2.3", "1X", "--1", "1e", "9e99", "1e-99"] {
            assert_eq!(canonical(&quantity(text)), quantity(text));
            assert_eq!(sum(&quantity("1"), &quantity(text)), quantity("1"), "{text}");
            assert_eq!(sum(&quantity(text), &quantity("1")), quantity("1"), "{text}");
        }
    }

    #[test]
    fn a_sum_is_written_like_its_first_part_that_is_not_zero() {
        let table = [
            ("4", "3920m", "7920m"),
            ("8142348Ki", "8242724Ki", "16385072Ki"),
            ("8Gi", "8192Mi", "16Gi"),
            ("0", "8Gi", "8Gi"),
            ("8Gi", "0", "8Gi"),
            ("1Gi", "1G", "2073741824"),
            ("1G", "1Gi", "2073741824"),
            ("110", "110", "220"),
            ("500", "500", "1k"),
            ("0Ki", "5", "5"),
            ("5e3", "5", "5005"),
            ("1023", "0.5Ki", "1535"),
            ("1Gi", "500m", "1073741824500m"),
            ("1.1Ki", "1", "1127400m"),
        ];
        for (one, other, expected) in table {
            assert_eq!(
                sum(&quantity(one), &quantity(other)),
                quantity(expected),
                "{one} + {other}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_quantity_that_is_written_is_read_as_what_it_was(
            billionths in -10_i128.pow(27)..10_i128.pow(27),
            decimal in any::<bool>(),
        ) {
            let notation = if decimal { Notation::Decimal } else { Notation::Exponent };
            let text = render(Amount { billionths, notation });
            let read = parse(&text).map(|amount| amount.billionths);
            prop_assert_eq!(read, Some(billionths), "{}", text);
        }

        #[test]
        fn nothing_that_is_read_panics(one in "[-+0-9.eEkKmMiGn]{0,12}", other in "[-+]?[0-9]{0,40}[a-zA-Z]{0,2}") {
            sum(&quantity(&one), &quantity(&other));
            canonical(&quantity(&one));
        }
    }
}
