//! Equations in the text.

use super::{Scope, Slip};
use crate::number::{Quantity, shown};

/// Checks chains `a × b × c = d`, and `a models × b loads, d cells in all`.
pub(super) fn equations(scope: &Scope<'_>, slips: &mut Vec<Slip>) {
    let numbers = scope.numbers;
    let mut at = 0;
    while at < numbers.len() {
        let next = |end: usize| operator(scope.between(&numbers[end], numbers.get(end + 1)?));
        let ops: Vec<char> = (at..numbers.len()).map_while(next).collect();
        let end = at + ops.len();
        if let (false, Some(result)) = (ops.is_empty(), numbers.get(end + 1)) {
            slips.extend(equation(scope, &numbers[at..=end], &ops, result));
        }
        at = end + 1;
    }
}

/// The powers of ten and of 1024, and the seconds and minutes, by which units differ: `5 GB / 10 s = 500 MB/s`.
#[rustfmt::skip]
const SCALES: &[f64] = &[
    1.0, 1e-3, 1e3, 1e-6, 1e6, 100.0, 0.01, 60.0, 1.0 / 60.0, 3600.0, 1.0 / 1024.0, 1024.0, 1e-9, 1e9,
];

/// Checks one chain against its result.
fn equation(
    scope: &Scope<'_>,
    operands: &[Quantity],
    ops: &[char],
    result: &Quantity,
) -> Option<Slip> {
    let between = scope.between(&operands[operands.len() - 1], result);
    let between = between.trim_end_matches(CURRENCY).trim_end();
    let sign = between.trim_start_matches(|c: char| c.is_alphabetic() || c == '-' || c == ' ');
    let all = |word: &str| matches!(word, "all" | "total" | "altogether" | "together");
    let is_total = ops.iter().all(|op| *op == '×')
        && matches!(sign, "," | "(" | "—" | "–" | ":")
        && scope.words_after(result, 4).iter().any(|w| all(&w.text));
    let left = scope.before(&operands[0]).trim_end_matches(CURRENCY);
    let right = scope.after(result).trim_start();
    // Part of a longer expression: a bracket or an operator outside its ends.
    let open = !is_total
        && left
            .trim_end()
            .ends_with(['+', '*', '/', '-', '−', '×', '^', '=', '·', '['])
        || right.starts_with(['+', '*', '/', '×', '^', '-', '−', '·'])
        || right.starts_with("x ")
        || between.starts_with(')');
    // `= 560 kbytes`: the unit has a factor that is not read.
    let unit = right.split_whitespace().next().unwrap_or("").to_lowercase();
    let scaled = unit.ends_with("byte") || unit.ends_with("bytes");
    if open || scaled || !(is_total || matches!(sign, "=" | "≈" | "==" | ") =")) {
        return None;
    }
    let (low, high) = chain(operands, ops);
    let rough = between.contains('≈') || result.rough;
    // `1000 / 24.0 ≈ 41.7` is rounded; `7 × 24 × 60 ≈ 10,000` is a guess.
    let digits = result.value.abs() / (2.0 * result.half);
    let precise =
        digits >= 100.0 && digits.round() % 10.0 != 0.0 && !operands.iter().any(|n| n.rough);
    let result = &Quantity {
        rough: result.rough && !precise,
        ..result.clone()
    };
    let wide = match (rough, precise) {
        (true, true) => 0.03 * high.abs(),
        (true, false) => 0.1 * high.abs(),
        (false, _) => 0.0,
    };
    let units = operands.iter().chain([result]).any(|n| !n.unit.is_empty());
    let scales = if units { SCALES } else { &SCALES[..1] };
    // `5493/4318 = +27.2%` is a change.
    let change = ops == ['/'] && result.is_percent();
    let fits = change && result.agrees(100.0 * (low - 1.0), 100.0 * (high - 1.0))
        || scales
            .iter()
            .any(|scale| result.agrees((low - wide) * scale, (high + wide) * scale));
    (!fits).then(|| Slip {
        start: operands[0].start,
        end: result.end,
        message: format!(
            "{} does not follow from its operands: they give {}",
            scope.quote(result.start, result.end),
            shown(f64::midpoint(low, high))
        ),
    })
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
    let value = |shift: f64| {
        let at =
            |n: &Quantity, shift: f64| n.value + if n.is_count() { 0.0 } else { shift * n.half };
        let mut sum = 0.0;
        // A subtracted term moves against the chain, so that the interval covers the rounding of both.
        let mut toward = shift;
        let mut term = at(&operands[0], toward);
        for (op, operand) in ops.iter().zip(&operands[1..]) {
            match op {
                '×' => term *= at(operand, toward),
                '/' => term /= at(operand, -toward),
                other => {
                    sum += term;
                    let sign = if *other == '-' { -1.0 } else { 1.0 };
                    toward = sign * shift;
                    term = sign * at(operand, toward);
                }
            }
        }
        sum + term
    };
    let (a, b) = (value(-1.0), value(1.0));
    (a.min(b), a.max(b))
}
