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
        let before = at
            .checked_sub(1)
            .map(|at| &scope.numbers[at])
            .filter(|p| p.is_percent() && scope.between(p, k) == "(");
        let after = scope.numbers.get(at + 2).filter(|p| {
            let text = scope.between(m, p);
            // More words may precede a bracket with only the percentage: `(96 %)`.
            let alone = scope.after(p).trim_start().starts_with(')');
            let bracket = text.ends_with('(') && alone && !text.contains([',', ';', '.', ':']);
            let said = words(text);
            p.is_percent()
                && (text.ends_with('(') || text == "=" || text == ",")
                && said.len() <= if bracket { 6 } else { 3 }
                && !said.iter().any(|word| CHANGE.contains(&word.text.as_str()))
                && (has_of || text != ",")
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
        if !three.iter().all(Quantity::is_count) || scope.between(one, other).len() > 24 {
            continue;
        }
        let lead = words(scope.before(whole));
        let has_of = lead.last().is_some_and(|word| word.text == "of");
        let between = scope.between(whole, one);
        let colon = between.ends_with(':');
        let verb = |number: &Quantity| scope.words_after(number, 1).pop().map(|word| word.text);
        let (Some(first), Some(second)) = (verb(one), verb(other)) else {
            continue;
        };
        let opposite = OUTCOMES.iter().any(|(good, bad)| {
            good.contains(&first.as_str()) && bad.contains(&second.as_str())
                || bad.contains(&first.as_str()) && good.contains(&second.as_str())
        });
        let joined = words(scope.between(one, other));
        let joined: Vec<&str> = joined.iter().map(|word| word.text.as_str()).collect();
        let only = matches!(joined.as_slice(), [_, "and"] | [_]);
        // A third outcome may follow.
        let more = scope.after(other);
        let more = more[..more.find(['.', ';']).unwrap_or(more.len())]
            .contains(|c: char| c.is_ascii_digit());
        let sum = one.value + other.value;
        if (has_of && between.ends_with(',') || colon)
            && between.len() <= 40
            && opposite
            && only
            && !more
            && sum != whole.value
        {
            slips.push(Slip {
                start: whole.start,
                end: other.end,
                message: format!("the parts of {} sum to {}", shown(whole.value), shown(sum)),
            });
        }
    }
}

/// Checks `301 timeouts and 131 aborts, 432 failures in all`, and `7 (Mon 2, Tue 0, Wed 3, Thu 1, Fri 1)`.
pub(super) fn listed(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    let numbers = scope.numbers;
    for (at, whole) in numbers.iter().enumerate().filter(|(_, n)| n.is_count()) {
        let parts = total_after(scope, at).or_else(|| total_before(scope, at));
        let Some(parts) = parts else { continue };
        let sum: f64 = parts.iter().map(|part| part.value).sum();
        // If it is far from the sum, it may be a product (`2 nodes and 8 cards, 16 in all`) or count another thing.
        let near = (0.7..1.4).contains(&(whole.value / sum));
        if sum != whole.value && near {
            slips.push(Slip {
                start: whole.start.min(parts[0].start),
                end: whole.end.max(parts[parts.len() - 1].end),
                message: format!(
                    "{} does not follow: the parts sum to {}",
                    shown(whole.value),
                    shown(sum)
                ),
            });
        }
    }
}

/// The counts before a number that the text marks as their total.
fn total_after<'a>(scope: &Scope<'a>, at: usize) -> Option<&'a [Quantity]> {
    let whole = &scope.numbers[at];
    let next = scope.words_after(whole, 4);
    let next: Vec<&str> = next.iter().map(|word| word.text.as_str()).collect();
    let called = matches!(
        next.as_slice(),
        ["in", "all" | "total", ..]
            | [_, "in", "all" | "total", ..]
            | ["altogether", ..]
            | [_, "altogether", ..]
    );
    let comma = at.checked_sub(1).is_some_and(|before| {
        let between = scope.between(&scope.numbers[before], whole);
        between.ends_with(',') && words(between).len() <= 2
    });
    if !called || !comma || at < 2 {
        return None;
    }
    // Goes back over `a X, b Y and c Z`: counts with a noun each.
    let joint = |text: &str| {
        let said = words(text);
        let noun = said.first().is_some_and(|word| {
            !matches!(
                word.text.as_str(),
                "of" | "to" | "in" | "and" | "per" | "at" | "x"
            )
        });
        let and = text.ends_with(" and") && said.len() == 2;
        noun && (and || text.ends_with(',') && said.len() == 1)
    };
    let mut from = at - 1;
    while from > 0
        && scope.numbers[from - 1].is_count()
        && joint(scope.between(&scope.numbers[from - 1], &scope.numbers[from]))
    {
        from -= 1;
    }
    let parts = &scope.numbers[from..at];
    let last_joint = parts.len() >= 2
        && scope
            .between(&parts[parts.len() - 2], &parts[parts.len() - 1])
            .ends_with(" and");
    (last_joint && parts.iter().all(Quantity::is_count)).then_some(parts)
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
