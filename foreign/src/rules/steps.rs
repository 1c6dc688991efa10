//! R-ARGMAX, R-RANGE, R-RATIO, R-QUANT over steps along a ladder: tables whose columns are levels (`N=1 … N=32`).

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Quantity, ranges, shown, spread};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::names;
use crate::table::Table;
use crate::text::Prose;

/// A table whose columns are levels.
pub(crate) struct Ladder<'a> {
    pub(crate) table: &'a Table,
    /// Column and level of each step of the ladder.
    pub(crate) levels: Vec<(usize, f64)>,
}

impl Ladder<'_> {
    /// The size of the step from one level to the next in a row, as an interval.
    fn drop(&self, row: usize, step: usize) -> Option<(f64, f64)> {
        let a = self.table.value(row, self.levels.get(step)?.0)?;
        let b = self.table.value(row, self.levels.get(step + 1)?.0)?;
        let (low, high) = spread(a, b, |a, b| a - b);
        Some(if low + high >= 0.0 { (low, high) } else { (-high, -low) })
    }

    fn step(&self, from: f64, to: f64) -> Option<usize> {
        self.levels.windows(2).position(|pair| pair[0].1 == from && pair[1].1 == to)
    }

    /// Rows whose values are single numbers on the whole ladder.
    fn rows(&self) -> Vec<usize> {
        let plain = |row: usize, column: usize| {
            self.table.value(row, column).is_some()
                && self.table.rows[row].cells[column]
                    .text
                    .trim_start_matches(|c: char| !c.is_ascii_digit())
                    .chars()
                    .skip(1)
                    .all(|c| !matches!(c, '–' | '-'))
        };
        (0..self.table.rows.len())
            .filter(|&row| self.levels.iter().all(|level| plain(row, level.0)))
            .collect()
    }
}

static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[A-Za-z_ ]{1,14} ?= ?|@ ?)?(?P<n>[0-9]+)(?: ?(?:users|agents|u|clients))?$")
        .expect("a regex")
});

/// The ladder of a table: at least three columns with rising levels as their names.
pub(crate) fn ladder(table: &Table) -> Option<Ladder<'_>> {
    let levels: Vec<(usize, f64)> = table
        .columns
        .iter()
        .enumerate()
        .skip(1)
        .filter_map(|(at, name)| Some((at, LEVEL.captures(name)?.name("n")?.as_str().parse().ok()?)))
        .collect();
    let rising = levels.windows(2).all(|pair| pair[0].1 < pair[1].1);
    // A label of two words shifts the names: the last names belong to the last values.
    let width = table.rows.first().map_or(0, |row| row.cells.len());
    (levels.len() >= 3
        && rising
        && table.columns.len() <= width.max(table.columns.len().saturating_sub(1))
        && fits(table, &levels))
    .then_some(Ladder { table, levels })
}

fn fits(table: &Table, levels: &[(usize, f64)]) -> bool {
    let full = (0..table.rows.len())
        .filter(|&row| levels.iter().all(|level| table.value(row, level.0).is_some()))
        .count();
    full * 2 > table.rows.len()
}

struct Mention {
    start: usize,
    end: usize,
    from: f64,
    to: f64,
}

static STEP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:[A-Za-z]{1,12} ?= ?)?(?P<a>[0-9]+) ?(?:→|->|⟶| to ) ?(?:[A-Za-z]{1,12} ?= ?)?(?P<b>[0-9]+)\b(?: users| agents)?").expect("a regex")
});
static SUPERLATIVE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:steepest|largest|biggest|greatest|sharpest)\b[^.;:]{0,60}?\b(?:step|drop|loss|decline|fall|jump|transition|increase|gain)\b|\b(?:steepest|largest|sharpest)\b").expect("a regex")
});
static LOSS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:sheds?|los(?:es?|ing)|costs?|drops?|falls?|declin(?:es|ing)|gains?)(?: only| about| by| roughly)? ?[~≈]?$").expect("a regex")
});
static LOSS_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^ (?:of )?(?:[a-z]+ ){0,2}(?:loss|drop|decline|cost)\b").expect("a regex")
});
static BOUND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:sheds?|los(?:es?|ing)|costs?|drops?|dropping|falling)(?: only)? (?P<op>under|below|less than|at most|no more than|over|above|more than|at least) ").expect("a regex")
});
static FACTOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:an |one )?(?:order[ -]of[ -]magnitude|(?P<n>[0-9]+(?:\.[0-9]+)?)(?:×|x|-fold| times)) (?P<d>smaller|larger|greater|bigger)").expect("a regex")
});
static BAND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?P<w>high|mid|low)-(?P<v>0\.[0-9]|[0-9]0)s at (?P<l>(?:[A-Za-z]{1,12} ?= ?)?[0-9]+)\b")
        .expect("a regex")
});

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        if !prose.text.contains(['→', '=']) && !prose.text.contains("->") {
            continue;
        }
        let mut near: Option<Vec<Ladder<'_>>> = None;
        for &(start, end) in &prose.sentences {
            let sentence = &prose.text[start..end];
            if !(BAND.is_match(sentence) || STEP.is_match(sentence)) {
                continue;
            }
            let near = near
                .get_or_insert_with(|| scope.report.tables_near(prose.section).filter_map(ladder).collect());
            if near.is_empty() {
                continue;
            }
            // What a later clause names (`…, the same gap as on B`) is a comparison.
            let clause = sentence
                .find(';')
                .into_iter()
                .chain(sentence.find(", and "))
                .min()
                .map_or(sentence, |at| &sentence[..at]);
            let chosen = choose(near, clause);
            bands(prose, (start, end), &chosen, found);
            let mentions: Vec<Mention> = STEP
                .captures_iter(sentence)
                .filter_map(|captures| {
                    let whole = captures.get(0)?;
                    let number = |name| captures.name(name).and_then(|m| m.as_str().parse::<f64>().ok());
                    let mention = Mention {
                        start: start + whole.start(),
                        end: start + whole.end(),
                        from: number("a")?,
                        to: number("b")?,
                    };
                    chosen.iter().any(|l| l.step(mention.from, mention.to).is_some()).then_some(mention)
                })
                .collect();
            if mentions.is_empty() {
                continue;
            }
            superlatives(prose, (start, end), &chosen, &mentions, found);
            step_ranges(prose, (start, end), &chosen, &mentions, found);
            factors(prose, (start, end), &chosen, &mentions, found);
            bounds(prose, (start, end), &chosen, &mentions, found);
        }
    }
}

/// The ladders a sentence speaks of: those whose own name, which stands before them and not before the
/// others, is in the sentence; all if it names none or each.
fn choose<'t, 'a>(near: &'t [Ladder<'a>], sentence: &str) -> Vec<&'t Ladder<'a>> {
    let last = |ladder: &Ladder<'a>| ladder.table.context.rsplit(". ").next().unwrap_or("").to_owned();
    let named: Vec<&Ladder<'a>> = near
        .iter()
        .filter(|ladder| {
            last(ladder).split(|c: char| c.is_whitespace() || c == ',').any(|word| {
                word.chars().any(char::is_uppercase)
                    && word.chars().filter(|c| c.is_alphabetic()).count() >= 3
                    && names(sentence, word)
                    && near.iter().filter(|other| names(&last(other), word)).count() == 1
            })
        })
        .collect();
    if named.is_empty() { near.iter().collect() } else { named }
}

fn step_evidence(ladder: &Ladder<'_>, row: usize, step: usize) -> Evidence {
    let table = ladder.table;
    let (a, b) = (ladder.levels[step].0, ladder.levels[step + 1].0);
    let cell = |column: usize| table.rows[row].cells.get(column).map_or("", |cell| cell.text.as_str());
    let size = ladder.drop(row, step).map_or(f64::NAN, |d| f64::midpoint(d.0, d.1));
    let place = format!(
        "line {}, \"{}\", {} → {}",
        table.rows[row].line,
        table.label(row),
        table.columns[a],
        table.columns[b]
    );
    Evidence::new(place, format!("{} → {}: {}", cell(a), cell(b), shown(size)))
}

/// "The steepest step is A→B".
fn superlatives(
    prose: &Prose,
    (start, end): (usize, usize),
    ladders: &[&Ladder<'_>],
    mentions: &[Mention],
    found: &mut Vec<Finding>,
) {
    let sentence = &prose.text[start..end];
    for matched in SUPERLATIVE.find_iter(sentence) {
        let (from, to) = (start + matched.start(), start + matched.end());
        let distance = |m: &Mention| if m.start >= to { m.start - to } else { from.saturating_sub(m.end) };
        let Some(mention) = mentions.iter().min_by_key(|m| distance(m)).filter(|m| distance(m) < 70) else {
            continue;
        };
        let clause_start = from.min(mention.start);
        let after = prose.text[to.max(mention.end)..end].to_owned();
        let labelled = |row: usize, ladder: &Ladder<'_>, text: &str| names(text, ladder.table.label(row));
        let between = &prose.text[clause_start..to.max(mention.end)];
        let whole_table = ["anywhere", "any table", "either table", "in the table", "overall"]
            .iter()
            .any(|word| sentence.contains(word));
        let mut contrary: Vec<Evidence> = Vec::new();
        if whole_table {
            let size =
                |l: &Ladder<'_>, row: usize, step: usize| l.drop(row, step).unwrap_or((f64::NAN, f64::NAN));
            let named = |l: &Ladder<'_>, row: usize| {
                let any = l.rows().iter().any(|&r| labelled(r, l, between));
                !any || labelled(row, l, between)
            };
            let mut best = f64::NEG_INFINITY;
            for ladder in ladders {
                let Some(step) = ladder.step(mention.from, mention.to) else { continue };
                for row in ladder.rows() {
                    if named(ladder, row) {
                        best = best.max(size(ladder, row, step).1);
                    }
                }
            }
            for ladder in ladders {
                for row in ladder.rows() {
                    for step in 0..ladder.levels.len() - 1 {
                        if size(ladder, row, step).0 > best {
                            contrary.push(step_evidence(ladder, row, step));
                        }
                    }
                }
            }
        } else {
            for ladder in ladders {
                let Some(stated) = ladder.step(mention.from, mention.to) else { continue };
                let rows = ladder.rows();
                let any = rows.iter().any(|&row| labelled(row, ladder, &after));
                for row in rows.into_iter().filter(|&row| !any || labelled(row, ladder, &after)) {
                    let Some(here) = ladder.drop(row, stated) else { continue };
                    let worse = (0..ladder.levels.len() - 1)
                        .filter(|&s| ladder.drop(row, s).is_some_and(|d| d.0 > here.1));
                    contrary.extend(worse.map(|s| step_evidence(ladder, row, s)));
                }
            }
        }
        if !contrary.is_empty() {
            contrary.truncate(8);
            let message = format!("{} → {} is not the steepest step", shown(mention.from), shown(mention.to));
            found.push(in_prose(
                prose,
                (clause_start, to.max(mention.end)),
                (Rule::Argmax, Confidence::High),
                message,
                contrary,
            ));
        }
    }
}

/// "Every model sheds LOW–HIGH" on the step A→B.
fn step_ranges(
    prose: &Prose,
    (start, end): (usize, usize),
    ladders: &[&Ladder<'_>],
    mentions: &[Mention],
    found: &mut Vec<Finding>,
) {
    for range in ranges(&prose.text, prose.numbers_in(start, end)) {
        let (before, after) = (&prose.text[start..range.low.start], &prose.text[range.high.end..end]);
        if range.low.half >= 0.5 || !(LOSS.is_match(before) || LOSS_AFTER.is_match(after)) {
            continue;
        }
        let Some(mention) = mentions.iter().rev().find(|m| m.end <= range.low.start).or(mentions.first())
        else {
            continue;
        };
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut outside = Vec::new();
        for ladder in ladders {
            let Some(step) = ladder.step(mention.from, mention.to) else { continue };
            for row in ladder.rows() {
                let Some(drop) = ladder.drop(row, step) else { continue };
                low = low.min(drop.0);
                high = high.max(drop.1);
                if drop.1 < range.low.value - range.low.half || drop.0 > range.high.value + range.high.half {
                    outside.push(step_evidence(ladder, row, step));
                }
            }
        }
        // The range must be about these numbers at all.
        let overlap = high.min(range.high.value) - low.max(range.low.value);
        if outside.is_empty() || overlap < 0.5 * (range.high.value - range.low.value).min(high - low) {
            continue;
        }
        let message = format!("the steps go from {} to {}", shown(low), shown(high));
        found.push(in_prose(
            prose,
            (range.low.start, range.high.end),
            (Rule::Range, Confidence::High),
            message,
            outside,
        ));
    }
}

/// "An order of magnitude smaller": a ratio of two steps.
fn factors(
    prose: &Prose,
    (start, end): (usize, usize),
    ladders: &[&Ladder<'_>],
    mentions: &[Mention],
    found: &mut Vec<Finding>,
) {
    let sentence = &prose.text[start..end];
    let Some(captures) = FACTOR.captures(sentence) else { return };
    let Some(whole) = captures.get(0) else { return };
    let at = (start + whole.start(), start + whole.end());
    let (Some(first), Some(second)) =
        (mentions.iter().rev().find(|m| m.end <= at.0), mentions.iter().find(|m| m.start >= at.1))
    else {
        return;
    };
    let factor = captures.name("n").map_or(Some(10.0), |m| m.as_str().parse().ok());
    let Some(factor) = factor else { return };
    let smaller = captures.name("d").is_some_and(|d| d.as_str() == "smaller");
    let mut contrary = Vec::new();
    for ladder in ladders {
        let (Some(a), Some(b)) = (ladder.step(first.from, first.to), ladder.step(second.from, second.to))
        else {
            continue;
        };
        for row in ladder.rows() {
            let (Some(a), Some(b)) = (ladder.drop(row, a), ladder.drop(row, b)) else { continue };
            let (large, small) = if smaller { (b, a) } else { (a, b) };
            // The most that rounding allows; a tenth of grace, since these words are never exact.
            let most = large.1 / small.0.max(1e-12);
            if most < 0.9 * factor {
                let place = format!("line {}, \"{}\"", ladder.table.rows[row].line, ladder.table.label(row));
                contrary.push(Evidence::new(
                    place,
                    format!(
                        "a factor of {}",
                        shown(f64::midpoint(large.0, large.1) / f64::midpoint(small.0, small.1))
                    ),
                ));
            }
        }
    }
    if !contrary.is_empty() {
        let message = format!("not a factor of {} in {} rows", shown(factor), contrary.len());
        found.push(in_prose(prose, (at.0, second.end), (Rule::Ratio, Confidence::High), message, contrary));
    }
}

/// "The 14B models lose under 0.02" on a step.
fn bounds(
    prose: &Prose,
    (start, end): (usize, usize),
    ladders: &[&Ladder<'_>],
    mentions: &[Mention],
    found: &mut Vec<Finding>,
) {
    let sentence = &prose.text[start..end];
    for captures in BOUND.captures_iter(sentence) {
        let (Some(whole), Some(op)) = (captures.get(0), captures.name("op")) else { continue };
        let here = start + whole.end();
        let Some(bound) = prose.numbers_in(here, end).first().filter(|n| n.start <= here + 1 && n.half < 0.5)
        else {
            continue;
        };
        let Some(mention) = mentions.iter().rev().find(|m| m.end <= here) else { continue };
        let upper = matches!(
            op.as_str().to_lowercase().as_str(),
            "under" | "below" | "less than" | "at most" | "no more than"
        );
        let subject =
            prose.text[start..start + whole.start()].rsplit([',', ';']).next().unwrap_or("").to_lowercase();
        let classes: Vec<&str> = subject
            .split(|c: char| !(c.is_alphanumeric() || c == '.'))
            .filter(|w| {
                w.len() >= 2 && w.contains(|c: char| c.is_ascii_digit()) && w.contains(char::is_alphabetic)
            })
            .collect();
        let mut contrary = Vec::new();
        let mut about = false;
        for ladder in ladders {
            let Some(step) = ladder.step(mention.from, mention.to) else { continue };
            let rows = ladder.rows();
            let member = |row: usize| {
                let label = ladder.table.label(row).to_lowercase();
                classes.iter().any(|class| names(&label, class))
            };
            let some = rows.iter().any(|&row| member(row));
            if !classes.is_empty() && !some {
                continue;
            }
            for row in rows.into_iter().filter(|&row| classes.is_empty() || member(row)) {
                let Some(drop) = ladder.drop(row, step) else { continue };
                about |= drop.1 > bound.value / 4.0 && drop.0 < bound.value * 4.0;
                // "Under 0.02" is broken by 0.024 even though it rounds to 0.02.
                let strict = op.as_str().starts_with(['u', 'b', 'l']);
                let above = bound.value + if strict { 0.1 * bound.half } else { bound.half };
                if upper && drop.0 > above || !upper && drop.1 < bound.value - bound.half {
                    contrary.push(step_evidence(ladder, row, step));
                }
            }
        }
        if about && !contrary.is_empty() {
            let message = format!("not {} {} in every row it covers", op.as_str(), shown(bound.value));
            let from = start + whole.start() - subject.len().min(whole.start());
            let from = if prose.text.is_char_boundary(from) { from } else { start + whole.start() };
            found.push(in_prose(
                prose,
                (from, bound.end),
                (Rule::Quant, Confidence::Medium),
                message,
                contrary,
            ));
        }
    }
}

/// "The high-0.8s at N=8": a decade and a column.
fn bands(prose: &Prose, (start, end): (usize, usize), ladders: &[&Ladder<'_>], found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    let mut contrary = Vec::new();
    let mut span: Option<(usize, usize)> = None;
    for captures in BAND.captures_iter(sentence) {
        let (Some(whole), Some(value), Some(level)) =
            (captures.get(0), captures.name("v"), captures.name("l"))
        else {
            continue;
        };
        let digits = level.as_str().rsplit('=').next().unwrap_or("").trim();
        let (Ok(low), Ok(level)) = (value.as_str().parse::<f64>(), digits.parse::<f64>()) else { continue };
        let width = if value.as_str().contains('.') { 0.1 } else { 10.0 };
        for ladder in ladders {
            let Some(&(column, _)) = ladder.levels.iter().find(|l| l.1 == level) else { continue };
            let values: Vec<(usize, &Quantity)> = ladder
                .rows()
                .into_iter()
                .filter_map(|row| Some((row, ladder.table.value(row, column)?)))
                .collect();
            let out: Vec<_> = values
                .iter()
                .filter(|(_, v)| v.value < low - 0.06 * width || v.value > low + 1.05 * width)
                .collect();
            for (row, value) in &out {
                contrary.push(Evidence::new(ladder.table.cell_place(*row, column), shown(value.value)));
            }
            if !out.is_empty() {
                let (from, to) = (start + whole.start(), start + whole.end());
                span = Some(span.map_or((from, to), |s| (s.0.min(from), s.1.max(to))));
            }
        }
    }
    if let Some(span) = span {
        let message = format!("{} cells lie outside the bands", contrary.len());
        found.push(in_prose(prose, span, (Rule::Range, Confidence::Medium), message, contrary));
    }
}
