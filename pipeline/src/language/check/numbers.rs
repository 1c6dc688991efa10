//! Remedies for texts in place of numbers.

use super::super::settings::share_of_percent;
use super::lists::several_numbers;
use super::view::View;
use crate::stage::Json;
use crate::suggest::any_of;

/// Returns what to write instead of a value that is not a number. `fractions`: whether fractions are allowed.
pub fn number_meant(value: &Json, fractions: bool) -> Option<String> {
    match value {
        Json::String(text) => number(text, fractions),
        Json::Array(items) if items.len() > 1 && items.iter().all(Json::is_number) => {
            let items: Vec<String> = items.iter().map(Json::to_string).collect();
            Some(format!(
                "write one number; as labels of an axis, the numbers are `[{}]`",
                items.join(", ")
            ))
        }
        _ => None,
    }
}

/// Returns the replacement for a text in place of a number.
pub(super) fn number(text: &str, fractions: bool) -> Option<String> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return Some(if number.is_finite() {
            format!("write {text} without quotes")
        } else {
            "use a finite number; for no limit, leave the key out".to_owned()
        });
    }
    if let Some(number) = numerals::count(&text.to_lowercase()) {
        return Some(format!("write {number}"));
    }
    if let Some(plain) = without_groups(text) {
        return Some(format!("write {plain}"));
    }
    if let Some((from, to)) = range(text) {
        return Some(format!(
            "write one number; to measure several, make an axis `{{from: {from}, to: {to}}}`, and write `\"${{AXIS}}\"` \
             here"
        ));
    }
    if let Some(list) = several_numbers(text) {
        return Some(format!(
            "write one number; as labels of an axis, the numbers are `{list}`"
        ));
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (digits, rest) = text.split_at(end);
    let value: f64 = digits.parse().ok()?;
    let word = rest.trim();
    let factors: &[f64] = match word {
        "k" | "K" => &[1e3, 1024.0],
        "M" => &[1e6, 1_048_576.0],
        "G" => &[1e9, 1_073_741_824.0],
        "Ki" | "KiB" => &[1024.0],
        "Mi" | "MiB" => &[1_048_576.0],
        "Gi" | "GiB" => &[1_073_741_824.0],
        _ => &[],
    };
    if !factors.is_empty() {
        let numbers: Vec<String> = factors.iter().map(|f| (f * value).to_string()).collect();
        return Some(format!("write the number out: {}", any_of(&numbers)));
    }
    // No setting is in percent: the number alone would be a hundred times as much.
    if word == "%" && fractions {
        return Some(format!(
            "write it as a share: {}",
            share_of_percent(digits)?
        ));
    }
    // The number alone would mean another rate, or may be right: only what the key counts decides that.
    if counts_over_other_than_seconds(word) {
        return None;
    }
    if word == "%" {
        return Some("write a number: shares have no meaning here".to_owned());
    }
    let is_word = word.chars().all(|c| c.is_alphabetic() || "/%".contains(c));
    is_word.then(|| format!("write the number alone: {digits}"))
}

/// Returns the remedy for a rate over another time than a second, where a rate per second belongs: `600/min`.
pub(super) fn per_second(text: &str, view: &View<'_>) -> Option<String> {
    let description = view.description()?.to_lowercase();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (digits, unit) = text.split_at(end);
    let value: f64 = digits.parse().ok()?;
    let (_, time) = unit.rsplit_once('/').or_else(|| unit.rsplit_once("per "))?;
    let seconds = match time.trim().to_lowercase().as_str() {
        "ms" | "millisecond" => 1e-3,
        "m" | "min" | "minute" => 60.0,
        "h" | "hr" | "hour" => 3600.0,
        "d" | "day" => 86_400.0,
        _ => return None,
    };
    description
        .contains("per second")
        .then(|| format!("write the rate per second: {}", value / seconds))
}

/// Returns whether a number has a unit that other units are multiples of, as `200 ms` and `0.5 GB`: without its unit, the
/// number may mean something else.
pub(super) fn has_scaled_unit(text: &str) -> bool {
    const UNITS: [&str; 25] = [
        "ns", "us", "µs", "ms", "msec", "s", "sec", "secs", "second", "seconds", "min", "mins",
        "minute", "minutes", "h", "hour", "hours", "kb", "mb", "gb", "tb", "kw", "mw", "khz",
        "mhz",
    ];
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    end.is_some_and(|end| end > 0 && UNITS.contains(&text[end..].trim().to_lowercase().as_str()))
}

/// Returns whether a unit counts over another time than a second, as `/min`, `requests/minute` and `per hour` do.
fn counts_over_other_than_seconds(word: &str) -> bool {
    const TIMES: [&str; 11] = [
        "ms",
        "millisecond",
        "m",
        "min",
        "minute",
        "h",
        "hr",
        "hour",
        "d",
        "day",
        "week",
    ];
    let parts = word.rsplit_once('/').or_else(|| word.rsplit_once("per "));
    parts.is_some_and(|(_, time)| TIMES.contains(&time.trim().to_lowercase().as_str()))
}

/// Returns a number without digit grouping, and with a point instead of a decimal comma.
pub(super) fn without_groups(text: &str) -> Option<String> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    for separator in ['_', ',', '\'', ' ', '\u{a0}', '\u{202f}'] {
        let mut parts = text.split(separator);
        let first = parts.next()?;
        let rest: Vec<&str> = parts.collect();
        if rest.is_empty() || !digits(first) {
            continue;
        }
        if rest
            .iter()
            .all(|part| digits(part) && (separator == '_' || part.len() == 3))
        {
            return Some(format!("{first}{}", rest.concat()));
        }
        if let (',', [fraction]) = (separator, rest.as_slice())
            && digits(fraction)
        {
            return Some(format!("{first}.{fraction}"));
        }
    }
    None
}

/// Reads a range in the syntax of other languages: `1..8`, `1-8`, `1:8`, `range(1, 8)`.
pub(crate) fn range(text: &str) -> Option<(i64, i64)> {
    let text = text.trim();
    let inner = text
        .strip_prefix("range(")
        .and_then(|rest| rest.strip_suffix(')'));
    let separators: &[&str] = match inner {
        Some(_) => &[","],
        None => &["..=", "..", "-", ":", " to "],
    };
    let text = inner.unwrap_or(text);
    let (from, to) = separators.iter().find_map(|s| text.split_once(s))?;
    let ends = from.trim().parse().ok().zip(to.trim().parse().ok());
    // `range(1, 8)` excludes its end, so the result does too.
    ends.map(|(from, to): (i64, i64)| match inner {
        Some(_) => (from, to - 1),
        None => (from, to),
    })
    .filter(|(from, to)| from <= to)
}
