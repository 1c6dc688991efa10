//! Changes: the share or factor claimed of two numbers.

use super::{Scope, Slip};
use crate::number::{Quantity, shown, spread};
use crate::words::words;

/// Words that say that a share or factor is a change.
pub(super) const CHANGE: &[&str] = &[
    "drop",
    "reduction",
    "increase",
    "improvement",
    "speedup",
    "gain",
    "decrease",
    "fall",
    "rise",
    "growth",
    "faster",
    "slower",
    "less",
    "more",
    "lower",
    "higher",
    "saving",
    "cut",
    "boost",
    "better",
    "worse",
    "smaller",
    "larger",
    "fell",
    "rose",
    "dropped",
    "increased",
    "decreased",
    "improved",
    "grew",
    "reduced",
    "gained",
    "speed",
    "change",
    "regression",
    "slowdown",
    "jump",
    "decline",
    "declined",
    "jumped",
    "longer",
    "shorter",
    "fewer",
];

/// Whether two numbers can be the two ends of one change: one kind of measure.
fn commensurable(a: &Quantity, b: &Quantity) -> bool {
    (a.unit.is_empty() || b.unit.is_empty() || a.measure().0 == b.measure().0)
        && a.unit != "x"
        && (a.unit == "%") == (b.unit == "%")
        || a.unit.is_empty() && b.unit == "%"
}

/// The two numbers in the unit of the second.
fn same_unit(a: &Quantity, b: &Quantity) -> (Quantity, Quantity) {
    let mut a = a.clone();
    if !a.unit.is_empty() && !b.unit.is_empty() {
        let factor = a.measure().1 / b.measure().1;
        a.value *= factor;
        a.half *= factor;
    }
    (a, b.clone())
}

/// The words of [`CHANGE`] that say what became of the first number, and so name it as the base. Of the
/// others, such as *faster*, texts mean either.
const OF_THE_FIRST: &[&str] = &[
    "drop",
    "dropped",
    "reduction",
    "reduced",
    "decrease",
    "decreased",
    "increase",
    "increased",
    "fall",
    "fell",
    "rise",
    "rose",
    "growth",
    "grew",
    "less",
    "fewer",
    "saving",
    "cut",
    "decline",
    "declined",
];

/// Whether a claimed share or factor can be the change from `a` to `b`. Either may be the base: texts say "40 %
/// faster" of both. Of percentages the difference in points is allowed as well.
pub(crate) fn is_change(claim: &Quantity, a: &Quantity, b: &Quantity) -> bool {
    is_change_of(claim, a, b, false)
}

/// The same, where it may be known that the first number is the base.
fn is_change_of(claim: &Quantity, a: &Quantity, b: &Quantity, of_first: bool) -> bool {
    let (a, b) = same_unit(a, b);
    let scale = if claim.is_percent() { 100.0 } else { 1.0 };
    let mut stated = claim.clone();
    stated.value = stated.value.abs();
    if a.value == 0.0 || b.value == 0.0 {
        return true;
    }
    let forms: [fn(f64, f64) -> f64; 4] = [
        |a, b| (b - a).abs() / a.abs(),
        |a, b| (b - a).abs() / b.abs(),
        |a, b| (b / a).abs(),
        |a, b| (a / b).abs(),
    ];
    let points = claim.is_percent() && (b.is_percent() || b.unit.is_empty());
    // A percentage of the first number has one form; a factor may be read either way.
    let forms = if of_first && claim.is_percent() {
        &forms[..1]
    } else {
        &forms[..]
    };
    forms.iter().any(|form| {
        let (low, high) = spread(&a, &b, |a, b| scale * form(a, b));
        stated.agrees(low, high)
    }) || points && stated.agrees((b.value - a.value).abs(), (b.value - a.value).abs())
        || points
            && stated.agrees(
                100.0 * (b.value - a.value).abs(),
                100.0 * (b.value - a.value).abs(),
            )
}

/// Pairs `a → b`, `from a to b`, and the share or factor claimed of them.
pub(super) fn changes(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    let numbers = scope.numbers;
    let pair = |at: usize| -> bool {
        let (Some(a), Some(b)) = (numbers.get(at), numbers.get(at + 1)) else {
            return false;
        };
        let between = scope.between(a, b);
        let arrow = matches!(between, "→" | "->" | "-->" | "=>" | "⇒" | "➜");
        let from = between == "to"
            && words(scope.before(a))
                .last()
                .is_some_and(|word| word.text == "from");
        // From so many users to so many: levels of a load, not the ends of a change.
        let levels = a.unit == "users" || b.unit == "users";
        (arrow || from) && !levels && commensurable(a, b) && a.value != 0.0
    };
    let pairs: Vec<usize> = (0..numbers.len()).filter(|at| pair(*at)).collect();
    // A chain of steps (`a → b → c`) has no one change.
    if pairs.windows(2).any(|two| two[1] == two[0] + 1) {
        return;
    }
    for &at in &pairs {
        let (a, b) = (&numbers[at], &numbers[at + 1]);
        let claim = numbers.get(at + 2).filter(|claim| {
            let between = scope.between(b, claim);
            let near = between.len() <= 24 && !between.contains([';', '.', '→', ':']);
            let bracket = matches!(between, "(" | "[" | ": " | "=" | ", (" | "(~" | "(≈");
            let alone = scope.after(claim).trim_start().starts_with([')', ']', ','])
                || scope.after(claim).trim().is_empty();
            near && rate(claim)
                && (bracket && (alone || said_change(scope, claim)) || said_change(scope, claim))
        });
        let claim = claim.or_else(|| {
            // The claim stands before its only pair: `fell 71% (212 ms → 94 ms)`, `a 3.9x speedup, from 52 to 117`.
            let before = at.checked_sub(1).map(|before| &numbers[before])?;
            let between = scope.between(before, a);
            let leads = pairs.len() == 1
                && (!b.unit.is_empty() || between.ends_with('('))
                && between.len() <= 40
                && !between.contains([';', '.', '/'])
                && (between.ends_with('(')
                    || between.ends_with("from")
                    || between.ends_with(':') && said_change(scope, before));
            let verb = words(scope.before(before))
                .iter()
                .rev()
                .take(3)
                .any(|word| CHANGE.contains(&word.text.as_str()));
            (leads && rate(before) && (verb || said_change(scope, before))).then_some(before)
        });
        let of_first = |claim: &Quantity| {
            let next = scope.words_after(claim, 1);
            claim.signed
                || next
                    .first()
                    .is_some_and(|word| OF_THE_FIRST.contains(&word.text.as_str()))
        };
        if let Some(claim) = claim
            && !is_change_of(claim, a, b, of_first(claim))
        {
            let (first, second) = same_unit(a, b);
            let change = 100.0 * (second.value - first.value) / first.value;
            slips.push(Slip {
                start: claim.start.min(a.start),
                end: claim.end.max(b.end),
                message: format!(
                    "{} does not follow from {} and {}: the change is {} %, the factor {}",
                    scope.quote(claim.start, claim.end),
                    shown(a.value),
                    shown(b.value),
                    shown(change),
                    shown(second.value / first.value),
                ),
            });
        }
    }
}

pub(super) fn rate(number: &Quantity) -> bool {
    (number.is_percent() || number.unit == "x") && number.value != 0.0
}

/// Whether one of the next words says that a number is a change, and the change of the same thing.
pub(super) fn said_change(scope: &Scope<'_>, claim: &Quantity) -> bool {
    let next = scope.words_after(claim, 3);
    next.iter()
        .take(2)
        .position(|word| CHANGE.contains(&word.text.as_str()))
        .is_some_and(|at| {
            !next
                .get(at + 1)
                .is_some_and(|word| matches!(word.text.as_str(), "in" | "of" | "on" | "for"))
        })
}

/// `peaks at 120.4 tok/s, dips to 90.2 and ends at 101.9 — a 29% drop from the peak`: the operands are somewhere
/// in the sentence, so any two of them will do.
pub(super) fn drops(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for (at, claim) in scope.numbers.iter().enumerate() {
        let next = scope.words_after(claim, 4);
        let next: Vec<&str> = next.iter().map(|word| word.text.as_str()).collect();
        let from_extreme = matches!(next.as_slice(), [change, "from" | "below" | "of", "the" | "its", "peak" | "maximum" | "best" | "highest" | "start" | "first"] if CHANGE.contains(change));
        if !rate(claim) || !from_extreme {
            continue;
        }
        let Some(unit) = scope.numbers[..at]
            .iter()
            .map(|n| n.unit.as_str())
            .find(|unit| !matches!(*unit, "" | "%" | "x"))
        else {
            continue;
        };
        let operands: Vec<&Quantity> = scope.numbers[..at]
            .iter()
            .filter(|n| n.unit == unit || n.unit.is_empty() && n.half < 0.5)
            .collect();
        let derivable = operands.iter().any(|a| {
            operands
                .iter()
                .any(|b| a.value != b.value && is_change(claim, a, b))
        });
        if operands.len() >= 2 && !derivable {
            slips.push(Slip {
                start: operands[0].start,
                end: claim.end,
                message: format!(
                    "no two of the values before it give {}",
                    scope.quote(claim.start, claim.end)
                ),
            });
        }
    }
}
