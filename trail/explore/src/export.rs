//! A study as one HTML file: the page with the replies it would ask for. It opens without a server.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::assets::{self, ASSETS};
use crate::request::Ask;
use crate::site::Site;
use crate::trail::Trail;

/// The largest file that is written; what does not fit is left out, and the page says so.
pub const MAX_EXPORT_BYTES: usize = 24 << 20;

/// The most rows of a table of results that a file holds.
const ROWS: usize = 2_000;

/// The most request rows of a cell that a file holds.
const REQUESTS: usize = 5_000;

/// The most chunks of a cell that a file holds.
const CHUNKS: usize = 50_000;

/// The metrics whose distributions a file holds.
const METRICS: [&str; 4] = ["ttft_ms", "tpot_ms", "e2e_latency_ms", "decode_rate"];

/// The most pairs of labels of an axis that a file compares.
const PAIRS: usize = 12;

/// Sources of numbers that a page links to their trees; `report.js` has the same.
const RESULTS: [&str; 6] = ["table", "count", "missing", "json", "statement", "ledger"];

/// Lists in the tree of a number that may be long.
const LISTS: [&str; 8] = [
    "raw", "cells", "servers", "see", "sources", "spans", "also_at", "missing",
];

/// Items of such a list that a file holds.
const ITEMS: usize = 12;

/// Tables of a measured cell that its page shows.
const TRACKS: [&str; 7] = [
    "requests",
    "cell",
    "host_telemetry",
    "process_telemetry",
    "gpu_telemetry",
    "slots",
    "server_metrics",
];

/// What the requests of a span tell beyond their rows.
const NOT_IN_ROWS: [&str; 5] = ["row", "measured", "ttft_ms", "tpot_ms", "e2e_latency_ms"];

/// A study as a file.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file.
    pub html: String,
    /// How many replies it holds.
    pub replies: usize,
    /// What did not fit, in words; empty if everything did.
    pub left_out: Vec<String>,
}

/// Whether a file holds the chunks of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunks {
    /// As far as there is room, after everything else.
    IfTheyFit,
    /// Not at all.
    None,
}

/// Writes a study as one HTML file of at most so many bytes.
///
/// The report and its figures come first, then the tables of results, the records of the cells, the trees of
/// the report's numbers, what plots and comparisons show, each cell's request rows and telemetry, and last the
/// chunks of answers.
///
/// # Errors
/// If there is no such study or the program was built without the page.
pub fn export(site: &Site, id: &str, limit: usize, chunks: Chunks) -> Result<Exported, String> {
    if ASSETS.is_empty() {
        return Err("this binary was built without the page, so it cannot export".into());
    }
    let study = site.study(id).map_err(|f| f.message)?;
    let mut file = File::new(site, limit);
    let of = |rest: &[&str]| -> Vec<String> {
        let all = ["api", "v1", "studies", id];
        all.iter().chain(rest).map(|s| (*s).to_owned()).collect()
    };
    file.add(&Ask::to(&["api", "v1"], &[]));
    file.put(
        "api/v1/studies?",
        &json!({"studies": [study.line(&site.store)], "broken": []}),
    );
    let overview = file.add(&Ask::of(of(&[]), &[]));
    let cells = file.add(&Ask::of(of(&["cells"]), &[]));
    let report = file.add(&Ask::of(of(&["report"]), &[]));
    file.group("tables of results");
    for table in overview["tables"].as_array().into_iter().flatten() {
        let name = table["name"].as_str().unwrap_or_default();
        let measured =
            |(stage, _, measured): (&str, &str, bool)| measured && table["stage"] == stage;
        if table["lineage"] == false && !cells_of(&cells).any(measured) {
            let to = ROWS.to_string();
            file.add(&Ask::of(
                of(&["tables", name]),
                &[("from", "0"), ("to", &to)],
            ));
        }
    }
    file.group("records of cells");
    for (stage, at, _) in cells_of(&cells) {
        file.add(&Ask::of(of(&["cell"]), &[("stage", stage), ("cell", at)]));
    }
    file.group("the trees of numbers");
    for object in report["outputs"].as_object().into_iter().flatten() {
        if object.0.ends_with(".svg") {
            file.object(object.1.as_str().unwrap_or_default());
        }
    }
    let trail = Trail::open(&study, None, &site.store).ok();
    for number in report["numbers"].as_array().into_iter().flatten() {
        let place = |i: usize| number[i].as_u64().and_then(|n| usize::try_from(n).ok());
        let is_result = number[4].as_str().is_some_and(|s| RESULTS.contains(&s));
        let Some(trail) = trail.as_ref().filter(|_| is_result) else {
            continue;
        };
        let (line, column) = (number[0].to_string(), number[1].to_string());
        let ask = Ask::of(of(&["why"]), &[("line", &line), ("column", &column)]);
        file.add_value(&ask, || {
            let mut tree = trail.answer(place(0), place(1), None).ok()?;
            shorten(&mut tree);
            Some(tree)
        });
    }
    file.group("plots and comparisons");
    plots(&mut file, &of, &cells, &overview);
    file.group("request rows and telemetry");
    let to = REQUESTS.to_string();
    for (stage, at, measured) in cells_of(&cells) {
        for track in TRACKS.iter().filter(|_| measured) {
            let name = format!("{stage}.{track}");
            let page = [("cell", at), ("from", "0"), ("to", to.as_str())];
            file.add(&Ask::of(of(&["tables", &name]), &page));
        }
    }
    file.group("requests over time");
    for (stage, at, _) in cells_of(&cells).filter(|(.., measured)| *measured) {
        let ask = Ask::of(of(&["activity"]), &[("stage", stage), ("cell", at)]);
        file.add_value(&ask, || {
            let reply = site.answer(&ask);
            let mut value: Value = serde_json::from_slice(&reply.body).ok()?;
            // The request rows are in the file already; what is computed from them is not.
            if let Some(single) = value["single"].as_object_mut() {
                single.retain(|name, _| NOT_IN_ROWS.contains(&name.as_str()));
            }
            (reply.status == 200).then_some(value)
        });
    }
    file.group("chunks of answers");
    let to = CHUNKS.to_string();
    for (stage, at, measured) in cells_of(&cells) {
        if measured && chunks == Chunks::IfTheyFit {
            let page = [("cell", at), ("from", "0"), ("to", to.as_str())];
            file.add(&Ask::of(of(&["tables", &format!("{stage}.chunks")]), &page));
        }
    }
    file.finish(id)
}

/// Adds what plots and comparisons of the measured stages ask for: distributions as fine as the axes make them,
/// which a page adds up, and every pair of labels of an axis.
fn plots(
    file: &mut File<'_>,
    of: &dyn Fn(&[&str]) -> Vec<String>,
    cells: &Value,
    overview: &Value,
) {
    let stages = cells["stages"].as_array().into_iter().flatten();
    for stage in stages.filter(|stage| stage["class"] == "measurement") {
        let name = stage["name"].as_str().unwrap_or_default();
        let repeats = |axis: &str| {
            let known = overview["replicates"].as_array();
            axis == "block" || known.is_some_and(|axes| axes.iter().any(|known| known == axis))
        };
        let axes = stage["axes"].as_array().into_iter().flatten();
        let axes: Vec<&str> = axes.filter_map(Value::as_str).collect();
        let by: Vec<&str> = axes.iter().copied().filter(|axis| !repeats(axis)).collect();
        file.add(&Ask::of(of(&["objective"]), &[("stage", name)]));
        for metric in METRICS {
            let all = by.join(",");
            let ask = [("by", all.as_str()), ("metric", metric), ("stage", name)];
            file.add(&Ask::of(of(&["distribution"]), &ask));
        }
        for (i, axis) in axes.iter().enumerate().filter(|(_, axis)| !repeats(axis)) {
            let lines = stage["cells"].as_array().into_iter().flatten();
            let label = |cell: &Value| match &cell["labels"][i] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let mut labels: Vec<String> = lines.map(label).collect();
            labels.sort_unstable();
            labels.dedup();
            let pairs = labels
                .iter()
                .flat_map(|a| labels.iter().map(move |b| (a, b)));
            for (a, b) in pairs.filter(|(a, b)| a != b).take(PAIRS) {
                let ask = [("stage", name), ("axis", axis), ("a", a), ("b", b)];
                file.add(&Ask::of(of(&["contrast"]), &ask));
            }
        }
    }
}

/// Leaves of each list of a tree what a page shows of it, and how many there were as `LIST_in_all`.
fn shorten(tree: &mut Value) {
    for list in LISTS {
        let Some(items) = tree.get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        let all = items.len();
        items.truncate(ITEMS);
        for item in items.iter_mut().filter(|item| item.is_object()) {
            shorten(item);
        }
        if all > ITEMS {
            tree[format!("{list}_in_all")] = json!(all);
        }
    }
    if let Some(lineage) = tree.get_mut("lineage").filter(|l| l.is_object()) {
        shorten(lineage);
    }
    if let Some(place) = tree.get_mut("place").filter(|p| p.is_object()) {
        shorten(place);
    }
}

/// Returns stage and coordinates of every executed cell, and whether it was measured.
fn cells_of(cells: &Value) -> impl Iterator<Item = (&str, &str, bool)> {
    let stages = cells["stages"].as_array().into_iter().flatten();
    stages.flat_map(|stage| {
        let name = stage["name"].as_str().unwrap_or_default();
        let measured = stage["class"] == "measurement";
        let list = stage["cells"].as_array().into_iter().flatten();
        let executed = list.filter(|c| !c["record"].is_null());
        executed.map(move |c| (name, c["at"].as_str().unwrap_or_default(), measured))
    })
}

/// The replies of a file, compressed as they come.
struct File<'a> {
    site: &'a Site,
    limit: usize,
    packed: DeflateEncoder<Vec<u8>>,
    replies: usize,
    group: &'static str,
    missing: usize,
    left_out: Vec<String>,
}

impl<'a> File<'a> {
    fn new(site: &'a Site, limit: usize) -> Self {
        // Base64 takes four letters for three bytes, and the page itself needs room.
        let page: usize = ASSETS.iter().map(|a| a.text.len()).sum();
        Self {
            site,
            limit: limit.saturating_sub(page + (64 << 10)) / 4 * 3,
            packed: DeflateEncoder::new(Vec::new(), Compression::default()),
            replies: 0,
            group: "",
            missing: 0,
            left_out: Vec::new(),
        }
    }

    /// Begins another kind of replies; tells how many of the last kind did not fit.
    fn group(&mut self, name: &'static str) {
        if self.missing > 0 {
            self.left_out
                .push(format!("{} of {}", self.missing, self.group));
        }
        (self.group, self.missing) = (name, 0);
    }

    /// Adds a reply, if it is one, and returns it.
    fn add(&mut self, ask: &Ask) -> Value {
        if self.is_full() {
            self.missing += 1;
            return Value::Null;
        }
        let reply = self.site.answer(ask);
        let value: Value = match reply.status {
            200 => serde_json::from_slice(&reply.body).unwrap_or_default(),
            _ => return Value::Null,
        };
        self.put(&ask.key(), &value);
        value
    }

    /// Adds a value that is worked out only if there is room.
    fn add_value(&mut self, ask: &Ask, value: impl FnOnce() -> Option<Value>) {
        if self.is_full() {
            self.missing += 1;
        } else if let Some(value) = value() {
            self.put(&ask.key(), &value);
        }
    }

    /// Adds the text of an object.
    fn object(&mut self, digest: &str) {
        let ask = Ask::to(&["api", "v1", "objects", digest], &[]);
        let reply = self.site.answer(&ask);
        if let (200, Ok(text)) = (reply.status, std::str::from_utf8(&reply.body)) {
            self.put(&ask.key(), &json!(text));
        }
    }

    fn put(&mut self, key: &str, value: &Value) {
        let comma = if self.replies == 0 { "{" } else { "," };
        let entry = format!("{comma}{}:{value}", json!(key));
        self.packed
            .write_all(entry.as_bytes())
            .expect("memory takes bytes");
        self.replies += 1;
    }

    fn is_full(&self) -> bool {
        self.packed.get_ref().len() >= self.limit
    }

    fn finish(mut self, id: &str) -> Result<Exported, String> {
        self.group("");
        let about = json!({"study": id, "left_out": self.left_out});
        self.put("export", &about);
        self.packed.write_all(b"}").map_err(|e| e.to_string())?;
        let packed = self.packed.finish().map_err(|e| e.to_string())?;
        Ok(Exported {
            html: page(&STANDARD.encode(packed)),
            replies: self.replies,
            left_out: self.left_out,
        })
    }
}

/// Returns the page with its style, its modules and its data in it.
fn page(data: &str) -> String {
    let style = assets::find("style.css").map_or("", |a| a.text);
    let mut script = String::new();
    for asset in ASSETS.iter().filter(|a| a.name.ends_with(".js")) {
        for line in asset.text.lines().filter(|l| !l.starts_with("import ")) {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src blob: data:; \
         base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(style)
    );
    let html = assets::find("index.html").map_or("", |a| a.text);
    html.replace(
        "<meta name=\"referrer\" content=\"no-referrer\">",
        &format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">"),
    )
    .replace(
        "<link rel=\"stylesheet\" href=\"style.css\">",
        &format!("<style>{style}</style>"),
    )
    .replace(
        "<script type=\"module\" src=\"app.js\"></script>",
        &format!(
            "<script type=\"application/octet-stream\" id=\"data\">{data}</script>\n\
             <script type=\"module\">{script}</script>"
        ),
    )
}
