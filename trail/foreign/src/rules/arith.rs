//! R-ARITH, R-BASE, R-TIME: results that are beside their operands.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, shown, spread};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose};
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        equations(prose, found);
        shares(prose, found);
        pairs(prose, found);
        steps(prose, found);
        losses(prose, found);
        clocks(prose, found);
        targets(scope, prose, found);
    }
}

/// The number that begins at, or just behind, a byte offset.
fn at(prose: &Prose, offset: usize) -> Option<&Quantity> {
    let index = prose.numbers.partition_point(|number| number.end <= offset);
    prose
        .numbers
        .get(index)
        .filter(|number| number.start <= offset + 1)
}

fn group<'a>(prose: &'a Prose, captures: &Captures<'_>, name: &str) -> Option<&'a Quantity> {
    at(prose, captures.name(name)?.start())
}

/// The result of a chain of operands: agreement, or a finding.
fn judge(stated: &Quantity, (low, high): (f64, f64)) -> Option<(Confidence, String)> {
    if !low.is_finite() || !high.is_finite() {
        return None;
    }
    let middle = f64::midpoint(low, high);
    let text = format!(
        "{} does not follow: it is {}",
        shown(stated.value),
        shown(middle)
    );
    match compare(stated, low, high) {
        Agreement::Agrees => None,
        Agreement::Near if stated.rough => None,
        Agreement::Near => Some((
            Confidence::Medium,
            format!("{text} (off in the last digit)"),
        )),
        Agreement::Differs => Some((Confidence::High, text)),
    }
}

static TERM: &str = r"[0-9][0-9,.]*[a-zA-Z%]{0,3}(?:[^0-9×=+;|()\[\]{}.:/−*-]{0,40})(?:\{[^{}]{0,60}\}[^0-9×=+;|()\[\]{}.:/−*-]{0,20})?";
static EQUATION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(
        r"(?P<chain>{TERM}(?:(?:× ?{TERM})+|(?:\+ ?{TERM})+))= ?~?(?P<result>[0-9][0-9,.]*)"
    ))
    .expect("a regex")
});

/// `5 models × 6 levels × 3 reps = 90 cells`, `3 + 4 = 7`.
fn equations(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in EQUATION.captures_iter(&prose.text) {
        let (Some(chain), Some(result)) = (captures.name("chain"), captures.name("result")) else {
            continue;
        };
        let before = prose.text[..chain.start()].trim_end();
        if before.ends_with([
            '×', '+', '-', '−', '/', '÷', '^', '(', '=', '*', '·', '.', ',',
        ]) && !before.ends_with([',', '('])
        {
            continue;
        }
        let after = prose.text[result.end()..].trim_start();
        if after.starts_with(['×', '+', '−', '/', '*', '^', '%', '·']) || after.starts_with("- ")
        {
            continue;
        }
        let Some(stated) = at(prose, result.start()) else {
            continue;
        };
        let product = chain.as_str().contains('×');
        let operator = if product { '×' } else { '+' };
        let mut offset = chain.start();
        let mut operands = Vec::new();
        for part in chain.as_str().split(operator) {
            let lead = part.len() - part.trim_start().len();
            if let Some(number) = at(prose, offset + lead) {
                operands.push(number);
            }
            offset += part.len() + operator.len_utf8();
        }
        let mixed = operands
            .iter()
            .any(|number| number.is_percent() || number.unit != operands[0].unit && !product);
        if operands.len() != chain.as_str().split(operator).count() || mixed || stated.is_percent()
        {
            continue;
        }
        // Whole numbers are exact; decimals are rounded.
        let slack = |number: &Quantity| if number.half == 0.5 { 0.0 } else { number.half };
        let fold = |sign: f64| -> f64 {
            if product {
                operands.iter().map(|n| n.value + sign * slack(n)).product()
            } else {
                operands.iter().map(|n| n.value + sign * slack(n)).sum()
            }
        };
        let (low, high) = (fold(-1.0), fold(1.0));
        // A unit change (`8 × 1.5 GB = 12000 MB`) is not ours to judge.
        if operands
            .iter()
            .any(|n| !n.unit.is_empty() && !stated.unit.is_empty() && n.unit != stated.unit)
        {
            continue;
        }
        if let Some((confidence, message)) = judge(stated, (low, high)) {
            let place = format!("line {}", prose.place(chain.start()).0);
            let evidence = vec![Evidence::new(place, chain.as_str().trim().to_owned())];
            let rule = if product && stated.is_count() {
                Rule::Count
            } else {
                Rule::Arith
            };
            found.push(in_prose(
                prose,
                (chain.start(), result.end()),
                (rule, confidence),
                message,
                evidence,
            ));
        }
    }
}

static SHARE: LazyLock<Regex> = LazyLock::new(|| {
    let n = r"[0-9][0-9,]*";
    Regex::new(&format!(
        r"(?:\b(?P<a>{n})(?: ?/ ?| of (?:the |all )?| out of (?:the )?)(?P<b>{n})(?: [a-zA-Z_\-]+){{0,3}},? \((?P<p>[~≈]?[0-9][0-9.]*) ?%|\b(?P<q>[0-9][0-9.]*) ?%(?: [^()0-9.;]{{0,40}})? ?\((?P<c>{n})(?: ?/ ?| of (?:the |all )?| out of (?:the )?)(?P<d>{n})(?: [a-zA-Z_\-]+){{0,3}}\))"
    ))
    .expect("a regex")
});

/// `4.0% (3,780 of 94,500)`, `12 of 20 (60%)`.
fn shares(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in SHARE.captures_iter(&prose.text) {
        let part = group(prose, &captures, "a").or_else(|| group(prose, &captures, "c"));
        let whole = group(prose, &captures, "b").or_else(|| group(prose, &captures, "d"));
        let stated = group(prose, &captures, "p").or_else(|| group(prose, &captures, "q"));
        let (Some(part), Some(whole), Some(stated)) = (part, whole, stated) else {
            continue;
        };
        if !part.is_count() || !whole.is_count() || whole.value < part.value || whole.value == 0.0 {
            continue;
        }
        let share = 100.0 * part.value / whole.value;
        // `3/10 (30% done)`, but also `1/2 (20% faster)`: only shares that are near, or clearly shares.
        if let Some((confidence, message)) = judge(stated, (share, share)) {
            let range = captures.get(0).map_or((0, 0), |m| (m.start(), m.end()));
            let tail = prose.text[range.1..].split(')').next().unwrap_or("");
            if [
                "faster",
                "slower",
                "higher",
                "lower",
                "more",
                "less",
                "CI",
                "increase",
                "reduction",
            ]
            .iter()
            .any(|w| tail.contains(w))
            {
                continue;
            }
            let evidence = vec![Evidence::new(
                format!("line {}", prose.place(range.0).0),
                format!(
                    "{} of {} = {}%",
                    shown(part.value),
                    shown(whole.value),
                    shown(share)
                ),
            )];
            found.push(in_prose(
                prose,
                range,
                (Rule::Arith, confidence),
                message,
                evidence,
            ));
        }
    }
}

const NUM: &str = r"[~≈$]?[0-9][0-9,]*(?:\.[0-9]+)?";
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    let unit = r"(?: ?(?:%|[a-zA-Zµμ]{1,6}(?:/[a-zA-Z]{1,6}){0,2}))?";
    Regex::new(&format!(
        r"(?P<a>{NUM}){unit} ?(?P<op>→|->|⟶|to|vs\.?|versus) ?(?P<b>{NUM}){unit},? ?(?:\((?:[a-zA-Z≈~=:]{{1,12}} )?(?P<p>[+−-]?{NUM}) ?(?P<u>%|×|x|pp)(?P<rest>[^()]{{0,40}})\)|,? (?:a|an) (?P<q>{NUM}) ?(?P<v>%|×|x) (?P<what>[a-z\-]+))"
    ))
    .expect("a regex")
});

/// `100 → 150 ms (+50%)`, `from 100 to 150, a 50% increase`, `2023 vs 1637 (24% faster)`.
fn pairs(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in PAIR.captures_iter(&prose.text) {
        let (Some(a), Some(b)) = (group(prose, &captures, "a"), group(prose, &captures, "b"))
        else {
            continue;
        };
        let stated = captures.name("p").or(captures.name("q"));
        let Some(stated_at) = stated else { continue };
        let lead = stated_at.as_str().len()
            - stated_at
                .as_str()
                .trim_start_matches(['+', '-', '−', '~', '≈'])
                .len();
        let Some(stated) = at(prose, stated_at.start() + lead) else {
            continue;
        };
        let unit = captures
            .name("u")
            .or(captures.name("v"))
            .map_or("", |m| m.as_str());
        let rest = captures
            .name("rest")
            .or(captures.name("what"))
            .map_or("", |m| m.as_str());
        if a.value <= 0.0
            || b.value <= 0.0
            || (!a.unit.is_empty() && !b.unit.is_empty() && a.unit != b.unit)
        {
            continue;
        }
        // A share or interval in brackets is not a change.
        if ["CI", "of", "confidence", "utiliz", "overlap"]
            .iter()
            .any(|word| rest.contains(word))
            || rest.trim_start().starts_with(['–', '-']) && rest.contains('%')
        {
            continue;
        }
        let before = prose.text[..captures.get(0).map_or(0, |m| m.start())].trim_end();
        let word_to = captures.name("op").is_some_and(|op| op.as_str() == "to");
        if word_to && !before.to_lowercase().ends_with("from") {
            continue;
        }
        let size = Quantity {
            value: stated.value.abs(),
            ..stated.clone()
        };
        let evidence = |text: String| {
            vec![Evidence::new(
                format!("line {}", prose.place(a.start).0),
                text,
            )]
        };
        let range = captures.get(0).map_or((0, 0), |m| (m.start(), m.end()));
        let text = format!("{} and {}", shown(a.value), shown(b.value));
        if matches!(unit, "×" | "x") {
            let up = spread(a, b, |a, b| b / a);
            let down = spread(a, b, |a, b| a / b);
            let ok = [up, down]
                .iter()
                .any(|i| compare(&size, i.0, i.1) != Agreement::Differs);
            if !ok && !(size.rough) {
                let factor = f64::max(f64::midpoint(up.0, up.1), f64::midpoint(down.0, down.1));
                let message = format!(
                    "a factor of {} does not follow: it is {}",
                    shown(size.value),
                    shown(factor)
                );
                found.push(in_prose(
                    prose,
                    range,
                    (Rule::Arith, Confidence::High),
                    message,
                    evidence(text),
                ));
            }
            continue;
        }
        let first = spread(a, b, |a, b| 100.0 * ((b - a) / a).abs());
        let second = spread(a, b, |a, b| 100.0 * ((b - a) / b).abs());
        let points = spread(a, b, |a, b| (b - a).abs());
        if unit == "pp" {
            let scale = if a.is_percent() || a.value > 1.0 {
                1.0
            } else {
                100.0
            };
            if compare(&size, points.0 * scale, points.1 * scale) == Agreement::Differs {
                let message = format!(
                    "{} points do not follow: they are {}",
                    shown(size.value),
                    shown(scale * f64::midpoint(points.0, points.1))
                );
                found.push(in_prose(
                    prose,
                    range,
                    (Rule::Arith, Confidence::High),
                    message,
                    evidence(text),
                ));
            }
            continue;
        }
        let agrees =
            |interval: (f64, f64)| compare(&size, interval.0, interval.1) == Agreement::Agrees;
        let arrow = captures
            .name("op")
            .is_some_and(|op| !op.as_str().starts_with('v'));
        if agrees(first) || (a.is_percent() && agrees(points)) {
            continue;
        }
        if agrees(second) && (!arrow || size.rough) {
            continue;
        }
        let (is, base) = (f64::midpoint(first.0, first.1), shown(a.value));
        if agrees(second) {
            let message = format!(
                "{}% is taken from the wrong base: from {base} it is {}%",
                shown(size.value),
                shown(is)
            );
            found.push(in_prose(
                prose,
                range,
                (Rule::Base, Confidence::Medium),
                message,
                evidence(text),
            ));
        } else if [first, second]
            .iter()
            .all(|i| compare(&size, i.0, i.1) == Agreement::Differs)
        {
            let other = f64::midpoint(second.0, second.1);
            let message = format!(
                "{}% does not follow: it is {}% of {base}, or {}% of {}",
                shown(size.value),
                shown(is),
                shown(other),
                shown(b.value)
            );
            let confidence = if arrow {
                Confidence::High
            } else {
                Confidence::Medium
            };
            found.push(in_prose(
                prose,
                range,
                (Rule::Arith, confidence),
                message,
                evidence(text),
            ));
        }
    }
}

static STEP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(
        r"(?P<d>{NUM})(?: [a-z%/]+){{0,8}} \((?P<a>{NUM}) ?(?:→|->) ?(?P<b>{NUM})\)"
    ))
    .expect("a regex")
});

/// `sheds 0.1861 (0.686 → 0.500)`: the difference is before its ends.
fn steps(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in STEP.captures_iter(&prose.text) {
        let groups = (
            group(prose, &captures, "d"),
            group(prose, &captures, "a"),
            group(prose, &captures, "b"),
        );
        let (Some(stated), Some(a), Some(b)) = groups else {
            continue;
        };
        let difference = spread(a, b, |a, b| (a - b).abs());
        let middle = f64::midpoint(difference.0, difference.1);
        // Only numbers of about that size are meant to be the difference.
        if stated.unit != a.unit
            || a.half >= 0.5
            || middle <= 0.0
            || !(0.6..1.6).contains(&(stated.value / middle))
        {
            continue;
        }
        if compare(stated, difference.0, difference.1) == Agreement::Differs {
            let message = format!(
                "a difference of {} does not follow: it is {}",
                shown(stated.value),
                shown(middle)
            );
            let evidence = vec![Evidence::new(
                format!("line {}", prose.place(a.start).0),
                format!("{} → {}", shown(a.value), shown(b.value)),
            )];
            let range = captures.get(0).map_or((0, 0), |m| (m.start(), m.end()));
            found.push(in_prose(
                prose,
                range,
                (Rule::Arith, Confidence::High),
                message,
                evidence,
            ));
        }
    }
}

static LOSS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"(?:—|–|,|\() ?(?:a|an) (?P<p>{NUM}) ?% (?P<what>loss|drop|reduction|decrease|decline|fall|increase|gain|rise|growth|improvement)")).expect("a regex")
});

/// `from 1.000 at N=1 to … 0.056 at N=16 — a 95% loss`.
fn losses(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in LOSS.captures_iter(&prose.text) {
        let (Some(stated), Some(what)) = (group(prose, &captures, "p"), captures.name("what"))
        else {
            continue;
        };
        let Some((start, _)) = prose.sentence(stated.start).filter(|s| s.1 - s.0 < 4000) else {
            continue;
        };
        let Some(from) = prose.text[start..stated.start]
            .rfind("from ")
            .map(|at| start + at)
        else {
            continue;
        };
        // Conditions (`N=16`, `batch 32`) are not values.
        let numbers: Vec<&Quantity> = prose
            .numbers_in(from, stated.start)
            .iter()
            .filter(|number| !prose.text[..number.start].ends_with('='))
            .collect();
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
            continue;
        };
        let same_kind = (first.half < 0.5) == (last.half < 0.5) && first.unit == last.unit;
        if numbers.len() < 2
            || !same_kind
            || first.start > from + 8
            || first.value <= 0.0
            || !prose.text[first.end..last.start].contains("to")
        {
            continue;
        }
        let grows = matches!(what.as_str(), "increase" | "gain" | "rise" | "growth");
        if grows != (last.value > first.value) && what.as_str() != "improvement" {
            continue;
        }
        let change = spread(first, last, |a, b| 100.0 * ((b - a) / a).abs());
        if let Some((_, message)) = judge(stated, change) {
            let evidence = vec![Evidence::new(
                format!("line {}", prose.place(first.start).0),
                format!("{} → {}", shown(first.value), shown(last.value)),
            )];
            found.push(in_prose(
                prose,
                (from, what.end()),
                (Rule::Arith, Confidence::Medium),
                message,
                evidence,
            ));
        }
    }
}

static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?P<h>[0-2]?[0-9]):(?P<m>[0-5][0-9]) ?(?:–|-|to|→|until) ?(?P<i>[0-2]?[0-9]):(?P<n>[0-5][0-9])(?: [A-Z]{2,4})?,? \(?(?P<d>[0-9]+(?:\.[0-9]+)?) ?(?P<u>min|minutes|h|hours)\b").expect("a regex")
});

/// `10:00–11:30 (45 min)`: a duration beside its ends.
fn clocks(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in CLOCK.captures_iter(&prose.text) {
        let number = |name: &str| {
            captures
                .name(name)
                .and_then(|m| m.as_str().parse::<f64>().ok())
        };
        let (Some(h), Some(m), Some(i), Some(n), Some(d)) = (
            number("h"),
            number("m"),
            number("i"),
            number("n"),
            number("d"),
        ) else {
            continue;
        };
        let mut minutes = 60.0 * i + n - 60.0 * h - m;
        if minutes < 0.0 {
            minutes += 24.0 * 60.0;
        }
        let hours = captures
            .name("u")
            .is_some_and(|u| u.as_str().starts_with('h'));
        let (stated, slack) = if hours { (d * 60.0, 30.0) } else { (d, 1.5) };
        if (stated - minutes).abs() > slack {
            let range = captures.get(0).map_or((0, 0), |m| (m.start(), m.end()));
            let message = format!(
                "the duration does not follow from its ends: it is {} min",
                shown(minutes)
            );
            found.push(in_prose(
                prose,
                range,
                (Rule::Time, Confidence::High),
                message,
                Vec::new(),
            ));
        }
    }
}

static TARGET: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"(?P<a>{NUM}) ?[-–] ?(?P<b>{NUM}) ?(?P<unit>[a-zA-Z]{{1,6}}(?:/[a-zA-Z]{{1,6}})?) \((?P<p>[0-9]+(?:\.[0-9]+)?) ?[-–] ?(?P<q>[0-9]+(?:\.[0-9]+)?) ?% (?:improvement|increase|gain|higher|faster|more)\)")).expect("a regex")
});

/// `1800-1900 tok/s (10-15% improvement)`: some cell is the base of both ends, or of one and then the other is wrong.
fn targets(scope: &Scope<'_>, prose: &Prose, found: &mut Vec<Finding>) {
    for captures in TARGET.captures_iter(&prose.text) {
        let groups = ["a", "b", "p", "q"].map(|name| group(prose, &captures, name));
        let ([Some(a), Some(b), Some(p), Some(q)], Some(whole)) = (groups, captures.get(0)) else {
            continue;
        };
        let holds = |end: &Quantity, base: &Quantity, stated: &Quantity| {
            let (low, high) = spread(end, base, |end, base| 100.0 * (end / base - 1.0));
            compare(stated, low, high) == Agreement::Agrees
        };
        let mut half = None;
        let mut both = false;
        for table in scope
            .report
            .tables
            .iter()
            .filter(|table| table.rows.len() <= 400)
        {
            for row in 0..table.rows.len() {
                for column in 1..table.rows[row].cells.len() {
                    let Some(base) = table
                        .value(row, column)
                        .filter(|v| v.unit == b.unit && v.value > 0.0)
                    else {
                        continue;
                    };
                    let ends = (holds(a, base, p), holds(b, base, q));
                    both |= ends.0 && ends.1;
                    // Of a base that fits one end by its last digit the other end must follow.
                    if ends.0 != ends.1 && base.half < 0.5 && half.is_none() {
                        half = Some((table.evidence(row, column), base.value));
                    }
                }
            }
        }
        let Some((evidence, base)) = half.filter(|_| !both) else {
            continue;
        };
        let change = |end: &Quantity| shown(100.0 * (end.value / base - 1.0));
        let message = format!(
            "from {} it is {}% to {}%",
            shown(base),
            change(a),
            change(b)
        );
        let span = (whole.start(), whole.end());
        found.push(in_prose(
            prose,
            span,
            (Rule::Arith, Confidence::Medium),
            message,
            vec![evidence],
        ));
    }
}
