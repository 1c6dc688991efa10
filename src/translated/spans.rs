//! Times as other tools write them: `90`, `1m30s`, `10m`.

/// Options of ours that take a time.
const OF_TIMES: [&str; 4] = [
    "--duration",
    "--max-seconds",
    "--benchmark-duration",
    "--timeout",
];

/// Writes times in our form: in Go and in Python's tools, `m` is a minute, and several units may follow each other.
pub(super) fn with_units(words: &mut [String]) {
    let is_time = |words: &[String]| words.len() == 2 && OF_TIMES.contains(&words[0].as_str());
    if !is_time(words) || load::TimeSpan::parse(&words[1]).is_ok() {
        return;
    }
    if let Some(seconds) = seconds(&words[1]) {
        words[1] = format!("{seconds}s");
    }
}

/// Returns the seconds of a time in several units, such as `1h2m3.5s`; `None` for any other text.
fn seconds(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut sum = 0.0;
    if rest.is_empty() || rest.parse::<f64>().is_ok() {
        return None;
    }
    while !rest.is_empty() {
        let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.find(|c| !is_of_number(c))?);
        let (unit, after) = after.split_at(after.find(is_of_number).unwrap_or(after.len()));
        let factor = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_several_units_becomes_seconds() {
        for (text, expected) in [
            ("1m30s", Some(90.0)),
            ("10m", Some(600.0)),
            ("1h30m", Some(5400.0)),
            ("1.5h", Some(5400.0)),
            ("30", None),
            ("m", None),
            ("10 minutes", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
