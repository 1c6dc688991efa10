//! Numbers that a sentence misstates. A sentence with words that the audit does not know cannot be read as a claim. But
//! a number in it that no cell and no simple derivation yields, and that differs by one digit or by two swapped digits
//! from the one that its labels yield, or that belongs to the row beside it, is a slip.

mod other;
mod saying;
mod yields;

use crate::claims::Contradiction;
use crate::claims::facts::{Fact, Facts};
use crate::claims::judge::{comparable, evidence};
use crate::claims::lexicon::{Many, Sense, sense};
use crate::claims::sentence::Mention;
use crate::number::{Quantity, mistaken, shown_like};
use crate::words::Word;
pub(super) use saying::Saying;
use yields::{Yield, cells, changes, follows, own_changes, states};

/// Tables with more numbers than this have one for any digits.
const MOST_FACTS: usize = 600;

/// Words by which a sentence is about something that was not measured here.
#[rustfmt::skip]
const ELSEWHERE: &[&str] = &[
    "could", "would", "should", "might", "may", "expect", "expected", "target", "goal", "plan", "planned", "estimate",
    "estimated", "if", "unless", "theoretical", "theoretically", "previou", "previous", "previously", "earlier", "old",
    "older", "next", "paper", "claim", "claimed", "advertised", "published", "budget", "limit", "limited", "slo", "not",
    "never", "cannot", "ideal", "ideally", "predicted", "default", "threshold", "until", "per", "another", "neither",
    "nor", "objective", "vendor", "manufacturer", "datasheet", "brochure", "leaderboard", "quote", "quoted",
    "advertise", "promise", "promised", "specification", "spec", "according", "budgeted", "predict", "prediction",
    "simulated", "simulation", "later",
];

/// Words that compare, so that a number beside them is a difference or belongs to the other side.
#[rustfmt::skip]
const COMPARING: &[&str] = &[
    "than", "over", "versu", "versus", "vs", "against", "compared", "below", "above", "from", "to", "instead",
    "difference", "further", "save", "saving", "cut", "reduce", "reduction", "lower", "add", "extra", "additional",
    "within", "under", "beyond", "exceed", "between", "up", "about", "around", "roughly", "nearly", "almost", "by",
];

/// Words that make a number with a unit a difference.
#[rustfmt::skip]
const DIFFERENCE: &[&str] = &[
    "difference", "further", "save", "saving", "less", "more", "lower", "higher", "gain", "gap", "reduce", "cut",
    "cost", "overhead", "extra",
];

/// Words that make a number that of all rows.
#[rustfmt::skip]
const WHOLE: &[&str] = &[
    "mean", "median", "sum", "total", "together", "combined", "altogether",
];

/// Finds a number of a sentence that is misstated by every table that it may be about. `subject` is the sentence before
/// it, for pronouns.
pub(super) fn slip(
    saying: &Saying<'_>,
    tables: &[&Facts<'_>],
    subject: &str,
) -> Option<Contradiction> {
    let digits: Vec<Option<String>> = saying.numbers.iter().map(|n| telling(saying, n)).collect();
    if saying.has(ELSEWHERE) || saying.words.len() > 60 || digits.iter().all(Option::is_none) {
        return None;
    }
    let small = tables
        .iter()
        .filter(|facts| facts.facts.len() <= MOST_FACTS);
    let tables: Vec<(&Facts<'_>, Vec<Mention>)> = small
        .map(|facts| (*facts, saying.mentions(facts)))
        .collect();
    let mut numbers = saying.numbers.iter().zip(&digits);
    numbers.find_map(|(number, digits)| {
        let digits = digits.as_deref().filter(|_| !saying.bounds(number))?;
        let slip = written_out(saying, number, digits).or_else(|| {
            let mut tables = tables.iter();
            tables.find_map(|table| misstated(saying, (number, digits), table, subject))
        })?;
        let mut tables = tables.iter();
        (!tables.any(|(facts, all)| follows(saying, number, facts, all))).then_some(slip)
    })
}

/// The digits of a number as printed, without leading zeros; `None` if they are too few to tell.
fn telling(saying: &Saying<'_>, number: &Quantity) -> Option<String> {
    let digits: String = saying
        .text
        .get(number.start..number.end)?
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ','))
        .filter(char::is_ascii_digit)
        .collect();
    let digits = digits.trim_start_matches('0');
    (digits.len() >= 2).then(|| digits.to_owned())
}

/// A change that does not follow from the two other numbers of its sentence.
fn written_out(saying: &Saying<'_>, number: &Quantity, digits: &str) -> Option<Contradiction> {
    let mut values = own_changes(saying, number).into_iter();
    let value = values.find(|value| mistaken(digits, *value, number).is_some())?;
    Some(Contradiction {
        start: number.start,
        message: format!(
            "the two numbers beside it give {}",
            written_like(saying, number, value)
        ),
        evidence: Vec::new(),
    })
}

/// A value, written as a number of the sentence is.
fn written_like(saying: &Saying<'_>, number: &Quantity, value: f64) -> String {
    let printed = saying.text.get(number.start..number.end).unwrap_or("");
    let value = if number.signed {
        value.copysign(number.value)
    } else {
        value
    };
    shown_like(value, printed, number)
}

/// Whether a number is a change or a factor and no cell.
fn relative(number: &Quantity) -> bool {
    matches!(number.unit.as_str(), "%" | "x" | "pp")
}

/// The labels that a number may belong to, and whether it is that of all rows; `None` if neither is known.
fn labels(
    saying: &Saying<'_>,
    number: &Quantity,
    (facts, all): &(&Facts<'_>, Vec<Mention>),
    subject: &str,
) -> Option<(Vec<Mention>, bool)> {
    let mut mentions = all.clone();
    let row = |m: &Mention| Some(m.axis) != facts.across;
    if saying.has(&["it", "its", "this", "they", "their"]) {
        let before = Saying::new(subject, &[], 0).mentions(facts);
        let first = before.into_iter().find(row);
        let own = |m: &Mention| all.iter().any(|other| other.axis == m.axis);
        mentions.extend(first.filter(|m| relative(number) || !own(m)));
    }
    let whole = !mentions.iter().any(row);
    let compares = || {
        let mut words = COMPARING.iter().filter(|word| **word != "over");
        words.any(|word| saying.has(&[*word]))
    };
    let is_label = all.iter().any(|m| m.start == number.start);
    if is_label || saying.listed(number) || whole && (!saying.has(WHOLE) || compares()) {
        return None;
    }
    Some((saying.scoped(number, facts, &mentions), whole))
}

fn misstated(
    saying: &Saying<'_>,
    (number, digits): (&Quantity, &str),
    table: &(&Facts<'_>, Vec<Mention>),
    subject: &str,
) -> Option<Contradiction> {
    let facts = table.0;
    let (mentions, whole) = labels(saying, number, table, subject)?;
    if saying.another_statistic(facts, whole) || saying.elsewhere(number, facts, &mentions) {
        return None;
    }
    let apart = if relative(number) {
        let celled = facts.facts.iter().any(|f| f.value.unit == number.unit);
        !celled || saying.has(COMPARING)
    } else {
        // `from 310 to 627 tok/s` are cells.
        let before = saying.before(number).trim_end();
        let end = before.ends_with(" from") || before.ends_with(" to");
        saying.says(facts, DIFFERENCE) && !end
    };
    if let Some(slip) = no_mean(saying, number, facts, &mentions, whole) {
        return Some(slip);
    }
    let (mut yields, column) = if apart && !whole {
        (changes(saying, number, facts, &mentions), Vec::new())
    } else {
        cells(saying, number, facts, &mentions)
    };
    let yielded = |own: &Yield<'_>| {
        let (size, value) = (number.value.abs(), own.value.abs());
        Quantity {
            value: size,
            ..number.clone()
        }
        .rounds(value, value)
    };
    if yields.iter().any(yielded) {
        return None;
    }
    if whole && saying.has(&["mean"]) {
        yields.retain(|own| !own.cells.iter().any(|fact| is_quantile(facts, fact)));
    }
    // `1,412 tok/s, up from 1,142 tok/s`: another number states the cell.
    let restated = |own: &Yield<'_>| match own.cells.as_slice() {
        [cell] => !relative(number) && saying.others(number).any(|n| states(n, cell)),
        _ => false,
    };
    yields.retain(|own| !restated(own));
    ends(saying, number, &mut yields);
    if saying.before(number).trim_end().ends_with("at least") {
        // A bound that holds is no slip.
        yields.retain(|own| own.value < number.value);
    }
    let n = yields.len();
    // A cell stated beside a change shows that the table meets the circumstance.
    let beside = |own: &Yield<'_>| {
        let mut others = saying.others(number).filter(|n| !relative(n));
        others.any(|n| own.cells.iter().any(|fact| states(n, fact)))
    };
    let confirmed = relative(number) && yields.iter().any(beside);
    let circumstance = !confirmed && saying.circumstance(facts, &mentions);
    let near = |own: &&Yield<'_>| {
        let far = (own.value - number.value).abs() > 0.15 * own.value.abs();
        (far || !number.rough)
            && match (mistaken(digits, own.value, number), digits.len()) {
                (None, _) => false,
                (_, 4..) => n <= 6 && !circumstance,
                (Some(true), _) => n <= 6 && !circumstance,
                (Some(false), 3) => n <= 4 && !circumstance,
                (Some(false), _) => n <= 2 && !circumstance,
            }
    };
    let slip = yields
        .iter()
        .find(near)
        .or_else(|| match yields.as_slice() {
            [own] if !number.rough && !circumstance => {
                neighbour(saying, number, facts, &mentions, own, &column).then_some(own)
            }
            _ => None,
        })?;
    Some(Contradiction {
        start: number.start,
        message: format!(
            "the table gives {} here",
            written_like(saying, number, slip.value)
        ),
        evidence: evidence(&slip.cells),
    })
}

/// Whether a fact is that of a quantile, of which a mean tells nothing: `TTFT p50 (ms)`.
fn is_quantile(facts: &Facts<'_>, fact: &Fact) -> bool {
    let quantile = |word: &String| {
        let rank = word.strip_prefix('p').filter(|rank| !rank.is_empty());
        rank.is_some_and(|rank| rank.chars().all(|c| c.is_ascii_digit() || c == '.'))
            || matches!(word.as_str(), "median" | "percentile" | "quantile")
    };
    let column = facts.across.zip(facts.column(fact));
    let own = column.map(|(across, at)| &facts.axes[across].values[at].words);
    facts
        .metric
        .iter()
        .chain(own.into_iter().flatten())
        .any(quantile)
}

/// A mean of all rows that is beyond the smallest or the largest of them. Every word of the sentence must be known.
fn no_mean(
    saying: &Saying<'_>,
    number: &Quantity,
    facts: &Facts<'_>,
    mentions: &[Mention],
    whole: bool,
) -> Option<Contradiction> {
    let (_, mut column) = cells(saying, number, facts, mentions);
    column.retain(|fact| !is_quantile(facts, fact));
    let asks =
        whole && saying.has(&["mean"]) && !saying.has(&["sum", "total", "together", "combined"]);
    if !asks || relative(number) || number.rough || column.len() < 3 || saying.numbers.len() > 1 {
        return None;
    }
    let beyond = |above: bool| {
        column.iter().all(|fact| {
            let (value, half) = fact.in_unit_of(number);
            if above {
                number.value - number.half > value + half
            } else {
                number.value + number.half < value - half
            }
        })
    };
    (saying.all_known(facts, mentions) && (beyond(true) || beyond(false))).then(|| Contradiction {
        start: number.start,
        message: "a mean lies between the smallest and the largest value".to_owned(),
        evidence: evidence(&column),
    })
}

/// Leaves the largest of several changes for `up to`, and the smallest and the largest for the ends of a range.
fn ends(saying: &Saying<'_>, number: &Quantity, yields: &mut Vec<Yield<'_>>) {
    let before = saying.before(number).trim_end();
    let after = saying.after(number).trim_start();
    let follows_number =
        |text: &str| text.ends_with(|c: char| c.is_ascii_digit() || matches!(c, '%' | 'x' | '×'));
    let dash = |c: char| matches!(c, '-' | '–');
    let largest = before.ends_with("up to")
        || before.ends_with(dash) && follows_number(before.trim_end_matches(dash));
    let smallest = before.ends_with("at least") || after.starts_with(dash);
    if largest || smallest {
        yields.sort_by(|a, b| a.value.total_cmp(&b.value));
        if largest {
            yields.reverse();
        }
        yields.truncate(1);
    }
}

/// Whether a number is that of another row, where the sentence names one row only.
fn neighbour(
    saying: &Saying<'_>,
    number: &Quantity,
    facts: &Facts<'_>,
    mentions: &[Mention],
    own: &Yield<'_>,
    column: &[&Fact],
) -> bool {
    let compares = |word: &Word| {
        let sides = [Some(Sense::Than), Some(Sense::Many(Many::Both))];
        let sense = sense(&word.text);
        let relation = matches!(sense, Some(Sense::Relation(_)));
        // A column `Gain` compares nothing.
        relation && !facts.words().any(|own| own == word.text) || sides.contains(&sense)
    };
    if saying.has(COMPARING) || saying.words.iter().any(compares) || column.len() < 2 {
        return false;
    }
    let cell = own.cells[0];
    let (start, end) = saying.clause(number);
    let spoken = mentions
        .iter()
        .any(|m| Some(m.axis) == facts.across && (start..end).contains(&m.start));
    let beside = |fact: &&Fact| {
        let alike = |axis| Some(axis) == facts.across || fact.at[axis] == cell.at[axis];
        spoken && (0..facts.axes.len()).all(alike) && comparable(number, &fact.value)
    };
    // A label that is a common word may be meant all the same.
    let unnamed = |fact: &&Fact| {
        let other = |axis: &usize| fact.at[*axis] != cell.at[*axis];
        let mut words = (0..facts.axes.len())
            .filter(other)
            .filter_map(|axis| Some(&facts.axes[axis].values[fact.at[axis]?].words))
            .flatten();
        !words.any(|word| (0..saying.words.len()).any(|at| saying.word(at) == word))
    };
    let differs = |fact: &Fact| states(number, fact) && fact.in_unit_of(number).0 != own.value;
    column.iter().copied().filter(unnamed).any(differs)
        || facts.facts.iter().filter(beside).any(differs)
}
