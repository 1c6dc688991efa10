//! Arithmetic written out: a result beside its operands, in a sentence or in a cell.

use crate::number::{Quantity, ranges, shown, spread};
use crate::words::{Word, words};

/// A stretch of text with its numbers: a sentence or a cell.
pub(crate) struct Scope<'a> {
    pub(crate) text: &'a str,
    pub(crate) numbers: &'a [Quantity],
    /// Offset of the stretch in the text.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A result that does not follow: the bytes in question, and what is wrong.
pub(crate) struct Slip {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) message: String,
}

/// Checks all arithmetic of a stretch of text.
pub(crate) fn check(scope: &Scope<'_>) -> Vec<Slip> {
    let mut slips = Vec::new();
    if scope.numbers.len() >= 2 {
        changes(scope, &mut slips);
        equations(scope, &mut slips);
        parts(scope, &mut slips);
        shares(scope, &mut slips);
        comparators(scope, &mut slips);
        spreads(scope, &mut slips);
        drops(scope, &mut slips);
    }
    durations(scope, &mut slips);
    slips
}

impl Scope<'_> {
    fn between(&self, a: &Quantity, b: &Quantity) -> &str {
        self.text.get(a.end..b.start).unwrap_or("").trim()
    }

    fn before(&self, number: &Quantity) -> &str {
        self.text.get(self.start..number.start).unwrap_or("")
    }

    fn after(&self, number: &Quantity) -> &str {
        self.text.get(number.end..self.end).unwrap_or("")
    }

    fn words_after(&self, number: &Quantity, most: usize) -> Vec<Word> {
        let mut found = words(self.after(number));
        found.truncate(most);
        found
    }

    fn quote(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to).unwrap_or("")
    }
}

/// Words that say that a share or factor is a change.
const CHANGE: &[&str] = &[
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
fn changes(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
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

fn rate(number: &Quantity) -> bool {
    (number.is_percent() || number.unit == "x") && number.value != 0.0
}

/// Whether one of the next words says that a number is a change, and the change of the same thing.
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

/// Chains `a × b × c = d` and `a models × b loads, d cells in all`.
fn equations(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    let numbers = scope.numbers;
    let mut at = 0;
    while at < numbers.len() {
        let mut end = at;
        let mut ops = Vec::new();
        while let (Some(a), Some(b)) = (numbers.get(end), numbers.get(end + 1))
            && let Some(op) = operator(scope.between(a, b))
        {
            ops.push(op);
            end += 1;
        }
        let operands = &numbers[at..=end];
        if let (false, Some(result)) = (ops.is_empty(), numbers.get(end + 1)) {
            let between = scope.between(&numbers[end], result);
            let noun =
                between.trim_start_matches(|c: char| c.is_alphabetic() || c == '-' || c == ' ');
            let equal = matches!(noun, "=" | "≈" | "==" | ") =");
            let told = ops.iter().all(|op| *op == '×')
                && matches!(noun, "," | "(" | "—" | "–" | ":")
                && words(scope.after(result)).iter().take(4).any(|w| {
                    matches!(w.text.as_str(), "all" | "total" | "altogether" | "together")
                });
            let left = scope.before(&operands[0]).trim_end();
            let right = scope.after(result).trim_start();
            // Part of something longer: a bracket or an operator beyond the ends.
            let open = left.ends_with(['(', '+', '*', '/', '-', '−', '×', '^', '=', '·', '['])
                && !told
                && !left.ends_with('(')
                || right.starts_with(['+', '*', '/', '×', '^', '-', '−', '·'])
                || between.starts_with(')');
            if (equal || told) && !open {
                let (low, high) = chain(operands, &ops);
                // `5 GB / 10 s = 500 MB/s`: another unit, another power of ten or of 1024.
                let scaled = [
                    1.0,
                    1e-3,
                    1e3,
                    1e-6,
                    1e6,
                    100.0,
                    0.01,
                    60.0,
                    1.0 / 60.0,
                    3600.0,
                    1.0 / 1024.0,
                    1024.0,
                    1e-9,
                    1e9,
                ];
                let rough = between.contains('≈') || result.rough;
                let wide = if rough { 0.1 * high.abs() } else { 0.0 };
                let units = operands.iter().chain([result]).any(|n| !n.unit.is_empty());
                let fits = scaled
                    .iter()
                    .take(if units { scaled.len() } else { 1 })
                    .any(|scale| result.agrees((low - wide) * scale, (high + wide) * scale));
                if !fits {
                    slips.push(Slip {
                        start: operands[0].start,
                        end: result.end,
                        message: format!(
                            "{} does not follow from its operands: they give {}",
                            scope.quote(result.start, result.end),
                            shown(f64::midpoint(low, high))
                        ),
                    });
                }
            }
        }
        at = end + 1;
    }
}

/// The operator between two numbers; nouns may stand before it (`7 models × 4 loads`).
fn operator(between: &str) -> Option<char> {
    let rest = between
        .trim_start_matches(|c: char| c.is_alphabetic() || c == ' ' || c == '-')
        .trim();
    let words = between.len() - rest.len();
    match rest {
        "×" | "·" | "*" => Some('×'),
        "+" => Some('+'),
        "÷" | "/" if words == 0 => Some('/'),
        "−" if words == 0 => Some('-'),
        "" if between == "x" || between == "-" => (between == "x").then_some('×'),
        _ => None,
    }
}

/// The interval of a chain's value; products and quotients bind first.
fn chain(operands: &[Quantity], ops: &[char]) -> (f64, f64) {
    let exact = |number: &Quantity| number.is_count();
    let value = |shift: f64| {
        let at = |n: &Quantity| {
            if exact(n) {
                n.value
            } else {
                n.value + shift * n.half
            }
        };
        let mut sum = 0.0;
        let mut term = at(&operands[0]);
        let mut sign = 1.0;
        for (op, operand) in ops.iter().zip(&operands[1..]) {
            match op {
                '×' => term *= at(operand),
                '/' => {
                    term /= if exact(operand) {
                        operand.value
                    } else {
                        operand.value - shift * operand.half
                    }
                }
                other => {
                    sum += sign * term;
                    sign = if *other == '-' { -1.0 } else { 1.0 };
                    term = at(operand);
                }
            }
        }
        sum + sign * term
    };
    let (a, b) = (value(-1.0), value(1.0));
    (a.min(b), a.max(b))
}

/// `210 cells, of which 190 are new and 20 are repeats`.
fn parts(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
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
fn shares(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
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

/// `9.41 ms, below the expected 8.80 ms`: a comparison between two numbers.
fn comparators(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
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

/// `61.0 W and 38.5 W, within 5 W of each other`.
fn spreads(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
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

/// `peaks at 120.4 tok/s, dips to 90.2 and ends at 101.9 — a 29% drop from the peak`: the operands are somewhere
/// in the sentence, so any two of them will do.
fn drops(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
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

/// `from 02:10 to 09:40, for over 8 hours`, `2025-03-02 10:00 – 2025-03-05 16:30 (3 days)`.
fn durations(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
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

/// Clock times with their minutes, start, end, and whether a date is before them.
fn clock_times(text: &str) -> Vec<(f64, usize, usize, bool)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
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
        found.push((minutes, start, at + 3, date.is_some()));
    }
    found
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

/// A range and what it is worth in a comparison: its ends.
pub(crate) fn range_at(
    text: &str,
    numbers: &[Quantity],
    number: &Quantity,
) -> Option<(Quantity, Quantity)> {
    ranges(text, numbers)
        .into_iter()
        .find(|range| range.low.start == number.start)
        .map(|range| (range.low, range.high))
}
