//! Reasons shared by many cells, printed once.

use std::collections::BTreeSet;

use pipeline::Cause;

/// A cell that is not ok, with the reason.
pub(crate) struct Explained<'a> {
    /// Its status word.
    pub(crate) word: &'a str,
    /// Its stage.
    pub(crate) stage: &'a str,
    /// The cell as text.
    pub(crate) cell: String,
    /// The reason.
    pub(crate) reason: &'a str,
}

/// The first of the cells that share a line, and their number.
type Shared<'a> = (&'a Explained<'a>, usize);

/// The causes that do not pass on another cause, each with its first cell.
pub(crate) struct Roots(Vec<(Cause, String)>);

impl Roots {
    /// Finds the root causes among the reasons of cells.
    pub(crate) fn of<'a>(reasons: impl Iterator<Item = (&'a str, String)>) -> Self {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let all: Vec<(Cause, String)> = reasons
            .filter(|(reason, _)| seen.insert(reason))
            .map(|(reason, cell)| (Cause::read(reason), cell))
            .collect();
        let repeated = |cause: &Cause| all.iter().any(|(root, _)| cause.repeats(root));
        let keep: Vec<bool> = all.iter().map(|(cause, _)| !repeated(cause)).collect();
        let kept = all.into_iter().zip(keep);
        Self(
            kept.filter_map(|(root, keep)| keep.then_some(root))
                .collect(),
        )
    }

    /// Returns the first cell whose cause a reason passes on.
    pub(crate) fn followed(&self, reason: &str) -> Option<&str> {
        let cause = Cause::read(reason);
        let root = self.0.iter().find(|(root, _)| cause.repeats(root));
        root.map(|(_, first)| first.as_str())
    }
}

/// Returns a line for each reason, with the cells that share it.
pub(crate) fn lines(cells: &[Explained<'_>]) -> Vec<String> {
    let roots = Roots::of(cells.iter().map(|c| (c.reason, c.cell.clone())));
    let mut own: Vec<Shared<'_>> = Vec::new();
    // The cells that repeat a reason, grouped by the cell it comes from, then by status and stage, with their number.
    let mut followers: Vec<(&str, Vec<Shared<'_>>)> = Vec::new();
    for cell in cells {
        let root = roots.followed(cell.reason);
        let groups = match root {
            None => &mut own,
            Some(first) => match followers.iter().position(|(origin, _)| *origin == first) {
                Some(at) => &mut followers[at].1,
                None => {
                    followers.push((first, Vec::new()));
                    let at = followers.len() - 1;
                    &mut followers[at].1
                }
            },
        };
        let same = |other: &Explained<'_>| {
            let alike = root.is_some() || other.reason == cell.reason;
            alike && other.stage == cell.stage && other.word == cell.word
        };
        match groups.iter_mut().find(|(other, _)| same(other)) {
            Some((_, count)) => *count += 1,
            None => groups.push((cell, 1)),
        }
    }
    let mut lines: Vec<String> = own
        .iter()
        .map(|(first, count)| match count {
            1 => format!("{} {}: {}", first.word, first.cell, first.reason),
            n => format!(
                "{} {} and {} more of `{}`: {}",
                first.word,
                first.cell,
                n - 1,
                first.stage,
                first.reason
            ),
        })
        .collect();
    for (first, groups) in &followers {
        let groups: Vec<String> = groups
            .iter()
            .map(|(cell, count)| match count {
                1 => format!("{} {}", cell.word, cell.cell),
                n => format!("{} {} ({n} cells)", cell.word, cell.stage),
            })
            .collect();
        lines.push(format!(
            "{}: for the same reason as `{first}`",
            groups.join(", ")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained<'a>(word: &'a str, stage: &'a str, cell: &str, reason: &'a str) -> Explained<'a> {
        Explained {
            word,
            stage,
            cell: cell.to_owned(),
            reason,
        }
    }

    #[test]
    fn a_reason_that_many_cells_share_is_said_once_wherever_the_first_of_them_stands() {
        let cells = [
            explained(
                "skipped",
                "load",
                "load[rep=1]",
                "`m` is failed: no program",
            ),
            explained(
                "skipped",
                "load",
                "load[rep=2]",
                "`m` is failed: no program",
            ),
            explained("failed", "m", "m", "no program"),
            explained(
                "skipped",
                "report",
                "report",
                "`load[rep=1]` is skipped: `m` is failed: no program",
            ),
            explained("hung", "grid", "grid[rep=1]", "no byte arrived"),
            explained("hung", "grid", "grid[rep=2]", "no byte arrived"),
            explained("excluded", "grid", "grid[rep=3]", "too slow"),
        ];
        assert_eq!(
            lines(&cells),
            [
                "failed m: no program",
                "hung grid[rep=1] and 1 more of `grid`: no byte arrived",
                "excluded grid[rep=3]: too slow",
                "skipped load (2 cells), skipped report: for the same reason as `m`",
            ]
        );
    }

    #[test]
    fn different_reasons_keep_their_own_lines() {
        let cells = [
            explained("failed", "a", "a[rep=1]", "one"),
            explained("failed", "a", "a[rep=2]", "another"),
            explained("failed", "a", "a[rep=4]", "the server: one"),
            explained("timeout", "a", "a[rep=3]", "one"),
        ];
        assert_eq!(
            lines(&cells),
            [
                "failed a[rep=1]: one",
                "failed a[rep=2]: another",
                "failed a[rep=4]: the server: one",
                "timeout a[rep=3]: one",
            ]
        );
    }
}
