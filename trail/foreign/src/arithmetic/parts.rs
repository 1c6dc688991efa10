//! Parts of a whole, and their shares.

use super::change::CHANGE;
use super::{Scope, Slip};
use crate::number::{Quantity, shown};
use crate::words::words;

/// `210 cells, of which 190 are new and 20 are repeats`.
pub(super) fn parts(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    let text = scope.quote(scope.start, scope.end);
    let Some(at) = text.find("of which ").or_else(|| text.find("of them ")) else {
        return;
    };
    let at = scope.start + at;
    let until = text[at - scope.start..]
        .find([';', '('])
        .map_or(scope.end, |stop| at + stop);
    let Some(whole) = scope
        .numbers
        .iter()
        .rfind(|n| n.end <= at)
        .filter(|n| n.is_count())
    else {
        return;
    };
    let parts: Vec<&Quantity> = scope
        .numbers
        .iter()
        .filter(|n| n.start >= at && n.start < until)
        .collect();
    if parts.is_empty()
        || !parts.iter().all(|part| part.is_count())
        || scope.text[whole.end..at].len() > 30
    {
        return;
    }
    let sum: f64 = parts.iter().map(|part| part.value).sum();
    let named = scope.quote(at, until);
    let whole_said = parts.len() >= 2
        && named.contains(" and ")
        && !["another", "also", "other", "least", "both"]
            .iter()
            .any(|w| named.contains(w));
    if sum > whole.value
        || whole_said
            && parts.len() == named.matches(" are ").count().max(parts.len())
            && sum != whole.value
            && parts.len() >= 2
    {
        slips.push(Slip {
            start: whole.start,
            end: parts.last().map_or(whole.end, |part| part.end),
            message: format!("the parts of {} sum to {}", shown(whole.value), shown(sum)),
        });
    }
}

/// `k of m (p%)`, `p% (k of m)`, `p% (k/m)`; and a part above its whole.
pub(super) fn shares(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for (at, two) in scope.numbers.windows(2).enumerate() {
        let [k, m] = two else { continue };
        let between = scope.between(k, m);
        let of = matches!(between, "of" | "out of" | "of the" | "out of the");
        let slash = between == "/";
        if !(of || slash) || !k.is_count() || !m.is_count() || m.value == 0.0 {
            continue;
        }
        let before = at
            .checked_sub(1)
            .map(|at| &scope.numbers[at])
            .filter(|p| p.is_percent() && scope.between(p, k) == "(");
        let after = scope.numbers.get(at + 2).filter(|p| {
            let text = scope.between(m, p);
            // More words may stand before a bracket that holds nothing else: `(96 %)`.
            let alone = scope.after(p).trim_start().starts_with(')');
            let bracket = text.ends_with('(') && alone && !text.contains([',', ';', '.', ':']);
            let said = words(text);
            p.is_percent()
                && (text.ends_with('(') || text == "=" || text == ",")
                && said.len() <= if bracket { 6 } else { 3 }
                && !said.iter().any(|word| CHANGE.contains(&word.text.as_str()))
                && (of || text != ",")
        });
        let Some(p) = before.or(after) else { continue };
        let share = 100.0 * k.value / m.value;
        let mut stated = p.clone();
        stated.value = stated.value.abs();
        if !stated.agrees(share, share) && !stated.agrees(100.0 - share, 100.0 - share) {
            slips.push(Slip {
                start: k.start.min(p.start),
                end: m.end.max(p.end),
                message: format!(
                    "{} does not follow: {} of {} is {} %",
                    scope.quote(p.start, p.end),
                    shown(k.value),
                    shown(m.value),
                    shown(share)
                ),
            });
        }
    }
}
