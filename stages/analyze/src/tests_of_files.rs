//! Published tables, facts, and the operators on them: what is read, what is refused, and the lineage of rows.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use artifacts::{Scalar, Store};
use contract::{Lineage, LineageSource};
use pipeline::sources::{NamedFile, NamedFiles};
use pipeline::{Content, Control, Done, Failure, Json, Library, Problem, StageKind as _};
use serde_json::json;

use crate::kind::{Analyze, run};
use crate::operators::published::Files;
use crate::tests::{canonical_with, store, stored, table};

/// A folder of files, two axes and a collection of models.
struct Study {
    folder: tempfile::TempDir,
    /// The files that planning has read.
    read: RefCell<Vec<NamedFile>>,
}

impl Study {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let read = RefCell::default();
        Self { folder, read }
    }

    fn plan(&self, tables: &Json) -> Result<Json, Vec<Problem>> {
        canonical_with(tables, self)
    }

    fn run(&self, store: &Store, tables: &Json) -> Result<Done, Failure> {
        let parameters = self.plan(tables).unwrap_or_else(|p| panic!("{p:#?}"));
        let named = NamedFiles::new(self.read.take(), Path::new(""), None);
        let files = Files {
            store,
            named: &named,
        };
        run(&parameters, &[], files, 1, &Control::quiet())
    }

    fn refused(&self, table: &Json) -> String {
        let problems = self.plan(&json!({ "t": table })).unwrap_err();
        let text = |p: &Problem| format!("{} ({})", p.message, p.hint.clone().unwrap_or_default());
        problems.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

impl Library for Study {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        let model = match (collection, name) {
            ("models", "small") => json!({"parameters": 135_000_000, "context": 8192}),
            ("models", "large") => json!({"parameters": 8_000_000_000_u64, "heads": {"kv": 8}}),
            _ => return None,
        };
        Some(model)
    }
    fn names(&self, _: &str) -> Vec<String> {
        vec!["large".to_owned(), "small".to_owned()]
    }
    fn axes(&self) -> Vec<String> {
        vec!["model".to_owned(), "variant".to_owned()]
    }
    fn labels(&self, axis: &str) -> Option<Vec<(Scalar, Json)>> {
        let label = |name: &str, fields: Json| (Scalar::Text(name.to_owned()), fields);
        match axis {
            "model" => Some(vec![label("small", Json::Null), label("large", Json::Null)]),
            "variant" => Some(vec![
                label(
                    "a",
                    json!({"of": "large", "slots": 4, "server": {"batch": 2.5}}),
                ),
                label("b", json!({"of": "small"})),
            ]),
            _ => None,
        }
    }
    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }
    fn reads(&self, source: &NamedFile) {
        self.read.borrow_mut().push(source.clone());
    }
}

const PAPER: &[u8] = b"# source: a paper\nengine,clients,tok/s,p,note\nvllm,10 users,\"1,637.6\",0.001,\"a\nb\"\nsglang,50 users,,\xE2\x88\x92,\n";

#[test]
fn a_published_table_keeps_its_file_and_leads_to_its_lines() {
    let study = Study::new(&[("paper.csv", PAPER)]);
    let (_folder, store) = store();
    let tables = json!({
        "paper": {"file": "paper.csv", "keys": ["engine"], "rename": {"tok/s": "throughput"},
                  "units": {"throughput": "tok/s", "clients": "users"}, "nulls": ["−"]},
        "peak": {"operator": "sql", "query": "select max(throughput) as peak from paper"},
    });
    let done = study.run(&store, &tables).unwrap();
    let paper = table(&done, "paper");
    assert_eq!(
        paper.names(),
        ["engine", "clients", "throughput", "p", "note"]
    );
    assert_eq!(
        paper.text("engine").unwrap(),
        [Some("sglang"), Some("vllm")]
    );
    assert_eq!(paper.int("clients").unwrap(), [Some(50), Some(10)]);
    assert_eq!(paper.float("throughput").unwrap(), [None, Some(1637.6)]);
    assert_eq!(paper.float("p").unwrap(), [None, Some(0.001)]);
    assert_eq!(paper.unit("throughput").as_deref(), Some("tok/s"));
    let meaning = paper.description("throughput").unwrap();
    assert!(meaning.contains("`tok/s` of paper.csv"), "{meaning}");
    let lineage = Lineage::read(&table(&done, "paper.lineage")).unwrap();
    assert_eq!(lineage.sources, [LineageSource::from("paper.file")]);
    let lines: Vec<_> = lineage
        .rows
        .iter()
        .map(|r| (r.row, r.start, r.end))
        .collect();
    assert_eq!(lines, [(0, 4, 5), (1, 2, 4)]);
    let file = done
        .outputs
        .iter()
        .find(|o| o.name == "paper.file")
        .unwrap();
    assert!(matches!(&file.content, Content::Bytes(bytes) if bytes == PAPER));
    assert_eq!(table(&done, "peak").float("peak").unwrap(), [Some(1637.6)]);
}

#[test]
fn the_file_is_in_the_key_by_its_digest_and_later_read_from_the_store() {
    let study = Study::new(&[("paper.csv", PAPER)]);
    let tables = json!({"t": {"file": "paper.csv", "keys": ["engine"]}});
    let parameters = study.plan(&tables).unwrap();
    let digest = artifacts::Digest::of(PAPER).to_string();
    assert_eq!(parameters["tables"][0]["parameters"]["digest"], digest);
    let (_folder, store) = store();
    store.put(PAPER).unwrap();
    drop(study);
    run(&parameters, &[], stored(&store), 1, &Control::quiet()).unwrap();
    let other = Study::new(&[("paper.csv", b"engine\nvllm\n")]);
    assert_ne!(other.plan(&tables).unwrap(), parameters);
    let pinned = json!({"file": "paper.csv", "keys": ["engine"], "digest": digest});
    assert!(other.refused(&pinned).contains("has the digest b3:"));
}

#[test]
fn a_file_that_the_store_has_not_got_is_read_where_it_lies_if_it_has_not_changed() {
    let study = Study::new(&[("paper.csv", PAPER)]);
    let (_folder, store) = store();
    let tables = json!({"t": {"file": "paper.csv", "keys": ["engine"]}});
    let parameters = study.plan(&tables).unwrap();
    let named = NamedFiles::new(study.read.take(), Path::new(""), None);
    let files = Files {
        store: &store,
        named: &named,
    };
    let made = || run(&parameters, &[], files, 1, &Control::quiet());
    assert_eq!(table(&made().unwrap(), "t").rows(), 2);
    std::fs::write(study.path("paper.csv"), "engine\nvllm\n").unwrap();
    let failure = made().err().unwrap();
    assert!(
        failure
            .reason
            .ends_with("paper.csv has changed since the plan was made")
    );
}

#[test]
fn json_and_parquet_are_read_alike() {
    let (_folder, store) = store();
    let parquet = artifacts::Table::new(vec![
        artifacts::Column::text("engine", [Some("vllm"), Some("sglang")]),
        artifacts::Column::float("x", [Some(1.5), None]),
    ])
    .unwrap();
    let study = Study::new(&[
        ("a.jsonl", b"{\"engine\": \"vllm\", \"x\": 1.5}\n{\"engine\": \"sglang\"}\n"),
        ("b.json", b"{\"meta\": 1, \"rows\": [{\"engine\": \"vllm\", \"x\": 1.5}, {\"engine\": \"sglang\"}]}"),
        ("c.parquet", &parquet.to_parquet().unwrap()),
        ("d.tsv", b"engine\tx\nvllm\t1.5\nsglang\t\n"),
    ]);
    let tables = json!({
        "a": {"file": "a.jsonl", "keys": ["engine"]},
        "b": {"operator": "published", "file": "b.json", "rows": "rows", "keys": ["engine"]},
        "c": {"file": "c.parquet", "keys": ["engine"]},
        "d": {"file": "d.tsv", "keys": ["engine"]},
    });
    let done = study.run(&store, &tables).unwrap();
    for name in ["a", "b", "c", "d"] {
        let table = table(&done, name);
        assert_eq!(table.float("x").unwrap(), [None, Some(1.5)], "{name}");
    }
}

#[test]
fn what_a_file_does_not_bear_is_refused_while_planning() {
    let study = Study::new(&[
        ("paper.csv", PAPER),
        ("twice.csv", b"a,b\n1,2\n1,3\n"),
        ("cut.json", b"[{\"a\": 1}"),
        ("deep.json", b"[{\"a\": [1]}]"),
        ("sheet.xlsx", b"x"),
    ]);
    for (table, part) in [
        (
            json!({"file": "none.csv"}),
            "relative to the experiment's folder",
        ),
        (json!({"file": "sheet.xlsx"}), "`.xlsx`"),
        (json!({"file": "cut.json"}), "cut.json:1:10: "),
        (json!({"file": "twice.csv"}), "several rows and no `keys`"),
        (
            json!({"file": "twice.csv", "keys": ["a"]}),
            "line 2 and line 3 have the same",
        ),
        (json!({"file": "twice.csv", "keys": ["c"]}), "no column `c`"),
        (
            json!({"file": "paper.csv", "keys": ["engine"], "units": {"client": "users"}}),
            "did you mean `clients`?",
        ),
        (
            json!({"file": "paper.csv", "keys": ["engine"], "units": {"p": "1"}}),
            "line 5: `−` in the column `p`",
        ),
        (
            json!({"file": "paper.csv", "keys": ["engine"], "rename": {"tok": "x"}}),
            "no column `tok`",
        ),
        (json!({"file": "deep.json"}), "the column `a` holds a list"),
        (
            json!({"file": "twice.csv", "key": ["a"]}),
            "did you mean `keys`?",
        ),
        (
            json!({"operator": "published"}),
            "needs the parameter `file`",
        ),
        (json!({"keys": ["a"]}), "needs an `operator`, or a `file`"),
    ] {
        let text = study.refused(&table);
        assert!(text.contains(part), "{table}: {text}");
    }
}

#[test]
fn facts_are_columns_and_an_absent_field_is_null() {
    let study = Study::new(&[("paper.csv", b"model,tok_s\nlarge,10\nsmall,400\n")]);
    let (_folder, store) = store();
    let tables = json!({
        "paper": {"file": "paper.csv", "keys": ["model"]},
        "models": {"operator": "facts", "axis": "model", "collection": "models",
                   "fields": {"size": "parameters", "kv_heads": "heads.kv"}, "units": {"size": "1"}},
        "variants": {"operator": "facts", "axis": "variant", "fields": {"batch": "server.batch", "slots": "slots"}},
        "sizes": {"operator": "facts", "axis": "variant", "collection": "models", "named-by": "of",
                  "fields": {"size": "parameters"}},
        "joined": {"operator": "sql", "keys": ["model"],
                   "query": "select model, tok_s * size as work from paper join models using (model)"},
    });
    let done = study.run(&store, &tables).unwrap();
    let models = table(&done, "models");
    assert_eq!(
        models.int("size").unwrap(),
        [Some(8_000_000_000), Some(135_000_000)]
    );
    assert_eq!(models.int("kv_heads").unwrap(), [Some(8), None]);
    let variants = table(&done, "variants");
    assert_eq!(variants.float("batch").unwrap(), [Some(2.5), None]);
    let sizes = table(&done, "sizes");
    assert_eq!(sizes.int("size").unwrap()[0], Some(8_000_000_000));
    let joined = table(&done, "joined");
    assert_eq!(
        joined.int("work").unwrap(),
        [Some(80_000_000_000), Some(54_000_000_000)]
    );
    for (table, part) in [
        (
            json!({"operator": "facts", "axis": "modal", "fields": {}}),
            "did you mean `model`?",
        ),
        (
            json!({"operator": "facts", "axis": "model", "collection": "models", "fields": {"x": "parameter"}}),
            "did you mean `parameters`?",
        ),
        (
            json!({"operator": "facts", "axis": "variant", "fields": {"x": "server"}}),
            "name a field in it: batch",
        ),
        (
            json!({"operator": "facts", "axis": "variant", "collection": "models", "fields": {"x": "parameters"}}),
            "no `a` among the models",
        ),
        (
            json!({"operator": "facts", "axis": "model", "named-by": "of", "fields": {"x": "y"}}),
            "needs `collection`",
        ),
    ] {
        let text = study.refused(&table);
        assert!(text.contains(part), "{table}: {text}");
    }
}

#[test]
fn aggregates_have_medians_and_quantiles() {
    let rows: String = (1..=5).map(|i| format!("a,{i},{}\n", i * i)).collect();
    let study = Study::new(&[("t.csv", format!("group,i,x\n{rows}").as_bytes())]);
    let (_folder, store) = store();
    let aggregate = |quantiles: Json| json!({"operator": "aggregate", "from": "paper", "over": ["i"], "columns": ["x"], "quantiles": quantiles});
    let paper = json!({"file": "t.csv", "keys": ["group", "i"]});
    let tables = json!({"paper": paper, "means": aggregate(json!([0.5, 0.07, 0.999]))});
    let means = table(&study.run(&store, &tables).unwrap(), "means");
    // 1, 4, 9, 16, 25: type 7 at 0.07 is 1 + 0.28 · 3.
    assert_eq!(means.float("x_p50").unwrap(), [Some(9.0)]);
    assert!((means.float("x_p7").unwrap()[0].unwrap() - 1.84).abs() < 1e-12);
    assert!(means.has("x_p99_9"));
    assert!(
        means
            .description("x_p50")
            .unwrap()
            .starts_with("median of x")
    );
    for (quantiles, part) in [
        (json!([95]), "write 0.95 for 95 %"),
        (json!([0.5, 0.5]), "named twice"),
    ] {
        let tables = json!({"paper": paper, "means": aggregate(quantiles)});
        let problems = study.plan(&tables).unwrap_err();
        assert!(format!("{problems:?}").contains(part), "{problems:?}");
    }
}

#[test]
fn a_query_that_finds_nothing_is_an_empty_table_that_others_can_use() {
    let study = Study::new(&[("t.csv", b"engine,clients,x\na,1,2.5\n")]);
    let (_folder, store) = store();
    let tables = json!({
        "paper": {"file": "t.csv", "keys": ["engine", "clients"]},
        "none": {"operator": "sql", "keys": ["engine", "clients"],
                 "query": "select engine, clients, x, x * 2 as twice from paper where x > 100"},
        "means": {"operator": "aggregate", "from": "none", "over": ["clients"], "columns": ["x", "twice"]},
        "again": {"operator": "sql", "query": "select count(*) as n, max(twice) as most from none"},
        "curve": {"operator": "fit", "from": "none", "ladder": "clients", "column": "x", "model": "power-law",
                  "method": "log-log"},
    });
    let done = study.run(&store, &tables).unwrap();
    assert_eq!(table(&done, "none").rows(), 0);
    assert_eq!(table(&done, "means").rows(), 0);
    assert_eq!(table(&done, "again").int("n").unwrap(), [Some(0)]);
    assert_eq!(table(&done, "curve").rows(), 0);
}

#[test]
fn the_schema_takes_a_file_or_an_operator() {
    let schema = Analyze.schema().to_value();
    let text = schema.to_string();
    assert!(
        text.contains("\"published\"") && text.contains("\"required\":[\"file\"]"),
        "{text}"
    );
}
