//! Comparisons between numbers in one sentence.

use super::{Scope, Slip};
use crate::number::{Quantity, shown};
use crate::words::words;

/// Words between two compared numbers that change nothing.
#[rustfmt::skip]
const LIGHT: &[&str] = &["the", "a", "an", "its", "our", "than", "well", "still", "slightly", "far", "just"];

/// Checks a comparison between two numbers: `9.41 ms, below the expected 8.80 ms`.
pub(super) fn comparators(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for two in scope.numbers.windows(2) {
        let [a, b] = two else { continue };
        let between = scope.between(a, b).strip_prefix([',', '—', '–', '(']);
        let Some(between) = between else { continue };
        if a.unit.is_empty() || a.unit != b.unit || a.rough || b.rough || a.value == b.value {
            continue;
        }
        let said = words(between);
        let mut said = said
            .iter()
            .map(|word| word.text.as_str())
            .filter(|word| !LIGHT.contains(word));
        let above = match said.next() {
            Some("above" | "over" | "exceeding" | "higher" | "more" | "longer") => true,
            Some("below" | "under" | "lower" | "less" | "shorter") => false,
            _ => continue,
        };
        let rest: Vec<&str> = said.collect();
        let joined = |word: &&str| matches!(*word, "by" | "and" | "to" | "with" | "from" | "in");
        if rest.len() <= 2 && !rest.iter().any(joined) && (a.value > b.value) != above {
            let way = if above { "above" } else { "below" };
            slips.push(Slip {
                start: a.start,
                end: b.end,
                message: format!("{} is not {way} {}", shown(a.value), shown(b.value)),
            });
        }
    }
}

/// Checks `61.0 W and 38.5 W, within 5 W of each other`, and `4.11 req/s, within 1 % of the 4.15 req/s of the release`.
pub(super) fn nearness(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for (at, bound) in scope.numbers.iter().enumerate() {
        let before = words(scope.before(bound));
        if before.last().is_none_or(|word| word.text != "within") {
            continue;
        }
        let after = scope.after(bound).trim_start();
        let each = ["of each other", "of one another"];
        let values: Vec<&Quantity> = if each.iter().any(|each| after.starts_with(each)) {
            scope.numbers[..at].iter().collect()
        } else if let (Some(a), Some(b)) = (
            at.checked_sub(1).and_then(|at| scope.numbers.get(at)),
            scope.numbers.get(at + 1),
        ) {
            let then = words(scope.between(bound, b));
            let plain = |word: &str| !matches!(word, "each" | "one" | "and");
            let leads = then.first().is_some_and(|word| word.text == "of") && then.len() <= 4;
            if !leads
                || !then.iter().all(|word| plain(&word.text))
                || words(scope.between(a, bound)).len() > 3
            {
                continue;
            }
            vec![a, b]
        } else {
            continue;
        };
        let Some(unit) = values.first().map(|first| &first.unit) else {
            continue;
        };
        let alike = values.iter().all(|n| n.unit == *unit && n.value > 0.0);
        let fits = unit == &bound.unit || bound.is_percent();
        if values.len() < 2
            || !alike
            || !fits
            || unit.is_empty()
            || unit == "%" && bound.is_percent()
        {
            continue;
        }
        let value = values.iter().map(|n| n.value);
        let (low, high) = (
            value.clone().fold(f64::INFINITY, f64::min),
            value.fold(0.0, f64::max),
        );
        let rounding: f64 = values.iter().map(|n| n.half).sum();
        let mut gap = high - low - rounding;
        if bound.is_percent() {
            gap *= 100.0 / high;
        }
        if gap > bound.value + bound.slack() {
            let end = values
                .last()
                .map_or(bound.end, |last| last.end.max(bound.end));
            slips.push(Slip {
                start: values[0].start,
                end,
                message: format!(
                    "the values are {} apart, not within {}",
                    shown(gap),
                    shown(bound.value)
                ),
            });
        }
    }
}
