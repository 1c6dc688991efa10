//! What a cell was measured with, as paths and values that can be compared.

use std::collections::BTreeMap;

use pipeline::Json;

use crate::study::Cell;

/// Every facet, in the order of the table.
pub(crate) const FACETS: [&str; 8] = [
    "source",
    "prompts",
    "prompt-tokens",
    "load",
    "host",
    "model",
    "engine",
    "settings",
];

/// What a facet of a cell holds: values by path; `None` if it is not known.
pub(crate) type Values = Option<BTreeMap<String, String>>;

/// Returns what a cell's facet holds. `prompts` is compared as a whole, `prompt-tokens` elsewhere.
pub(crate) fn values(cell: &Cell<'_>, facet: &str) -> Values {
    let descriptor = cell.server.as_ref().map(|s| &s.descriptor);
    match facet {
        "source" => {
            let source = cell
                .fact_text("source")
                .unwrap_or_else(|| "measured".to_owned());
            Some(BTreeMap::from([(String::new(), source)]))
        }
        "prompts" => prompts(cell),
        "load" => Some(flat(&cell.input.parameters)).filter(|values| !values.is_empty()),
        "host" => {
            let mut values = flat(&descriptor?["facets"]);
            // Which engine the host can run is not what the host is.
            values.remove("engine");
            Some(values).filter(|values| !values.is_empty())
        }
        "model" => {
            let model = &descriptor?["model"];
            let weights = &model["weights"];
            let pinned = [&model["sha256"], &weights["revision"]]
                .iter()
                .any(|v| v.is_string());
            let values = match model["sha256"].as_str() {
                Some(sum) => BTreeMap::from([("sha256".to_owned(), sum.to_owned())]),
                None => flat(weights),
            };
            // A name alone may stand for other weights tomorrow.
            (pinned && !values.is_empty()).then_some(values)
        }
        "engine" => {
            let engine = &descriptor?["engine"];
            let mut values = flat(&engine["packages"]);
            for key in ["name", "version", "source"] {
                values.insert(key.to_owned(), text(&engine[key]));
            }
            engine.is_object().then_some(values)
        }
        "settings" => {
            let mut values = flat(&descriptor?["settings"]);
            values.insert("api".to_owned(), text(&descriptor?["api"]));
            Some(values)
        }
        _ => None,
    }
}

fn prompts(cell: &Cell<'_>) -> Values {
    let mut digests = BTreeMap::new();
    for request in cell.rows.as_ref()?.measured() {
        *digests
            .entry(request.prompt_digest.clone()?)
            .or_insert(0_u64) += 1;
    }
    Some(
        digests
            .into_iter()
            .map(|(digest, n)| (digest, n.to_string()))
            .collect(),
    )
}

fn text(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the leaves of a value by their path, `a.b.0`.
fn flat(value: &Json) -> BTreeMap<String, String> {
    fn walk(path: &str, value: &Json, into: &mut BTreeMap<String, String>) {
        let below = |key: &str| {
            if path.is_empty() {
                key.to_owned()
            } else {
                format!("{path}.{key}")
            }
        };
        match value {
            Json::Object(map) => map.iter().for_each(|(key, v)| walk(&below(key), v, into)),
            Json::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(i, v)| walk(&below(&i.to_string()), v, into));
            }
            Json::Null => {}
            leaf => {
                into.insert(path.to_owned(), text(leaf));
            }
        }
    }
    let mut into = BTreeMap::new();
    walk("", value, &mut into);
    into
}
