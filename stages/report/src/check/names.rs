//! Names that contain digits but are not numbers: `p95`, and the names within the study.

use std::collections::BTreeSet;

use artifacts::Scalar;

use crate::data::Data;
use crate::settings::Literal;

/// Returns the declared literals, and every name in the text that needs no declaration: quantiles, and the stages,
/// axes, axis labels and outputs of the study. Each is a literal with a reason, so the trace lists it like any other.
pub(crate) fn with_names(declared: &[Literal], data: &Data, markdown: &str) -> Vec<Literal> {
    let mut literals = declared.to_vec();
    let literal = |text: &str, reason: &str| Literal {
        text: text.to_owned(),
        reason: reason.to_owned(),
    };
    literals.extend(quantiles(markdown).map(|name| literal(name, "the name of a quantile")));
    for input in data.stages() {
        literals.extend(named(&input.stage).map(|n| literal(n, "the name of a stage")));
    }
    let cells = || data.stages().iter().flat_map(|s| &s.cells);
    let axes: BTreeSet<&str> = cells()
        .flat_map(|c| c.coordinates.0.iter().map(|(axis, _)| axis.as_str()))
        .collect();
    let labels: BTreeSet<&str> = cells()
        .flat_map(|c| c.coordinates.0.iter())
        .filter_map(|(_, label)| match label {
            Scalar::Text(label) => Some(label.as_str()),
            _ => None,
        })
        .collect();
    let outputs: BTreeSet<&str> = cells()
        .flat_map(|c| c.outputs.keys())
        .map(String::as_str)
        .collect();
    literals.extend(
        axes.into_iter()
            .filter_map(|n| named(n))
            .map(|n| literal(n, "the name of an axis")),
    );
    literals.extend(
        labels
            .into_iter()
            .filter_map(|n| named(n))
            .map(|n| literal(n, "a label of an axis")),
    );
    literals.extend(
        outputs
            .into_iter()
            .filter_map(|n| named(n))
            .map(|n| literal(n, "the name of an output")),
    );
    literals
}

/// A name that the check would take for a number: it begins with a letter and contains a digit.
fn named(name: &str) -> Option<&str> {
    let begins = name.chars().next().is_some_and(char::is_alphabetic);
    (begins && name.chars().any(char::is_numeric)).then_some(name)
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

fn is_quantile(word: &str) -> bool {
    let Some(percent) = word.strip_prefix(['p', 'P']) else {
        return false;
    };
    let (whole, decimals) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    whole.len() <= 2 && digits(whole) && digits(decimals)
}
