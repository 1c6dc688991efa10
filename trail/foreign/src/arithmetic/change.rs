//! Changes: the share or factor stated for two numbers.

use super::{Scope, Slip};
use crate::number::{Quantity, brief, shown_like, spread};
use crate::words::words;

/// Words that mark a share or factor as a change.
#[rustfmt::skip]
pub(super) const CHANGE: &[&str] = &[
    "drop", "reduction", "increase", "improvement", "speedup", "gain", "decrease", "fall", "rise", "growth", "faster",
    "slower", "less", "more", "lower", "higher", "saving", "cut", "boost", "better", "worse", "smaller", "larger",
    "fell", "rose", "dropped", "increased", "decreased", "improved", "grew", "reduced", "gained", "speed", "change",
    "regression", "slowdown", "jump", "decline", "declined", "jumped", "longer", "shorter", "fewer",
];

/// Whether two numbers of one kind of measure can be the ends of a change.
pub(super) fn commensurable(a: &Quantity, b: &Quantity) -> bool {
    (a.unit.is_empty() || b.unit.is_empty() || a.measure().0 == b.measure().0)
        && a.unit != "x"
        && (a.unit == "%") == (b.unit == "%")
        || a.unit.is_empty() && b.unit == "%"
}

/// The two numbers in the unit of the second.
pub(super) fn same_unit(a: &Quantity, b: &Quantity) -> (Quantity, Quantity) {
    let mut a = a.clone();
    if !a.unit.is_empty() && !b.unit.is_empty() {
        let factor = a.measure().1 / b.measure().1;
        a.value *= factor;
        a.half *= factor;
    }
    (a, b.clone())
}

/// The words of [`CHANGE`] that describe what happened to the first number, and therefore make it the base. With the
/// others, such as *faster*, either number may be the base.
#[rustfmt::skip]
const OF_THE_FIRST: &[&str] = &[
    "drop", "dropped", "reduction", "reduced", "decrease", "decreased", "increase", "increased", "fall", "fell", "rise",
    "rose", "growth", "grew", "less", "fewer", "saving", "cut", "decline", "declined",
];

/// Whether a stated share or factor can be the change from `a` to `b`. Either may be the base, since texts use "40 %
/// faster" for both. For percentages, the difference in points is also allowed.
pub(crate) fn is_change(claim: &Quantity, a: &Quantity, b: &Quantity) -> bool {
    is_change_of(claim, a, b, false)
}

/// As [`is_change`], for texts that may show that the first number is the base.
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
    // A percentage of the first number has only one form; a factor can be read either way.
    let forms = &forms[..if of_first && claim.is_percent() { 1 } else { 4 }];
    let points = claim.is_percent() && (b.is_percent() || b.unit.is_empty());
    let gap = (b.value - a.value).abs();
    forms.iter().any(|form| {
        let (low, high) = spread(&a, &b, |a, b| scale * form(a, b));
        stated.agrees(low, high)
    }) || points
        && [gap, 100.0 * gap]
            .iter()
            .any(|gap| stated.agrees(*gap, *gap))
}

/// The two ends of a change.
struct Ends<'a> {
    at: usize,
    a: &'a Quantity,
    b: &'a Quantity,
}

/// How a text joins two ends: `→`, `from a to b`.
fn ends<'a>(scope: &Scope<'a>, at: usize) -> Option<Ends<'a>> {
    let (a, b) = (scope.numbers.get(at)?, scope.numbers.get(at + 1)?);
    let between = scope.between(a, b);
    let between = between.trim_end_matches(['$', '€', '£']).trim_end();
    let arrow = matches!(between, "→" | "->" | "-->" | "=>" | "⇒" | "➜");
    let last = words(scope.before(a)).pop();
    let from = between == "to" && last.is_some_and(|word| word.text == "from");
    // `cuts 26 s to 9 s (-65 %)`: both numbers have a unit, and a signed change in brackets follows.
    let bracket = between == "to" && !a.unit.is_empty() && a.unit == b.unit && {
        let next = scope.numbers.get(at + 2);
        next.is_some_and(|next| next.signed && next.is_percent() && scope.between(b, next) == "(")
    };
    // A range of users is a range of load levels, not a change.
    let levels = a.unit == "users" || b.unit == "users";
    let is_change = (arrow || from || bracket)
        && !levels
        && commensurable(a, b)
        && a.value != 0.0
        && b.value != 0.0;
    is_change.then_some(Ends { at, a, b })
}

/// Whether two numbers are measurements and not levels, as in `from 16 to 32`.
fn measured(scope: &Scope<'_>, pair: &Ends<'_>) -> bool {
    let way = words(scope.before(&scope.numbers[pair.at]));
    let mut way = way.iter().rev().take(2);
    !pair.b.unit.is_empty()
        || pair.b.half < 0.5
        || pair.a.half < 0.5
        || way.any(|word| matches!(word.text.as_str(), "up" | "down"))
}

/// Words that may lead to a claim.
#[rustfmt::skip]
const LEADS: &[&str] = &["a", "an", "by", "of", "i", "e", "or", "factor", "that", "is", "loss", "only", "just"];

/// Whether the words before a claim mark it as the change: `, by`, `, a loss of`, `, i.e. a factor of`.
fn introduced(text: &str) -> bool {
    let words: Vec<String> = words(text).into_iter().map(|word| word.text).collect();
    let light = |word: &String| CHANGE.contains(&word.as_str()) || LEADS.contains(&word.as_str());
    words.iter().all(light)
        && words
            .last()
            .is_some_and(|word| word == "by" || word == "of")
        && !text.contains([';', ':', '('])
}

/// A number as a factor, if it is one: `2.3x`, `a factor of 2.3`, `2.3 times as …`.
fn factor(scope: &Scope<'_>, number: &Quantity) -> Option<Quantity> {
    if number.unit == "x" {
        return Some(number.clone());
    }
    let before = words(scope.before(number));
    let mut back = before.iter().rev().map(|word| word.text.as_str());
    let named = back.next() == Some("of") && back.next() == Some("factor");
    let next = scope.words_after(number, 2);
    let times = next.first().is_some_and(|word| word.text == "time")
        && next.get(1).is_some_and(|word| {
            CHANGE.contains(&word.text.as_str()) || matches!(word.text.as_str(), "as")
        });
    (number.unit.is_empty() && !number.signed && (named || times)).then(|| Quantity {
        unit: "x".to_owned(),
        ..number.clone()
    })
}

/// Checks pairs `a → b`, `from a to b` against the share, factor or difference stated for them.
pub(super) fn changes(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    let pairs: Vec<Ends<'_>> = (0..scope.numbers.len())
        .filter_map(|at| ends(scope, at))
        .collect();
    // A chain of steps (`a → b → c`) has no single change.
    if pairs.windows(2).any(|two| two[1].at == two[0].at + 1) {
        return;
    }
    for pair in &pairs {
        let Some(claim) =
            claim_after(scope, pair).or_else(|| claim_before(scope, pair, pairs.len() == 1))
        else {
            continue;
        };
        let (a, b) = (pair.a, pair.b);
        let next = scope.words_after(&claim, 1);
        let of_first = claim.signed
            || next
                .first()
                .is_some_and(|word| OF_THE_FIRST.contains(&word.text.as_str()));
        let fits = if rate(&claim) {
            is_change_of(&claim, a, b, of_first)
        } else {
            is_difference(&claim, a, b)
        };
        if !fits {
            slips.push(not_the_change(scope, &claim, a, b));
        }
    }
}

/// The claim directly after a pair.
fn claim_after(scope: &Scope<'_>, pair: &Ends<'_>) -> Option<Quantity> {
    let claim = scope.numbers.get(pair.at + 2)?;
    let between = scope.between(pair.b, claim);
    let near = between.len() <= 32 && !between.contains([';', '→', ':']);
    let bracket = matches!(between, "(" | "[" | "=" | ", (" | "(~" | "(≈");
    let rest = scope.after(claim).trim_start();
    let alone = rest.is_empty() || rest.starts_with([')', ']', ',', '.', ';']);
    let signed = between == "," && claim.signed && alone && measured(scope, pair);
    let is_introduced = introduced(between) && measured(scope, pair);
    let change = factor(scope, claim).unwrap_or_else(|| claim.clone());
    if rate(&change) {
        let said = said_change(scope, claim) && !between.contains('.') && between.len() <= 24;
        return (near && (said || signed || is_introduced || bracket && alone)).then_some(change);
    }
    // `from 310 MB to 356 MB, by 46 MB`
    let same = !claim.unit.is_empty() && claim.unit == pair.b.unit && claim.unit == pair.a.unit;
    (near && same && is_introduced && alone).then_some(change)
}

/// The claim before the only pair: `fell 71% (212 ms → 94 ms)`, `a 3.9x speedup, from 52 to 117`.
fn claim_before(scope: &Scope<'_>, pair: &Ends<'_>, only: bool) -> Option<Quantity> {
    let before = &scope.numbers[pair.at.checked_sub(1)?];
    let a = &scope.numbers[pair.at];
    let between = scope.between(before, a);
    let leads = only
        && (!pair.b.unit.is_empty() || between.ends_with('('))
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
    let bracket = between == "(from" && !pair.b.unit.is_empty();
    (leads && rate(before) && (verb || bracket || said_change(scope, before)))
        .then(|| before.clone())
}

/// Whether a number is the difference of two others of its unit.
fn is_difference(claim: &Quantity, a: &Quantity, b: &Quantity) -> bool {
    let (a, b) = same_unit(a, b);
    let (low, high) = spread(&a, &b, |a, b| (b - a).abs());
    let mut stated = claim.clone();
    stated.value = stated.value.abs();
    stated.agrees(low, high)
}

fn not_the_change(scope: &Scope<'_>, claim: &Quantity, a: &Quantity, b: &Quantity) -> Slip {
    let (first, second) = same_unit(a, b);
    let (gap, factor) = (second.value - first.value, second.value / first.value);
    let quote = |number: &Quantity| scope.quote(number.start, number.end);
    let like = |value: f64| shown_like(value, quote(claim), claim);
    let change = 100.0 * gap / first.value;
    let right = if claim.is_percent() {
        format!(
            "the change is {}, the factor {}",
            like(change),
            brief(factor)
        )
    } else if rate(claim) {
        // `2 times shorter`: on the same side of 1 as the claim.
        let inverse = (factor < 1.0) != (claim.value.abs() < 1.0);
        let factor = like(if inverse { 1.0 / factor } else { factor });
        format!("the change is {} %, the factor {factor}", brief(change))
    } else {
        format!("the difference is {}", like(gap))
    };
    Slip {
        start: claim.start.min(a.start).min(b.start),
        end: claim.end.max(b.end).max(a.end),
        message: format!(
            "{} does not follow from {} and {}: {right}",
            scope.quote(claim.start, claim.end),
            quote(a),
            quote(b),
        ),
    }
}

fn rate(number: &Quantity) -> bool {
    (number.is_percent() || number.unit == "x") && number.value != 0.0
}

/// Whether one of the next words marks a number as a change of the same quantity.
fn said_change(scope: &Scope<'_>, claim: &Quantity) -> bool {
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
