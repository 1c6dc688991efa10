//! Numbers for people, rounded to significant digits.

/// The least exponent of ten of a number that is written without it.
const LEAST_PLAIN: i32 = -4;

/// Formats a number with significant digits. With three, 0.001234 is `0.00123` and 0.00001234 is `1.23e-5`. Digits before
/// the decimal point are never rounded away: 1234.5 is `1234`.
pub fn significant(value: f64, digits: u8) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return value.to_string();
    }
    let (text, exponent) = scientific(value, usize::from(digits));
    if exponent < LEAST_PLAIN {
        return text;
    }
    let decimals = i32::from(digits.max(1)) - 1 - exponent;
    format!("{value:.*}", decimals.max(0) as usize)
}

/// Formats a finite number with significant digits and an exponent of ten, and returns the exponent too. The exponent is that
/// of the rounded number: 9.996 with three digits is `1.00e1`.
pub fn scientific(value: f64, digits: usize) -> (String, i32) {
    let text = format!("{value:.*e}", digits.max(1) - 1);
    let exponent = text.rsplit_once('e').and_then(|(_, e)| e.parse().ok());
    (text, exponent.unwrap_or(0))
}

/// As [`significant`], without the zeros at the end of the decimals.
pub fn significant_without_zeros(value: f64, digits: u8) -> String {
    let text = significant(value, digits);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_were_asked_for() {
        for (value, three) in [
            (0.0, "0"),
            (1234.5, "1234"),
            (-7.417, "-7.42"),
            (0.001_234, "0.00123"),
            (1e-4, "0.000100"),
            (0.000_012_34, "1.23e-5"),
            (-2e-15, "-2.00e-15"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(significant(value, 3), three);
        }
        assert_eq!(significant(0.25, 4), "0.2500");
        assert_eq!(scientific(12_345.0, 3), ("1.23e4".to_owned(), 4));
        assert_eq!(significant_without_zeros(0.25, 4), "0.25");
        assert_eq!(significant_without_zeros(120.0, 4), "120");
        assert_eq!(significant_without_zeros(2e-15, 3), "2.00e-15");
    }

    #[test]
    fn a_number_that_rounds_up_to_a_power_of_ten_has_no_digit_more() {
        for (value, three) in [
            (9.996, "10.0"),
            (-99.96, "-100"),
            (0.999_6, "1.00"),
            (0.009_999, "0.0100"),
            (999.6, "1000"),
            (0.000_099_996, "0.000100"),
            (0.000_009_999_6, "1.00e-5"),
        ] {
            assert_eq!(significant(value, 3), three);
        }
    }
}
