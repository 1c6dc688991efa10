//! The rule for names that users choose: experiments, parameters, axes, stages.

use super::diagnostics::{Mistake, Span};
use crate::stage::Step;

/// The rule of [`is_name`] in words.
const RULE: &str = "a name starts with a letter, contains only letters, digits, `-` and `_`, and has at most 64 \
    characters";

/// Returns whether a text can be the name of an experiment, a profile, a parameter, an axis or a stage. Such names are
/// also parts of file names.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(plain)
        && name.len() <= 64
}

/// Returns what to write instead of a text that [`is_name`] refuses.
pub fn name_remedy(name: &str) -> String {
    match valid_name(name) {
        Some(valid) => format!("write `{valid}`: {RULE}"),
        None => RULE.to_owned(),
    }
}

/// Adds a mistake unless [`is_name`] holds.
pub(crate) fn check_name(
    name: &str,
    what: &str,
    span: Span,
    route: &[Step],
    out: &mut Vec<Mistake>,
) {
    let shown = name.escape_debug();
    if !is_name(name) {
        let article = if what.starts_with(['a', 'e']) {
            "an"
        } else {
            "a"
        };
        let message = format!("`{shown}` cannot be the name of {article} {what}");
        out.push(Mistake::new(span, route, message).hint(name_remedy(name)));
    } else if what == "axis" && name == "stage" {
        let hint = "rename the axis: `where: {stage: …}` names a stage";
        out.push(Mistake::new(span, route, "`stage` cannot be the name of an axis").hint(hint));
    }
}

/// Returns the nearest valid name: other characters become `-`.
fn valid_name(name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = name.split(|c: char| !plain(c)).filter(|w| !w.is_empty());
    let joined = words.collect::<Vec<_>>().join("-");
    let valid = joined.starts_with(|c: char| c.is_ascii_alphabetic());
    // If only a few characters remain, the text was not meant as a name.
    let kept = joined.chars().count() * 2 > name.chars().count();
    (valid && kept && joined.len() <= 64).then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::valid_name;

    #[test]
    fn a_name_with_other_characters_gets_the_nearest_valid_one() {
        for (name, nearest) in [
            ("my study", Some("my-study")),
            ("ttft@p99", Some("ttft-p99")),
            ("llama3.1/8b", Some("llama3-1-8b")),
            ("../x", None),
            ("1st", None),
            ("\u{e4}\u{f6}", None),
        ] {
            assert_eq!(valid_name(name).as_deref(), nearest, "{name}");
        }
    }
}
