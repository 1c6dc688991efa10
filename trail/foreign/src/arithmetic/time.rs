//! Durations between clock times.

use super::{Scope, Slip};
use crate::number::{Quantity, shown};
use crate::words::words;

/// Checks `from 02:10 to 09:40, for over 8 hours`, and `2025-03-02 10:00 – 2025-03-05 16:30 (3 days)`.
pub(super) fn durations(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    let text = scope.quote(scope.start, scope.end);
    let clocks = clock_times(text);
    let [first, second] = clocks.as_slice() else {
        return;
    };
    let between = text[first.2..second.1].trim();
    if !matches!(between, "to" | "until" | "till" | "–" | "-" | "—" | "→") {
        return;
    }
    let mut minutes = second.0 - first.0;
    if minutes < 0.0 && !first.3 && !second.3 {
        minutes += 24.0 * 60.0;
    }
    let stated: Vec<&Quantity> = scope
        .numbers
        .iter()
        .filter(|n| n.start >= scope.start + second.2 && n.measure().0 == "time" && n.half == 0.5)
        .collect();
    let (Some(start), Some(last)) = (stated.first(), stated.last()) else {
        return;
    };
    let lead = text.get(second.2..start.start - scope.start).unwrap_or("");
    let joined = stated
        .windows(2)
        .all(|two| matches!(scope.between(two[0], two[1]), "" | "," | "and"));
    if !joined
        || first.3 != second.3
        || minutes <= 0.0
        || lead.len() > 24
        || words(lead)
            .iter()
            .any(|w| matches!(w.text.as_str(), "every" | "each" | "plus" | "after"))
    {
        return;
    }
    let total: f64 = stated.iter().map(|n| n.value * n.measure().1 / 60.0).sum();
    let grain = last.measure().1 / 60.0;
    let words: Vec<String> = words(lead).into_iter().map(|word| word.text).collect();
    let says = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let holds = if says(&["over", "than", "least"]) && !says(&["less", "fewer"]) {
        minutes >= total
    } else if says(&["under", "less", "within"]) {
        minutes <= total
    } else {
        let slack = if last.rough || says(&["almost", "nearly", "about"]) {
            1.5
        } else {
            1.0
        };
        (minutes - total).abs() <= grain * slack
    };
    if !holds {
        slips.push(Slip {
            start: scope.start + first.1,
            end: last.end,
            message: format!("the times are {} hours apart", shown(minutes / 60.0)),
        });
    }
}

/// Clock times: minutes, start, end, and whether a date precedes them.
fn clock_times(text: &str) -> Vec<(f64, usize, usize, bool)> {
    let bytes = text.as_bytes();
    let mut times = Vec::new();
    for (at, _) in text.match_indices(':') {
        let (Some(hour), Some(minute)) = (
            at.checked_sub(2)
                .and_then(|from| text.get(from..at))
                .and_then(|part| part.parse::<u32>().ok()),
            text.get(at + 1..at + 3)
                .and_then(|part| part.parse::<u32>().ok()),
        ) else {
            continue;
        };
        let clean = |byte: Option<&u8>| {
            !byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b':' || *b == b'.')
        };
        let start = at - 2;
        if hour > 24
            || minute > 59
            || !clean(bytes.get(at + 3))
            || !clean(start.checked_sub(1).and_then(|b| bytes.get(b)))
        {
            continue;
        }
        let date = start
            .checked_sub(11)
            .and_then(|from| text.get(from..start - 1))
            .and_then(days);
        let minutes = f64::from(hour * 60 + minute) + date.unwrap_or(0.0) * 1440.0;
        let start = if date.is_some() { start - 11 } else { start };
        times.push((minutes, start, at + 3, date.is_some()));
    }
    times
}

/// Days since year 0 of an ISO date (Howard Hinnant's algorithm).
fn days(date: &str) -> Option<f64> {
    let mut parts = date.split('-').map(str::parse::<i64>);
    let (Some(Ok(y)), Some(Ok(m)), Some(Ok(d)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    if !(1..=12).contains(&m) || !(1..=31).contains(&d) {
        return None;
    }
    let y = if m <= 2 { y - 1 } else { y };
    let day = (153 * (m + if m > 2 { -3 } else { 9 }) + 2) / 5 + d - 1;
    Some((365 * y + y / 4 - y / 100 + y / 400 + day) as f64)
}
