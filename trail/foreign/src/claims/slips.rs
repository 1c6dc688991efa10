//! Numbers that a sentence misstates. A sentence with words that the audit does not know cannot be read as a claim. But
//! a number in it that no cell and no simple derivation yields, and that differs by one digit or by two swapped digits
//! from the one that its labels yield, or that belongs to the row beside it, is a slip.

mod saying;
mod yields;

use std::collections::BTreeMap;

use crate::claims::facts::{Fact, Facts};
use crate::claims::judge::{comparable, evidence};
use crate::claims::lexicon::{Many, Sense, sense};
use crate::claims::sentence::Mention;
use crate::finding::Evidence;
use crate::number::{Quantity, shown};
pub(super) use saying::Saying;
use yields::{Yield, cells, changes, follows, own_changes, same, scale};

/// Tables with more numbers than this have one for any digits.
const MOST_FACTS: usize = 600;

/// A misstated number: the place in the sentence, the message, and the cells.
pub(super) struct Slip {
    pub(super) start: usize,
    pub(super) message: String,
    pub(super) evidence: Vec<Evidence>,
}

/// Words by which a sentence is about something that was not measured here.
const ELSEWHERE: &[&str] = &[
    "could",
    "would",
    "should",
    "might",
    "may",
    "expect",
    "expected",
    "target",
    "goal",
    "plan",
    "planned",
    "estimate",
    "estimated",
    "if",
    "unless",
    "theoretical",
    "theoretically",
    "previou",
    "previous",
    "previously",
    "earlier",
    "old",
    "older",
    "next",
    "paper",
    "claim",
    "claimed",
    "advertised",
    "published",
    "budget",
    "limit",
    "limited",
    "slo",
    "not",
    "never",
    "cannot",
    "ideal",
    "ideally",
    "predicted",
    "default",
    "threshold",
    "until",
    "per",
    "another",
    "neither",
    "nor",
];

/// Words that compare, so that a number beside them is a difference or belongs to the other side.
const COMPARING: &[&str] = &[
    "than",
    "over",
    "versu",
    "versus",
    "vs",
    "against",
    "compared",
    "below",
    "above",
    "from",
    "to",
    "instead",
    "difference",
    "further",
    "save",
    "saving",
    "cut",
    "reduce",
    "reduction",
    "lower",
    "add",
    "extra",
    "additional",
    "within",
    "under",
    "beyond",
    "exceed",
    "between",
    "up",
    "about",
    "around",
    "roughly",
    "nearly",
    "almost",
    "by",
];

/// Words that make a number with a unit a difference.
const DIFFERENCE: &[&str] = &[
    "difference",
    "further",
    "save",
    "saving",
    "less",
    "more",
    "lower",
    "higher",
    "gain",
    "gap",
    "reduce",
    "cut",
    "cost",
    "overhead",
    "extra",
];

/// Words that make a number that of all rows.
const WHOLE: &[&str] = &[
    "mean",
    "median",
    "sum",
    "total",
    "together",
    "combined",
    "altogether",
];

/// Finds a number of a sentence that is misstated by every table that it may be about. `subject` is the sentence before
/// it, for pronouns.
pub(super) fn slip(saying: &Saying<'_>, tables: &[&Facts<'_>], subject: &str) -> Option<Slip> {
    if saying.has(ELSEWHERE) || saying.words.len() > 60 {
        return None;
    }
    let orders: Vec<_> = tables
        .iter()
        .filter_map(|facts| swapped(saying, facts))
        .collect();
    if let Some((number, right)) = orders.first() {
        let right: Vec<String> = right.iter().map(|value| shown(*value)).collect();
        return Some(Slip {
            start: number.start,
            message: format!("in this order, the table gives {}", right.join(" and ")),
            evidence: Vec::new(),
        });
    }
    let spoken = |number: &&Quantity| telling(saying, number).is_some() || number.unit == "x";
    if !saying.numbers.iter().any(|number| spoken(&number)) {
        return None;
    }
    let small = tables
        .iter()
        .filter(|facts| facts.facts.len() <= MOST_FACTS);
    let tables: Vec<(&Facts<'_>, Vec<Mention>)> = small
        .map(|facts| (*facts, saying.mentions(facts)))
        .collect();
    saying.numbers.iter().filter(spoken).find_map(|number| {
        let slip = written_out(saying, number).or_else(|| {
            let mut tables = tables.iter();
            tables.find_map(|(facts, all)| misstated(saying, number, (facts, all), subject))
        })?;
        let mut tables = tables.iter();
        (!tables.any(|(facts, all)| follows(saying, number, facts, all))).then_some(slip)
    })
}

/// Numbers in the order of labels, `Kite and Wren reach 74 and 131 ms, respectively`, that are cells in another order.
fn swapped<'n>(saying: &'n Saying<'_>, facts: &Facts<'_>) -> Option<(&'n Quantity, Vec<f64>)> {
    if !saying.has(&["respectively"]) {
        return None;
    }
    let mentions = saying.mentions(facts);
    (0..facts.axes.len()).find_map(|axis| {
        let (listed, rest): (Vec<Mention>, Vec<Mention>) =
            mentions.iter().partition(|m| m.axis == axis);
        let n = listed.len();
        let numbers: Vec<&Quantity> = saying
            .numbers
            .iter()
            .filter(|number| !rest.iter().any(|m| m.start + saying.offset == number.start))
            .collect();
        if n < 2 || numbers.len() != n {
            return None;
        }
        // The unit of the last number is that of all.
        let unit = numbers.last().map(|number| number.unit.clone())?;
        let mut columns: BTreeMap<Vec<Option<usize>>, Vec<&Fact>> = BTreeMap::new();
        for fact in yields::named(facts, &rest, Some(axis)) {
            let mut key = fact.at.clone();
            key[axis] = None;
            columns.entry(key).or_default().push(fact);
        }
        let mut orders = columns.values().filter_map(|column| {
            let cells: Vec<&&Fact> = listed
                .iter()
                .filter_map(|m| column.iter().find(|fact| fact.at[axis] == Some(m.value)))
                .collect();
            (cells.len() == n).then_some(cells)
        });
        let fits = |number: &Quantity, fact: &Fact| {
            let number = Quantity {
                unit: unit.clone(),
                ..number.clone()
            };
            same(&number, fact)
        };
        let right = |cells: &Vec<&&Fact>| numbers.iter().zip(cells).all(|(n, fact)| fits(n, fact));
        let mixed = |cells: &Vec<&&Fact>| {
            numbers
                .iter()
                .all(|n| cells.iter().any(|fact| fits(n, fact)))
        };
        if orders.clone().any(|cells| right(&cells)) {
            return None;
        }
        let cells = orders.find(mixed)?;
        Some((
            *numbers.first()?,
            cells.iter().map(|fact| fact.value.value).collect(),
        ))
    })
}

/// The digits of a number as printed, without leading zeros; `None` if they are too few to tell.
fn telling(saying: &Saying<'_>, number: &Quantity) -> Option<String> {
    let text = saying
        .text
        .get(number.start - saying.offset..number.end - saying.offset)?;
    let digits = text
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ','))
        .filter(char::is_ascii_digit)
        .collect::<String>();
    let digits = digits.trim_start_matches('0').to_owned();
    (digits.len() >= 2).then_some(digits)
}

/// The digits of a value when it is printed like a number.
fn printed(value: f64, like: &Quantity) -> String {
    // `k` and `M` scale the value and its rounding alike.
    let unit = 2.0 * like.half;
    let whole = (value.abs() / unit).round();
    format!("{whole:.0}")
}

/// How digits differ: by one of them, or by two swapped neighbours.
fn mistaken(said: &str, right: &str) -> Option<bool> {
    let (a, b) = (said.as_bytes(), right.as_bytes());
    let apart: Vec<usize> = (0..a.len().min(b.len()))
        .filter(|i| a[*i] != b[*i])
        .collect();
    if a.len() != b.len() {
        return None;
    }
    match apart.as_slice() {
        [_] => Some(false),
        [i, j] if j - i == 1 && a[*i] == b[*j] && a[*j] == b[*i] => Some(true),
        _ => None,
    }
}

/// A change that does not follow from the two other numbers of its sentence.
fn written_out(saying: &Saying<'_>, number: &Quantity) -> Option<Slip> {
    let digits = telling(saying, number).unwrap_or_default();
    let values = own_changes(saying, number).into_iter();
    let value = values.into_iter().find(|value| {
        mistaken(&digits, &printed(*value, number)).is_some()
            || digits.is_empty() && coarse(number, *value)
    })?;
    Some(Slip {
        start: number.start,
        message: format!("the two numbers beside it give {}", shown(value)),
        evidence: Vec::new(),
    })
}

/// Whether a factor in words or of one digit is far from the right one.
fn coarse(number: &Quantity, right: f64) -> bool {
    !number.rough && (1.2..30.0).contains(&right) && !(0.8..1.25).contains(&(number.value / right))
}

/// Whether a number is a change or a factor and no cell.
fn relative(number: &Quantity) -> bool {
    number.is_percent() || matches!(number.unit.as_str(), "x" | "pp")
}

/// The labels that a number may belong to, and whether it is that of all rows; `None` if neither is known.
fn labels(
    saying: &Saying<'_>,
    number: &Quantity,
    (facts, all): (&Facts<'_>, &[Mention]),
    subject: &str,
) -> Option<(Vec<Mention>, bool)> {
    let mut mentions = all.to_vec();
    if mentions
        .iter()
        .any(|m| m.start + saying.offset == number.start)
    {
        return None;
    }
    let rows = |mentions: &[Mention]| mentions.iter().any(|m| Some(m.axis) != facts.across);
    if saying.has(&["it", "its", "this", "they", "their"]) {
        let before = Saying::new(subject, &[], 0).mentions(facts);
        let first = before.into_iter().find(|m| Some(m.axis) != facts.across);
        let own = |m: &Mention| mentions.iter().any(|other| other.axis == m.axis);
        mentions.extend(first.filter(|m| relative(number) || !own(m)));
    }
    let whole = saying.has(WHOLE);
    if !rows(&mentions) && !whole {
        return None;
    }
    let whole = !rows(&mentions);
    let compares = COMPARING
        .iter()
        .any(|word| *word != "over" && saying.has(&[*word]));
    if whole && compares || saying.listed(number) {
        return None;
    }
    Some((saying.scoped(number, &mentions), whole))
}

fn misstated(
    saying: &Saying<'_>,
    number: &Quantity,
    (facts, all): (&Facts<'_>, &[Mention]),
    subject: &str,
) -> Option<Slip> {
    let digits = telling(saying, number).unwrap_or_default();
    let (mentions, whole) = labels(saying, number, (facts, all), subject)?;
    let circumstance = saying.circumstance(facts, &mentions);
    let celled = facts.facts.iter().any(|f| f.value.unit == number.unit);
    let apart = if relative(number) {
        !celled || saying.has(COMPARING)
    } else {
        saying.has(DIFFERENCE)
    };
    let (mut yields, column) = if apart && !whole {
        (changes(saying, number, facts, &mentions), Vec::new())
    } else {
        cells(saying, number, facts, &mentions)
    };
    let size = Quantity {
        value: number.value.abs(),
        ..number.clone()
    };
    let fits = |candidate: &Yield<'_>| size.rounds(candidate.value.abs(), candidate.value.abs());
    if yields.iter().any(fits) {
        return None;
    }
    ends(saying, number, &mut yields);
    let slip_to = |candidate: &Yield<'_>| Slip {
        start: number.start,
        message: format!("the table gives {} here", shown(candidate.value)),
        evidence: evidence(&candidate.cells),
    };
    let n = yields.len();
    let near = |candidate: &&Yield<'_>| {
        !number.rough || (candidate.value - number.value).abs() > 0.15 * candidate.value.abs()
    };
    let near = |candidate: &&Yield<'_>| {
        near(candidate)
            && match mistaken(&digits, &printed(candidate.value, number)) {
                _ if digits.is_empty() => {
                    n == 1 && !circumstance && coarse(number, candidate.value)
                }
                Some(true) => n <= 6 && (!circumstance || digits.len() >= 4),
                Some(false) => match digits.len() {
                    2 => n <= 2 && !circumstance,
                    3 => n <= 4 && !circumstance,
                    _ => n <= 6,
                },
                None => false,
            }
    };
    if let Some(candidate) = yields.iter().find(near) {
        return Some(slip_to(candidate));
    }
    let swapped = |fact: &&&Fact| {
        digits.len() >= if circumstance { 4 } else { 3 }
            && mistaken(
                &digits,
                &printed(fact.value.value * scale(number, fact), number),
            ) == Some(true)
    };
    if let Some(fact) = column.iter().find(swapped).filter(|_| !whole) {
        return Some(slip_to(&Yield {
            value: fact.value.value * scale(number, fact),
            cells: vec![*fact],
        }));
    }
    let sure = !number.rough && !digits.is_empty() && !circumstance;
    let [own] = yields.as_slice() else {
        return None;
    };
    (sure && neighbour(saying, number, facts, &mentions, own, &column)).then(|| slip_to(own))
}

/// Leaves the largest of several changes for `up to`, and the smallest and the largest for the ends of a range.
fn ends(saying: &Saying<'_>, number: &Quantity, yields: &mut Vec<Yield<'_>>) {
    let before = saying
        .text
        .get(..number.start - saying.offset)
        .unwrap_or("")
        .trim_end();
    let after = saying
        .text
        .get(number.end - saying.offset..)
        .unwrap_or("")
        .trim_start();
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
    let compares = saying.has(COMPARING)
        || saying.words.iter().any(|w| {
            matches!(
                sense(&w.text),
                Some(Sense::Relation(_) | Sense::Than | Sense::Many(Many::Both))
            )
        });
    if compares || column.len() < 2 {
        return false;
    }
    let (start, end) = saying.clause(number);
    let spoken = mentions
        .iter()
        .any(|m| Some(m.axis) == facts.across && (start..end).contains(&m.start));
    let beside = |fact: &&Fact| {
        let cell = own.cells[0];
        let row = (0..facts.axes.len())
            .all(|axis| Some(axis) == facts.across || fact.at[axis] == cell.at[axis]);
        spoken && row && comparable(number, &fact.value)
    };
    // A label that is a common word may be meant all the same.
    let unnamed = |fact: &&Fact| {
        let labels = fact
            .at
            .iter()
            .enumerate()
            .filter(|(axis, at)| *at != &own.cells[0].at[*axis]);
        let mut words = labels
            .filter_map(|(axis, at)| Some(&facts.axes[axis].values[(*at)?].words))
            .flatten();
        !words.any(|word| (0..saying.words.len()).any(|at| saying.word(at) == word))
    };
    column
        .iter()
        .copied()
        .filter(unnamed)
        .chain(facts.facts.iter().filter(beside))
        .any(|fact| same(number, fact) && fact.value.value != own.value / scale(number, fact))
}
