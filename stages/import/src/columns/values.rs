//! Values of a table as times and counts, and what to write in place of a value that is none.

use tabular::Field;

use crate::json::ImportError;
use crate::settings::Unit;

/// The first moment after the year 9999, ns since 1970. No clock of a measurement is beyond it.
pub(super) const YEAR_10000_NS: i128 = 253_402_300_800 * 1_000_000_000;

pub(super) fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
}

pub(super) fn float_ns(value: f64, unit: i64) -> Option<i128> {
    let ns = (value * unit as f64).round();
    (ns.is_finite() && ns.abs() < 1e30).then_some(ns as i128)
}

/// Reads a decimal number as ns without the rounding of doubles, because wall clocks need more
/// digits.
pub(super) fn decimal_ns(text: &str, unit: i64) -> Option<i128> {
    let plain = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty()
        || !plain(whole)
        || !plain(fraction)
        || whole.len() > 20
        || fraction.len() > 15
    {
        return float_ns(text.parse().ok()?, unit);
    }
    let scale = 10_i128.pow(fraction.len() as u32);
    let fraction: i128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    // Each part apart, because together they may have too many digits.
    let unit = i128::from(unit);
    let whole = whole.parse::<i128>().ok()?.checked_mul(unit)?;
    let fraction = fraction.checked_mul(unit)?.checked_add(scale / 2)? / scale;
    Some(sign * whole.checked_add(fraction)?)
}

pub(super) fn shown(field: &Field) -> String {
    match field {
        Field::Null => "nothing".to_owned(),
        Field::Text(text) => format!("`{text}`"),
        other => other.to_string(),
    }
}

/// Describes a value that is not a time.
pub(super) fn not_a_time(place: String, field: &Field) -> ImportError {
    let hint =
        otherwise(field).unwrap_or("times are numbers; leave the field empty if there is none");
    ImportError::at(
        place,
        format!("expected a time, found {}", shown(field)),
        hint,
    )
}

/// Describes a point in time beyond the year 9999, whose unit must be smaller than the declared one.
pub(super) fn too_late(place: String, field: &Field, unit: Unit, ns: i128) -> ImportError {
    let fits = |smaller: &Unit| {
        let length = i128::from(smaller.nanoseconds());
        ns / i128::from(unit.nanoseconds()) * length < YEAR_10000_NS
    };
    let smaller = [Unit::Ms, Unit::Us, Unit::Ns].into_iter().find(fits);
    ImportError::at(
        place,
        format!(
            "the time {} is beyond the year 9999 in {}",
            shown(field),
            unit.word()
        ),
        match smaller {
            Some(smaller) => format!("the unit is smaller: write `unit: {}`", smaller.word()),
            None => "correct the time".to_owned(),
        },
    )
}

/// Describes a value that is not a count.
pub(super) fn not_a_count(place: String, field: &Field) -> ImportError {
    let hint = otherwise(field).unwrap_or("leave the field empty if there is none");
    ImportError::at(
        place,
        format!("expected a count, found {}", shown(field)),
        hint,
    )
}

/// Returns what to write in place of a text that a person reads as a number or a time.
fn otherwise(field: &Field) -> Option<&'static str> {
    let Field::Text(text) = field else {
        return None;
    };
    let digit = |c: char| c.is_ascii_digit();
    let number = text.trim_end_matches(|c: char| c.is_alphabetic() || c == ' ' || c == '%');
    let plain = |text: &str| {
        text.starts_with(digit)
            && text
                .chars()
                .all(|c| digit(c) || matches!(c, '.' | ',' | '_' | ' '))
    };
    match () {
        () if text.starts_with(digit) && (text.contains(':') || text.matches('-').count() == 2) => {
            Some(
                "write moments as numbers on one clock, such as seconds since 1970, and give their `unit`",
            )
        }
        () if plain(text) && text.contains([',', '_', ' ']) => Some(
            "write numbers with a point before the fraction and nothing between groups of digits: `1234.5`",
        ),
        () if plain(number) && number.len() < text.len() => {
            Some("write the number alone; the `unit` of a column applies to all of its rows")
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_times_are_exact_however_many_digits_they_have() {
        const S: i64 = 1_000_000_000;
        for (text, unit, ns) in [
            ("1.5", S, 1_500_000_000),
            ("-0.5", 1_000_000, -500_000),
            ("1700000000.123456789", S, 1_700_000_000_123_456_789),
            ("0.0000000005", S, 1),
            ("0.00000000049", S, 0),
            ("2.9999999999", S, 3_000_000_000),
            (
                "99999999999999999999.999999999999999",
                S,
                100_000_000_000_000_000_000_000_000_000,
            ),
            (
                "99999999999999999999",
                S,
                99_999_999_999_999_999_999_000_000_000,
            ),
        ] {
            assert_eq!(decimal_ns(text, unit), Some(ns), "{text}");
        }
        let longest = "99999999999999999999.999999999999999";
        assert_eq!(decimal_ns(longest, i64::MAX), None);
    }
}
