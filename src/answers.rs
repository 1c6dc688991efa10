//! A report's answers, for the terminal: its claims, and what the data allow them to state.

use artifacts::{Store, Table};
use pipeline::StudyResult;

use crate::exit::Stop;

/// One claim of a report.
pub(crate) struct Answer {
    /// The name of the claim.
    pub(crate) claim: String,
    /// `licensed`, `refused` or `undecided`.
    pub(crate) verdict: String,
    /// The sentence that the data allow: the claim itself or a narrower form of it.
    pub(crate) may_say: Option<String>,
    /// The reason for the verdict.
    pub(crate) reason: Option<String>,
}

impl Answer {
    /// Returns the answer on one line.
    pub(crate) fn text(&self) -> String {
        let Self {
            claim,
            verdict,
            may_say,
            reason,
        } = self;
        match (may_say, reason) {
            (Some(sentence), _) if verdict == "licensed" => {
                format!("{claim}: licensed: {sentence}")
            }
            (Some(sentence), _) => {
                format!("{claim}: {verdict}; a narrower form is licensed: {sentence}")
            }
            (None, Some(reason)) => format!("{claim}: {verdict}: {reason}"),
            (None, None) => format!("{claim}: {verdict}"),
        }
    }
}

/// Reads the claims of a report from its table `claims`; empty if it declares none.
///
/// # Errors
/// If the table cannot be read from the store.
pub(crate) fn of(store: &Store, result: &StudyResult) -> Result<Vec<Answer>, Stop> {
    let Some(artifact) = result.outputs.get("claims") else {
        return Ok(Vec::new());
    };
    let table = Table::from_parquet(store.get(&artifact.digest)?).map_err(Stop::failed)?;
    let column = |name: &str| table.text(name).map_err(Stop::failed);
    let (claims, verdicts) = (column("claim")?, column("verdict")?);
    let (sentences, reasons) = (column("may_say")?, column("reason")?);
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Ok((0..table.rows())
        .map(|row| Answer {
            claim: claims[row].unwrap_or_default().to_owned(),
            verdict: verdicts[row].unwrap_or_default().to_owned(),
            may_say: owned(sentences[row]),
            reason: owned(reasons[row]),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_begins_with_its_verdict() {
        let text = |verdict: &str, may_say: Option<&str>, reason: Option<&str>| {
            let owned = |text: &str| text.to_owned();
            let answer = Answer {
                claim: "faster".to_owned(),
                verdict: verdict.to_owned(),
                may_say: may_say.map(owned),
                reason: reason.map(owned),
            };
            answer.text()
        };
        assert_eq!(
            text("licensed", Some("It is."), None),
            "faster: licensed: It is."
        );
        assert_eq!(
            text("refused", Some("At 4 clients, it is."), Some("not at 8")),
            "faster: refused; a narrower form is licensed: At 4 clients, it is."
        );
        assert_eq!(
            text("undecided", None, Some("2 units")),
            "faster: undecided: 2 units"
        );
    }
}
