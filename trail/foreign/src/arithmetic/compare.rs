//! Comparisons between numbers in one sentence.

use super::{Scope, Slip};
use crate::number::{Quantity, shown};
use crate::words::words;

/// Checks a comparison between two numbers: `9.41 ms, below the expected 8.80 ms`.
pub(super) fn comparators(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for two in scope.numbers.windows(2) {
        let [a, b] = two else { continue };
        if a.unit.is_empty() || a.unit != b.unit || a.rough || b.rough || a.value == b.value {
            continue;
        }
        let between = scope.between(a, b);
        let Some(rest) = between.strip_prefix([',', '—', '–', '(']) else {
            continue;
        };
        let said = words(rest);
        let mut said = said.iter().map(|word| word.text.as_str()).filter(|word| {
            !matches!(
                *word,
                "the"
                    | "a"
                    | "an"
                    | "its"
                    | "our"
                    | "than"
                    | "well"
                    | "still"
                    | "slightly"
                    | "far"
                    | "just"
            )
        });
        let above = match said.next() {
            Some("above" | "over" | "exceeding" | "higher" | "more" | "longer") => true,
            Some("below" | "under" | "lower" | "less" | "shorter") => false,
            _ => continue,
        };
        let rest: Vec<&str> = said.collect();
        if rest.len() > 2
            || rest
                .iter()
                .any(|w| matches!(*w, "by" | "and" | "to" | "with" | "from" | "in"))
        {
            continue;
        }
        if (a.value > b.value) != above {
            slips.push(Slip {
                start: a.start,
                end: b.end,
                message: format!(
                    "{} is not {} {}",
                    shown(a.value),
                    if above { "above" } else { "below" },
                    shown(b.value)
                ),
            });
        }
    }
}

/// Checks `61.0 W and 38.5 W, within 5 W of each other`.
pub(super) fn spreads(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for (at, bound) in scope.numbers.iter().enumerate() {
        let after = scope.after(bound).trim_start();
        let within = words(scope.before(bound))
            .last()
            .is_some_and(|word| word.text == "within");
        if !within || !(after.starts_with("of each other") || after.starts_with("of one another")) {
            continue;
        }
        let values: Vec<&Quantity> = scope.numbers[..at]
            .iter()
            .filter(|n| {
                if bound.is_percent() {
                    !n.is_percent()
                } else {
                    n.unit == bound.unit
                }
            })
            .collect();
        let fold =
            |f: fn(f64, f64) -> f64, first: f64| values.iter().map(|n| n.value).fold(first, f);
        let (low, high) = (
            fold(f64::min, f64::INFINITY),
            fold(f64::max, f64::NEG_INFINITY),
        );
        if values.len() != at
            || at < 2
            || values.iter().any(|n| n.unit != values[0].unit)
            || low <= 0.0
        {
            continue;
        }
        let gap = if bound.is_percent() {
            100.0 * (high - low) / high
        } else {
            high - low
        };
        let slack: f64 = values.iter().map(|n| n.half).sum::<f64>() + bound.slack();
        if gap > bound.value + slack {
            slips.push(Slip {
                start: values[0].start,
                end: bound.end,
                message: format!(
                    "the values are {} apart, not within {}",
                    shown(gap),
                    shown(bound.value)
                ),
            });
        }
    }
}

/// Checks `4.11 req/s, within 1 % of the 4.15 req/s of the release`.
pub(super) fn nearness(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for three in scope.numbers.windows(3) {
        let [a, bound, b] = three else { continue };
        let lead = words(scope.between(a, bound));
        let within = lead.last().is_some_and(|word| word.text == "within") && lead.len() <= 3;
        let then = words(scope.between(bound, b));
        let has_of = then.first().is_some_and(|word| word.text == "of")
            && then.len() <= 4
            && !then
                .iter()
                .any(|word| matches!(word.text.as_str(), "each" | "one" | "and"));
        if !within || !has_of || a.unit.is_empty() || a.unit != b.unit || b.value <= 0.0 {
            continue;
        }
        let gap = (a.value - b.value).abs() - a.half - b.half;
        let (gap, most) = if bound.is_percent() {
            (100.0 * gap / b.value, bound.value + bound.slack())
        } else if bound.unit == a.unit {
            (gap, bound.value + bound.slack())
        } else {
            continue;
        };
        if gap > most {
            slips.push(Slip {
                start: a.start,
                end: b.end,
                message: format!(
                    "{} and {} are {} apart, not within {}",
                    shown(a.value),
                    shown(b.value),
                    shown(gap),
                    shown(bound.value)
                ),
            });
        }
    }
}
