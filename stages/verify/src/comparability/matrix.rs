//! Pairs of cells facet by facet, and the table they become.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Column, Scalar, Table, TableError};
use rayon::prelude::*;

use super::facets::{FACETS, Values, values};
use super::tokens;
use crate::gate::listed;
use crate::study::Stage;

/// How a facet of two cells compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Equal,
    Differs,
    Unknown,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Differs => "differs",
            Self::Unknown => "unknown",
        }
    }
}

/// What follows for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PairVerdict {
    Comparable,
    /// Nothing is known to differ, but not everything is known.
    Unknown,
    TokenizerConfounded,
    NotComparable,
}

impl PairVerdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Comparable => "comparable",
            Self::Unknown => "unknown",
            Self::TokenizerConfounded => "tokenizer-confounded",
            Self::NotComparable => "not-comparable",
        }
    }
}

/// One facet of a pair.
pub(crate) struct Facet {
    pub(crate) name: &'static str,
    pub(crate) status: Status,
    /// Whether all that differs was declared to.
    pub(crate) declared: bool,
    pub(crate) detail: Option<String>,
}

/// Two cells that agree on every axis but one.
pub(crate) struct Pair {
    /// Positions in the stage.
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) facets: Vec<Facet>,
    pub(crate) verdict: PairVerdict,
}

/// Returns every pair of ok cells across an axis, in the order of the cells. What `varies` names,
/// a facet (`settings`) or something in it (`settings.parallel`), is declared to differ.
pub(crate) fn pairs(stage: &Stage<'_>, across: &str, varies: &[String]) -> Vec<Pair> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, cell) in stage
        .cells
        .iter()
        .enumerate()
        .filter(|(_, c)| c.rows.is_some())
    {
        groups.entry(cell.without(across)).or_default().push(i);
    }
    let known: Vec<BTreeMap<&str, Values>> = stage
        .cells
        .par_iter()
        .map(|cell| {
            FACETS
                .iter()
                .map(|f| (*f, cell.rows.as_ref().and_then(|_| values(cell, f))))
                .collect()
        })
        .collect();
    let mut places: Vec<(usize, usize)> = groups
        .values()
        .flat_map(|group| {
            let pair = move |i: usize| group[i + 1..].iter().map(move |b| (group[i], *b));
            (0..group.len()).flat_map(pair)
        })
        .collect();
    places.sort_unstable();
    let compare = |(a, b): (usize, usize)| {
        let facets: Vec<Facet> = FACETS
            .iter()
            .map(|facet| {
                let (status, differing, detail) = if *facet == "prompt-tokens" {
                    let both = stage.cells[a]
                        .rows
                        .as_ref()
                        .zip(stage.cells[b].rows.as_ref());
                    let (status, detail) =
                        both.map_or((Status::Unknown, None), |(a, b)| tokens::compare(a, b));
                    (status, Vec::new(), detail)
                } else {
                    difference(facet, known[a][facet].as_ref(), known[b][facet].as_ref())
                };
                let declared = status == Status::Differs
                    && (varies.iter().any(|v| v == facet)
                        || (!differing.is_empty()
                            && differing.iter().all(|path| covers(varies, facet, path))));
                Facet {
                    name: facet,
                    status,
                    declared,
                    detail,
                }
            })
            .collect();
        let verdict = verdict(&facets);
        Pair {
            a,
            b,
            facets,
            verdict,
        }
    };
    places.into_par_iter().map(compare).collect()
}

fn covers(varies: &[String], facet: &str, path: &str) -> bool {
    let full = format!("{facet}.{path}");
    varies.iter().any(|v| {
        full == *v
            || full
                .strip_prefix(v.as_str())
                .is_some_and(|rest| rest.starts_with('.'))
    })
}

fn difference(
    facet: &str,
    a: Option<&BTreeMap<String, String>>,
    b: Option<&BTreeMap<String, String>>,
) -> (Status, Vec<String>, Option<String>) {
    let (Some(a), Some(b)) = (a, b) else {
        return (Status::Unknown, Vec::new(), None);
    };
    let paths: BTreeSet<&String> = a
        .keys()
        .chain(b.keys())
        .filter(|path| a.get(*path) != b.get(*path))
        .collect();
    if paths.is_empty() {
        return (Status::Equal, Vec::new(), None);
    }
    let detail = if facet == "prompts" {
        Some(format!(
            "{} prompts that the two cells did not send equally often",
            paths.len()
        ))
    } else {
        let side = |of: &BTreeMap<String, String>, path: &String| {
            of.get(path).cloned().unwrap_or_else(|| "-".into())
        };
        let lines: Vec<String> = paths
            .iter()
            .map(|path| {
                let name = if path.is_empty() {
                    String::new()
                } else {
                    format!("{path}: ")
                };
                format!("{name}{} against {}", side(a, path), side(b, path))
            })
            .collect();
        listed(&lines)
    };
    (
        Status::Differs,
        paths.into_iter().cloned().collect(),
        detail,
    )
}

fn verdict(facets: &[Facet]) -> PairVerdict {
    let of = |f: &Facet| match f.status {
        Status::Equal => PairVerdict::Comparable,
        Status::Differs if f.declared => PairVerdict::Comparable,
        Status::Differs if f.name == "prompt-tokens" => PairVerdict::TokenizerConfounded,
        Status::Differs => PairVerdict::NotComparable,
        Status::Unknown => PairVerdict::Unknown,
    };
    facets.iter().map(of).max().unwrap_or(PairVerdict::Unknown)
}

/// Makes the table `comparability`: one row per pair and facet.
pub(crate) fn comparability_table(
    found: &[(&Stage<'_>, String, Vec<Pair>)],
) -> Result<Table, TableError> {
    struct Row<'a> {
        stage: &'a Stage<'a>,
        across: &'a str,
        pair: &'a Pair,
        facet: &'a Facet,
    }
    let rows: Vec<Row<'_>> = found
        .iter()
        .flat_map(|(stage, across, pairs)| {
            pairs.iter().flat_map(move |pair| {
                pair.facets.iter().map(move |facet| Row {
                    stage,
                    across,
                    pair,
                    facet,
                })
            })
        })
        .collect();
    let text = |name: &str, meaning: &str, of: &dyn Fn(&Row<'_>) -> Option<String>| {
        Column::text(name, rows.iter().map(of)).describe(meaning)
    };
    let label = |r: &Row<'_>, cell: usize| {
        r.stage.cells[cell]
            .input
            .coordinates
            .get(r.across)
            .map(Scalar::to_string)
    };
    let columns = vec![
        text("stage", "the load stage", &|r| {
            Some(r.stage.name.to_owned())
        }),
        text("at", "the coordinates the two cells share, as text", &|r| {
            Some(r.stage.cells[r.pair.a].without(r.across))
        }),
        text("across", "the axis on which they differ", &|r| {
            Some(r.across.to_owned())
        }),
        text("a", "the label of the one cell", &|r| label(r, r.pair.a)),
        text("b", "the label of the other", &|r| label(r, r.pair.b)),
        text(
            "facet",
            "what is compared: source, prompts, prompt-tokens, load, host, model, engine or settings",
            &|r| Some(r.facet.name.to_owned()),
        ),
        text("status", "equal, differs or unknown", &|r| {
            Some(r.facet.status.word().to_owned())
        }),
        Column::boolean(
            "declared",
            rows.iter()
                .map(|r| (r.facet.status == Status::Differs).then_some(r.facet.declared)),
        )
        .describe("whether all that differs was declared to; null unless it differs"),
        text(
            "detail",
            "what differs; null if nothing does or nothing is known",
            &|r| r.facet.detail.clone(),
        ),
        text(
            "verdict",
            "of the pair, over all facets: comparable, unknown, tokenizer-confounded or not-comparable",
            &|r| Some(r.pair.verdict.word().to_owned()),
        ),
    ];
    Table::with_metadata(
        columns,
        &[("keys", "stage,at,across,a,b,facet"), ("level", "cell")],
    )
}
