//! Findings of a pooled comparison whose direction is shown to change with the level.
//!
//! Such a finding holds on average, and the opposite holds at some level. A sentence about it needs a restriction: it
//! says that it is about the average, or its rule names the column `direction_changes`. Without one, the finding reads
//! as null.

use artifacts::Scalar;
use contract::{Verdict, Word as _};

use super::predicate::Predicate;
use super::rule::Rule;
use crate::check::letter_runs;
use crate::data::Miss;
use crate::view::View;

/// The column of a comparison that says whether the direction changes.
const CHANGES: &str = "direction_changes";

/// The columns with findings about the mean over the levels.
const FINDINGS: [&str; 10] = [
    "verdict",
    "higher",
    "effect",
    "adjusted_low",
    "adjusted_high",
    "ci_low",
    "ci_high",
    "equivalent",
    "not_lower",
    "not_higher",
];

/// Phrases by which a sentence says that it is about a mean over the levels, or not about each of them.
const RESTRICTIONS: [&[&str]; 13] = [
    &["on", "average"],
    &["on", "an", "average"],
    &["averaged", "over"],
    &["averaged", "across"],
    &["average", "over"],
    &["average", "across"],
    &["mean", "over"],
    &["mean", "across"],
    &["pooled", "over"],
    &["pooled", "across"],
    &["not", "at", "each"],
    &["not", "at", "every"],
    &["not", "everywhere"],
];

/// Whether a sentence says that it is about the average over the levels, or not about each of them.
pub(crate) fn restricted(text: &str) -> bool {
    let words: Vec<String> = letter_runs(text)
        .into_iter()
        .map(|run| text[run].to_lowercase())
        .collect();
    let says = |phrase: &&[&str]| {
        words
            .windows(phrase.len())
            .any(|w| w.iter().eq(phrase.iter()))
    };
    RESTRICTIONS.iter().any(says)
}

/// Whether a rule itself names the column, and so restricts what it says.
pub(super) fn named(rule: &Rule) -> Result<bool, Miss> {
    let selected = rule.condition().0.iter().any(|(name, _)| name == CHANGES);
    let Some(that) = rule.predicate() else {
        return Ok(selected);
    };
    Ok(selected || Predicate::parse(that)?.columns().contains(&CHANGES))
}

/// Whether a value of a row is a finding that the levels of the row contradict.
pub(super) fn contradicts(view: &View, index: usize, column: &str, value: &Scalar) -> bool {
    if !FINDINGS.contains(&column) || !changes(view, index) {
        return false;
    }
    let word = match (column, value) {
        ("verdict", Scalar::Text(word)) => Verdict::parse(word).ok(),
        _ => None,
    };
    match (column, word) {
        ("verdict", Some(Verdict::Undecidable)) => false,
        ("verdict", Some(Verdict::Equivalent)) => beyond(view, index, [true, true]),
        // That the mean is not within the margin stays so.
        ("equivalent" | "not_lower" | "not_higher", _) if *value != Scalar::Bool(true) => false,
        ("equivalent", _) => beyond(view, index, [true, true]),
        ("not_lower", _) => beyond(view, index, [true, false]),
        ("not_higher", _) => beyond(view, index, [false, true]),
        _ => true,
    }
}

/// Whether the direction of a row is shown to change with the level.
fn changes(view: &View, index: usize) -> bool {
    let value = view.table.at(view.rows[index], CHANGES);
    matches!(value, Ok(Scalar::Bool(true)))
}

/// Whether the smallest or the largest effect at one level lies beyond its end of the margin.
fn beyond(view: &View, index: usize, [lower, higher]: [bool; 2]) -> bool {
    let at = |column: &str| view.table.at(view.rows[index], column).ok();
    let number = |column: &str| at(column).and_then(|value| value.as_f64());
    let Some(margin) = number("margin") else {
        return true;
    };
    let (low, high) = match at("scale").is_some_and(|scale| scale.to_string() == "difference") {
        true => (-margin, margin),
        false => (1.0 / (1.0 + margin), 1.0 + margin),
    };
    let below = number("smallest_effect").is_none_or(|effect| effect < low);
    let above = number("largest_effect").is_none_or(|effect| effect > high);
    lower && below || higher && above
}

/// Explains why a sentence about rows is open, if their levels are the reason.
pub(super) fn words(view: &View) -> Option<String> {
    let withdrawn: Vec<usize> = (0..view.rows.len())
        .filter(|row| {
            FINDINGS.iter().any(|column| {
                let exists = view.table.has_column(column);
                let value = exists.then(|| view.table.at(view.rows[*row], column).ok());
                value
                    .flatten()
                    .is_some_and(|value| contradicts(view, *row, column, &value))
            })
        })
        .collect();
    let first = *withdrawn.first()?;
    let text = |column: &str| match view.table.at(view.rows[first], column) {
        Ok(Scalar::Null) | Err(_) => None,
        Ok(value) => Some(value.to_string()),
    };
    let effects = ["smallest", "largest"].map(|end| {
        let effect = view
            .table
            .at(view.rows[first], &format!("{end}_effect"))
            .ok()
            .and_then(|value| value.as_f64());
        Some((effect?, text(&format!("{end}_effect_at"))?))
    });
    let where_ = match effects {
        [Some((low, low_at)), Some((high, high_at))] => format!(
            ": from {} at {low_at} to {} at {high_at}",
            super::verdicts::short(low),
            super::verdicts::short(high)
        ),
        _ => String::new(),
    };
    let more = match withdrawn.len() {
        1 => String::new(),
        n => format!(" (and of {} more rows)", n - 1),
    };
    Some(format!(
        "the direction of {}{more} changes with the level{where_}, so what holds on average does not hold at each level; write \
         `on average` in the sentence, or use a comparison with `by`",
        view.row_name(first)
    ))
}

#[cfg(test)]
mod tests {
    use super::restricted;

    #[test]
    fn a_sentence_names_the_average_or_that_not_each_level_is_meant() {
        for text in [
            "On average, a is faster than b.",
            "a is faster, averaged over the numbers of clients.",
            "a is faster, but *not at every* level.",
        ] {
            assert!(restricted(text), "{text}");
        }
        for text in [
            "a is faster than b.",
            "a has a lower average wait.",
            "a has the lower mean.",
            "a is faster at each level.",
        ] {
            assert!(!restricted(text), "{text}");
        }
    }
}
