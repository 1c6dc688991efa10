//! Pairs of cells, facet by facet, and the table of them.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Scalar, Table, TableError};
use contract::{AS_DECLARED, ComparabilityRow, Row as _};
pub(crate) use contract::{FacetStatus as Status, PairVerdict};
use rayon::prelude::*;

use super::facets::{FACETS, OF_SERVERS, Values, prompts, roles, values, without_further_roles};
use super::{cache, tokens};
use crate::gate::listed;
use crate::sent_prompts;
use crate::study::Stage;

/// One facet of a pair.
pub(crate) struct Facet {
    pub(crate) name: &'static str,
    pub(crate) status: Status,
    /// Whether every difference was declared.
    pub(crate) declared: bool,
    pub(crate) detail: Option<String>,
}

/// Two cells that agree on all axes but one.
pub(crate) struct Pair {
    /// The positions in the stage.
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) facets: Vec<Facet>,
    pub(crate) verdict: PairVerdict,
}

/// Returns every pair of ok cells across an axis, in cell order. `varies` declares what may differ:
/// a facet (`settings`) or a part of one (`settings.parallel`).
pub(crate) fn pairs(stage: &Stage<'_>, across: &str, varies: &[String]) -> Vec<Pair> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, cell) in stage.cells.iter().enumerate().filter(|(_, c)| c.is_ok()) {
        groups.entry(cell.without(across)).or_default().push(i);
    }
    let sent = cache::sent(stage);
    let values: Vec<BTreeMap<&str, Values>> = stage
        .cells
        .par_iter()
        .map(|cell| {
            let value = |facet: &str| match facet {
                "cache" => cache::values(cell, &sent),
                facet => values(cell, facet),
            };
            FACETS
                .iter()
                .map(|f| (*f, cell.is_ok().then(|| value(f)).flatten()))
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
                    let both = stage.cells[a].answers().zip(stage.cells[b].answers());
                    let (status, detail) =
                        both.map_or((Status::Unknown, None), |(a, b)| tokens::compare(&a, &b));
                    (status, Vec::new(), detail)
                } else if *facet == "prompts"
                    && let Some(number) = sent_prompts::in_common(&stage.cells[a], &stage.cells[b])
                {
                    let sent = [a, b].map(|cell| prompts(&stage.cells[cell], Some(number)));
                    difference(facet, sent[0].as_ref(), sent[1].as_ref())
                } else if OF_SERVERS.contains(facet)
                    && roles(&stage.cells[a]) != roles(&stage.cells[b])
                {
                    let mut of_a = values[a][facet].clone();
                    let mut of_b = values[b][facet].clone();
                    let sides = [(&stage.cells[a], &mut of_a), (&stage.cells[b], &mut of_b)];
                    without_further_roles(sides);
                    difference(facet, of_a.as_ref(), of_b.as_ref())
                } else {
                    difference(facet, values[a][facet].as_ref(), values[b][facet].as_ref())
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

/// Returns a value without the mark of an unverified one.
fn bare(value: &str) -> &str {
    value.strip_suffix(AS_DECLARED).unwrap_or(value)
}

fn difference(
    facet: &str,
    a: Option<&BTreeMap<String, String>>,
    b: Option<&BTreeMap<String, String>>,
) -> (Status, Vec<String>, Option<String>) {
    let (Some(a), Some(b)) = (a, b) else {
        return (Status::Unknown, Vec::new(), None);
    };
    let is_declared = |facets: &BTreeMap<String, String>| facets.values().any(|v| bare(v) != v);
    let some_declared = is_declared(a) || is_declared(b);
    let value = |facets: &'_ BTreeMap<String, String>, path: &String| {
        facets.get(path).map(|value| bare(value).to_owned())
    };
    let mut paths: BTreeSet<&String> = a
        .keys()
        .chain(b.keys())
        .filter(|path| value(a, path) != value(b, path))
        .collect();
    if some_declared {
        // If one side does not declare a value, a difference is unknown.
        let one_sided: Vec<String> = paths
            .iter()
            .filter(|path| !a.contains_key(**path) || !b.contains_key(**path))
            .map(|path| (*path).clone())
            .collect();
        paths.retain(|path| a.contains_key(*path) && b.contains_key(*path));
        if paths.is_empty() && !one_sided.is_empty() {
            let detail = format!("not declared of both: {}", one_sided.join(", "));
            return (Status::Unknown, Vec::new(), Some(detail));
        }
    }
    if paths.is_empty() {
        let detail = some_declared.then(|| "equal as declared, but not checked".to_owned());
        return (Status::Equal, Vec::new(), detail);
    }
    let detail = if facet == "prompts" {
        Some(format!(
            "{} prompts that the two cells sent a different number of times",
            paths.len()
        ))
    } else {
        let side = |facets: &BTreeMap<String, String>, path: &String| {
            facets.get(path).cloned().unwrap_or_else(|| "-".into())
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
    let verdict_of = |f: &Facet| match f.status {
        Status::Equal => PairVerdict::Comparable,
        Status::Differs if f.declared => PairVerdict::Comparable,
        Status::Differs if f.name == "prompt-tokens" => PairVerdict::TokenizerConfounded,
        Status::Differs => PairVerdict::NotComparable,
        Status::Unknown => PairVerdict::Unknown,
    };
    facets
        .iter()
        .map(verdict_of)
        .max()
        .unwrap_or(PairVerdict::Unknown)
}

/// Makes the table `comparability`, with one row per pair and facet.
pub(crate) fn comparability_table(
    stages: &[(&Stage<'_>, String, Vec<Pair>)],
) -> Result<Table, TableError> {
    let rows = stages.iter().flat_map(|(stage, across, pairs)| {
        let facets = pairs.iter().flat_map(|pair| {
            let facets = pair.facets.iter();
            facets.map(move |facet| (pair, facet))
        });
        facets.map(move |(pair, facet)| row(stage, across, pair, facet))
    });
    let columns = ComparabilityRow::columns(&rows.collect::<Vec<_>>());
    Table::with_metadata(
        columns,
        &[("keys", "stage,at,across,a,b,facet"), ("level", "cell")],
    )
}

fn row(stage: &Stage<'_>, across: &str, pair: &Pair, facet: &Facet) -> ComparabilityRow {
    let label = |cell: usize| {
        let coordinates = &stage.cells[cell].input.coordinates;
        coordinates.get(across).map(Scalar::to_string)
    };
    ComparabilityRow {
        stage: stage.name.to_owned(),
        at: stage.cells[pair.a].without(across),
        across: across.to_owned(),
        a: label(pair.a),
        b: label(pair.b),
        facet: facet.name.to_owned(),
        status: facet.status,
        declared: (facet.status == Status::Differs).then_some(facet.declared),
        detail: facet.detail.clone(),
        verdict: pair.verdict,
    }
}
