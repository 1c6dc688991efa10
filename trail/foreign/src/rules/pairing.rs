//! R-COUNT: a number of pairs against the product of the key that pairs them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::shown;
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::words;

static AXIS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<n>[0-9]{1,3})[ -](?P<axis>[A-Za-z][A-Za-z -]{0,24}?)s? ?(?:×|=)")
        .expect("a regex")
});
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:each|every|per) \((?P<key>[a-z][a-z -]*(?: ?[×,] ?[a-z][a-z -]*){1,4})\) (?:cell|coordinate|combination|point)\b[^.;]{0,60}\bthe (?P<what>pair)\b").expect("a regex")
});
static COUNT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\bnumber of (?P<what>pair)s\b[^.;:0-9]{0,40}(?:is|are|:)(?: [a-z_]+:)? (?P<n>[0-9]{1,6})\b",
    )
    .expect("a regex")
});

/// Paragraphs between a key and the count of what it pairs.
const REACH: usize = 3;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let prose = &scope.report.prose;
    let mut sizes: Option<BTreeMap<String, f64>> = None;
    for (at, paragraph) in prose.iter().enumerate() {
        let Some(captures) = KEY.captures(&paragraph.text) else {
            continue;
        };
        let (Some(key), Some(whole)) = (captures.name("key"), captures.get(0)) else {
            continue;
        };
        let near = prose[at..(at + REACH).min(prose.len())]
            .iter()
            .filter(|p| p.section == paragraph.section);
        for later in near {
            let Some(count) = COUNT.captures(&later.text) else {
                continue;
            };
            let (Some(n), Some(place)) = (count.name("n"), count.get(0)) else {
                continue;
            };
            let Ok(stated) = n.as_str().parse::<f64>() else {
                continue;
            };
            let sizes = sizes.get_or_insert_with(|| axes(scope));
            let levels: Option<Vec<f64>> = key
                .as_str()
                .split(['×', ','])
                .map(|axis| {
                    let names = words(axis);
                    let mut fitting = names.iter().filter_map(|name| sizes.get(name).copied());
                    fitting.next().filter(|_| fitting.next().is_none())
                })
                .collect();
            let Some(levels) = levels else { continue };
            let product: f64 = levels.iter().product();
            // A first level that is the base of a ratio makes no pair.
            let based = levels
                .iter()
                .any(|level| product / level * (level - 1.0) == stated);
            if product == stated || based {
                continue;
            }
            let terms = levels
                .iter()
                .map(|level| shown(*level))
                .collect::<Vec<_>>()
                .join(" × ");
            let message = format!(
                "the key ({}) has {terms} = {} pairs, not {}",
                key.as_str(),
                shown(product),
                shown(stated)
            );
            let evidence = vec![Evidence::new(
                format!("line {}", paragraph.place(whole.start()).0),
                whole.as_str(),
            )];
            let span = (place.start(), place.end());
            found.push(in_prose(
                later,
                span,
                (Rule::Count, Confidence::Medium),
                message,
                evidence,
            ));
        }
    }
}

/// The number of levels of each axis, from products such as `5 models × 6 levels × 3 reps`: the one most often said.
fn axes(scope: &Scope<'_>) -> BTreeMap<String, f64> {
    let mut said: BTreeMap<String, BTreeMap<u64, usize>> = BTreeMap::new();
    for paragraph in &scope.report.prose {
        for captures in AXIS.captures_iter(&paragraph.text) {
            let (Some(n), Some(axis)) = (captures.name("n"), captures.name("axis")) else {
                continue;
            };
            let Ok(size) = n.as_str().parse::<u64>() else {
                continue;
            };
            let Some(last) = axis.as_str().split([' ', '-']).next_back().map(words) else {
                continue;
            };
            for name in last {
                *said.entry(name).or_default().entry(size).or_default() += 1;
            }
        }
    }
    let most = said.into_iter().filter_map(|(name, sizes)| {
        let all: usize = sizes.values().sum();
        let (size, count) = sizes.into_iter().max_by_key(|(_, count)| *count)?;
        (count * 2 > all).then(|| (name, u32::try_from(size).map_or(f64::NAN, f64::from)))
    });
    most.collect()
}
