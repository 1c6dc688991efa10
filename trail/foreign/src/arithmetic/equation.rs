//! Equations in the text.

use super::{Scope, Slip};
use crate::number::{Quantity, shown};
use crate::words::words;

/// Checks chains `a × b × c = d`, and `a models × b loads, d cells in all`.
pub(super) fn equations(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
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
            let between = between.trim_end_matches(CURRENCY).trim_end();
            let noun =
                between.trim_start_matches(|c: char| c.is_alphabetic() || c == '-' || c == ' ');
            let equal = matches!(noun, "=" | "≈" | "==" | ") =");
            let is_total = ops.iter().all(|op| *op == '×')
                && matches!(noun, "," | "(" | "—" | "–" | ":")
                && words(scope.after(result)).iter().take(4).any(|w| {
                    matches!(w.text.as_str(), "all" | "total" | "altogether" | "together")
                });
            let left = scope
                .before(&operands[0])
                .trim_end_matches(CURRENCY)
                .trim_end();
            let right = scope.after(result).trim_start();
            // Part of a longer expression: a bracket or an operator outside its ends.
            let open = left.ends_with(['(', '+', '*', '/', '-', '−', '×', '^', '=', '·', '['])
                && !is_total
                && !left.ends_with('(')
                || right.starts_with(['+', '*', '/', '×', '^', '-', '−', '·'])
                || right.starts_with("x ")
                || between.starts_with(')');
            // `= 560 kbytes`: the unit has a factor that is not read.
            let scaled = right.split_whitespace().next().is_some_and(|word| {
                let word = word.to_lowercase();
                word.ends_with("byte") || word.ends_with("bytes")
            });
            if (equal || is_total) && !open && !scaled {
                let (low, high) = chain(operands, &ops);
                // `5 GB / 10 s = 500 MB/s`: a different unit, so a different power of ten or of 1024.
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
                // `5493/4318 = +27.2%` is a change.
                let change = ops == ['/'] && result.is_percent();
                let fits = change && result.agrees(100.0 * (low - 1.0), 100.0 * (high - 1.0))
                    || scaled
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

/// Signs that precede an amount of money.
const CURRENCY: [char; 3] = ['$', '€', '£'];

/// The operator between two numbers; a noun may precede it (`7 models × 4 loads`).
fn operator(between: &str) -> Option<char> {
    let between = between.trim_end_matches(CURRENCY).trim_end();
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

/// The interval of a chain's value; products and quotients are evaluated first.
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

/// Checks `72,000 requests in 20 minutes (60 req/s)`, and
/// `86,400 requests take 1,440 s, that is 60 requests per second`.
pub(super) fn rates(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    for three in scope.numbers.windows(3) {
        let [count, time, rate] = three else { continue };
        let last = scope.words_after(rate, 3);
        let said: Vec<&str> = last.iter().map(|word| word.text.as_str()).collect();
        let spelled = matches!(said.as_slice(), [_, "per", "second"]) && rate.unit.is_empty();
        let per_second = spelled || rate.unit.ends_with("/s") && !rate.unit.contains('b');
        let noun = |text: &str| words(text).first().map(|word| word.text.clone());
        let counted = noun(scope.after(count));
        let rated = if spelled {
            noun(scope.after(rate))
        } else {
            rate.unit.split('/').next().map(str::to_owned)
        };
        // The count and the rate are of the same thing: `req` and `requests`.
        let counted = if count.unit.is_empty() {
            counted
        } else {
            Some(count.unit.clone())
        };
        let same = matches!((&counted, &rated), (Some(c), Some(r)) if !r.is_empty() && c.starts_with(r.as_str()));
        let joint = words(scope.between(count, time));
        let joint: Vec<&str> = joint.iter().map(|word| word.text.as_str()).collect();
        let whole = matches!(
            joint.as_slice(),
            [_, "in" | "take" | "took" | "within"] | ["in" | "take" | "took"]
        );
        let then = scope.between(time, rate);
        let is_restated = matches!(
            then,
            "(" | ", that is" | ", i.e." | ", or" | "=" | ", a rate of" | "(that is" | "(i.e."
        );
        if !per_second
            || !same
            || !whole
            || !is_restated
            || time.measure().0 != "time"
            || time.value <= 0.0
        {
            continue;
        }
        let seconds = time.measure().1;
        let exact = if count.is_count() || count.unit == "tok" && count.half == 0.5 {
            0.0
        } else {
            count.half
        };
        let low = (count.value - exact) / ((time.value + time.half) * seconds);
        let high = (count.value + exact) / ((time.value - time.half).max(1e-12) * seconds);
        let factor = if spelled { 1.0 } else { rate.measure().1 };
        if !rate.agrees(low / factor, high / factor) {
            slips.push(Slip {
                start: count.start,
                end: rate.end,
                message: format!(
                    "{} does not follow: {} in {} s is {} per second",
                    scope.quote(rate.start, rate.end),
                    shown(count.value),
                    shown(time.value * seconds),
                    shown(count.value / (time.value * seconds))
                ),
            });
        }
    }
}
