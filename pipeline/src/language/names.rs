//! The rule for names that users choose: experiments, parameters, axes, stages.

use super::diagnostics::{Mistake, Span};
use crate::stage::Step;

/// Adds a mistake unless a name starts with a letter and continues with letters, digits, `-`, `_`.
pub(crate) fn check_name(
    name: &str,
    what: &str,
    span: Span,
    route: &[Step],
    out: &mut Vec<Mistake>,
) {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let rest = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let shown = name.escape_debug();
    if !starts || !rest || name.len() > 64 {
        let article = if what.starts_with(['a', 'e']) {
            "an"
        } else {
            "a"
        };
        let message = format!("`{shown}` cannot be the name of {article} {what}");
        let hint = "a name starts with a letter, contains only letters, digits, `-` and `_`, and \
            has at most 64 characters";
        out.push(Mistake::new(span, route, message).hint(hint));
    } else if what == "axis" && name == "stage" {
        let hint = "rename the axis: `where: {stage: …}` names a stage";
        out.push(Mistake::new(span, route, "`stage` cannot be the name of an axis").hint(hint));
    }
}
