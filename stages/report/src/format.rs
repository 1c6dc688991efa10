//! Formats values as text: formats typed by unit, one rounding mode, a word for null.
//!
//! A format looks like its result:
//!
//! | format | gives | unit of the column |
//! |---|---|---|
//! | (empty) | whole numbers in full, others to four significant digits, text as it is, yes/no; of a label, all digits | any |
//! | `label` | a label of an axis: all digits of a number and no more | any |
//! | `,`, `+` | as above, with commas between thousands, with a sign | any |
//! | `0`, `0.0`, `0.000` | that many decimals | any |
//! | `,0`, `,0.0` | as above, with commas between thousands | any |
//! | `sig3` | three significant digits | any |
//! | `e2` | scientific, two decimals | any |
//! | `0.0%` | percent; a ratio is scaled by 100 | `1`, `%` |
//! | `0.0pp` | percentage points | `pp` |
//! | `0.00×` | a factor | `1`, `×` |
//! | `0.0u` | the number and the column's unit | any but none |
//! | `0.0 ms`, `0 tok/s`, … | the number and the unit, which must be the column's | that one |
//! | `n` | a count: a whole number, commas between thousands | none, `1` |
//! | `p` | a p-value: three decimals, or `< 0.001` | `1` |
//! | `passed\|failed` | the words of a truth value | none |
//!
//! A leading `+` shows the sign of positive numbers. Rounding: the exact value of the double is rounded to the given
//! number of decimals, halves to even (as Rust's `{:.n}` does). A value that would show only zeros gets up to four more
//! decimals, so that −0.02 does not become 0.0; if that is not enough, it has no sign. An end of an interval of ratios
//! that would look like one also gets up to four more. The minus sign is U+2212.

use std::fmt;

use artifacts::Scalar;
use pipeline::place::label_text;

/// The layout of the digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    Default,
    Fixed(usize),
    Significant(usize),
    Scientific(usize),
}

/// The text after the digits, and whether a ratio is scaled for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suffix {
    None,
    Percent,
    Points,
    Factor,
    Unit,
}

/// A parsed format for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberFormat {
    plus: bool,
    thousands: bool,
    digits: Digits,
    suffix: Suffix,
}

/// Why a format does not suit a value.
#[derive(Clone, Debug, PartialEq)]
pub enum FormatError {
    /// No such format exists.
    Unknown {
        /// The format.
        format: String,
    },
    /// The value is null, and nothing says what null means.
    NoWordForNull,
    /// A format for numbers, and a text.
    Text {
        /// The format.
        format: String,
    },
    /// A format for numbers, and a boolean.
    Boolean {
        /// The format.
        format: String,
    },
    /// The value is not finite.
    NotFinite,
    /// The column has another unit.
    Unit {
        /// The format.
        format: String,
        /// What the format is for.
        wanted: String,
        /// The column's unit, if any.
        unit: Option<String>,
    },
    /// The value is outside the range of the format.
    Value {
        /// The format.
        format: &'static str,
        /// What the format is for.
        wanted: &'static str,
        /// The value.
        value: f64,
    },
}

impl FormatError {
    fn unit(format: &str, wanted: &str, unit: Option<&str>) -> Self {
        Self::Unit {
            format: format.to_owned(),
            wanted: wanted.to_owned(),
            unit: unit.map(str::to_owned),
        }
    }

    fn value(format: &'static str, wanted: &'static str, value: f64) -> Self {
        Self::Value {
            format,
            wanted,
            value,
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { format } => match meant(format) {
                Some(ours) => write!(f, "unknown format `{format}`; write `{ours}`"),
                None => write!(
                    f,
                    "unknown format `{format}`; write, for example, `0.00`, `,0`, `sig3`, `e2`, `0.0%`, `0.0pp`, \
                     `0.00×`, `0.0u` or `p`"
                ),
            },
            Self::NoWordForNull => f.write_str(
                "the word for null is empty; say what null means, for example `never` or `n/a`",
            ),
            Self::Text { format } => {
                write!(f, "format `{format}` is for numbers, but the value is text")
            }
            Self::Boolean { format } => write!(
                f,
                "format `{format}` is for numbers; for a boolean, write `yes|no`"
            ),
            Self::NotFinite => f.write_str("the value is not finite"),
            Self::Unit {
                format,
                wanted,
                unit,
            } => {
                let unit = unit.as_deref().unwrap_or("none");
                write!(
                    f,
                    "format `{format}` is for {wanted}, but the column's unit is `{unit}`"
                )
            }
            Self::Value {
                format,
                wanted,
                value,
            } => write!(
                f,
                "format `{format}` is for {wanted}, but the value is {value}"
            ),
        }
    }
}

/// The format of labels.
const LABEL: &str = "label";

/// Returns the format of a value that a template shows: labels have no significant digits, so without a format of its own, a
/// number among them is shown in full.
pub(crate) fn of_label(value: &Scalar, format: &str) -> String {
    match value {
        Scalar::Float(_) if format.is_empty() => LABEL.to_owned(),
        _ => format.to_owned(),
    }
}

/// Returns the text of a value, or the reason why this format does not suit it.
///
/// # Errors
/// If the format is unknown, does not fit the value's type or the column's unit, or the
/// value is not finite.
pub fn format_value(
    value: &Scalar,
    unit: Option<&str>,
    format: &str,
    null_word: &str,
) -> Result<String, FormatError> {
    match value {
        Scalar::Null if null_word.trim().is_empty() && !format.is_empty() => {
            Err(FormatError::NoWordForNull)
        }
        Scalar::Null => Ok(clean(null_word)),
        Scalar::Float(value) if format == LABEL && !value.is_finite() => {
            Err(FormatError::NotFinite)
        }
        Scalar::Bool(_) if format == LABEL => words(value == &Scalar::Bool(true), ""),
        label if format == LABEL => Ok(minus_of(label, &clean(&label_text(label)))),
        Scalar::Text(text) if format.is_empty() => Ok(clean(text)),
        Scalar::Text(_) => Err(FormatError::Text {
            format: format.to_owned(),
        }),
        Scalar::Bool(value) => words(*value, format),
        Scalar::Int(value) if format.is_empty() => Ok(minus(&value.to_string())),
        Scalar::Int(value) => number((*value as f64, Some(*value)), unit, format),
        Scalar::Float(value) => number((*value, None), unit, format),
    }
}

/// Returns the format for an end of an interval of ratios: with up to four more decimals, if the end would otherwise
/// look like one without being one. A reader must see on which side of one the interval ends.
pub(crate) fn beside_one(value: &Scalar, unit: Option<&str>, format: &str) -> String {
    let Some(end) = value.as_f64().filter(|end| *end != 1.0) else {
        return format.to_owned();
    };
    // The numbers that a reader sees: the default writes 1.00004 as 1.000, and 1 as 1.
    let seen = |value: f64, format: &str| -> Option<f64> {
        let text = format_value(&Scalar::Float(value), unit, format, "").ok()?;
        let number: String = text
            .chars()
            .filter(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        number.parse().ok()
    };
    let formats = (0..=MORE).map(|more| more_decimals(format, more));
    formats
        .into_iter()
        .find(|format| seen(end, format) != seen(1.0, format))
        .unwrap_or_else(|| format.to_owned())
}

/// Returns a format with more decimals than the given one.
fn more_decimals(format: &str, more: usize) -> String {
    if more == 0 {
        return format.to_owned();
    }
    if let Some((head, digits)) = format.split_once("sig") {
        let end = digits.find(|c: char| !c.is_ascii_digit());
        let (count, tail) = digits.split_at(end.unwrap_or(digits.len()));
        let count: usize = count.parse().unwrap_or(0);
        return format!("{head}sig{}{tail}", count + more);
    }
    let zeros = "0".repeat(more);
    if format.contains("0.") {
        format.replacen("0.", &format!("0.{zeros}"), 1)
    } else if format.contains('0') {
        format.replacen('0', &format!("0.{zeros}"), 1)
    } else {
        // The default has four significant digits: three decimals beside one.
        format!("{format}0.000{zeros}")
    }
}

/// Returns what is wrong with a format, regardless of the value.
pub(crate) fn check_format(format: &str) -> Result<(), FormatError> {
    if ["", LABEL, "p", "n"].contains(&format) || format.contains('|') {
        return Ok(());
    }
    let digits = format.split_once(' ').map_or(format, |(digits, _)| digits);
    parse(digits).map(|_| ())
}

/// Returns our format for one of C or Python with a number of decimals: `%.2f`, `.1%`, `{:.3e}`.
fn meant(format: &str) -> Option<String> {
    let inner = format.trim_matches(['{', '}', '%', ':']);
    let (digits, kind) = inner.strip_prefix('.')?.split_at_checked(1)?;
    let digits: usize = digits.parse().ok()?;
    let decimals = match digits {
        0 => "0".to_owned(),
        digits => format!("0.{}", "0".repeat(digits)),
    };
    match kind {
        "f" => Some(decimals),
        "" if format.ends_with('%') => Some(format!("{decimals}%")),
        "e" => Some(format!("e{digits}")),
        "g" => Some(format!("sig{digits}")),
        _ => None,
    }
}

fn words(value: bool, format: &str) -> Result<String, FormatError> {
    let (yes, no) = match format {
        "" => ("yes", "no"),
        _ => format.split_once('|').ok_or_else(|| {
            let format = format.to_owned();
            FormatError::Boolean { format }
        })?,
    };
    Ok(if value { yes } else { no }.to_owned())
}

/// Formats a number. `whole` is the same number as an integer, if the column has integers: not every one is a double.
fn number(
    (value, whole): (f64, Option<i64>),
    unit: Option<&str>,
    format: &str,
) -> Result<String, FormatError> {
    if !value.is_finite() {
        return Err(FormatError::NotFinite);
    }
    let wrong = |wanted: &str| FormatError::unit(format, wanted, unit);
    if format == "p" {
        return match unit {
            None | Some("1") => p_value(value),
            Some(_) => Err(wrong("probabilities")),
        };
    }
    if format == "n" {
        return count(value, whole, unit);
    }
    if let Some((digits, wanted)) = format.split_once(' ') {
        return match unit {
            Some(unit) if unit == wanted => {
                let digits = number((value, whole), None, digits)?;
                Ok(format!("{digits} {unit}"))
            }
            _ => Err(wrong(&format!("values in `{wanted}`"))),
        };
    }
    let parsed = if format.is_empty() {
        NumberFormat {
            plus: false,
            thousands: false,
            digits: Digits::Default,
            suffix: Suffix::None,
        }
    } else {
        parse(format)?
    };
    let ratio = matches!(unit, Some("1"));
    let (scale, suffix) = match parsed.suffix {
        Suffix::None => (1.0, String::new()),
        Suffix::Percent if ratio => (100.0, " %".to_owned()),
        Suffix::Percent if unit == Some("%") => (1.0, " %".to_owned()),
        Suffix::Percent => return Err(wrong("ratios and percentages")),
        Suffix::Points if unit == Some("pp") => (1.0, " pp".to_owned()),
        Suffix::Points => {
            return Err(wrong(
                "percentage points (the operator that computes a difference of percentages gives \
                 it the unit `pp`)",
            ));
        }
        Suffix::Factor if ratio || unit == Some("×") => (1.0, "×".to_owned()),
        Suffix::Factor => return Err(wrong("factors")),
        Suffix::Unit => match unit {
            None => return Err(wrong("values with a unit")),
            Some("1") => (1.0, String::new()),
            Some(unit) => (1.0, format!(" {unit}")),
        },
    };
    let in_full = matches!(parsed.digits, Digits::Default | Digits::Fixed(0));
    let mut digits = match whole.filter(|_| in_full && scale == 1.0) {
        Some(whole) => whole.to_string(),
        None => layout(value * scale, parsed.digits),
    };
    if digits.starts_with('-') && !digits.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        digits.remove(0);
    }
    if parsed.thousands {
        digits = thousands(&digits);
    }
    let positive = value > 0.0 && !digits.starts_with('-');
    let plus = if parsed.plus && positive { "+" } else { "" };
    Ok(format!("{plus}{}{suffix}", minus(&digits)))
}

fn count(value: f64, whole: Option<i64>, unit: Option<&str>) -> Result<String, FormatError> {
    if unit.is_some_and(|unit| unit != "1") {
        return Err(FormatError::unit("n", "counts", unit));
    }
    if value != value.trunc() || value < 0.0 {
        return Err(FormatError::value("n", "counts", value));
    }
    let digits = whole.map_or_else(|| format!("{value:.0}"), |whole| whole.to_string());
    Ok(thousands(&digits))
}

fn p_value(value: f64) -> Result<String, FormatError> {
    if !(0.0..=1.0).contains(&value) {
        return Err(FormatError::value("p", "probabilities", value));
    }
    Ok(if value < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("{value:.3}")
    })
}

fn parse(format: &str) -> Result<NumberFormat, FormatError> {
    let unknown = || FormatError::Unknown {
        format: format.to_owned(),
    };
    let (plus, rest) = strip(format, "+");
    let (thousands, rest) = strip(rest, ",");
    let suffixes = [
        ("%", Suffix::Percent),
        ("pp", Suffix::Points),
        ("×", Suffix::Factor),
        ("u", Suffix::Unit),
    ];
    let ending = suffixes
        .iter()
        .find_map(|(text, suffix)| Some((rest.strip_suffix(text)?, *suffix)));
    let (rest, suffix) = ending.unwrap_or((rest, Suffix::None));
    let digits = if let Some(count) = rest.strip_prefix("sig") {
        Digits::Significant(
            count
                .parse()
                .ok()
                .filter(|n| (1..=17).contains(n))
                .ok_or_else(unknown)?,
        )
    } else if let Some(count) = rest.strip_prefix('e') {
        Digits::Scientific(
            count
                .parse()
                .ok()
                .filter(|n| *n <= 17)
                .ok_or_else(unknown)?,
        )
    } else if rest.is_empty() && (thousands, plus) != (false, false) && suffix == Suffix::None {
        Digits::Default
    } else if rest == "0" {
        Digits::Fixed(0)
    } else {
        let zeros = rest.strip_prefix("0.").ok_or_else(unknown)?;
        if zeros.is_empty() || zeros.len() > 17 || zeros.bytes().any(|b| b != b'0') {
            return Err(unknown());
        }
        Digits::Fixed(zeros.len())
    };
    Ok(NumberFormat {
        plus,
        thousands,
        digits,
        suffix,
    })
}

fn strip<'a>(text: &'a str, prefix: &str) -> (bool, &'a str) {
    text.strip_prefix(prefix)
        .map_or((false, text), |rest| (true, rest))
}

fn layout(value: f64, digits: Digits) -> String {
    match digits {
        Digits::Fixed(decimals) => fixed(value, decimals),
        Digits::Scientific(decimals) => format!("{value:.decimals$e}"),
        Digits::Significant(count) => significant(value, count),
        Digits::Default if value == value.trunc() && value.abs() < 1e15 => format!("{value:.0}"),
        Digits::Default => significant(value, 4),
    }
}

/// The number of extra decimals for a value that would otherwise be all zeros.
const MORE: usize = 4;

/// Writes the given number of decimals, or more if they would all be zeros.
fn fixed(value: f64, decimals: usize) -> String {
    let shows = |text: &str| text.bytes().any(|b| (b'1'..=b'9').contains(&b));
    let texts = (decimals..=decimals + MORE).map(|decimals| format!("{value:.decimals$}"));
    texts
        .into_iter()
        .find(|text| value == 0.0 || shows(text))
        .unwrap_or_else(|| format!("{value:.decimals$}"))
}

fn significant(value: f64, count: usize) -> String {
    let (scientific, exponent) = statistics::scientific(value, count);
    if !(-5..15).contains(&exponent) {
        return scientific;
    }
    let decimals = i32::try_from(count).unwrap_or(17) - 1 - exponent;
    if decimals >= 0 {
        return format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    }
    let rounded: f64 = scientific.parse().expect("`{:e}` writes a number");
    format!("{rounded:.0}")
}

fn thousands(digits: &str) -> String {
    let (sign, rest) = digits.strip_prefix('-').map_or(("", digits), |r| ("-", r));
    let (whole, fraction) = rest
        .find(['.', 'e'])
        .map_or((rest, ""), |at| rest.split_at(at));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// Writes the minus sign of a number; text stays as it is.
fn minus_of(value: &Scalar, text: &str) -> String {
    match value {
        Scalar::Text(_) => text.to_owned(),
        _ => minus(text),
    }
}

fn minus(digits: &str) -> String {
    digits.replace('-', "\u{2212}")
}

/// Returns whether a character acts instead of being displayed: a terminal's control characters, except line breaks and
/// tabs, and characters that change the text direction.
pub(crate) fn acts(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

/// Returns the text as one line, without the characters reserved by the renderer, terminal control characters, and
/// characters that change the text direction.
pub(crate) fn clean(text: &str) -> String {
    let one_line = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if crate::trace::is_mark(c) || acts(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(one_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f64, unit: &str, format: &str) -> String {
        format_value(&Scalar::Float(value), Some(unit), format, "n/a").unwrap()
    }

    #[test]
    fn each_format_looks_as_it_is_written() {
        assert_eq!(float(0.07574, "1", "0.0000"), "0.0757");
        assert_eq!(float(0.07574, "1", "0.0%"), "7.6 %");
        assert_eq!(float(-3.49, "pp", "+0.00pp"), "\u{2212}3.49 pp");
        assert_eq!(float(12.34, "ms", "0.0 ms"), "12.3 ms");
        assert_eq!(float(1234.0, "1", "n"), "1,234");
        assert_eq!(float(1.8, "1", "0.0×"), "1.8×");
        assert_eq!(float(12.34, "ms", "0.0u"), "12.3 ms");
        assert_eq!(float(1_234_567.0, "ms", ",0"), "1,234,567");
        assert_eq!(float(2646.25, "ms", ","), "2,646");
        assert_eq!(float(44.0, "ms", "+,"), "+44");
        assert_eq!(float(12345.0, "ms", "sig3"), "12300");
        assert_eq!(float(0.000_123_45, "ms", "sig3"), "0.000123");
        assert_eq!(float(0.000_000_912, "1", "e2"), "9.12e\u{2212}7");
        assert_eq!(float(0.000_912, "1", "p"), "< 0.001");
        assert_eq!(float(0.5, "1", "+0.0"), "+0.5");
    }

    #[test]
    fn an_integer_is_exact_unless_its_format_rounds_or_scales_it() {
        let integer = |value: i64, unit: &str, format: &str| {
            format_value(&Scalar::Int(value), Some(unit), format, "").unwrap()
        };
        // 2⁵³ + 1 is no double.
        let odd = 9_007_199_254_740_993;
        for (unit, format, expected) in [
            ("1", "", "9007199254740993"),
            ("1", ",", "9,007,199,254,740,993"),
            ("1", "+,", "+9,007,199,254,740,993"),
            ("1", "n", "9,007,199,254,740,993"),
            ("1", "0", "9007199254740993"),
            ("1", "0×", "9007199254740993×"),
            ("%", "0%", "9007199254740993 %"),
            ("ns", "0u", "9007199254740993 ns"),
            ("ns", ",0 ns", "9,007,199,254,740,993 ns"),
            ("1", "sig3", "9.01e15"),
            ("1", "0%", "900719925474099200 %"),
        ] {
            assert_eq!(integer(odd, unit, format), expected, "{format}");
        }
        assert_eq!(integer(i64::MIN, "1", ",0"), "−9,223,372,036,854,775,808");
        assert_eq!(integer(0, "1", "+0"), "0");
        assert_eq!(integer(-7, "1", "+,"), "−7");
        assert_eq!(integer(12, "ms", "0.0"), "12.0");
        assert!(format_value(&Scalar::Int(-1), Some("1"), "n", "").is_err());
    }

    #[test]
    fn halves_round_to_even_on_the_exact_value() {
        assert_eq!(float(0.125, "1", "0.00"), "0.12");
        assert_eq!(float(0.375, "1", "0.00"), "0.38");
        assert_eq!(float(2.5, "1", "0"), "2");
    }

    #[test]
    fn a_value_gets_the_decimals_that_show_it_and_one_that_rounds_to_zero_all_the_same_has_no_sign()
    {
        assert_eq!(float(-0.001, "1", "0.00"), "−0.001");
        assert_eq!(float(0.02, "ms", "0.0"), "0.02");
        assert_eq!(float(0.0042, "1", "0%"), "0.4 %");
        assert_eq!(float(0.0, "1", "+0.00"), "0.00");
        assert_eq!(float(-1e-9, "1", "+0.00"), "0.00");
    }

    #[test]
    fn an_end_of_an_interval_of_ratios_shows_on_which_side_of_one_it_is() {
        let end = |value: f64, format: &str| {
            let format = beside_one(&Scalar::Float(value), Some("1"), format);
            float(value, "1", &format)
        };
        assert_eq!(end(1.003, "0.00×"), "1.003×");
        assert_eq!(end(0.9996, "0.00×"), "0.9996×");
        assert_eq!(end(1.003, "sig3"), "1.003");
        assert_eq!(end(0.9996, "sig3"), "0.9996");
        assert_eq!(end(1.2, "0"), "1.2");
        assert_eq!(end(1.000_04, ""), "1.00004");
        assert_eq!(end(1.000_04, ","), "1.00004");
        assert_eq!(end(1.01, "0.00×"), "1.01×");
        assert_eq!(end(1.0, "0.00×"), "1.00×");
        // What no format in use can tell apart keeps the declared format.
        assert_eq!(end(1.0 + 1e-12, "0.00×"), "1.00×");
    }

    #[test]
    fn a_percent_of_milliseconds_is_refused() {
        assert!(format_value(&Scalar::Float(1.0), Some("ms"), "0.0%", "").is_err());
        assert!(format_value(&Scalar::Float(1.0), Some("pp"), "0.0%", "").is_err());
        for (unit, format) in [
            ("%", "0.0pp"),
            ("1", "0.0pp"),
            ("s", "0.0 ms"),
            ("ms", "p"),
            ("ms", "n"),
        ] {
            assert!(
                format_value(&Scalar::Float(1.0), Some(unit), format, "").is_err(),
                "{unit} {format}"
            );
        }
        assert!(format_value(&Scalar::Float(1.5), Some("1"), "n", "").is_err());
    }

    #[test]
    fn null_is_a_word_and_never_empty() {
        assert!(format_value(&Scalar::Null, None, "0.00", " ").is_err());
        assert_eq!(
            format_value(&Scalar::Null, None, "0.00", "never").unwrap(),
            "never"
        );
    }

    #[test]
    fn a_label_is_shown_with_all_of_its_digits() {
        let shown = |label: f64| {
            let value = Scalar::Float(label);
            format_value(&value, None, &of_label(&value, ""), "").unwrap()
        };
        for (label, text) in [
            (0.12341, "0.12341"),
            (0.12344, "0.12344"),
            (12.3456, "12.3456"),
            (2500.0, "2500"),
            (0.0, "0"),
            (-0.5, "\u{2212}0.5"),
        ] {
            assert_eq!(shown(label), text);
        }
        // A format that the author chose stays, and so does text.
        assert_eq!(of_label(&Scalar::Float(0.5), "0.0"), "0.0");
        assert_eq!(of_label(&Scalar::Text("a-b".to_owned()), ""), "");
        assert!(check_format("label").is_ok());
    }
}
