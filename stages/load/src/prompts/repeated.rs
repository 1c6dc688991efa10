//! Files with fewer prompts than a cell needs.

use contract::Phase;

use super::error::PromptError;
use super::set::PromptSet;
use crate::workload::WhenShort;

impl PromptSet {
    /// Warns if prompts are sent again because the file has fewer, or if more than a hundredth of them are the same as an
    /// earlier one.
    pub fn repeated(&self) -> Option<String> {
        let Some((entries, sent)) = self.few else {
            let (alike, sent) = (self.alike, self.count(Phase::Measured));
            return (alike * 100 > sent).then(|| {
                format!(
                    "{alike} of {sent} prompts are the same as an earlier one; a server with a prefix cache answers those faster"
                )
            });
        };
        let what = match self.sessions() {
            Some(_) => "conversations",
            None => "prompts",
        };
        Some(format!(
            "{sent} {what} were sent, but the file has {entries}, so some were sent again; a server with a prefix cache \
             answers those faster"
        ))
    }
}

/// Returns how many of these fingerprints, sorted, are the same as an earlier one.
pub(super) fn alike(sorted: &[u128]) -> usize {
    let pairs = sorted.windows(2);
    pairs.filter(|pair| pair[0] == pair[1]).count()
}

/// Checks that a file holds as many entries as are needed, unless they may repeat.
pub(super) fn enough(
    when_short: WhenShort,
    there: usize,
    needed: u64,
    what: &str,
    content: &str,
) -> Result<(), PromptError> {
    if when_short == WhenShort::Refuse && (there as u64) < needed {
        return Err(PromptError::wrong(format!(
            "the {what} holds {there} {content}, but the cell needs {needed}; allow repeats with \
             `when-short: repeat`"
        )));
    }
    Ok(())
}

/// Returns the place in a list of this length; it wraps around if repeats are allowed.
pub(super) fn wrapped(
    place: u64,
    there: usize,
    when_short: WhenShort,
    what: &str,
    content: &str,
) -> Result<usize, PromptError> {
    if there == 0 || (place >= there as u64 && when_short == WhenShort::Refuse) {
        return Err(PromptError::wrong(format!(
            "the {what} holds only {there} {content}"
        )));
    }
    Ok((place % there as u64) as usize)
}
