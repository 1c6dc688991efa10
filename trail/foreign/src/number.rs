//! Number lexemes: what a reader takes for a number, with its unit and its rounding.

use std::sync::LazyLock;

use regex::Regex;

/// A printed number: its value, precision, unit and place.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// The value, with thousands separators and suffixes (`k`, `M`) resolved.
    pub value: f64,
    /// Half a unit of the last printed digit: the largest error of rounding.
    pub half: f64,
    /// The unit as printed, in lower case; empty if there is none; `%` for percent, `x` for a factor.
    pub unit: String,
    /// Whether a sign is printed.
    pub signed: bool,
    /// Whether the text marks the number as approximate (`~`, `about`, `roughly`).
    pub rough: bool,
    /// Byte offset of the first character, including the sign.
    pub start: usize,
    /// Byte offset after the last character, including the unit.
    pub end: usize,
}

impl Quantity {
    /// Whether the number is a percentage.
    pub(crate) fn is_percent(&self) -> bool {
        self.unit == "%"
    }

    /// Whether it is a whole number without a unit.
    pub(crate) fn is_count(&self) -> bool {
        self.half == 0.5 && self.unit.is_empty() && self.value >= 0.0
    }

    /// Whether the zeros at its end may come from rounding, so that the number can be one of the values from `low` to
    /// `high`: `2,200` stands for 2,150 to 2,250.
    pub(crate) fn rounds(&self, low: f64, high: f64) -> bool {
        let mut half = self.half;
        while half >= 0.5 && self.value != 0.0 && (self.value / (half * 20.0)).fract() == 0.0 {
            half *= 10.0;
        }
        self.agrees(low, high) || low - half <= self.value && self.value <= high + half
    }

    /// The maximum distance of the printed value from the true one.
    pub fn slack(&self) -> f64 {
        if self.rough {
            (self.half * 2.0).max(self.value.abs() * 0.05)
        } else {
            self.half
        }
    }

    /// Whether the printed number can be one of the values from `low` to `high`, with a tolerance of one unit of its
    /// last digit for other rounding rules and for operands that were rounded before.
    pub fn agrees(&self, low: f64, high: f64) -> bool {
        let slack = self.slack().max(2.0 * self.half) + 1e-9 * self.value.abs().max(1e-3);
        low - slack <= self.value && self.value <= high + slack
    }

    /// Returns the measure of the unit, and its size in base units: `ms` is 0.001 of a time.
    pub fn measure(&self) -> (&str, f64) {
        measure(&self.unit)
    }
}

/// The interval of `f(a, b)` when both operands are rounded.
pub(crate) fn spread(a: &Quantity, b: &Quantity, f: impl Fn(f64, f64) -> f64) -> (f64, f64) {
    let corners = [
        f(a.value - a.half, b.value - b.half),
        f(a.value - a.half, b.value + b.half),
        f(a.value + a.half, b.value - b.half),
        f(a.value + a.half, b.value + b.half),
    ];
    (
        corners.iter().copied().fold(f64::INFINITY, f64::min),
        corners.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}

/// The median of sorted values; there must be at least one.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    f64::midpoint(sorted[n / 2], sorted[(n - 1) / 2])
}

/// How the digits of a number differ from those of a value printed like it: by one of them, or by two swapped
/// neighbours (`true`).
pub(crate) fn mistaken(digits: &str, value: f64, like: &Quantity) -> Option<bool> {
    // `k` and `M` scale the value and its rounding alike.
    let right = format!("{:.0}", (value.abs() / (2.0 * like.half)).round());
    let (a, b) = (digits.as_bytes(), right.as_bytes());
    if a.len() != b.len() {
        return None;
    }
    let apart: Vec<usize> = (0..a.len()).filter(|i| a[*i] != b[*i]).collect();
    match apart.as_slice() {
        [_] => Some(false),
        [i, j] if j - i == 1 && a[*i] == b[*j] && a[*j] == b[*i] => Some(true),
        _ => None,
    }
}

/// Whether a number of three digits or more looks like a misprint of a value.
pub(crate) fn misprints(number: &Quantity, value: f64) -> bool {
    let digits = format!("{:.0}", (number.value.abs() / (2.0 * number.half)).round());
    digits.len() >= 3
        && (number.value < 0.0) == (value < 0.0)
        && mistaken(&digits, value, number).is_some()
}

/// Formats a number for a message, with five significant digits or all those before the point.
pub(crate) fn shown(value: f64) -> String {
    shown_with(value, 5)
}

/// Formats a number that is derived from others, with three significant digits.
pub(crate) fn brief(value: f64) -> String {
    shown_with(value, 3)
}

fn shown_with(value: f64, significant: i64) -> String {
    if !value.is_finite() {
        return "undefined".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = usize::try_from(
        (significant - 1 - value.abs().log10().floor().clamp(-12.0, 12.0) as i64).max(0),
    )
    .unwrap_or(0);
    let text = format!("{value:.digits$}").replace('-', "−");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Formats a value like a printed number: with its decimals, its separators, and what is around its digits, such as `×`
/// or `ms`. If that would hide the difference of the two, it has more decimals.
pub(crate) fn shown_like(value: f64, printed: &str, number: &Quantity) -> String {
    let digit = |c: char| c.is_ascii_digit();
    let body = |c: char| digit(c) || matches!(c, ',' | '.');
    let Some(at) = printed.find(digit) else {
        return shown(value);
    };
    let rest = &printed[at..];
    let end = rest.find(|c| !body(c)).unwrap_or(rest.len());
    let digits = rest[..end].trim_end_matches(['.', ',']);
    let suffix = &rest[digits.len()..];
    let decimals = digits.split_once('.').map_or(0, |(_, part)| part.len());
    // `k`, `M` and powers of ten scale the value.
    let scale = 2.0 * number.half * 10f64.powi(i32::try_from(decimals).unwrap_or(0));
    let scaled = value / scale;
    if !scaled.is_finite() || scaled.abs() >= 1e15 {
        return shown(value);
    }
    let plain = digits.replace(',', "");
    let written = (decimals..decimals + 4)
        .map(|decimals| format!("{:.decimals$}", scaled.abs()))
        .find(|text| *text != plain || (value < 0.0) != (number.value < 0.0))
        .unwrap_or_else(|| format!("{:.decimals$}", scaled.abs()));
    let (whole, fraction) = written.split_at(written.find('.').unwrap_or(written.len()));
    // Without a thousand in the printed number, its style is unknown.
    let separated = digits.contains(',') || whole.len() > 3 && plain.len() - decimals <= 3;
    let whole = if separated {
        grouped(whole)
    } else {
        whole.to_owned()
    };
    let lead = printed[..at].trim_start_matches(['+', '-', '−', '~', '≈', ' ']);
    let sign = match value < 0.0 {
        true => "−",
        false if number.signed => "+",
        false => "",
    };
    format!("{sign}{lead}{whole}{fraction}{suffix}")
}

/// Separates thousands with commas.
fn grouped(whole: &str) -> String {
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[+\-−±]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)")
        .expect("a regex")
});
static POWER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:\s?[×x·]\s?10([⁻⁺−-]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\^[−-]?[0-9]+)|[eE]([+\-−]?[0-9]{1,3})\b)")
        .expect("a regex")
});
static UNIT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:\s?(%|‰|×)|\s?(pp|percentage points?|percent|points?)\b|(x)\b",
        r"|\s?((?:[kMG]?tok(?:ens?)?|req(?:uests?)?|queries|images?|samples?|steps?)\s?/\s?(?:s|sec|second|min|W|J|user)(?:/(?:user|GPU|W))?|(?:tokens?|requests?|queries)\sper\ssecond|t/s|tps|rps|qps)\b",
        r"|\s?([KMGT]i?B/s|[KMGT]bps|[KMGT]i?B|[KMGT]Hz|[mµμu]s|ns|s|min|ms|seconds?|minutes?|hours?|hrs?|h|days?|TFLOPS|GFLOPS|W|kW|kWh|J|°C)\b",
        r"|(k|K|M|B)\b|\s?(tok(?:ens?)?|users?|u)\b)"
    ))
    .expect("a regex")
});
static ROUGH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:~|≈|∼|about|around|roughly|approximately|approx\.|nearly|almost|some|circa|ca\.|order of)\s?[+\-−]?$").expect("a regex")
});

/// Finds the numbers of a text from left to right. Parts of names (`qwen2.5-7b`, `A100`), version numbers and dates are
/// not numbers.
pub(crate) fn quantities(text: &str) -> Vec<Quantity> {
    let mut numbers = Vec::new();
    let mut from = 0;
    while let Some(matched) = NUMBER.find_at(text, from) {
        from = matched.end();
        let (mut start, end) = (matched.start(), matched.end());
        let before = text[..start].chars().next_back();
        let mut body = matched.as_str();
        let sign = body.chars().next().filter(|first| !first.is_ascii_digit());
        // `10-20`, `3.12-alpha`: a hyphen between digits is a range, not a sign.
        let mut signed = false;
        if let Some(sign) = sign {
            body = &body[sign.len_utf8()..];
            if before.is_some_and(|c| c.is_alphanumeric() || c == '%' || c == ')') {
                start += sign.len_utf8();
            } else {
                signed = sign != '±';
            }
        }
        let named_before = sign.is_some() && !signed && before.is_some_and(char::is_alphabetic);
        if named_before || is_part_of_name(text, (start, end), sign.is_some()) {
            // Skips the rest of the name, so that its digits are not read either.
            from = name_end(text, end, true);
            continue;
        }
        let Ok(mut value) = body.replace(',', "").parse::<f64>() else {
            continue;
        };
        let decimals = body.split_once('.').map_or(0, |(_, part)| part.len());
        let mut half = 0.5 * 10f64.powi(-i32::try_from(decimals.min(30)).unwrap_or(30));
        let mut finish = end;
        if let Some((factor, length)) = power_of_ten(&text[end..]) {
            value *= factor;
            half *= factor;
            finish = end + length;
        }
        let mut unit = String::new();
        if let Some(suffix) = unit_of(&text[finish..]) {
            let whole = suffix.get(0).map_or("", |m| m.as_str());
            if let Some(scale) = suffix.get(6) {
                let factor = match scale.as_str() {
                    "k" | "K" => 1e3,
                    "M" => 1e6,
                    _ => 1e9,
                };
                value *= factor;
                half *= factor;
                // `1.3k tok/s`
                if let Some(behind) = rate_of(&text[finish + whole.len()..]) {
                    unit = normal_unit(behind.trim());
                    finish += behind.len();
                }
            } else {
                unit = normal_unit(whole.trim());
            }
            finish += whole.len();
        } else if text[finish..].starts_with(|c: char| c.is_alphabetic()) {
            // `7b`, `16th`, `2x16`: part of a name.
            from = name_end(text, finish, false);
            continue;
        }
        if sign.is_some_and(|sign| signed && sign != '+') {
            value = -value;
        }
        numbers.push(Quantity {
            value,
            half,
            unit,
            signed,
            rough: ROUGH.is_match(tail(&text[..start])),
            start,
            end: finish,
        });
        from = finish;
    }
    numbers
}

/// Whether digits belong to a name, a version, a date or a time, by the characters around them.
fn is_part_of_name(text: &str, (start, end): (usize, usize), has_sign: bool) -> bool {
    let left = text[..start].chars().next_back();
    let ends_in_digit = |c: char| c.is_ascii_digit();
    let word_left =
        left.is_some_and(|c| c.is_alphabetic() || c == '_' || c == '.' || c == '/' || c == '#');
    let before_slash = text[..start].trim_end_matches('/');
    let fraction =
        left == Some('/') && before_slash.ends_with(|c: char| c.is_ascii_digit() || c == ' ');
    let mut after = text[end..].chars();
    let (next, second) = (after.next(), after.next());
    let version = next == Some('.') && second.is_some_and(|c| c.is_alphanumeric());
    word_left && !fraction
        || version
        || next == Some('_')
        || next == Some(':') && second.is_some_and(|c| c.is_ascii_digit())
        || left == Some(':')
            && !has_sign
            && text[..start].trim_end_matches(':').ends_with(ends_in_digit)
}

/// The factor and the length of a power of ten at the start of the text after a number.
fn power_of_ten(rest: &str) -> Option<(f64, usize)> {
    let power = POWER.captures(rest)?;
    let digits = power.get(1).or(power.get(2)).map_or("", |m| m.as_str());
    let digits: String = digits.chars().filter_map(plain_digit).collect();
    let exponent = digits.parse::<i32>().ok()?;
    let length = power.get(0).map_or(0, |m| m.end());
    Some((10f64.powi(exponent.clamp(-300, 300)), length))
}

/// The unit that a text names, if it names nothing else.
pub(crate) fn unit_named(text: &str) -> Option<String> {
    let probe = format!("1 {text}");
    let number = quantities(&probe).into_iter().next()?;
    (number.end == probe.len() && !number.unit.is_empty()).then_some(number.unit)
}

/// The unit or the power at the start of the text after a number.
fn unit_of(rest: &str) -> Option<regex::Captures<'_>> {
    UNIT.captures(rest).filter(|unit| {
        // `500 × 0.02`: a product, not a factor.
        let behind = rest[unit.get(0).map_or(0, |m| m.end())..].trim_start();
        !(unit.get(1).is_some_and(|m| m.as_str() == "×")
            && behind.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '$' | '€' | '£')))
    })
}

/// Whether a unit follows a number.
pub(crate) fn unit_at(rest: &str) -> bool {
    unit_of(rest).is_some_and(|unit| unit.get(6).is_none())
}

/// The unit of a rate or of tokens at the start of the text after a suffix such as `k`.
fn rate_of(rest: &str) -> Option<&str> {
    let unit = UNIT.captures(rest)?;
    unit.get(4).or(unit.get(7))?;
    unit.get(0).map(|whole| whole.as_str())
}

/// The end of the name that continues at an offset.
fn name_end(text: &str, from: usize, colon: bool) -> usize {
    let inside = |c: char| c.is_alphanumeric() || c == '.' || c == '_' || colon && c == ':';
    let rest = &text[from..];
    from + rest.find(|c: char| !inside(c)).unwrap_or(rest.len())
}

/// The last few characters of a text.
pub(crate) fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(24);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// The number at the start of the text, possibly in brackets or emphasis, possibly followed by a remark.
pub(crate) fn leading(text: &str) -> Option<Quantity> {
    let trimmed =
        text.trim_start_matches(|c: char| c.is_whitespace() || "*`~≈<>≤≥=$€£".contains(c));
    let mut first = quantities(trimmed).into_iter().next()?;
    if first.start != 0 {
        return None;
    }
    let before = text.len() - trimmed.len();
    first.start += before;
    first.end += before;
    Some(first)
}

fn plain_digit(c: char) -> Option<char> {
    match c {
        '0'..='9' => Some(c),
        '⁻' | '−' | '-' => Some('-'),
        _ => ('0'..='9')
            .zip("⁰¹²³⁴⁵⁶⁷⁸⁹".chars())
            .find(|pair| pair.1 == c)
            .map(|pair| pair.0),
    }
}

pub(crate) fn normal_unit(unit: &str) -> String {
    let lower = unit.to_lowercase().replace(' ', "");
    match lower.as_str() {
        "percent" => "%".to_owned(),
        "×" => "x".to_owned(),
        "percentagepoint" | "percentagepoints" | "point" | "points" => "pp".to_owned(),
        "second" | "seconds" | "sec" => "s".to_owned(),
        "minute" | "minutes" => "min".to_owned(),
        "hour" | "hours" | "hr" | "hrs" => "h".to_owned(),
        "day" | "days" => "day".to_owned(),
        "µs" | "μs" => "us".to_owned(),
        "user" | "users" | "u" => "users".to_owned(),
        "token" | "tokens" => "tok".to_owned(),
        "t/s" | "tps" | "tokenspersecond" | "tokenpersecond" => "tok/s".to_owned(),
        "rps" | "requestspersecond" | "requestpersecond" => "req/s".to_owned(),
        "qps" | "queriespersecond" => "queries/s".to_owned(),
        other => other
            .replace("tokens", "tok")
            .replace("requests", "req")
            .replace("second", "s")
            .replace("/sec", "/s"),
    }
}

/// The ends of the range `LOW–HIGH` that begins with a number: a dash or the word `to` joins it to the next number.
pub(crate) fn range_at(
    text: &str,
    numbers: &[Quantity],
    low: &Quantity,
) -> Option<(Quantity, Quantity)> {
    let at = numbers
        .iter()
        .position(|number| number.start == low.start)?;
    let high = numbers.get(at + 1)?;
    let between = text.get(low.end..high.start)?.trim();
    let between = between.trim_end_matches(['$', '€', '£']).trim_end();
    let dash = matches!(between, "-" | "–" | "—" | "‑" | "to");
    let rising = low.value.abs() < high.value.abs();
    (dash && rising && (low.unit.is_empty() || low.unit == high.unit))
        .then(|| (low.clone(), high.clone()))
}

/// Returns the measure of a unit, and its size in base units. An unknown unit is its own measure.
pub(crate) fn measure(unit: &str) -> (&str, f64) {
    match unit {
        "ns" => ("time", 1e-9),
        "us" => ("time", 1e-6),
        "ms" => ("time", 1e-3),
        "s" => ("time", 1.0),
        "min" => ("time", 60.0),
        "h" => ("time", 3600.0),
        "day" => ("time", 86400.0),
        "kb" => ("bytes", 1e3),
        "mb" => ("bytes", 1e6),
        "gb" => ("bytes", 1e9),
        "tb" => ("bytes", 1e12),
        "kib" => ("bytes", 1024.0),
        "mib" => ("bytes", 1_048_576.0),
        "gib" => ("bytes", 1_073_741_824.0),
        "ktok/s" => ("tok/s", 1e3),
        other => (other, 1.0),
    }
}
