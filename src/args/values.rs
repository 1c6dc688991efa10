//! Parsers for the option values of `load` and `calibrate`.

use clap::builder::PossibleValuesParser;
use pipeline::language::settings::share_of_percent;
use pipeline::suggest::duration;

/// Reads `NAME: VALUE`.
pub(super) fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| {
        // `NAME=VALUE` of vLLM. The value may be a secret, so it is not repeated.
        match (text.split_once('='), text.trim().split_once(' ')) {
            (Some((name, _)), _) => {
                let name = name.trim();
                format!("`: ` separates the name from the value, not `=`: write `{name}: …`")
            }
            (None, Some((name, _))) => format!("expected `NAME: VALUE`: write `{name}: …`"),
            (None, None) => "expected `NAME: VALUE`: write `X-Route: …`".to_owned(),
        }
    })?;
    let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
    match load::header_problem(&name, &value) {
        Some((problem, remedy)) => Err(format!("{problem}: {remedy}")),
        None => Ok((name, value)),
    }
}

/// Reads the word of an API.
pub(super) fn parse_api() -> PossibleValuesParser {
    PossibleValuesParser::new(<contract::Api as contract::Word>::EACH.to_vec())
}

/// Reads the name of a tool whose figures can be computed.
pub(super) fn parse_tool() -> PossibleValuesParser {
    PossibleValuesParser::new(contract::compat::Tool::ALL.map(contract::compat::Tool::word))
}

/// Reads the name of a tool in whose format a result can be written.
pub(super) fn parse_layout() -> PossibleValuesParser {
    PossibleValuesParser::new(load::LAYOUTS.map(contract::compat::Tool::word))
}

/// Reads the name of a profile, which is part of the name of a lock.
pub(super) fn parse_profile(text: &str) -> Result<String, String> {
    match pipeline::language::is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(pipeline::language::name_remedy(text)),
    }
}

/// Reads a positive whole number.
pub(super) fn parse_positive<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let value = text.trim().replace('_', "").parse::<u64>().ok();
    let fitting = value.filter(|n| *n > 0).and_then(|n| N::try_from(n).ok());
    fitting.ok_or_else(|| match text.trim().parse::<f64>() {
        Ok(n) if n >= 1.0 && n.fract() == 0.0 && n < 1e9 => format!("write it out: {n}"),
        Ok(n) if n >= 1e9 => "no load is as large".to_owned(),
        _ => match thousands(text) {
            Some(n) => format!("write it out: {n}"),
            None => "expected a whole number from 1, such as 64".to_owned(),
        },
    })
}

/// Returns the number that a text such as `2k` or `12,500` means.
fn thousands(text: &str) -> Option<u64> {
    let text = text.trim().to_lowercase();
    let scaled = |word: char, factor: f64| {
        let number: f64 = text.strip_suffix(word)?.trim().parse().ok()?;
        let n = number * factor;
        ((1.0..1e9).contains(&n) && n.fract() == 0.0).then_some(n as u64)
    };
    let grouped = || {
        let mut groups = text.split([',', ' ']);
        let first = groups
            .next()
            .filter(|first| (1..=3).contains(&first.len()))?;
        let rest: Vec<&str> = groups.collect();
        let sound = !rest.is_empty() && rest.iter().all(|group| group.len() == 3);
        let number = format!("{first}{}", rest.concat());
        number.parse().ok().filter(|_| sound)
    };
    scaled('k', 1e3)
        .or_else(|| scaled('m', 1e6))
        .or_else(grouped)
}

/// Reads one of several comma-separated levels.
pub(super) fn parse_clients(text: &str) -> Result<u32, String> {
    if text.trim().is_empty() {
        return Err("there is a comma too many, or a level is missing: write 1,8,64".to_owned());
    }
    let apart = ["..", "-", ":", ";", " ", "/"];
    let several = apart.iter().any(|s| {
        let mut parts = text.trim().split(s);
        parts.clone().count() > 1 && parts.all(|part| part.trim().parse::<u32>().is_ok())
    });
    match several {
        true => Err("separate the levels with commas: 1,8,64".to_owned()),
        false => parse_positive(text),
    }
}

/// Reads `N` or `A..B`, both ends included.
pub(super) fn parse_count(text: &str) -> Result<(u32, u32), String> {
    let number = |part: &str| part.trim().parse::<u32>().ok();
    let ends = match text.split_once("..") {
        Some((from, to)) => number(from).zip(number(to)),
        None => number(text).map(|n| (n, n)),
    };
    match ends {
        Some((from, to)) if (1..=to).contains(&from) => Ok((from, to)),
        Some((from, to)) if to >= 1 && from > to => Err(format!(
            "the smaller number comes first: write {to}..{from}"
        )),
        Some(_) => Err(format!("`{text}` must be at least 1")),
        None => Err(match text.split_once(['-', ':', ',']) {
            Some((from, to)) if number(from).is_some() && number(to).is_some() => {
                format!("write {}..{}", from.trim(), to.trim())
            }
            _ => match written_out(text) {
                Some(count) => format!("write it out: {count}"),
                None => {
                    format!("`{text}` is neither a number nor a range: write `128` or `64..256`")
                }
            },
        }),
    }
}

/// Returns a number or a range with its numbers written out: `32k` is 32000.
fn written_out(text: &str) -> Option<String> {
    let number = |part: &str| match part.trim().parse::<u64>() {
        Ok(number) => Some(number),
        Err(_) => thousands(part),
    };
    match text.split_once("..") {
        Some((from, to)) => Some(format!("{}..{}", number(from)?, number(to)?)),
        None => number(text).map(|n| n.to_string()),
    }
}

/// Reads a number of requests per second.
pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    let fitting = |text: &str| {
        let rate = text.trim().parse::<f64>().ok();
        rate.filter(|rate| rate.is_finite() && *rate > 0.0)
    };
    // A rate with its unit, as users of other tools may write it.
    let units = [
        ("req/s", 1.0),
        ("/sec", 1.0),
        ("/s", 1.0),
        ("rps", 1.0),
        ("qps", 1.0),
        ("/min", 60.0),
        ("rpm", 60.0),
        ("/m", 60.0),
    ];
    let per_second = || {
        let lower = text.trim().to_lowercase();
        let in_unit =
            |(unit, seconds): &(&str, f64)| Some(fitting(lower.strip_suffix(unit)?)? / seconds);
        units.iter().find_map(in_unit)
    };
    fitting(text).ok_or_else(|| match per_second() {
        Some(rate) => format!("write the number of requests per second alone: {rate}"),
        None => "expected a number of requests per second greater than 0".to_owned(),
    })
}

/// Reads a number.
pub(super) fn parse_number(text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite());
    number.ok_or_else(|| "expected a number, such as 1.5".to_owned())
}

/// Reads a whole number from 0.
pub(super) fn parse_whole<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let value = text.trim().replace('_', "").parse::<u64>().ok();
    let fitting = value.and_then(|n| N::try_from(n).ok());
    fitting.ok_or_else(|| match thousands(text) {
        Some(n) => format!("write it out: {n}"),
        None if duration(text).is_some() => {
            "this is a count, not a time: write a whole number, such as 8".to_owned()
        }
        None => "expected a whole number from 0, such as 8".to_owned(),
    })
}

/// Reads a whole number within bounds.
pub(super) fn parse_within<N: TryFrom<u64>>(
    text: &str,
    least: u64,
    most: u64,
) -> Result<N, String> {
    let within = parse_whole::<u64>(text)
        .ok()
        .filter(|n| (least..=most).contains(n));
    let fitting = within.and_then(|n| N::try_from(n).ok());
    fitting.ok_or_else(|| format!("expected a whole number from {least} to {most}"))
}

/// Reads a number of percent, with or without the sign.
pub(super) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim();
    parse_number(number.strip_suffix('%').unwrap_or(number))
        .map_err(|_| "expected a number of percent, such as 5".to_owned())
}

/// Reads a share: a number up to 1, or a number of percent with its sign.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.trim();
    if let Some(percent) = number.strip_suffix('%') {
        return parse_percent(percent).map(share_of);
    }
    match parse_number(number) {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Ok(percent) if percent > 1.0 && percent <= 100.0 => Err(format!(
            "a share is a number from 0 to 1: write {} or {percent}%",
            share_of(percent)
        )),
        _ => Err("a share is a number from 0 to 1, such as 0.95".to_owned()),
    }
}

/// Returns the share that a finite number of percent is.
fn share_of(percent: f64) -> f64 {
    share_of_percent(percent).expect("a finite number is written without an exponent")
}

/// Reads a number of requests per second; `inf` means all at once.
pub(super) fn parse_level(text: &str) -> Result<f64, String> {
    match text.trim() {
        text if ["inf", "infinity", "∞"].contains(&text.to_lowercase().as_str()) => {
            Ok(f64::INFINITY)
        }
        text => parse_rate(text).map_err(|e| format!("{e}, or `inf` for all at once")),
    }
}

/// Reads a duration and keeps its spelling.
pub(super) fn parse_span(text: &str) -> Result<String, String> {
    span_in(text, "s")
}

/// Reads a gap between tokens, as [`parse_span`] does; a number without a unit probably means milliseconds.
pub(super) fn parse_gap(text: &str) -> Result<String, String> {
    span_in(text, "ms")
}

fn span_in(text: &str, unit: &str) -> Result<String, String> {
    let parsed = load::TimeSpan::parse(text).map(|_| text.to_owned());
    parsed.map_err(|error| match text.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => {
            format!("it has no unit: write `{number} {unit}`")
        }
        _ => error,
    })
}

/// Reads the grace of condemned objects: a duration, or days.
pub(super) fn parse_grace(text: &str) -> Result<std::time::Duration, String> {
    const DAY: f64 = 24.0 * 60.0 * 60.0;
    const YEARS: f64 = 100.0 * 365.0;
    let days = text
        .trim()
        .strip_suffix('d')
        .map(|n| n.trim().parse::<f64>());
    match days {
        Some(Ok(days)) if (0.0..=YEARS).contains(&days) => {
            Ok(std::time::Duration::from_secs_f64(days * DAY))
        }
        Some(_) => Err(format!("`{text}` is not a number of days, such as `7 d`")),
        None => load::TimeSpan::parse(text).map(load::TimeSpan::duration),
    }
}

/// Reads the duration of a run: a duration with a unit, or a number of seconds, as other tools accept.
pub(super) fn parse_duration(text: &str) -> Result<String, String> {
    match text.trim().parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds.is_finite() => Ok(format!("{seconds} s")),
        Ok(_) => Err("expected a time above 0, such as `30 s`".to_owned()),
        Err(_) => parse_span(text),
    }
}

/// Reads two durations, separated by a comma.
pub(super) fn parse_spans(text: &str) -> Result<(String, String), String> {
    let (first, second) = text
        .split_once(',')
        .ok_or_else(|| format!("`{text}` is not `P50,P99`"))?;
    load::TimeSpan::parse(first)?;
    load::TimeSpan::parse(second)?;
    Ok((first.trim().to_owned(), second.trim().to_owned()))
}

/// Reads `METRIC=BOUND` or `METRIC:BOUND`: milliseconds, or a number with its unit.
pub(super) fn parse_bound(text: &str) -> Result<(String, f64), String> {
    if text.contains("://") {
        return Err(
            "this is a URL and not a bound: put the URL before the option, or give it with `--url`"
                .to_owned(),
        );
    }
    let signs = ["<=", "=<", "≤", "<", "=", ":"];
    let parts: Vec<&str> = text.split_whitespace().collect();
    let is_bound = |part: &&str| {
        part.split_once([':', '='])
            .is_some_and(|(name, _)| bounded(name).is_some())
    };
    if parts.len() > 1 && parts.iter().all(is_bound) {
        return Err(format!(
            "separate the bounds with commas: write {}",
            parts.join(",")
        ));
    }
    let Some((name, bound)) = signs.iter().find_map(|sign| text.split_once(sign)) else {
        let is_bound = text.trim().starts_with(|c: char| c.is_ascii_digit());
        return Err(match (is_bound, bounded(text)) {
            (true, _) => {
                format!("`{text}` names no metric: write ttft:{text}, tpot:{text} or e2e:{text}")
            }
            (false, Some((metric, _))) => format!("it has no bound: write {metric}:200ms"),
            (false, None) => "expected a metric and its bound, such as ttft:200ms".to_owned(),
        });
    };
    let (name, bound) = (name.trim(), bound.trim());
    let name = match bounded(name) {
        Some((metric, None)) => metric,
        Some((metric, Some(share))) => {
            return Err(format!(
                "a bound holds for each request: write {metric}:{bound}; with --search, `--attainment {share}` is the \
                 share of requests that must meet it"
            ));
        }
        None if ["itl", "icl", "inter_token_latency"].contains(&name) => {
            return Err(format!(
                "a bound on each gap cannot be set: write tpot:{bound}, the mean gap of a request"
            ));
        }
        None => {
            return Err(format!(
                "cannot set a bound on `{name}`: use ttft, tpot, e2e, ttft_scheduled or e2e_scheduled"
            ));
        }
    };
    let with_unit = || load::TimeSpan::parse(bound).map(|span| span.nanoseconds() as f64 / 1e6);
    let bare = bound.parse::<f64>().ok();
    // Few bounds are below a millisecond. Without a unit, seconds may be meant.
    if bare.is_some_and(|number| number > 0.0 && number < 1.0) {
        return Err(format!(
            "`{bound}` has no unit: write {name}:{bound}s for seconds, or {name}:{bound}ms"
        ));
    }
    let number = bare
        .or_else(|| with_unit().ok())
        .filter(|n| n.is_finite() && *n > 0.0);
    Ok((
        name.to_owned(),
        number.ok_or_else(|| match duration(bound) {
            Some(meant) => format!("write {name}:{}", meant.replace(' ', "")),
            None => format!("`{bound}` is not a number of milliseconds greater than 0"),
        })?,
    ))
}

/// Returns the metric that a name means, in the spelling of any tool, with the share of a quantile in the name.
fn bounded(name: &str) -> Option<(&'static str, Option<f64>)> {
    let lower = name.trim().to_lowercase();
    let mut share = None;
    let mut words: Vec<&str> = Vec::new();
    for word in lower.split(['_', '-', ' ', '.']) {
        let quantile = word.strip_prefix('p').and_then(|n| n.parse::<f64>().ok());
        match (quantile, word) {
            (Some(percent), _) if percent > 0.0 && percent < 100.0 => {
                share = Some(share_of(percent));
            }
            (_, "median") => share = Some(0.5),
            (_, "" | "ms" | "s") => {}
            _ => words.push(word),
        }
    }
    let metric = match words.join("_").as_str() {
        "ttft" | "time_to_first_token" => "ttft",
        "tpot" | "time_per_output_token" => "tpot",
        "e2e" | "e2el" | "e2e_latency" | "request_latency" | "latency" => "e2e",
        "ttft_scheduled" => "ttft_scheduled",
        "e2e_scheduled" => "e2e_scheduled",
        _ => return None,
    };
    Some((metric, share))
}

/// Reads `N` rates and a time, separated by colons: a number of seconds, or a duration with its unit.
fn parse_stretch<const N: usize>(text: &str, form: &str) -> Result<([f64; N], f64), String> {
    let wrong = || format!("`{text}` is not {form}");
    let (rates, time) = text.rsplit_once(':').ok_or_else(wrong)?;
    let parts = rates.split(':').map(|part| part.trim().parse::<f64>().ok());
    let rates: Option<Vec<f64>> = parts.collect();
    let rates = rates.and_then(|rates| rates.try_into().ok());
    let rates: [f64; N] = rates.ok_or_else(wrong)?;
    let seconds = match time.trim().parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) if time.trim().is_empty() => return Err(wrong()),
        Err(_) => load::TimeSpan::parse(time.trim())?.duration().as_secs_f64(),
    };
    check_stretch(&rates, seconds)?;
    Ok((rates, seconds))
}

/// Reads `RATE:TIME`.
pub(super) fn parse_step(text: &str) -> Result<(f64, f64), String> {
    let ([rate], seconds) = parse_stretch(text, "RATE:SECONDS")?;
    Ok((rate, seconds))
}

/// Reads `FROM:TO:TIME`.
pub(super) fn parse_ramp(text: &str) -> Result<(f64, f64, f64), String> {
    let ([from, to], seconds) = parse_stretch(text, "FROM:TO:SECONDS")?;
    Ok((from, to, seconds))
}

fn check_stretch(rates: &[f64], seconds: f64) -> Result<(), String> {
    if let Some(rate) = rates
        .iter()
        .find(|rate| !(rate.is_finite() && **rate >= 0.0))
    {
        return Err(format!(
            "the rate {rate} is not 0 or more requests per second"
        ));
    }
    match seconds.is_finite() && seconds > 0.0 {
        true => Ok(()),
        false => Err(format!("{seconds} is not a number of seconds above 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        bounded, parse_bound, parse_header, parse_profile, parse_ramp, parse_share, parse_step,
    };

    #[test]
    fn a_time_is_a_number_of_seconds_or_has_its_unit() {
        for (text, step) in [
            ("1:2", (1.0, 2.0)),
            ("1:2s", (1.0, 2.0)),
            (" 4 : 1.5 min", (4.0, 90.0)),
            ("0.5:500ms", (0.5, 0.5)),
        ] {
            assert_eq!(parse_step(text), Ok(step), "{text}");
        }
        assert_eq!(parse_ramp("1:4:3s"), Ok((1.0, 4.0, 3.0)));
        assert_eq!(parse_ramp("1:4:3"), Ok((1.0, 4.0, 3.0)));
        for text in [
            "1",
            "1:",
            "1:2:3",
            "x:2",
            "1:0s",
            "-1:2s",
            "1:2 parsecs",
            "1:inf",
        ] {
            assert!(parse_step(text).is_err(), "{text}");
        }
        assert!(parse_ramp("1:4").is_err());
    }

    #[test]
    fn what_is_no_value_of_an_option_is_answered_with_its_place() {
        let refused = parse_bound("http://127.0.0.1:8000").expect_err("it is a URL");
        assert!(refused.contains("before the option"), "{refused}");
        let refused = parse_header("Authorization=secret").expect_err("it has no colon");
        assert!(
            refused.contains("not `=`: write `Authorization: …`"),
            "{refused}"
        );
        assert!(!refused.contains("secret"), "{refused}");
    }

    #[test]
    fn a_percentage_is_the_share_with_the_same_digits() {
        for (text, share) in [
            ("99.9%", 0.999),
            (" 99.9 % ", 0.999),
            ("7%", 0.07),
            ("100%", 1.0),
            ("1e-1%", 0.001),
            ("0.999", 0.999),
        ] {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
        let refused = parse_share("99.9").expect_err("99.9 is above 1");
        assert!(refused.ends_with("write 0.999 or 99.9%"), "{refused}");
        for text in ["", "%", "inf%", "NaN", "101", "-1"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
        assert_eq!(bounded("ttft_p90"), Some(("ttft", Some(0.9))));
        assert_eq!(bounded("p7-ttft"), Some(("ttft", Some(0.07))));
        assert_eq!(bounded("e2e_scheduled_ms"), Some(("e2e_scheduled", None)));
    }

    #[test]
    fn a_profile_has_the_name_of_one() {
        assert_eq!(parse_profile("smoke"), Ok("smoke".to_owned()));
        for name in ["", "a/b", "s3://x", "..", "a b", "1x", "\u{1b}[31m"] {
            assert!(parse_profile(name).is_err(), "{name:?}");
        }
    }
}
