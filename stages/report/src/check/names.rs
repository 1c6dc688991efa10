//! Names that contain numerals but are not numbers: `p95`, and the names within the study.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Scalar;

use super::has_numeral;
use crate::data::Data;
use crate::settings::Literal;
use crate::statement::checked;

/// Returns the declared literals, and every name in the text that needs no declaration: quantiles, and the stages,
/// axes, axis labels and outputs of the study. Each is a literal with a reason, so the trace lists it like any other.
pub(crate) fn with_names(declared: &[Literal], data: &Data, markdown: &str) -> Vec<Literal> {
    let mut literals = declared.to_vec();
    let literal = |text: &str, reason: &str| Literal {
        text: text.to_owned(),
        reason: reason.to_owned(),
    };
    literals.extend(quantiles(markdown).map(|name| literal(name, "the name of a quantile")));
    let names = of_study(data);
    literals.extend(
        names
            .iter()
            .filter(|(name, _)| is_marked(name))
            .map(|(name, reason)| literal(name, reason)),
    );
    literals
}

/// Returns the names of the study that the checks would refuse in a text written by hand, with what each names: `two`,
/// `half-load`, `7b`, `best`. In a text they are numbers or claims like any other, so they are names only where the
/// template prints them from the study.
pub(crate) fn like_words(data: &Data) -> BTreeMap<String, &'static str> {
    let mut names = of_study(data);
    names.retain(|name, _| {
        let number = name.parse::<f64>().is_ok();
        !number && !is_marked(name) && (has_numeral(name) || !checked(name).is_empty())
    });
    names
}

/// Returns the names of the study's stages, axes, labels and outputs, with what each names.
fn of_study(data: &Data) -> BTreeMap<String, &'static str> {
    let mut names = BTreeMap::new();
    let mut add = |name: &str, what: &'static str| {
        names.entry(name.to_owned()).or_insert(what);
    };
    let stages = data.stages().iter();
    stages.for_each(|s| add(&s.stage, "the name of a stage"));
    if let Ok(study) = data.study() {
        let lines = study.ledger.iter();
        lines.for_each(|line| add(&line.stage, "the name of a stage"));
    }
    let cells = || data.stages().iter().flat_map(|s| &s.cells);
    for (axis, label) in cells().flat_map(|c| &c.coordinates.0) {
        add(axis, "the name of an axis");
        if let Scalar::Text(label) = label {
            add(label, "a label of an axis");
        }
    }
    let outputs: BTreeSet<&String> = cells().flat_map(|c| c.outputs.keys()).collect();
    outputs
        .into_iter()
        .for_each(|output| add(output, "the name of an output"));
    names
}

/// Whether a name is recognizable as one in any text: it begins with a letter and contains a digit.
fn is_marked(name: &str) -> bool {
    let begins = name.chars().next().is_some_and(char::is_alphabetic);
    begins && name.chars().any(char::is_numeric)
}

/// The names of quantiles in a text, without duplicates: `p` and at most two digits, with or without decimals.
fn quantiles(markdown: &str) -> impl Iterator<Item = &str> {
    let words = markdown.split(|c: char| !(c.is_alphanumeric() || c == '.'));
    let names: BTreeSet<&str> = words
        .map(|w| w.trim_end_matches('.'))
        .filter(|w| is_quantile(w))
        .collect();
    names.into_iter()
}

/// Whether a word is the name of a quantile, such as `p95`.
pub(crate) fn is_quantile(word: &str) -> bool {
    let Some(percent) = word.strip_prefix(['p', 'P']) else {
        return false;
    };
    let (whole, decimals) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    whole.len() <= 2 && digits(whole) && digits(decimals)
}
