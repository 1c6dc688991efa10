//! R-ARGMAX, R-RANGE, R-RATIO, R-QUANT over steps along a ladder: "the steepest step is N=16→N=32".

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Quantity, ranges, shown};
use crate::rules::Rule;
use crate::rules::ladder::{Ladder, choose, ladder, step_evidence};
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::names;
use crate::text::Prose;

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
    Regex::new(
        r"\b(?P<w>high|mid|low)-(?P<v>0\.[0-9]|[0-9]0)s at (?P<l>(?:[A-Za-z]{1,12} ?= ?)?[0-9]+)\b",
    )
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
            let near = near.get_or_insert_with(|| {
                scope
                    .report
                    .tables_near(prose.section)
                    .filter_map(ladder)
                    .collect()
            });
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
            let ladders = choose(near, clause);
            let mentions = mentions(sentence, start, &ladders);
            let said = Said {
                prose,
                start,
                end,
                ladders,
                mentions,
            };
            bands(&said, found);
            superlatives(&said, found);
            step_ranges(&said, found);
            factors(&said, found);
            bounds(&said, found);
        }
    }
}

/// A step of a ladder that a sentence names, `N=16→N=32`.
struct Mention {
    start: usize,
    end: usize,
    from: f64,
    to: f64,
}

fn mentions(sentence: &str, offset: usize, ladders: &[&Ladder<'_>]) -> Vec<Mention> {
    STEP.captures_iter(sentence)
        .filter_map(|captures| {
            let whole = captures.get(0)?;
            let number = |name| {
                captures
                    .name(name)
                    .and_then(|m| m.as_str().parse::<f64>().ok())
            };
            let mention = Mention {
                start: offset + whole.start(),
                end: offset + whole.end(),
                from: number("a")?,
                to: number("b")?,
            };
            ladders
                .iter()
                .any(|l| l.step(mention.from, mention.to).is_some())
                .then_some(mention)
        })
        .collect()
}

/// A sentence about steps: its bytes in the paragraph, the ladders it speaks of, the steps it names.
struct Said<'s> {
    prose: &'s Prose,
    start: usize,
    end: usize,
    ladders: Vec<&'s Ladder<'s>>,
    mentions: Vec<Mention>,
}

/// A step in a row of a ladder, and its size as an interval.
struct Drop<'s> {
    ladder: &'s Ladder<'s>,
    row: usize,
    step: usize,
    size: (f64, f64),
}

impl Drop<'_> {
    fn evidence(&self) -> Evidence {
        step_evidence(self.ladder, self.row, self.step)
    }

    fn label(&self) -> &str {
        self.ladder.table.label(self.row)
    }
}

impl Said<'_> {
    fn text(&self) -> &str {
        &self.prose.text[self.start..self.end]
    }

    /// The last step named before a place.
    fn before(&self, at: usize) -> Option<&Mention> {
        self.mentions.iter().rev().find(|mention| mention.end <= at)
    }

    /// Every step of every row.
    fn all(&self) -> impl Iterator<Item = Drop<'_>> {
        self.ladders.iter().flat_map(|&ladder| {
            let steps = 0..ladder.levels.len().saturating_sub(1);
            ladder.rows().into_iter().flat_map(move |row| {
                steps.clone().filter_map(move |step| {
                    Some(Drop {
                        ladder,
                        row,
                        step,
                        size: ladder.drop(row, step)?,
                    })
                })
            })
        })
    }

    /// The step named, in every row of the ladders that have it.
    fn of(&self, mention: &Mention) -> impl Iterator<Item = Drop<'_>> {
        let (from, to) = (mention.from, mention.to);
        self.all()
            .filter(move |drop| drop.ladder.step(from, to) == Some(drop.step))
    }

    fn finding(
        &self,
        span: (usize, usize),
        rule: (Rule, Confidence),
        message: String,
        evidence: Vec<Evidence>,
    ) -> Finding {
        in_prose(self.prose, span, rule, message, evidence)
    }
}

/// "The steepest step is A→B".
fn superlatives(said: &Said<'_>, found: &mut Vec<Finding>) {
    let sentence = said.text();
    for matched in SUPERLATIVE.find_iter(sentence) {
        let (from, to) = (said.start + matched.start(), said.start + matched.end());
        let distance = |m: &Mention| {
            if m.start >= to {
                m.start - to
            } else {
                from.saturating_sub(m.end)
            }
        };
        let Some(mention) = said
            .mentions
            .iter()
            .min_by_key(|m| distance(m))
            .filter(|m| distance(m) < 70)
        else {
            continue;
        };
        let (start, end) = (from.min(mention.start), to.max(mention.end));
        let whole_table = [
            "anywhere",
            "any table",
            "either table",
            "in the table",
            "overall",
        ]
        .iter()
        .any(|word| sentence.contains(word));
        // Rows named in the claim, or behind it; all if none is.
        let text = if whole_table {
            &said.prose.text[start..end]
        } else {
            &said.prose.text[end..said.end]
        };
        let named = |drop: &Drop<'_>| names(text, drop.label());
        let any = said.of(mention).any(|drop| named(&drop));
        let stated: Vec<Drop<'_>> = said
            .of(mention)
            .filter(|drop| !any || named(drop))
            .collect();
        let contrary: Vec<Evidence> = if whole_table {
            let best = stated
                .iter()
                .map(|drop| drop.size.1)
                .fold(f64::NEG_INFINITY, f64::max);
            said.all()
                .filter(|drop| drop.size.0 > best)
                .map(|drop| drop.evidence())
                .take(8)
                .collect()
        } else {
            let steeper = |other: &Drop<'_>| {
                stated.iter().any(|here| {
                    std::ptr::eq(here.ladder, other.ladder)
                        && here.row == other.row
                        && other.size.0 > here.size.1
                })
            };
            said.all()
                .filter(steeper)
                .map(|drop| drop.evidence())
                .take(8)
                .collect()
        };
        if !contrary.is_empty() {
            let message = format!(
                "{} → {} is not the steepest step",
                shown(mention.from),
                shown(mention.to)
            );
            found.push(said.finding(
                (start, end),
                (Rule::Argmax, Confidence::High),
                message,
                contrary,
            ));
        }
    }
}

/// "Every model sheds LOW–HIGH" on the step A→B.
fn step_ranges(said: &Said<'_>, found: &mut Vec<Finding>) {
    for range in ranges(
        &said.prose.text,
        said.prose.numbers_in(said.start, said.end),
    ) {
        let before = &said.prose.text[said.start..range.low.start];
        let after = &said.prose.text[range.high.end..said.end];
        if range.low.half >= 0.5 || !(LOSS.is_match(before) || LOSS_AFTER.is_match(after)) {
            continue;
        }
        let Some(mention) = said.before(range.low.start).or(said.mentions.first()) else {
            continue;
        };
        let drops: Vec<Drop<'_>> = said.of(mention).collect();
        let low = drops
            .iter()
            .map(|drop| drop.size.0)
            .fold(f64::INFINITY, f64::min);
        let high = drops
            .iter()
            .map(|drop| drop.size.1)
            .fold(f64::NEG_INFINITY, f64::max);
        let outside: Vec<Evidence> = drops
            .iter()
            .filter(|drop| {
                drop.size.1 < range.low.value - range.low.half
                    || drop.size.0 > range.high.value + range.high.half
            })
            .map(Drop::evidence)
            .collect();
        // The range must be about these numbers at all.
        let overlap = high.min(range.high.value) - low.max(range.low.value);
        if outside.is_empty()
            || overlap < 0.5 * (range.high.value - range.low.value).min(high - low)
        {
            continue;
        }
        let message = format!("the steps go from {} to {}", shown(low), shown(high));
        let span = (range.low.start, range.high.end);
        found.push(said.finding(span, (Rule::Range, Confidence::High), message, outside));
    }
}

/// "An order of magnitude smaller": a ratio of two steps.
fn factors(said: &Said<'_>, found: &mut Vec<Finding>) {
    let Some(captures) = FACTOR.captures(said.text()) else {
        return;
    };
    let Some(whole) = captures.get(0) else { return };
    let (from, to) = (said.start + whole.start(), said.start + whole.end());
    let (Some(first), Some(second)) = (
        said.before(from),
        said.mentions.iter().find(|m| m.start >= to),
    ) else {
        return;
    };
    let factor = captures
        .name("n")
        .map_or(Some(10.0), |m| m.as_str().parse().ok());
    let Some(factor) = factor else { return };
    let smaller = captures.name("d").is_some_and(|d| d.as_str() == "smaller");
    let mut contrary = Vec::new();
    for a in said.of(first) {
        let Some(other) = a.ladder.step(second.from, second.to) else {
            continue;
        };
        let Some(b) = a.ladder.drop(a.row, other) else {
            continue;
        };
        let (large, small) = if smaller { (b, a.size) } else { (a.size, b) };
        // The most that rounding allows; a tenth of grace, since these words are never exact.
        if large.1 / small.0.max(1e-12) < 0.9 * factor {
            let ratio = f64::midpoint(large.0, large.1) / f64::midpoint(small.0, small.1);
            let place = format!(
                "line {}, \"{}\"",
                a.ladder.table.rows[a.row].line,
                a.label()
            );
            contrary.push(Evidence::new(
                place,
                format!("a factor of {}", shown(ratio)),
            ));
        }
    }
    if !contrary.is_empty() {
        let message = format!(
            "not a factor of {} in {} rows",
            shown(factor),
            contrary.len()
        );
        found.push(said.finding(
            (from, second.end),
            (Rule::Ratio, Confidence::High),
            message,
            contrary,
        ));
    }
}

/// "The 14B models lose under 0.02" on a step.
fn bounds(said: &Said<'_>, found: &mut Vec<Finding>) {
    for captures in BOUND.captures_iter(said.text()) {
        let (Some(whole), Some(op)) = (captures.get(0), captures.name("op")) else {
            continue;
        };
        let here = said.start + whole.end();
        let number = said.prose.numbers_in(here, said.end).first();
        let Some(bound) = number.filter(|n| n.start <= here + 1 && n.half < 0.5) else {
            continue;
        };
        let Some(mention) = said.before(here) else {
            continue;
        };
        let word = op.as_str().to_lowercase();
        let upper = matches!(
            word.as_str(),
            "under" | "below" | "less than" | "at most" | "no more than"
        );
        let subject = said.text()[..whole.start()]
            .rsplit([',', ';'])
            .next()
            .unwrap_or("");
        let lower = subject.to_lowercase();
        let classes: Vec<&str> = lower
            .split(|c: char| !(c.is_alphanumeric() || c == '.'))
            .filter(|w| {
                w.len() >= 2
                    && w.contains(|c: char| c.is_ascii_digit())
                    && w.contains(char::is_alphabetic)
            })
            .collect();
        let member = |drop: &Drop<'_>| {
            let label = drop.label().to_lowercase();
            classes.is_empty() || classes.iter().any(|class| names(&label, class))
        };
        let drops: Vec<Drop<'_>> = said.of(mention).filter(member).collect();
        let about = drops
            .iter()
            .any(|d| d.size.1 > bound.value / 4.0 && d.size.0 < bound.value * 4.0);
        // "Under 0.02" is broken by 0.024 even though it rounds to 0.02.
        let strict = word.starts_with(['u', 'b', 'l']);
        let above = bound.value + if strict { 0.1 * bound.half } else { bound.half };
        let broken = |drop: &&Drop<'_>| {
            upper && drop.size.0 > above || !upper && drop.size.1 < bound.value - bound.half
        };
        let contrary: Vec<Evidence> = drops.iter().filter(broken).map(Drop::evidence).collect();
        if about && !contrary.is_empty() {
            let message = format!(
                "not {} {} in every row it covers",
                op.as_str(),
                shown(bound.value)
            );
            let from = said.start + whole.start() - subject.len();
            let rule = (Rule::Quant, Confidence::Medium);
            found.push(said.finding((from, bound.end), rule, message, contrary));
        }
    }
}

/// "The high-0.8s at N=8": a decade and a column.
fn bands(said: &Said<'_>, found: &mut Vec<Finding>) {
    let mut contrary = Vec::new();
    let mut span: Option<(usize, usize)> = None;
    for captures in BAND.captures_iter(said.text()) {
        let (Some(whole), Some(value), Some(level)) =
            (captures.get(0), captures.name("v"), captures.name("l"))
        else {
            continue;
        };
        let digits = level.as_str().rsplit('=').next().unwrap_or("").trim();
        let (Ok(low), Ok(level)) = (value.as_str().parse::<f64>(), digits.parse::<f64>()) else {
            continue;
        };
        let width = if value.as_str().contains('.') {
            0.1
        } else {
            10.0
        };
        for ladder in &said.ladders {
            let Some(&(column, _)) = ladder.levels.iter().find(|l| l.1 == level) else {
                continue;
            };
            let values: Vec<(usize, &Quantity)> = ladder
                .rows()
                .into_iter()
                .filter_map(|row| Some((row, ladder.table.value(row, column)?)))
                .collect();
            let out: Vec<_> = values
                .iter()
                .filter(|(_, v)| v.value < low - 0.06 * width || v.value > low + 1.05 * width)
                .collect();
            for (row, _) in &out {
                contrary.push(ladder.table.evidence(*row, column));
            }
            if !out.is_empty() {
                let (from, to) = (said.start + whole.start(), said.start + whole.end());
                span = Some(span.map_or((from, to), |s| (s.0.min(from), s.1.max(to))));
            }
        }
    }
    if let Some(span) = span {
        let message = format!("{} cells lie outside the bands", contrary.len());
        found.push(said.finding(span, (Rule::Range, Confidence::Medium), message, contrary));
    }
}
