//! Numbers for people, rounded to significant digits.

/// Numbers closer to 0 are written with an exponent.
const LEAST_PLAIN: f64 = 1e-4;

/// Formats a number with significant digits. With three, 0.001234 is `0.00123` and 0.00001234 is `1.23e-5`. Digits before
/// the decimal point are never rounded away: 1234.5 is `1234`.
pub fn significant(value: f64, digits: u8) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return value.to_string();
    }
    let after_first = i32::from(digits.max(1)) - 1;
    if value.abs() < LEAST_PLAIN {
        return format!("{value:.*e}", after_first as usize);
    }
    let decimals = after_first - value.abs().log10().floor() as i32;
    format!("{value:.*}", decimals.max(0) as usize)
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
        assert_eq!(significant_without_zeros(0.25, 4), "0.25");
        assert_eq!(significant_without_zeros(120.0, 4), "120");
        assert_eq!(significant_without_zeros(2e-15, 3), "2.00e-15");
    }
}
