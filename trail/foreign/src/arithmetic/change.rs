//! Changes: the share or factor stated for two numbers.

use std::sync::LazyLock;

use regex::Regex;

use super::{Scope, Slip};
use crate::number::{Quantity, brief, shown_like, spread};
use crate::words::{Word, words};

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

/// Words of speed, which apply to times and rates only.
#[rustfmt::skip]
const SPEED: &[&str] = &["faster", "slower", "speedup", "speed", "slowdown", "quicker"];

/// Further words of performance. A resource such as power or memory has none.
#[rustfmt::skip]
const PERFORMANCE: &[&str] = &["gain", "boost", "improvement", "improved", "better", "worse", "regression"];

/// Words of metrics, whose numbers may lack a unit.
#[rustfmt::skip]
const METRICS: &[&str] = &[
    "throughput", "latency", "ttft", "tpot", "itl", "e2e", "time", "duration", "rate", "qps", "rps", "tps", "runtime",
];

/// Whether a claim cannot be about a pair: it is of speed, and the pair is of memory, power or something without a unit.
fn of_another(scope: &Scope<'_>, pair: &Ends<'_>, claim: &Quantity) -> bool {
    let near: Vec<Word> = scope.words_after(claim, 2);
    let says = |list: &[&str]| near.iter().any(|word| list.contains(&word.text.as_str()));
    let (measure, unit) = (pair.b.measure().0, pair.b.unit.as_str());
    let speed = measure == "time" || unit.contains('/') || matches!(unit, "tflops" | "gflops");
    let resource = measure == "bytes" || matches!(unit, "w" | "kw" | "mhz" | "ghz" | "khz" | "°c");
    let before = words(scope.before(pair.a));
    let metric = before.iter().rev().take(8);
    let metric = metric
        .clone()
        .any(|word| METRICS.contains(&word.text.as_str()));
    says(SPEED) && !speed && !(unit.is_empty() && metric) || says(PERFORMANCE) && resource
}

/// Things that one sets. Numbers behind or before such a word are settings, and what is said of them is said of a
/// metric.
#[rustfmt::skip]
const SETTINGS: &[&str] = &[
    "tp", "pp", "dp", "ep", "cp", "batch", "context", "chunk", "client", "user", "concurrency", "gpu", "node", "replica",
    "thread", "worker", "core", "seq", "block", "page", "window", "rank", "bit", "precision", "head", "expert", "layer",
    "level", "limit", "cap", "instance", "card", "accelerator", "stream", "connection", "beam", "python", "cuda",
    "version", "release", "driver", "kernel", "parallelism", "degree", "depth", "k", "c", "bs",
];

/// Whether two numbers are settings: they have no unit, and the name of a setting or a flag is directly before or
/// behind them.
fn are_settings(scope: &Scope<'_>, a: &Quantity, b: &Quantity) -> bool {
    let before = scope.before(a).trim_end();
    let before = before.strip_suffix("from").unwrap_or(before).trim_end();
    let flag = before.rsplit(' ').next().unwrap_or("");
    let setting = |word: &Word| SETTINGS.contains(&word.text.as_str());
    let last = words(before).into_iter().rev().take(2).any(|word| {
        let size = matches!(
            word.text.as_str(),
            "size" | "length" | "count" | "number" | "budget"
        );
        setting(&word) || size
    });
    let next = scope.words_after(b, 1).iter().any(setting);
    // `Ruby 3.2 → 3.3`: versions of something with a name.
    let metric = |word: &Word| METRICS.contains(&word.text.as_str());
    let named = before.ends_with(char::is_alphanumeric)
        && flag.starts_with(char::is_uppercase)
        && !words(flag).iter().any(metric);
    let version = named && a.half == 0.05 && b.half == 0.05 && a.value < 100.0;
    a.unit.is_empty()
        && b.unit.is_empty()
        && (last || next || version || flag.starts_with('-') || flag.contains(['_', '=']))
}

/// Verbs by which a change of one thing brings that of another.
#[rustfmt::skip]
const BRINGS: &[&str] = &[
    "bring", "brought", "give", "gave", "yield", "yielded", "deliver", "delivered", "buy", "bought", "lead", "led", "cost",
    "produce", "produced", "add", "added", "allow", "allowed", "enable", "enabled", "cause", "caused", "get", "got",
    "make", "made", "for",
];

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
        && !are_settings(scope, a, b)
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
        let claim = claim_after(scope, pair)
            .or_else(|| fold_after(scope, pair))
            .or_else(|| claim_before(scope, pair, pairs.len() == 1));
        let Some(claim) = claim.filter(|claim| !of_another(scope, pair, claim)) else {
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
    let brings = words(between)
        .iter()
        .any(|word| BRINGS.contains(&word.text.as_str()));
    let near = between.len() <= 32 && !between.contains([';', '→', ':']) && !brings;
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

static FOLD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s?(?:,|\(|—|–)\s?(?:i\.e\.,? )?an? ([a-z]+|[0-9]+)-?\s?fold\b").expect("a regex")
});

/// The words of a stretch from an offset on.
fn words_of(scope: &Scope<'_>, from: usize) -> Vec<String> {
    let text = scope.quote(from, scope.end);
    words(text).into_iter().map(|word| word.text).collect()
}

/// The factor in words directly after a pair: `, a fourfold reduction`. It is rounder than digits.
fn fold_after(scope: &Scope<'_>, pair: &Ends<'_>) -> Option<Quantity> {
    let words = FOLD.captures(scope.after(pair.b))?;
    let (whole, number) = (words.get(0)?, words.get(1)?);
    let value = numerals::count(number.as_str())
        .map(|n| n as f64)
        .or_else(|| number.as_str().parse().ok())?;
    // `a fourfold gain in throughput`, `a twofold gain over SGLang`
    let another = [
        "in", "of", "on", "for", "over", "than", "compared", "against", "versus", "versu", "vs",
    ];
    let following = words_of(scope, pair.b.end + whole.end());
    let mut near = following.iter().take(3);
    if near.any(|word| another.contains(&word.as_str())) {
        return None;
    }
    let numeric = whole.as_str().contains(|c: char| c.is_ascii_digit());
    let half = if numeric { 0.05 } else { 0.075 } * value;
    (value >= 2.0 && measured(scope, pair)).then(|| Quantity {
        value,
        half,
        unit: "x".to_owned(),
        signed: false,
        rough: false,
        start: pair.b.end + number.start(),
        end: pair.b.end + whole.end(),
    })
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
