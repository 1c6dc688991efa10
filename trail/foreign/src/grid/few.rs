//! Relations in tables of few rows. Two rows of many digits show a relation as well as many rows of few digits, so what
//! counts is how unlikely it is that the rows agree by chance.

use std::collections::BTreeSet;

use super::Grid;
use super::constant::is_misprint;
use super::relation::{Form, is_aggregate, is_cap, near, promised, swaps, unit_of};
use crate::document::Document;
use crate::finding::{Finding, Rule};
use crate::number::Quantity;
use crate::table::Table;
use crate::words::{Word, normal, words};

/// A relation that all rows of a table keep, except at most one.
struct Trial {
    form: Form,
    a: usize,
    b: usize,
    scale: f64,
    /// How unlikely its rows agree by chance: the binary logarithm.
    bits: f64,
    /// Whether the header promises it.
    promised: bool,
    agrees: usize,
    broken: Option<usize>,
}

/// The bits that a relation must have beyond those of the number of relations tried: if the odd number looks like a
/// misprint of the right one, and if it does not.
const BITS: f64 = 8.0;
const BITS_ALONE: f64 = 14.0;

/// The bits that a header adds which states the relation, one that promises it, units from which its unit follows, and
/// operands of one unit.
const NAMED: f64 = 20.0;
const PROMISED: f64 = 8.0;
const UNITS: f64 = 6.0;
const ALIKE: f64 = 2.0;

/// How far a number must be off, as a share of it: a median of ratios is near the ratio of medians, but another number.
const OFF: f64 = 0.1;
const OFF_MISPRINT: f64 = 0.04;

/// The most bits of a single row.
const MOST_BITS: f64 = 10.0;

/// The largest tables in which they are sought: longer ones need no such evidence.
const MOST_ROWS: usize = 12;
const MOST_NAMES: usize = 12;

/// The constants of a document with which relations are sought.
const MOST_CONSTANTS: usize = 40;

/// The numbers of the prose that may be constants of a table: `256 tokens each`, `64 clients`.
pub(super) fn stated(document: &Document) -> Vec<(String, Quantity)> {
    let mut constants: Vec<(String, Quantity)> = Vec::new();
    for prose in &document.prose {
        for number in &prose.numbers {
            let text = prose.text.get(number.start..number.end).unwrap_or("");
            let digits = text.chars().filter(char::is_ascii_digit).count();
            let again = |other: &(String, Quantity)| other.1.value == number.value;
            if digits >= 2 && number.value > 1.0 && !number.rough && !constants.iter().any(again) {
                let number = Quantity {
                    half: 0.0,
                    ..number.clone()
                };
                constants.push((text.to_owned(), number));
            }
        }
    }
    constants.truncate(MOST_CONSTANTS);
    constants
}

/// Reports the only number of a column that breaks a relation which the other rows show with enough digits.
pub(super) fn few(table: &Table, constants: &[(String, Quantity)], findings: &mut Vec<Finding>) {
    for upright in [true, false] {
        let mut grid = Grid::new(table, upright);
        let (rows, columns) = (grid.labels.len(), grid.names.len());
        if (2..=MOST_ROWS).contains(&rows) && columns <= MOST_NAMES {
            grid.with_constants(constants);
            broken(&grid, columns, findings);
        }
    }
}

/// Reports them in a table whose columns from the `n`th on are constants.
fn broken(grid: &Grid<'_>, n: usize, findings: &mut Vec<Finding>) {
    let sides: Vec<Sides> = grid.names.iter().map(|name| Sides::of(name)).collect();
    let tried = (12 * n * n * grid.names.len()) as f64;
    let mut reported: Vec<(usize, [usize; 3])> = Vec::new();
    for result in (0..n).rev() {
        let trials = trials(grid, (result, n), &sides);
        let strong = |trial: &&Trial| trial.bits >= tried.log2() + BITS;
        // A column that another relation explains breaks none.
        if trials.iter().filter(strong).any(|t| t.broken.is_none()) {
            continue;
        }
        let mut broken: Vec<&Trial> = trials.iter().filter(strong).collect();
        broken.sort_by(|x, y| y.bits.total_cmp(&x.bits));
        for trial in broken {
            let Some(row) = trial.broken else { continue };
            let mut columns = [result, trial.a, trial.b];
            columns.sort_unstable();
            let Some(right) = judged(grid, (result, n), trial, trial.bits - tried.log2()) else {
                continue;
            };
            let line = grid
                .table
                .spot(grid.at((row, result)).0, grid.at((row, result)).1)
                .0;
            let again = |finding: &Finding| {
                finding.line == line && matches!(finding.rule, Rule::Relation | Rule::Total)
            };
            if reported.contains(&(row, columns)) || findings.iter().any(again) {
                continue;
            }
            reported.push((row, columns));
            let mut operands = vec![(row, trial.a), (trial.form.base(row), trial.b)];
            operands.retain(|at| at.1 < n);
            operands.dedup();
            let (a, b) = (&grid.names[trial.a], &grid.names[trial.b]);
            let (agrees, header) = (trial.agrees, &grid.names[result]);
            let at = (row, result);
            let message = format!(
                "`{header}` is {} in {agrees} other {}; here that gives {}",
                trial.form.said(a, b),
                if agrees == 1 { "row" } else { "rows" },
                grid.shown_like(right, at)
            );
            findings.push(grid.finding(Rule::Relation, at, message, header, &operands));
            break;
        }
    }
}

/// The right number of the row that breaks a relation, if it may be reported.
fn judged(grid: &Grid<'_>, (result, n): (usize, usize), trial: &Trial, bits: f64) -> Option<f64> {
    let row = trial.broken?;
    let label = &grid.labels[row];
    let (a, b) = ((row, trial.a), (trial.form.base(row), trial.b));
    let (low, high) = scaled(trial, grid, row)?;
    let stated = grid.value(row, result)?;
    // `8 (spot)`: a row with a remark was measured another way.
    let remark = label.contains(['(', '[', '*', '†']) || is_aggregate(grid, row, result);
    let right = trial.scale
        * trial
            .form
            .of(grid.value(a.0, a.1)?.value, grid.value(b.0, b.1)?.value);
    let flipped = stated.signed && stated.agrees(-high, -low) && one_way(grid, result, trial);
    let swapped = swaps(stated, right);
    let off = (low - stated.value).max(stated.value - high) / stated.value.abs();
    let constant = trial.a >= n || trial.b >= n;
    let alone = match constant {
        true => trial.promised && trial.agrees >= 3,
        false => trial.promised || trial.agrees >= 3 && bits >= BITS_ALONE,
    };
    let wrong = flipped
        || swapped
        || off >= OFF_MISPRINT && is_misprint(stated, (low, high))
        || off >= OFF && alone;
    // A further column may hold the rest: `Sent`, `Succeeded`, `Failed` and `Timeouts`.
    let gap = (stated.value - right).abs();
    let is_rest = |column: &usize| {
        let other = grid.value(row, *column);
        other.is_some_and(|v| v.value > 0.0 && (v.value - gap).abs() <= v.half + stated.half)
    };
    let others = (0..n).filter(|c| ![result, trial.a, trial.b].contains(c));
    let has_rest = matches!(trial.form, Form::Sum | Form::Difference)
        && others.collect::<Vec<_>>().iter().any(is_rest);
    (!remark && !has_rest && wrong).then_some(right)
}

/// Whether the sign of a change means the same in all rows: they have one unit, and it is no gain, which may be positive
/// for both more throughput and less latency.
fn one_way(grid: &Grid<'_>, result: usize, trial: &Trial) -> bool {
    #[rustfmt::skip]
    let gains = ["gain", "improvement", "speedup", "saving", "reduction", "better", "win"];
    let header = words(&grid.names[result]);
    let units: BTreeSet<String> = grid.labels.iter().map(|label| unit_of(label)).collect();
    let has_unit = !unit_of(&grid.names[trial.a]).is_empty() || !units.contains("");
    units.len() == 1
        && has_unit
        && !header
            .iter()
            .any(|word| gains.contains(&word.text.as_str()))
}

/// The interval of a relation's value in a row.
fn scaled(trial: &Trial, grid: &Grid<'_>, row: usize) -> Option<(f64, f64)> {
    let (low, high) = trial.form.interval(grid, row, (trial.a, trial.b), false)?;
    let (low, high) = (low * trial.scale, high * trial.scale);
    Some((low.min(high), low.max(high)))
}

/// The relations that a column may keep.
fn trials(grid: &Grid<'_>, (result, real): (usize, usize), sides: &[Sides]) -> Vec<Trial> {
    use Form::{
        Base, Change, Difference, Faster, Gap, Growth, Inverse, Product, Ratio, Share, Sum,
    };
    let n = grid.names.len();
    let caps: Vec<bool> = grid.names.iter().map(|name| is_cap(name)).collect();
    let mut trials = Vec::new();
    for a in (0..n).filter(|a| *a != result) {
        for b in (0..n).filter(|b| *b != result) {
            if a >= real && b >= real {
                continue;
            }
            let forms: &[Form] = match a.cmp(&b) {
                std::cmp::Ordering::Equal => &[Base, Growth, Gap, Faster, Inverse],
                std::cmp::Ordering::Less => &[Sum, Product, Difference, Ratio, Change, Share],
                std::cmp::Ordering::Greater => &[Difference, Ratio, Change, Share],
            };
            let capped = caps[result] || caps[a] || caps[b];
            for form in forms {
                let multiplies = matches!(form, Product | Ratio);
                // A constant is a factor.
                if capped && multiplies || (a >= real || b >= real) && !multiplies {
                    continue;
                }
                let bonus = bonus(grid, result, (a, b), *form, sides);
                let mut scales = form.scales().to_vec();
                if matches!(form, Base | Faster) {
                    scales = vec![1.0, 100.0];
                }
                trials.extend(
                    scales.into_iter().filter_map(|scale| {
                        trial(grid, (result, real), *form, (a, b), scale, bonus)
                    }),
                );
            }
        }
    }
    trials
}

/// The rows that keep a relation, and the only one that does not.
fn trial(
    grid: &Grid<'_>,
    (result, real): (usize, usize),
    form: Form,
    (a, b): (usize, usize),
    scale: f64,
    bonus: f64,
) -> Option<Trial> {
    let first = grid.value(0, result).map(|first| first.value);
    let fits = match form {
        Form::Growth | Form::Gap => first.is_none_or(|first| first == 0.0),
        Form::Base | Form::Faster => {
            let percent = |n: &Quantity| n.is_percent() || grid.names[result].contains('%');
            first == Some(scale)
                && grid.value(0, a)?.value != scale
                && (scale == 1.0 || grid.value(0, result).is_some_and(percent))
        }
        // A large quotient is like a change, but is none.
        Form::Change if scale.abs() == 1.0 => grid.value(0, result)?.signed || bonus >= PROMISED,
        _ => true,
    };
    if !fits {
        return None;
    }
    let (bits, agrees, broken) = (0.0, 0, None);
    let mut trial = Trial {
        form,
        a,
        b,
        scale,
        bits,
        promised: bonus >= PROMISED,
        agrees,
        broken,
    };
    let mut values = Vec::new();
    for row in usize::from(form.since_first())..grid.labels.len() {
        let numbers = [(row, result), (row, a), (form.base(row), b)];
        let [Some(stated), Some(x), Some(y)] = numbers.map(|(row, column)| grid.value(row, column))
        else {
            continue;
        };
        let (low, high) = scaled(&trial, grid, row)?;
        let size = stated.value.abs();
        if stated.agrees(low, high) {
            let equals = |operand: &Quantity| {
                let value = operand.value * scale;
                stated.agrees(value, value)
            };
            let trivial = equals(y) || !form.since_first() && equals(x);
            let width = (high - low) + 4.0 * stated.half;
            if !trivial && width > 0.0 && !values.contains(&size) {
                trial.bits += (size / width).log2().clamp(0.0, MOST_BITS);
                trial.agrees += 1;
                values.push(size);
            }
        } else {
            let size = x.value.abs().max(y.value.abs());
            let name = &grid.names[result];
            if near(form, stated, name, size, (low, high)) || trial.broken.replace(row).is_some() {
                return None;
            }
        }
    }
    // Nothing is left to chance where the header states the relation.
    let least = if bonus >= NAMED && a.max(b) < real {
        1
    } else {
        2
    };
    trial.bits += bonus;
    (trial.agrees >= least).then_some(trial)
}

/// The bits that headers add to a relation.
fn bonus(
    grid: &Grid<'_>,
    result: usize,
    (a, b): (usize, usize),
    form: Form,
    sides: &[Sides],
) -> f64 {
    let header = &grid.names[result];
    let [own, one, other] = [result, a, b].map(|column| &sides[column]);
    let follows = own.is_read()
        && match form {
            Form::Product => *own == one.times(other),
            Form::Ratio => *own == one.by(other),
            Form::Inverse => *own == Sides::default().by(one),
            _ => false,
        };
    let units = match follows {
        true => UNITS,
        false if one.is_read() && one == other => ALIKE,
        false => 0.0,
    };
    let alike = match form {
        Form::Ratio | Form::Change | Form::Sum | Form::Difference => one == other,
        _ => true,
    };
    let said = promised(header).is_some_and(|forms| forms.contains(&form)) && alike;
    #[rustfmt::skip]
    let efficient = ["efficiency", "scaling", "relative", "speedup", "vs", "normalized", "normalised"];
    let said = said
        || matches!(form, Form::Base | Form::Faster)
            && words(header)
                .iter()
                .any(|w| efficient.contains(&w.text.as_str()));
    let named = named(header, form, &grid.names[a], &grid.names[b]);
    let header = match (named, said) {
        (true, _) => NAMED,
        (false, true) => PROMISED,
        (false, false) => 0.0,
    };
    header + units
}

/// Whether a header states its relation: `p99 / p50`, `Server/Offline`.
fn named(header: &str, form: Form, a: &str, b: &str) -> bool {
    let marks: &[char] = match form {
        Form::Ratio => &['/', '÷', ':'],
        Form::Product => &['×', '*', '·'],
        Form::Difference => &['−', '–'],
        Form::Sum => &['+'],
        _ => &[],
    };
    let bare = |text: &str| normal(text.split(['(', '[']).next().unwrap_or(text));
    header.split_once(marks).is_some_and(|(left, right)| {
        let (left, right) = (bare(left), bare(right));
        !left.is_empty() && !right.is_empty() && left == bare(a) && right == bare(b)
    })
}

/// What a header measures, as the things above and below a fraction bar: `tok/s/GPU` is tokens by time and devices.
#[derive(Default, PartialEq)]
struct Sides {
    above: BTreeSet<char>,
    below: BTreeSet<char>,
}

impl Sides {
    fn of(header: &str) -> Self {
        let inner = header.rsplit_once('(').map(|(_, inner)| Self::read(inner));
        let mut sides = inner
            .filter(Self::is_read)
            .unwrap_or_else(|| Self::read(header));
        let each = |word: &Word| matches!(word.text.as_str(), "tpot" | "itl");
        if words(header).iter().any(each) {
            sides.below.insert('t');
        }
        sides
    }

    fn read(text: &str) -> Self {
        let text = text.replace('/', " per ").replace('$', " usd ");
        let mut sides = Self::default();
        let mut below = false;
        for word in words(&text) {
            if word.text == "per" {
                below = true;
                continue;
            }
            let side = if below {
                &mut sides.below
            } else {
                &mut sides.above
            };
            side.extend(things(&word.text).chars());
        }
        sides
    }

    fn is_read(&self) -> bool {
        !self.above.is_empty()
    }

    fn times(&self, other: &Self) -> Self {
        let above: BTreeSet<char> = self.above.union(&other.above).copied().collect();
        let below: BTreeSet<char> = self.below.union(&other.below).copied().collect();
        Self {
            above: above.difference(&below).copied().collect(),
            below: below.difference(&above).copied().collect(),
        }
    }

    fn by(&self, other: &Self) -> Self {
        let (above, below) = (other.below.clone(), other.above.clone());
        self.times(&Self { above, below })
    }
}

/// The things that a word of a header measures, a letter each.
fn things(word: &str) -> &'static str {
    match word {
        "client" | "concurrency" | "inflight" => "r",
        "tok" | "token" | "ktok" | "mtok" | "ktoken" => "t",
        "req" | "request" | "prompt" | "query" => "r",
        "img" | "image" => "i",
        "doc" | "document" | "passage" => "d",
        "s" | "sec" | "second" | "ms" | "us" | "µs" | "min" | "minute" | "h" | "hour" | "hr"
        | "duration" | "latency" | "time" | "ttft" | "tpot" | "itl" | "e2e" | "wall" => "s",
        "gpu" | "accelerator" | "acc" | "chip" | "device" | "card" => "g",
        "usd" | "cost" | "price" | "eur" | "€" => "m",
        "w" | "kw" | "watt" | "power" => "w",
        "j" | "joule" | "kj" | "wh" | "kwh" | "energy" => "ws",
        "byte" | "kb" | "mb" | "gb" | "tb" | "kib" | "mib" | "gib" | "memory" | "vram" => "b",
        _ => "",
    }
}
