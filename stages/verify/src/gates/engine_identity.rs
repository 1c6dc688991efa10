//! `engine-identity`: did the engine, the model and the host stay the same throughout?

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Table;
use pipeline::{Json, Needed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::comparability::split_facets;
use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, listed};
use crate::study::{Server, Stage};

pub(crate) struct EngineIdentity;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// How many variants of an engine the study plans, such as versions, by the name of its definition; one of any other
    /// engine. Planning fills it in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub(crate) variants: BTreeMap<String, usize>,
}

impl TypedGate for EngineIdentity {
    type Parameters = Parameters;
    const NAME: &'static str = "engine-identity";
    const SUMMARY: &'static str = "\
        All cells of a load stage ran on the same host, engine and model. This is a comparison, not a test.\n\n\
        Engines of the same name have the same version and packages. If you installed them, they also have the same \
        program, inherited variables and image. If the provision stages pin several versions or environments of an \
        engine, for example along an axis, no more than these occur. Models of the same name have the same digest. No \
        server restarted during a cell; a counter that falls between two scrapes shows a restart. The verify stage \
        must also need the serve stage.";
    const SEVERITY: Severity = Severity::Fail;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let mut judgements = each(stage, &|cell, rows| {
            let expected = "counters that never fall";
            let Some(metrics) = &rows.server_metrics else {
                return Assessment::not_judged("the server's metrics were not scraped", expected);
            };
            let named = cell
                .server
                .as_ref()
                .and_then(|server| server.descriptor["counters"].as_object());
            let named: Vec<&str> = named
                .into_iter()
                .flat_map(|counters| counters.values().filter_map(Json::as_str))
                .collect();
            match fallen(metrics, &named) {
                None => Assessment::not_judged("no counter was scraped twice", expected),
                Some(fallen) if fallen.is_empty() => {
                    Assessment::new(true, "no counter fell", expected)
                }
                Some(fallen) => {
                    let observed =
                        format!("{} counters fell: the server was restarted", fallen.len());
                    Assessment::new(false, observed, expected).evidence(listed(&fallen))
                }
            }
        });
        judgements.push(one_identity(stage, &parameters.variants));
        judgements
    }
}

/// Returns the counters that fell between two scrapes; `None` if nothing was scraped twice. `named` lists those that the
/// engine's definition names.
fn fallen(metrics: &Table, named: &[&str]) -> Option<Vec<String>> {
    let (times, names, values) = (
        metrics.int("at_ns").ok()?,
        metrics.text("name").ok()?,
        metrics.float("value").ok()?,
    );
    let labels = if metrics.has("labels") {
        metrics.text("labels").ok()?
    } else {
        vec![None; metrics.rows()]
    };
    let mut series: BTreeMap<(&str, &str), Vec<(i64, f64)>> = BTreeMap::new();
    for i in 0..metrics.rows() {
        // By Prometheus convention, a name ending in `_total` is a counter, and so is the bucket of a histogram.
        let bucket = labels[i].is_some_and(|l| l.contains("le=\""));
        let counts = |n: &str| {
            n.ends_with("_total") || (bucket && n.ends_with("_bucket")) || named.contains(&n)
        };
        if let (Some(name), Some(at), Some(value)) =
            (names[i].filter(|n| counts(n)), times[i], values[i])
        {
            series
                .entry((name, labels[i].unwrap_or_default()))
                .or_default()
                .push((at, value));
        }
    }
    let twice = series.values().any(|points| points.len() > 1);
    let mut fallen = Vec::new();
    for ((name, _), mut points) in series {
        points.sort_by_key(|point| point.0);
        if let Some(w) = points
            .windows(2)
            .find(|w| w[0].0 < w[1].0 && w[1].1 < w[0].1)
        {
            fallen.push(format!("{name} from {} to {}", w[0].1, w[1].1));
        }
    }
    twice.then_some(fallen)
}

/// Returns how many variants the provision stages behind a verify stage pin, for each engine of which they pin several.
pub(crate) fn variants_planned(behind: &[Needed<'_>]) -> BTreeMap<String, usize> {
    let mut variants: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for needed in behind.iter().filter(|needed| needed.kind == "provision") {
        let parameters = needed.parameters;
        for engine in parameters["engines"].as_array().into_iter().flatten() {
            let name = engine["name"].as_str().unwrap_or_default().to_owned();
            let pinned = json!([
                engine["definition"],
                parameters["environment"],
                parameters["image_digest"]
            ]);
            variants.entry(name).or_default().insert(pinned.to_string());
        }
    }
    let counted = variants.into_iter().map(|(name, all)| (name, all.len()));
    counted.filter(|(_, count)| *count > 1).collect()
}

fn one_identity(stage: &Stage<'_>, variants: &BTreeMap<String, usize>) -> Judgement {
    let expected = match variants.is_empty() {
        true => "one version of each engine, one digest of each model, one host",
        false => "the planned versions of each engine, one digest of each model, one host",
    };
    let ok: Vec<_> = stage.cells.iter().filter(|c| c.is_ok()).collect();
    let with_server = ok.iter().filter(|c| c.server.is_some()).count();
    let mut identities: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for server in ok.iter().filter_map(|c| c.server.as_deref()) {
        for (what, identity) in facts(server) {
            let place = format!("{} {}", server.stage, server.coordinates);
            identities
                .entry(what)
                .or_default()
                .entry(identity)
                .or_default()
                .insert(place.trim().to_owned());
        }
    }
    let planned = |what: &str| {
        let name = what.strip_prefix(ENGINE)?;
        variants.get(name).copied()
    };
    identities.retain(|what, identities| identities.len() > planned(what).unwrap_or(1));
    if with_server == 0 {
        return Assessment::not_judged(
            "no server is known: the verify stage does not need the serve stage of the load",
            expected,
        )
        .of_stage();
    }
    let several: Vec<String> = identities
        .iter()
        .flat_map(|(what, identities)| {
            identities.iter().map(move |(identity, places)| {
                let places: Vec<&str> = places.iter().map(String::as_str).collect();
                format!("{what}: {identity} at {}", places.join(", "))
            })
        })
        .collect();
    let changed: Vec<&str> = identities.keys().map(String::as_str).collect();
    let observed = match (changed.is_empty(), variants.is_empty()) {
        (true, true) => format!("the same over {with_server} of {} cells", ok.len()),
        (true, false) => format!("as planned in {with_server} of {} cells", ok.len()),
        (false, _) => format!("not the same over all cells: {}", changed.join(", ")),
    };
    let all_known = with_server == ok.len();
    match (several.is_empty(), all_known) {
        (true, false) => Assessment::not_judged(
            format!("{observed}; the servers of the others are unknown"),
            expected,
        ),
        (passed, _) => Assessment::new(passed, observed, expected).evidence(listed(&several)),
    }
    .of_stage()
}

/// The beginning of the name of an engine's fact.
const ENGINE: &str = "engine ";

/// Returns the facts that must not change, with their values here.
fn facts(server: &Server) -> Vec<(String, String)> {
    let d = &server.descriptor;
    let name = |engine: &Json| engine["name"].as_str().unwrap_or("?").to_owned();
    let packages: Vec<String> = d["engine"]["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| {
            format!(
                "{} {}",
                p["name"].as_str().unwrap_or("?"),
                p["version"].as_str().unwrap_or("?")
            )
        })
        .collect();
    let (mut installed, mut host) = split_facets(&d["facets"]);
    installed.sort_all_objects();
    host.sort_all_objects();
    let engine = format!(
        "version {} from {}{}",
        d["version"],
        packages.join(" + "),
        match installed.as_object() {
            Some(facets) if !facets.is_empty() => format!(", {installed}"),
            _ => String::new(),
        }
    );
    let weights = &d["model"];
    let model = match weights["sha256"].as_str() {
        Some(sum) => format!("SHA-256 {sum}"),
        None => format!("weights {}", weights["weights"]),
    };
    vec![
        (format!("{ENGINE}{}", name(&d["engine"])), engine),
        (format!("model {}", name(weights)), model),
        ("host".to_owned(), host.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use artifacts::Column;

    fn scraped(name: &str, labels: &str, values: [f64; 2]) -> Table {
        Table::new(vec![
            Column::int("at_ns", [Some(1), Some(2)]),
            Column::text("name", [Some(name); 2]),
            Column::text("labels", [Some(labels); 2]),
            Column::float("value", values.map(Some)),
        ])
        .unwrap()
    }

    #[test]
    fn a_counter_is_known_by_its_name_by_its_buckets_or_by_the_definition() {
        let fell = |name, labels, named: &[&str]| fallen(&scraped(name, labels, [5.0, 3.0]), named);
        let one = Some(1);
        assert_eq!(fell("requests_total", "", &[]).map(|f| f.len()), one);
        assert_eq!(fell("wait_bucket", "le=\"0.5\"", &[]).map(|f| f.len()), one);
        assert_eq!(
            fell("tokens_sum", "", &["tokens_sum"]).map(|f| f.len()),
            one
        );
        // These may be gauges.
        for name in ["tokens_sum", "wait_bucket", "connection_count"] {
            assert_eq!(fell(name, "", &[]), None, "{name}");
        }
        let rose = scraped("tokens_sum", "", [3.0, 5.0]);
        assert_eq!(fallen(&rose, &["tokens_sum"]), Some(Vec::new()));
    }
}
