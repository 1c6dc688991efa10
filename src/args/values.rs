//! Parsers for the option values of `load` and `calibrate`.

use clap::builder::PossibleValuesParser;

/// Reads `NAME: VALUE`.
pub(super) fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("expected `NAME: VALUE`, such as `X-Route: blue`")?;
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
            _ => format!("`{text}` is neither a number nor a range `A..B`"),
        }),
    }
}

/// Reads a number of requests per second.
pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse::<f64>()
        .ok()
        .filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "expected a number of requests per second greater than 0".to_owned())
}

/// Reads a number of requests per second; `inf` means all at once.
pub(super) fn parse_level(text: &str) -> Result<f64, String> {
    match text.trim() {
        "inf" | "infinity" => Ok(f64::INFINITY),
        text => parse_rate(text).map_err(|e| format!("{e}, or `inf` for all at once")),
    }
}

/// Reads a duration and keeps its spelling.
pub(super) fn parse_span(text: &str) -> Result<String, String> {
    load::TimeSpan::parse(text).map(|_| text.to_owned())
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
    let (name, bound) = text.split_once(['=', ':']).ok_or_else(|| {
        format!("`{text}` names no metric: write ttft:{text}, tpot:{text} or e2e:{text}")
    })?;
    let name = match name {
        "e2el" | "e2e_latency" => "e2e",
        name => name,
    };
    if !["ttft", "tpot", "e2e"].contains(&name) {
        return Err(format!(
            "cannot set a bound on `{name}`: use ttft, tpot or e2e"
        ));
    }
    let with_unit = || load::TimeSpan::parse(bound).map(|span| span.nanoseconds() as f64 / 1e6);
    let number = bound
        .trim()
        .parse::<f64>()
        .ok()
        .or_else(|| with_unit().ok());
    let number = number.filter(|n| n.is_finite() && *n > 0.0);
    Ok((
        name.to_owned(),
        number.ok_or_else(|| match pipeline::suggest::duration(bound) {
            Some(meant) => format!("write {name}:{}", meant.replace(' ', "")),
            None => format!("`{bound}` is not a number of milliseconds greater than 0"),
        })?,
    ))
}

/// Reads `N` numbers separated by colons.
fn parse_numbers<const N: usize>(text: &str, form: &str) -> Result<[f64; N], String> {
    let numbers: Vec<f64> = text
        .split(':')
        .filter_map(|part| part.trim().parse().ok())
        .collect();
    let parts = text.split(':').count();
    numbers
        .try_into()
        .ok()
        .filter(|_| parts == N)
        .ok_or_else(|| format!("`{text}` is not {form}"))
}

/// Reads `RATE:SECONDS`.
pub(super) fn parse_step(text: &str) -> Result<(f64, f64), String> {
    let [rate, seconds] = parse_numbers(text, "RATE:SECONDS")?;
    check_stretch(&[rate], seconds)?;
    Ok((rate, seconds))
}

/// Reads `FROM:TO:SECONDS`.
pub(super) fn parse_ramp(text: &str) -> Result<(f64, f64, f64), String> {
    let [from, to, seconds] = parse_numbers(text, "FROM:TO:SECONDS")?;
    check_stretch(&[from, to], seconds)?;
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
