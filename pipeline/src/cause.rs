//! Why a cell has no outputs: one text with one grammar, used in records, locks, ledgers and tables.
//!
//! ```text
//! cause  = {step} [nature] text
//! step   = "`CELL` is STATUS: " | "no cell of `STAGE` is ok: "
//! nature = "blocked: " | "not needed: " | "not reached: "
//! ```
//!
//! Reading any text and writing it again gives the same text.

use std::fmt;

use crate::stage::CellStatus;

/// The effect of a cause on cells that would have read the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    /// The machine lacks a tool or a permission. Stages that see the whole study run without the cell.
    Blocked,
    /// The study already had enough measurements, so the cell is not missing.
    NotNeeded,
    /// The run ended before the cell, so the study is not complete.
    NotReached,
}

impl Nature {
    const ALL: [Self; 3] = [Self::Blocked, Self::NotNeeded, Self::NotReached];

    fn prefix(self) -> &'static str {
        match self {
            Self::Blocked => "blocked: ",
            Self::NotNeeded => "not needed: ",
            Self::NotReached => "not reached: ",
        }
    }
}

/// Marks a user's text that would otherwise parse as one of our causes.
const DECLARED: &str = "declared: ";

/// The reason why a cell has no outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The cells that passed the cause on, as written; the nearest one first.
    steps: Vec<String>,
    nature: Option<Nature>,
    text: String,
}

impl Cause {
    /// A tool or a permission is missing on this machine.
    pub fn blocked(text: impl Into<String>) -> Self {
        Self {
            steps: Vec::new(),
            nature: Some(Nature::Blocked),
            text: text.into(),
        }
    }

    /// The study had enough measurements without the cell.
    pub(crate) fn not_needed(text: impl Into<String>) -> Self {
        Self {
            nature: Some(Nature::NotNeeded),
            ..Self::blocked(text)
        }
    }

    /// The run ended before the cell.
    pub(crate) fn not_reached(text: impl Into<String>) -> Self {
        Self {
            nature: Some(Nature::NotReached),
            ..Self::blocked(text)
        }
    }

    /// The experiment declares why it leaves the cell out. Whatever the user writes, it is not read as another cause.
    pub(crate) fn declared(text: &str) -> Self {
        let read = Self::read(text);
        if read.steps.is_empty() && read.nature.is_none() {
            return read;
        }
        Self {
            steps: Vec::new(),
            nature: None,
            text: format!("{DECLARED}{text}"),
        }
    }

    /// Reads the text of a cause; every text is valid.
    pub fn read(text: &str) -> Self {
        let mut steps = Vec::new();
        let mut rest = text;
        while let Some(length) = step(rest) {
            let (step, after) = rest.split_at(length);
            steps.push(step.to_owned());
            rest = after;
        }
        let nature = Nature::ALL
            .into_iter()
            .find(|nature| rest.starts_with(nature.prefix()));
        let text = nature.map_or(rest, |nature| &rest[nature.prefix().len()..]);
        Self {
            steps,
            nature,
            text: text.to_owned(),
        }
    }

    /// Passes the cause on from a cell to a cell that needs it.
    pub(crate) fn through_cell(mut self, cell: &str, status: CellStatus) -> Self {
        self.steps
            .insert(0, format!("`{cell}` is {}: ", status.word()));
        self
    }

    /// Passes the cause on from a stage without any ok cell.
    pub(crate) fn through_stage(mut self, stage: &str) -> Self {
        self.steps
            .insert(0, format!("no cell of `{stage}` is ok: "));
        self
    }

    /// Returns whether the machine lacks a tool or a permission, for this cell or for one that it needs.
    pub(crate) fn is_blocked(&self) -> bool {
        self.nature == Some(Nature::Blocked)
    }

    /// Returns whether the run ended before this cell, or before one that it needs.
    pub(crate) fn is_not_reached(&self) -> bool {
        self.nature == Some(Nature::NotReached)
    }

    /// Returns whether the study had enough measurements without this cell, so that it is not missing.
    pub fn is_not_needed(&self) -> bool {
        self.steps.is_empty() && self.nature == Some(Nature::NotNeeded)
    }

    /// Returns whether this cause only passes another one on, through one or more cells.
    pub fn repeats(&self, root: &Self) -> bool {
        self.steps.len() > root.steps.len()
            && self.steps.ends_with(&root.steps)
            && (self.nature, &self.text) == (root.nature, &root.text)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| f.write_str(step))?;
        f.write_str(self.nature.map_or("", Nature::prefix))?;
        f.write_str(&self.text)
    }
}

/// Returns the length in bytes of the step at the start of a text.
fn step(text: &str) -> Option<usize> {
    let after = match text.strip_prefix("no cell of ") {
        Some(rest) => name(rest)?.strip_prefix(" is ok: ")?,
        None => {
            let rest = name(text)?.strip_prefix(" is ")?;
            let (word, after) = rest.split_once(": ")?;
            CellStatus::parse(word)?;
            after
        }
    };
    Some(text.len() - after.len())
}

/// Returns the text after a name in backticks. Quoted labels in the name may contain any character.
fn name(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('`')?;
    let (mut quoted, mut escaped) = (false, false);
    for (at, character) in inside.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '`' if !quoted => return Some(&inside[at + 1..]),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_passed_on_and_stays_what_it_is() {
        let root = Cause::blocked("counters are locked: ask the administrator");
        let passed = root
            .clone()
            .through_cell("profile[rep=1]", CellStatus::Skipped);
        let passed = passed.through_stage("profile");
        let text = "no cell of `profile` is ok: `profile[rep=1]` is skipped: blocked: counters are locked: \
                    ask the administrator";
        assert_eq!(passed.to_string(), text);
        assert_eq!(Cause::read(text), passed);
        assert!(passed.is_blocked() && passed.repeats(&root) && !root.repeats(&passed));
        assert!(!root.repeats(&root), "a cause is not passed on by itself");
    }

    #[test]
    fn only_the_study_itself_says_that_a_cell_is_not_needed() {
        assert!(Cause::not_needed("after 3 blocks").is_not_needed());
        let passed = Cause::not_needed("after 3 blocks").through_cell("load", CellStatus::Excluded);
        assert!(!passed.is_not_needed());
        for words in [
            "not needed: too small",
            "blocked: no card",
            "not reached: too far",
            "`a` is failed: x",
        ] {
            let declared = Cause::declared(words);
            assert_eq!(declared.to_string(), format!("declared: {words}"));
            let read = Cause::read(&declared.to_string());
            assert!(!read.is_not_needed() && !read.is_blocked() && read.steps.is_empty());
        }
        assert_eq!(Cause::declared("too slow").to_string(), "too slow");
    }

    #[test]
    fn a_text_that_only_looks_like_a_step_is_none() {
        for text in [
            "the server: `a` is failed: one",
            "`server` did not start: blocked: x",
            "`a` is missing: x",
            "`a is failed: x",
            "blocked by others",
        ] {
            assert_eq!(Cause::read(text).steps, [""; 0], "{text}");
            assert!(!Cause::read(text).is_blocked(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_read_is_written_again(text in "(`[a\"`\\\\=]{0,4}` is (failed|skipped): |blocked: |not needed: |not reached: |[a-z`\": ]{0,6}){0,6}") {
            proptest::prop_assert_eq!(Cause::read(&text).to_string(), text);
        }

        #[test]
        fn a_cause_goes_through_cells_with_any_labels(label in ".{0,12}", text in "[a-z:` ]{0,12}") {
            let label = artifacts::Scalar::Text(label);
            let at = crate::stage::Coordinates(vec![("model".to_owned(), label)]);
            let cell = crate::place::cell_text("load", &at.to_string());
            let root = Cause::blocked(text);
            let passed = root.clone().through_cell(&cell, CellStatus::Failed);
            let read = Cause::read(&passed.to_string());
            proptest::prop_assert!(read.is_blocked() && read.repeats(&root));
        }
    }
}
