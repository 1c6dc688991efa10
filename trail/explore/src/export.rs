//! A study as one HTML file: the page together with the replies it would request. It opens without a server.

use std::collections::BTreeSet;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use pipeline::design::BLOCK;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::assets::{self, ASSETS};
use crate::request::Ask;
use crate::site::Site;
use crate::study::Study;
use crate::trail::Trail;

/// The maximum number of rows of a results table in a file.
const ROWS: usize = 2_000;

/// The maximum number of request rows of a cell in a file.
const REQUESTS: usize = 5_000;

/// The maximum number of chunks of a cell in a file.
const CHUNKS: usize = 50_000;

/// The metrics with distributions in a file.
const METRICS: [&str; 4] = ["ttft_ms", "tpot_ms", "e2e_latency_ms", "decode_rate"];

/// The maximum number of label pairs of an axis that a file compares.
const PAIRS: usize = 12;

/// The sources of numbers that a page links to their trees; `report.js` has the same list.
const RESULTS: [&str; 6] = ["table", "count", "missing", "json", "statement", "ledger"];

/// The maximum number of items in each list of a number's tree in a file.
const ITEMS: usize = 12;

/// The tables of a measured cell that its page shows.
const TRACKS: [&str; 8] = [
    "requests",
    "cell",
    "host_telemetry",
    "server_host_telemetry",
    "process_telemetry",
    "gpu_telemetry",
    "slots",
    "server_metrics",
];

/// The fields of a span's requests that their rows do not have.
const NOT_IN_ROWS: [&str; 5] = ["row", "measured", "ttft_ms", "tpot_ms", "e2e_latency_ms"];

/// A study as a file.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file.
    pub html: String,
    /// The number of replies in it.
    pub replies: usize,
    /// The number of bytes of objects read for it, counting repeated reads.
    pub bytes_read: u64,
    /// Descriptions of the parts that did not fit; empty if everything did.
    pub left_out: Vec<String>,
}

/// The progress of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kind of item being added, in words.
    pub what: &'static str,
    /// The number of items added so far.
    pub done: usize,
    /// The total number of items.
    pub total: usize,
}

/// Whether a file includes the chunks of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunks {
    /// As far as they fit after everything else.
    IfTheyFit,
    /// Never.
    None,
}

/// Writes a study as one HTML file of limited size, and reports progress after each reply.
///
/// The report and its figures come first, followed by the tables of results, the records of the cells, the trees of the
/// report's numbers, the data of plots and comparisons, each cell's request rows and telemetry, and last the chunks of
/// answers. The work grows with the cells and the numbers that fit, not with their product: each lock and each table of
/// gates is read once.
///
/// # Errors
/// If the study does not exist, or the program was built without the page.
pub fn export(
    site: &Site,
    id: &str,
    limit: usize,
    chunks: Chunks,
    progress: &mut dyn FnMut(Step),
) -> Result<Exported, String> {
    if ASSETS.is_empty() {
        return Err("this binary was built without the page, so it cannot export".into());
    }
    let study = site.study(id).map_err(|f| f.message)?;
    let mut file = File::new(site, &study, limit, progress);
    file.put(&Ask::to(&["api", "v1"], &[]).key(), &site.about().body);
    let list = json!({"studies": [study.line(&site.store)], "broken": []});
    file.put_value("api/v1/studies?", &list);
    let overview = file.add_and_read(&[], &[]);
    let cells = file.add_and_read(&["cells"], &[]);
    let report = file.add_and_read(&["report"], &[]);
    let executed: Vec<(&str, &str, bool)> = cells_of(&cells).collect();
    let measured: Vec<(&str, &str)> = executed
        .iter()
        .filter(|(.., measured)| *measured)
        .map(|(stage, at, _)| (*stage, *at))
        .collect();
    results(&mut file, &overview, &measured);
    file.group("records of cells", executed.len());
    for (stage, at, _) in &executed {
        file.add(&["cell"], &[("stage", stage), ("cell", at)]);
    }
    trees(&mut file, &report);
    plots(&mut file, &cells, &overview);
    file.group("request rows and telemetry", measured.len() * TRACKS.len());
    let to = REQUESTS.to_string();
    for (stage, at) in &measured {
        for track in TRACKS {
            let name = format!("{stage}.{track}");
            let page = [("cell", *at), ("from", "0"), ("to", to.as_str())];
            file.add(&["tables", &name], &page);
        }
    }
    file.group("requests over time", measured.len());
    for (stage, at) in &measured {
        file.activity(stage, at);
    }
    if chunks == Chunks::IfTheyFit {
        file.group("chunks of answers", measured.len());
        let to = CHUNKS.to_string();
        for (stage, at) in &measured {
            let page = [("cell", *at), ("from", "0"), ("to", to.as_str())];
            file.add(&["tables", &format!("{stage}.chunks")], &page);
        }
    }
    file.finish(id)
}

/// Adds the tables of the stages that measure nothing.
fn results(file: &mut File<'_>, overview: &Value, measured: &[(&str, &str)]) {
    let stages: BTreeSet<&str> = measured.iter().map(|(stage, _)| *stage).collect();
    let tables = overview["tables"].as_array().into_iter().flatten();
    let is_result = |table: &&Value| {
        let stage = table["stage"].as_str().unwrap_or_default();
        table["lineage"] == false && !stages.contains(stage)
    };
    let tables: Vec<&Value> = tables.filter(is_result).collect();
    file.group("tables of results", tables.len());
    let to = ROWS.to_string();
    for table in tables {
        let name = table["name"].as_str().unwrap_or_default();
        file.add(&["tables", name], &[("from", "0"), ("to", &to)]);
    }
}

/// Adds the figures of the report and the tree of each result in it.
fn trees(file: &mut File<'_>, report: &Value) {
    let numbers = report["numbers"].as_array().into_iter().flatten();
    let is_result = |number: &&Value| number[4].as_str().is_some_and(|s| RESULTS.contains(&s));
    let numbers: Vec<&Value> = numbers.filter(is_result).collect();
    file.group("the trees of numbers", numbers.len());
    for object in report["outputs"].as_object().into_iter().flatten() {
        if object.0.ends_with(".svg") {
            file.object(object.1.as_str().unwrap_or_default());
        }
    }
    let Ok(trail) = Trail::open(file.study, None, &file.site.store) else {
        return;
    };
    for number in numbers {
        let place = |i: usize| number[i].as_u64().and_then(|n| usize::try_from(n).ok());
        let (line, column) = (number[0].to_string(), number[1].to_string());
        file.add_value(&["why"], &[("line", &line), ("column", &column)], |_| {
            trail.answer(place(0), place(1), None, ITEMS).ok()
        });
    }
}

/// Adds the data for plots and comparisons of the measured stages: distributions in the finest division by axes, which
/// a page adds up, and every pair of labels of an axis.
fn plots(file: &mut File<'_>, cells: &Value, overview: &Value) {
    file.group("plots and comparisons", 0);
    let stages = cells["stages"].as_array().into_iter().flatten();
    for stage in stages.filter(|stage| stage["class"] == "measurement") {
        let name = stage["name"].as_str().unwrap_or_default();
        let repeats = |axis: &str| {
            let replicate = overview["replicates"].as_array();
            axis == BLOCK || replicate.is_some_and(|axes| axes.iter().any(|other| other == axis))
        };
        let axes = stage["axes"].as_array().into_iter().flatten();
        let axes: Vec<&str> = axes.filter_map(Value::as_str).collect();
        let by: Vec<&str> = axes.iter().copied().filter(|axis| !repeats(axis)).collect();
        file.add(&["objective"], &[("stage", name)]);
        for metric in METRICS {
            let all = by.join(",");
            let ask = [("by", all.as_str()), ("metric", metric), ("stage", name)];
            file.add(&["distribution"], &ask);
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
                file.add(&["contrast"], &ask);
            }
        }
    }
}

/// Returns the stage and coordinates of every executed cell, and whether it was measured.
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

/// The replies of a file, compressed as they arrive.
struct File<'a> {
    site: &'a Site,
    study: &'a Study,
    limit: usize,
    packed: DeflateEncoder<Vec<u8>>,
    replies: usize,
    step: Step,
    progress: &'a mut dyn FnMut(Step),
    missing: usize,
    left_out: Vec<String>,
}

impl<'a> File<'a> {
    fn new(
        site: &'a Site,
        study: &'a Study,
        limit: usize,
        progress: &'a mut dyn FnMut(Step),
    ) -> Self {
        // Base64 takes four letters for three bytes, and the page itself needs space.
        let page: usize = ASSETS.iter().map(|a| a.text.len()).sum();
        Self {
            site,
            study,
            limit: limit.saturating_sub(page + (64 << 10)) / 4 * 3,
            packed: DeflateEncoder::new(Vec::new(), Compression::default()),
            replies: 0,
            step: Step {
                what: "the report",
                done: 0,
                total: 3,
            },
            progress,
            missing: 0,
            left_out: Vec::new(),
        }
    }

    /// Begins another kind of reply, and records how many of the last kind did not fit.
    fn group(&mut self, what: &'static str, total: usize) {
        if self.missing > 0 {
            self.left_out
                .push(format!("{} of {}", self.missing, self.step.what));
        }
        self.missing = 0;
        self.step = Step {
            what,
            done: 0,
            total,
        };
        (self.progress)(self.step);
    }

    /// Returns whether there is room for another reply, and counts it.
    fn next(&mut self) -> bool {
        self.step.done += 1;
        (self.progress)(self.step);
        let is_full = self.packed.get_ref().len() >= self.limit;
        self.missing += usize::from(is_full);
        !is_full
    }

    /// Asks the study, and adds the reply if successful.
    fn add(&mut self, path: &[&str], parameters: &[(&str, &str)]) -> Option<Bytes> {
        if !self.next() {
            return None;
        }
        let ask = self.ask(path, parameters);
        let body = self
            .site
            .of_study(self.study, path, &ask, &std::sync::Arc::default())
            .ok()?
            .body;
        self.put(&ask.key(), &body);
        Some(body)
    }

    /// Adds a reply and parses it; null if there is none.
    fn add_and_read(&mut self, path: &[&str], parameters: &[(&str, &str)]) -> Value {
        let body = self.add(path, parameters).unwrap_or_default();
        serde_json::from_slice(&body).unwrap_or_default()
    }

    /// Adds a value that is computed only if there is room.
    fn add_value(
        &mut self,
        path: &[&str],
        parameters: &[(&str, &str)],
        value: impl FnOnce(&Ask) -> Option<Value>,
    ) {
        if self.next() {
            let ask = self.ask(path, parameters);
            if let Some(value) = value(&ask) {
                self.put_value(&ask.key(), &value);
            }
        }
    }

    /// Adds the activity of a cell's requests over time.
    fn activity(&mut self, stage: &str, at: &str) {
        let (site, study) = (self.site, self.study);
        let parameters = [("stage", stage), ("cell", at)];
        self.add_value(&["activity"], &parameters, |ask| {
            let reply = site
                .of_study(study, &["activity"], ask, &std::sync::Arc::default())
                .ok()?;
            let mut value: Value = serde_json::from_slice(&reply.body).ok()?;
            // The file already contains the request rows, but not the values computed from them.
            if let Some(single) = value["single"].as_object_mut() {
                single.retain(|name, _| NOT_IN_ROWS.contains(&name.as_str()));
            }
            Some(value)
        });
    }

    fn ask(&self, path: &[&str], parameters: &[(&str, &str)]) -> Ask {
        let study = ["api", "v1", "studies", &self.study.id];
        let path = study.iter().chain(path).map(|part| (*part).to_owned());
        Ask::of(path.collect(), parameters)
    }

    /// Adds the text of an object.
    fn object(&mut self, digest: &str) {
        let ask = Ask::to(&["api", "v1", "objects", digest], &[]);
        let reply = self.site.answer(&ask, &std::sync::Arc::default());
        if let (200, Ok(text)) = (reply.status, std::str::from_utf8(&reply.body)) {
            self.put_value(&ask.key(), &json!(text));
        }
    }

    fn put_value(&mut self, key: &str, value: &Value) {
        self.put(key, value.to_string().as_bytes());
    }

    /// Adds JSON.
    fn put(&mut self, key: &str, json: &[u8]) {
        let comma = if self.replies == 0 { "{" } else { "," };
        let key = format!("{comma}{}:", json!(key));
        for bytes in [key.as_bytes(), json] {
            self.packed.write_all(bytes).expect("memory takes bytes");
        }
        self.replies += 1;
    }

    fn finish(mut self, id: &str) -> Result<Exported, String> {
        self.group("the page", 0);
        let about = json!({"study": id, "left_out": self.left_out});
        self.put_value("export", &about);
        self.packed.write_all(b"}").map_err(|e| e.to_string())?;
        let packed = self.packed.finish().map_err(|e| e.to_string())?;
        Ok(Exported {
            html: page(&STANDARD.encode(packed)),
            replies: self.replies,
            bytes_read: self.site.store.bytes_read(),
            left_out: self.left_out,
        })
    }
}

/// Returns the page with its style, modules and data embedded.
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
