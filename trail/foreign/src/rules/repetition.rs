//! R-QUANT: one sentence twice, with quantifiers that exclude each other.
//!
//! Abstract, claims and conclusion repeat a sentence word for word. Where only the quantifier differs (`on every
//! workload` here, `on no workload` there), one of them is wrong; which one, and whether both mean the same rows, is
//! for the reader to say.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::rules::Rule;
use crate::rules::scope::{Scope, clip, in_prose};
use crate::text::Prose;

/// Shorter sentences repeat by chance.
const LEAST_WORDS: usize = 8;

static QUANTIFIER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:(?P<all>every|each|all(?: of)?(?: the)?|both)|(?P<none>none(?: of)?(?: the)?|no|never)|(?P<exact>exactly)|(?P<other>more than|fewer than|less than))\b").expect("a regex")
});

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    All,
    None,
    Exactly,
    /// More or fewer than the number behind it.
    Other,
}

impl Kind {
    fn excludes(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::All, Self::None)
                | (Self::None, Self::All)
                | (Self::Exactly, Self::Other)
                | (Self::Other, Self::Exactly)
        )
    }
}

/// A sentence, or the part of one behind a colon.
struct Statement<'a> {
    prose: &'a Prose,
    start: usize,
    end: usize,
    kinds: Vec<Kind>,
}

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    // The words with the quantifiers left out, and who says them.
    let mut said: BTreeMap<String, Vec<Statement<'_>>> = BTreeMap::new();
    for prose in &scope.report.prose {
        for &(start, end) in &prose.sentences {
            let mut from = start;
            for part in prose.text[start..end].split_inclusive(": ") {
                let (frame, statement) = read(prose, (from, from + part.len()));
                from += part.len();
                if !statement.kinds.is_empty() && frame.split(' ').count() > LEAST_WORDS {
                    said.entry(frame).or_default().push(statement);
                }
            }
        }
    }
    for statements in said.values() {
        for (at, later) in statements.iter().enumerate() {
            let excluded = statements[..at].iter().find(|earlier| {
                earlier
                    .kinds
                    .iter()
                    .zip(&later.kinds)
                    .any(|(earlier, later)| earlier.excludes(*later))
            });
            let Some(earlier) = excluded else { continue };
            let line = earlier.prose.place(earlier.start).0;
            let message = format!("line {line} says the same with another quantifier; confirm");
            let text = clip(&earlier.prose.text[earlier.start..earlier.end]);
            let evidence = vec![Evidence::new(format!("line {line}"), text)];
            let span = (later.start, later.end);
            found.push(in_prose(
                later.prose,
                span,
                (Rule::Quant, Confidence::Low),
                message,
                evidence,
            ));
        }
    }
}

/// The words of a part, each quantifier replaced by a mark, with the quantifiers in their order.
fn read(prose: &Prose, (start, end): (usize, usize)) -> (String, Statement<'_>) {
    let text = &prose.text[start..end];
    let kinds = QUANTIFIER
        .captures_iter(text)
        .map(|captures| {
            match (
                captures.name("all"),
                captures.name("none"),
                captures.name("exact"),
            ) {
                (Some(_), ..) => Kind::All,
                (_, Some(_), _) => Kind::None,
                (.., Some(_)) => Kind::Exactly,
                _ => Kind::Other,
            }
        })
        .collect();
    let marked = QUANTIFIER.replace_all(text, "§").to_lowercase();
    let words: Vec<&str> = marked
        .split(|c: char| !(c.is_alphanumeric() || c == '§' || c == '.'))
        .map(|w| w.trim_matches('.'))
        .collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    (
        words.join(" "),
        Statement {
            prose,
            start,
            end,
            kinds,
        },
    )
}
