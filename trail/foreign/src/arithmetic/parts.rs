//! Parts of a whole, and their shares.

use super::change::CHANGE;
use super::{Scope, Slip};
use crate::number::{Quantity, shown};
use crate::words::words;

/// Checks `210 cells, of which 190 are new and 20 are repeats`.
pub(super) fn parts(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    let text = scope.quote(scope.start, scope.end);
    let Some(at) = text.find("of which ").or_else(|| text.find("of them ")) else {
        return;
    };
    let named = &text[at..at + text[at..].find([';', '(']).unwrap_or(text.len() - at)];
    let at = scope.start + at;
    let before = scope.numbers.iter().rposition(|n| n.end <= at);
    let Some((whole, parts)) = before.map(|before| {
        let inside = |n: &&Quantity| n.start < at + named.len();
        let parts: Vec<&Quantity> = scope.numbers[before + 1..]
            .iter()
            .take_while(inside)
            .collect();
        (&scope.numbers[before], parts)
    }) else {
        return;
    };
    let counts = whole.is_count() && parts.iter().all(|part| part.is_count());
    if !counts || scope.text[whole.end..at].len() > 30 {
        return;
    }
    let open = ["another", "also", "other", "least", "both"];
    let all = parts.len() >= 2
        && parts.len() >= named.matches(" are ").count()
        && named.contains(" and ")
        && !open.iter().any(|word| named.contains(word));
    let end = parts.last().map_or(whole.end, |part| part.end);
    let sum: f64 = parts.iter().map(|part| part.value).sum();
    if sum > whole.value || all && sum != whole.value {
        slips.push(not_the_sum(whole, (whole.start, end), sum));
    }
}

fn not_the_sum(whole: &Quantity, (start, end): (usize, usize), sum: f64) -> Slip {
    Slip {
        start,
        end,
        message: format!("the parts of {} sum to {}", shown(whole.value), shown(sum)),
    }
}

/// Checks `k of m (p%)`, `p% (k of m)` and `p% (k/m)`, and parts larger than their whole.
pub(super) fn shares(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for (at, two) in scope.numbers.windows(2).enumerate() {
        let [k, m] = two else { continue };
        let between = scope.between(k, m);
        let has_of = matches!(between, "of" | "out of" | "of the" | "out of the");
        let slash = between == "/";
        if !(has_of || slash) || !k.is_count() || !m.is_count() || m.value == 0.0 {
            continue;
        }
        let before = at.checked_sub(1).map(|at| &scope.numbers[at]);
        let before = before.filter(|p| p.is_percent() && scope.between(p, k) == "(");
        let after = scope.numbers.get(at + 2).filter(|p| {
            let text = scope.between(m, p);
            // More words may precede a bracket with only the percentage: `(96 %)`.
            let alone = scope.after(p).trim_start().starts_with(')');
            let bracket = text.ends_with('(') && alone && !text.contains([',', ';', '.', ':']);
            let lead = words(text);
            p.is_percent()
                && (text.ends_with('(') || text == "=" || text == "," && has_of)
                && lead.len() <= if bracket { 6 } else { 3 }
                && !lead.iter().any(|word| CHANGE.contains(&word.text.as_str()))
        });
        // `5493/4318 = +27.2%` is a change.
        let Some(p) = before.or(after).filter(|p| !(slash && p.signed)) else {
            continue;
        };
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

/// Outcomes that exclude each other and are exhaustive, with their opposites.
const OUTCOMES: &[(&[&str], &[&str])] = &[
    (
        &["succeeded", "passed", "completed", "finished", "worked"],
        &["failed", "aborted", "crashed", "errored", "timed"],
    ),
    (&["accepted"], &["rejected"]),
    (&["passing"], &["failing"]),
    (&["valid"], &["invalid"]),
];

/// Checks a whole and its two outcomes: `Of 480 starts, 451 succeeded and 29 failed`,
/// `50 tests: 46 passed and 4 failed`.
pub(super) fn outcomes(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for three in scope.numbers.windows(3) {
        let [whole, one, other] = three else { continue };
        let verb = |number: &Quantity| scope.words_after(number, 1).pop().map(|word| word.text);
        let (Some(first), Some(second)) = (verb(one), verb(other)) else {
            continue;
        };
        let (first, second) = (first.as_str(), second.as_str());
        let opposite = OUTCOMES.iter().any(|(good, bad)| {
            good.contains(&first) && bad.contains(&second)
                || bad.contains(&first) && good.contains(&second)
        });
        let before = words(scope.before(whole));
        let has_of = before.last().is_some_and(|word| word.text == "of");
        let between = scope.between(whole, one);
        let led = has_of && between.ends_with(',') || between.ends_with(':');
        let joint = scope.between(one, other);
        let joined = match words(joint).as_slice() {
            [_] => true,
            [_, and] => and.text == "and",
            _ => false,
        };
        // A third outcome may follow.
        let more = scope.after(other).split(['.', ';']).next().unwrap_or("");
        let sum = one.value + other.value;
        if three.iter().all(Quantity::is_count)
            && led
            && between.len() <= 40
            && joint.len() <= 24
            && opposite
            && joined
            && !more.contains(|c: char| c.is_ascii_digit())
            && sum != whole.value
        {
            slips.push(not_the_sum(whole, (whole.start, other.end), sum));
        }
    }
}

/// Checks `301 timeouts and 131 aborts, 432 failures in all`, and `7 (Mon 2, Tue 0, Wed 3, Thu 1, Fri 1)`.
pub(super) fn listed(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    let numbers = scope.numbers.iter().enumerate();
    for (at, whole) in numbers.filter(|(_, n)| n.is_count()) {
        let parts = total_after(scope, at).or_else(|| total_before(scope, at));
        let Some(parts @ [first, .., last]) = parts else {
            continue;
        };
        let sum: f64 = parts.iter().map(|part| part.value).sum();
        // If it is far from the sum, it may be a product (`2 nodes and 8 cards, 16 in all`) or count another thing.
        if sum != whole.value && (0.7..1.4).contains(&(whole.value / sum)) {
            let place = (whole.start.min(first.start), whole.end.max(last.end));
            slips.push(not_the_sum(whole, place, sum));
        }
    }
}

/// The counts before a number that the text marks as their total: `a X, b Y and c Z, d in all`.
fn total_after<'a>(scope: &Scope<'a>, at: usize) -> Option<&'a [Quantity]> {
    let whole = &scope.numbers[at];
    let next = scope.words_after(whole, 3);
    let next: Vec<&str> = next.iter().map(|word| word.text.as_str()).collect();
    let called = |next: &[&str]| matches!(next, ["in", "all" | "total", ..] | ["altogether", ..]);
    let noun = |word: &str| !matches!(word, "of" | "to" | "in" | "and" | "per" | "at" | "x");
    // A noun between two counts, with the mark that joins them.
    let joint = |from: usize, marks: &[&str]| {
        let text = scope.between(&scope.numbers[from], &scope.numbers[from + 1]);
        let words = words(text);
        let n = 1 + usize::from(text.ends_with(" and"));
        marks.iter().any(|mark| text.ends_with(mark)) && words.len() == n && noun(&words[0].text)
    };
    let last = scope.between(scope.numbers.get(at.checked_sub(1)?)?, whole);
    let comma = last.ends_with(',') && words(last).len() <= 2;
    if !comma || at < 2 || !called(&next) && !called(next.get(1..).unwrap_or(&[])) {
        return None;
    }
    let mut from = at - 1;
    while from > 0 && scope.numbers[from - 1].is_count() && joint(from - 1, &[" and", ","]) {
        from -= 1;
    }
    let parts = &scope.numbers[from..at];
    (parts.len() >= 2 && joint(at - 2, &[" and"]) && parts.iter().all(Quantity::is_count))
        .then_some(parts)
}

/// The counts in brackets directly after a total, each preceded by its name.
fn total_before<'a>(scope: &Scope<'a>, at: usize) -> Option<&'a [Quantity]> {
    let whole = &scope.numbers[at];
    let inner = scope.after(whole).trim_start().strip_prefix('(')?;
    let close = inner.find(')')?;
    let items: Vec<&str> = inner[..close].split(',').map(str::trim).collect();
    let named = items.iter().all(|item| {
        item.rsplit_once(' ').is_some_and(|(name, number)| {
            name.chars().all(char::is_alphabetic)
                && !name.is_empty()
                && number.bytes().all(|b| b.is_ascii_digit())
        })
    });
    if items.len() < 3 || !named {
        return None;
    }
    let parts = scope.numbers.get(at + 1..at + 1 + items.len())?;
    let most = parts.iter().map(|part| part.value).fold(0.0, f64::max);
    (parts.iter().all(Quantity::is_count) && whole.value >= most).then_some(parts)
}
