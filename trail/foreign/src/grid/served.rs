//! What servers' benchmarks print: goodput beside throughput, and consoles such as that of `vllm bench serve`.

use super::{Grid, summary};
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, shown_like, spread};
use crate::table::Table;
use crate::words::words;

/// Checks that no row has a goodput above its throughput.
pub(super) fn goodput(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let named = |metric: &str| {
        let names = grid.names.iter().enumerate();
        let of_metric = names.filter_map(|(column, name)| {
            let mut rest: Vec<String> = words(name).into_iter().map(|word| word.text).collect();
            let at = rest.iter().position(|word| word == metric)?;
            rest.remove(at);
            Some((column, rest))
        });
        of_metric.collect::<Vec<_>>()
    };
    let throughputs = named("throughput");
    for (good, rest) in named("goodput") {
        // The other words are equal, so both have one unit and are of one side.
        let mut all = throughputs.iter().filter(|(_, other)| *other == rest);
        let (Some((all, _)), None) = (all.next(), all.next()) else {
            continue;
        };
        let cells = |row: usize| grid.value(row, good).zip(grid.value(row, *all));
        let above = |row: &usize| {
            let cells = cells(*row);
            cells.is_some_and(|(good, all)| {
                good.unit == all.unit && good.value - good.half > all.value + all.half
            })
        };
        let rows = || (0..grid.labels.len()).filter(|row| cells(*row).is_some());
        let wrong: Vec<usize> = rows().filter(above).collect();
        // Where most rows are so, the words mean something else.
        if wrong.len() * 3 > rows().count() {
            continue;
        }
        for row in wrong {
            let message = format!("{} is above {}", grid.names[good], grid.names[*all]);
            let at = (row, good);
            findings.push(grid.finding(Rule::Relation, at, message, "goodput", &[(row, *all)]));
        }
    }
}

/// The operands of a rate of a console: what is summed, and the words of the result.
type Rate = (&'static [&'static str], &'static str);

/// The rates that a console derives from its duration.
const RATES: &[Rate] = &[
    (&["successful request"], "request throughput req s"),
    (&["total generated token"], "output token throughput tok s"),
    (
        &["total input token", "total generated token"],
        "total token throughput tok s",
    ),
];

/// Checks a console: its rates are counts divided by its duration, and the percentiles of a metric rise.
pub(super) fn console(console: &Table, findings: &mut Vec<Finding>) {
    let row = |name: &str| {
        let mut rows = 0..console.rows.len();
        rows.find(|row| crate::words::normal(console.label(*row)) == name)
    };
    let number = |row: usize| console.plain(row, 1).filter(|n| n.unit.is_empty());
    let duration = row("benchmark duration s").and_then(|row| Some((row, number(row)?)));
    for (parts, result) in RATES {
        let parts: Option<Vec<usize>> = parts.iter().map(|part| row(part)).collect();
        let (Some(parts), Some(result), Some((at, duration))) = (parts, row(result), duration)
        else {
            continue;
        };
        let counts: Option<Vec<&Quantity>> = parts.iter().map(|part| number(*part)).collect();
        let (Some(counts), Some(stated)) = (counts, number(result)) else {
            continue;
        };
        let sum = Quantity {
            value: counts.iter().map(|n| n.value).sum(),
            half: 0.0,
            ..counts[0].clone()
        };
        if duration.value <= duration.half || !counts.iter().all(|n| n.is_count()) {
            continue;
        }
        let (low, high) = spread(&sum, duration, |a, b| a / b);
        if !stated.agrees(low, high) {
            let right = shown_like(sum.value / duration.value, console.text(result, 1), stated);
            let names: Vec<String> = parts
                .iter()
                .map(|part| format!("`{}`", console.label(*part)))
                .collect();
            let message = format!(
                "{} / `{}` gives {right}",
                names.join(" + "),
                console.label(at)
            );
            let mut evidence: Vec<(usize, usize)> = parts.iter().map(|part| (*part, 1)).collect();
            evidence.push((at, 1));
            let rule = Rule::Relation;
            findings.push(console.finding(rule, (result, 1), message, "console", &evidence));
        }
    }
    ranks(console, findings);
}

/// Checks that the percentiles of a metric rise down a console.
fn ranks(console: &Table, findings: &mut Vec<Finding>) {
    let ranked = (0..console.rows.len()).filter_map(|row| {
        let (rank, metric) = summary::rank(console.label(row))?;
        Some((metric, rank, row, console.plain(row, 1)?))
    });
    let mut ranked: Vec<(String, f64, usize, &Quantity)> = ranked.collect();
    ranked.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    for two in ranked.windows(2) {
        let ((metric, _, low, a), (other, _, high, b)) = (&two[0], &two[1]);
        let time = metric.ends_with(" ms") || metric.ends_with(" s");
        if time && metric == other && a.value - a.half > b.value + b.half {
            let message = format!("{} is above {}", console.label(*low), console.label(*high));
            let (at, beside) = ((*high, 1), [(*low, 1)]);
            findings.push(console.finding(Rule::Relation, at, message, "console", &beside));
        }
    }
}
