//! R-QUANT, R-COUNT: quantified statements over the rows of one table.
//!
//! "All 10 curves fall at each step", "no request failed", "the delta is positive on at least 4 of 5 workloads":
//! the noun names the rows (by the header of a key, or by their number), the rest of the clause a condition on one
//! column. Every word of the clause must be accounted for by the table; otherwise the rule is silent.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::finding::{Confidence, Finding};
use crate::number::{Quantity, quantities};
use crate::rules::Rule;
use crate::rules::conditions::{Cells, Condition, conditions};
use crate::rules::keys::{key, keys, rows_named};
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::{number_word, words};
use crate::table::Table;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        for &sentence in &prose.sentences {
            // `curves` with the verb behind it, or an adjective with its noun.
            let claims = NOUNS
                .iter()
                .filter_map(|nouns| Claim::read(prose, sentence, nouns));
            for claim in claims {
                let heading = prose
                    .section
                    .checked_sub(1)
                    .and_then(|at| scope.report.headings.get(at));
                let heading = heading.map_or("", |heading| heading.text.as_str());
                let own = scope
                    .report
                    .tables_near(prose.section)
                    .filter(|t| t.section == prose.section);
                found.extend(claim.judge(own, heading));
            }
        }
    }
}

/// How many rows a statement wants.
#[derive(Clone, Copy)]
enum Wanted {
    All,
    None,
    Most,
    Exactly(usize),
    AtLeast(usize),
    AtMost(usize),
}

impl Wanted {
    /// Whether some count from `sure` to `possible` of `all` rows keeps the statement.
    fn kept(self, sure: usize, possible: usize, all: usize) -> bool {
        match self {
            Self::All => possible == all,
            Self::None => sure == 0,
            Self::Most => possible * 2 > all,
            Self::Exactly(n) => (sure..=possible).contains(&n),
            Self::AtLeast(n) => possible >= n,
            Self::AtMost(n) => sure <= n,
        }
    }
}

const COUNT: &str = r"[0-9]{1,4}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve";

/// How a sentence quantifies, for nouns of one word or two.
struct Patterns {
    universal: Regex,
    partial: Regex,
}

static NOUNS: LazyLock<[Patterns; 2]> =
    LazyLock::new(|| [r"[a-z][a-z\-]*", r"[a-z][a-z\-]* [a-z][a-z\-]*"].map(Patterns::new));

impl Patterns {
    fn new(noun: &str) -> Self {
        let universal = format!(
            r"(?i)\b(?P<q>all|every|each|none|no|most)\b(?: of)?(?: the| these| its)?(?: (?P<m>{COUNT}))? (?P<noun>{noun})\b"
        );
        let partial = format!(
            r"(?i)\b(?:(?P<q>exactly|only|at least|at most|more than|fewer than|less than) )?(?P<n>{COUNT}) (?:of|out of) (?:the |these |its |all )?(?P<m>{COUNT}) (?P<noun>{noun})\b"
        );
        Self {
            universal: Regex::new(&universal).expect("a regex"),
            partial: Regex::new(&partial).expect("a regex"),
        }
    }
}

/// Words that narrow, negate or compare in ways that no column shows.
static UNBOUND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:except|other than|apart from|excluding|besides|but|almost|nearly|save for|unless|if|would|should|must|can|could|may|might|will|target|goal|not|without|neither|nor|never|nowhere|when|where|while|after|before|until|beyond|once|who|that|which|whose|between|versus|vs)\b|n't\b|\?").expect("a regex")
});

/// A quantified statement: who, how many, and the words of its condition.
struct Claim<'a> {
    prose: &'a Prose,
    sentence: (usize, usize),
    /// The quantifier with its noun.
    span: (usize, usize),
    wanted: Wanted,
    /// Whether only `n of m` was said, without a word that bounds it.
    plain: bool,
    whole: Option<usize>,
    noun: String,
    /// The clause without quantifier and noun.
    rest: String,
}

fn count(captures: &Captures<'_>, name: &str) -> Option<usize> {
    let text = captures.name(name)?.as_str();
    let words = || {
        (1..=12)
            .find(|n| number_word(text) == Some(f64::from(*n)))
            .and_then(|n| n.try_into().ok())
    };
    text.parse().ok().or_else(words)
}

impl<'a> Claim<'a> {
    /// The one quantified statement of a sentence, if it has one and no word that leaves the table.
    fn read(prose: &'a Prose, (start, end): (usize, usize), nouns: &Patterns) -> Option<Self> {
        let sentence = &prose.text[start..end];
        if UNBOUND.is_match(sentence) || sentence.contains("![") {
            return None;
        }
        let partial: Vec<_> = nouns.partial.captures_iter(sentence).collect();
        let universal: Vec<_> = nouns.universal.captures_iter(sentence).collect();
        let (captures, wanted, plain) = match (partial.as_slice(), universal.as_slice()) {
            ([one], []) => {
                let n = count(one, "n")?;
                let q = one
                    .name("q")
                    .map_or(String::new(), |q| q.as_str().to_lowercase());
                let wanted = match q.as_str() {
                    "at least" => Wanted::AtLeast(n),
                    "more than" => Wanted::AtLeast(n + 1),
                    "at most" => Wanted::AtMost(n),
                    "fewer than" | "less than" => Wanted::AtMost(n.checked_sub(1)?),
                    _ => Wanted::Exactly(n),
                };
                (one, wanted, matches!(wanted, Wanted::Exactly(_)))
            }
            ([], [first, ..]) => {
                let wanted = match first.name("q")?.as_str().to_lowercase().as_str() {
                    "none" | "no" => Wanted::None,
                    "most" => Wanted::Most,
                    _ => Wanted::All,
                };
                (first, wanted, false)
            }
            _ => return None,
        };
        let quantifier = captures.get(0)?;
        let before = &sentence[..quantifier.start()];
        let after = &sentence[quantifier.end()..];
        let delimiter = |c: char| matches!(c, ',' | ';' | ':' | '(' | ')' | '—' | '–');
        let from = before.rfind(delimiter).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        // The stop of a decimal ends nothing; that of the sentence is its end.
        let to = after.find(delimiter).unwrap_or(after.len());
        let rest = format!("{} {}", &before[from..], &after[..to]);
        // "Most" as a superlative (`the most requests`), and a second quantifier in the clause.
        let doubled = rest
            .split(' ')
            .any(|w| ["every", "all", "no", "none", "both"].contains(&w));
        if doubled || before.ends_with("the ") && matches!(wanted, Wanted::Most) {
            return None;
        }
        Some(Self {
            prose,
            sentence: (start, end),
            span: (start + quantifier.start(), start + quantifier.end()),
            wanted,
            plain,
            whole: count(captures, "m"),
            noun: captures.name("noun")?.as_str().to_owned(),
            rest,
        })
    }

    /// Holds the statement against the tables that it can speak of; speaks if they agree that it is wrong.
    fn judge<'t>(&self, tables: impl Iterator<Item = &'t Table>, heading: &str) -> Option<Finding> {
        let mut wrong = None;
        for table in tables {
            let Some((rows, nouns)) = self.rows(table, heading) else {
                continue;
            };
            let named: BTreeSet<String> = nouns.union(&self.known(table, &rows)).cloned().collect();
            for condition in conditions(table, &self.rest, &self.noun) {
                let universal = matches!(self.wanted, Wanted::All | Wanted::None);
                if condition.cells == Cells::Counts && !universal
                    || !self.accounted(&condition, &named)
                {
                    continue;
                }
                // "3 of 4 workloads are significant" is counted with the verdicts.
                if self.plain && condition.cells == Cells::Verdicts {
                    return None;
                }
                let judged: Vec<(usize, Option<bool>)> = rows
                    .iter()
                    .filter_map(|&row| Some((row, condition.holds(table, row)?)))
                    .collect();
                if judged.len() != rows.len() {
                    continue;
                }
                let sure = judged.iter().filter(|(_, met)| *met == Some(true)).count();
                let possible = judged.iter().filter(|(_, met)| *met != Some(false)).count();
                if self.wanted.kept(sure, possible, rows.len()) {
                    return None;
                }
                wrong = wrong.or(Some((table, condition, rows.clone(), sure)));
            }
        }
        let (table, condition, rows, met) = wrong?;
        let rule = if self.plain { Rule::Count } else { Rule::Quant };
        let message = format!("{met} of {} rows do: {}", rows.len(), condition.name(table));
        let evidence = rows
            .iter()
            .take(12)
            .map(|&row| table.evidence(row, condition.column))
            .collect();
        Some(in_prose(
            self.prose,
            self.span,
            (rule, Confidence::Medium),
            message,
            evidence,
        ))
    }

    /// The rows that the noun means, narrowed by the labels of the sentence, and the words that bound them.
    fn rows(&self, table: &Table, heading: &str) -> Option<(Vec<usize>, BTreeSet<String>)> {
        if table.rows.len() < 2 {
            return None;
        }
        let keys = keys(table)?;
        let rows = rows_named(table, &keys, self.prose, self.sentence, heading)
            .map_or_else(|| (0..table.rows.len()).collect(), |named| named.rows);
        let nouns = words(&self.noun);
        let last = words(self.noun.rsplit(' ').next().unwrap_or(""));
        let key_of_noun = keys
            .iter()
            .copied()
            .find(|&c| last.is_subset(&words(&table.columns[c])));
        if let Some(column) = key_of_noun.filter(|_| !last.is_empty()) {
            let mut labels: Vec<Vec<String>> =
                rows.iter().map(|&row| key(table, row, &[column])).collect();
            labels.sort();
            labels.dedup();
            let single = labels.len() == rows.len();
            let counted = matches!(self.wanted, Wanted::All | Wanted::None) || single;
            let whole = self.whole.is_none_or(|whole| whole == labels.len());
            return (counted && whole).then_some((rows, last));
        }
        // Rows of another name by their number, unless the name is of what rows have many of.
        let many = nouns.iter().any(|word| INSIDE.contains(&word.as_str()))
            || table.numeric_columns().iter().any(|&column| {
                let counts = table
                    .numbers(column)
                    .iter()
                    .all(|(_, value)| value.is_count());
                counts && words(&table.columns[column]).is_subset(&nouns)
            });
        let by_number = self
            .whole
            .is_some_and(|whole| whole == rows.len() && whole >= 3)
            && !many;
        // "No efficiency lies below": the noun is a column of values.
        let by_column = self.whole.is_none()
            && table
                .numeric_columns()
                .iter()
                .filter(|c| last.is_subset(&words(&table.columns[**c])))
                .count()
                == 1
            && !last.is_empty();
        (by_number || by_column).then_some((rows, nouns))
    }

    /// Words that the table accounts for: headers of its keys and the labels of the rows meant.
    fn known(&self, table: &Table, rows: &[usize]) -> BTreeSet<String> {
        let keys = keys(table).unwrap_or_default();
        let headers = keys
            .iter()
            .flat_map(|&column| words(&table.columns[column]));
        let labels = rows
            .iter()
            .flat_map(|&row| key(table, row, &keys))
            .flat_map(|label| words(&label));
        headers.chain(labels).collect()
    }

    /// Whether the condition, the labels and plain verbs are all that the clause says.
    fn accounted(&self, condition: &Condition, named: &BTreeSet<String>) -> bool {
        let numbers: Vec<Quantity> = quantities(&self.rest);
        let bound = condition.bound.as_ref().map(|bound| bound.value);
        let stray = |number: &&Quantity| {
            Some(number.value) != bound
                && words(&self.rest[number.start..number.end])
                    .iter()
                    .any(|word| !named.contains(word) && !condition.words.contains(word))
        };
        if numbers.iter().any(|number| stray(&number)) {
            return false;
        }
        words(&self.rest)
            .iter()
            .filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()))
            .all(|word| {
                condition.words.contains(word)
                    || named.contains(word)
                    || PLAIN.contains(&word.as_str())
            })
    }
}

/// What is measured within a row: a number of them that is that of the rows is chance.
const INSIDE: &[&str] = &[
    "request",
    "token",
    "prompt",
    "user",
    "client",
    "session",
    "repetition",
    "repeat",
    "trial",
    "sample",
    "gpu",
    "server",
    "second",
    "minute",
    "time",
    "step",
    "message",
];

/// Words that add nothing to a condition; `words` has dropped articles and prepositions.
const PLAIN: &[&str] = &[
    "are",
    "was",
    "were",
    "be",
    "been",
    "has",
    "have",
    "had",
    "stay",
    "stays",
    "remain",
    "lie",
    "lies",
    "show",
    "keep",
    "observation",
    "here",
    "their",
    "its",
    "it",
    "there",
    "value",
    "them",
    "this",
    "do",
    "does",
    "did",
    "as",
    "one",
    "ones",
    "own",
    "also",
    "across",
    "over",
    "we",
    "see",
    "find",
    "get",
    "come",
    "out",
    "reach",
    "reaches",
];
