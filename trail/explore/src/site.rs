//! A store with its studies: answers every question of the API without a network.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use artifacts::{Digest, Store, Table, lock};
use bytes::Bytes;
use query::Limits;
use serde_json::{Value, json};

use crate::error::{Failure, Fault};
use crate::reply::{Freshness, Reply};
use crate::request::Ask;
use crate::study::{MAX_VALUES, Study};
use crate::table::{MAX_ROWS, Part, View};
use crate::{activity, assets, cell, contrast, history, latency, live, parameters, report, trail};

/// The maximum number of SQLite instructions for one query of a page: a few seconds.
const INSTRUCTIONS: u64 = 1_000_000_000;

/// The maximum time for one query of a page, since some instructions take long.
pub(crate) const QUERY_TIME: Duration = Duration::from_secs(30);

/// The maximum size in bytes of an SQL answer.
const SQL_BYTES: usize = 64 << 20;

/// The maximum size in bytes of one value in a query of a page. Nothing can end a query within an instruction.
const SQL_VALUE: usize = 4 << 20;

/// The maximum size of an object that is sent; a page cannot use larger ones.
const MAX_OBJECT: u64 = 256 << 20;

/// Finds the locks of a site.
pub type FindLocks = Box<dyn Fn() -> Result<Vec<PathBuf>, String> + Send + Sync>;

/// A store with its studies. It only reads from the store.
pub struct Site {
    root: PathBuf,
    pub(crate) store: Store,
    find: FindLocks,
    /// The objects that a bundle was published without.
    left_out: LeftOut,
    /// Studies by their id in addresses, as last read.
    studies: Mutex<BTreeMap<String, Arc<Study>>>,
}

/// Objects that the authors left out of a bundle, such as the texts of prompts. They do not count as damage.
#[derive(Debug, Default)]
struct LeftOut {
    /// The outputs, as the bundle's manifest names them.
    outputs: Vec<String>,
    /// Their digests.
    digests: BTreeSet<String>,
}

impl LeftOut {
    /// Reads what the bundle in a folder says about itself; nothing is left out of any other folder.
    fn of(root: &Path) -> Self {
        let read = |name: &str| artifacts::regular::read(&root.join(name)).ok();
        let manifest = read("manifest.json").and_then(|bytes| artifacts::json::parse(&bytes).ok());
        let manifest: Value = manifest.unwrap_or_default();
        let outputs = manifest["colophon"]["without"].as_array();
        let outputs = outputs.into_iter().flatten().filter_map(Value::as_str);
        let outputs: Vec<String> = outputs.map(str::to_owned).collect();
        if outputs.is_empty() {
            return Self::default();
        }
        let list = read("artifacts.tsv").and_then(|bytes| String::from_utf8(bytes).ok());
        // A line without a file.
        let gone = |line: &str| -> Option<String> {
            let digest = line.strip_suffix('\t')?.rsplit('\t').next()?;
            Some(digest.to_owned())
        };
        let digests = list.iter().flat_map(|list| list.lines().filter_map(gone));
        Self {
            digests: digests.collect(),
            outputs,
        }
    }

    /// Returns a failure about one of these objects as what it is; any other stays as it was.
    fn explained(&self, failure: Failure) -> Failure {
        let digest = failure.message.find("b3:").and_then(|at| {
            let end = at + "b3:".len() + 64;
            failure.message.get(at..end)
        });
        let is_own = digest.is_some_and(|digest| self.digests.contains(digest));
        if failure.fault != Fault::Store || !is_own {
            return failure;
        }
        let outputs = self.outputs.join(" and ");
        Failure::nothing(
            failure.message,
            format!("the bundle was published without {outputs}; ask its authors for them"),
        )
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Site {
    /// Creates the site of a store. `root` is the folder that addresses are relative to, and `find` lists the locks of
    /// the studies to show.
    pub fn new(root: &Path, store: Store, find: FindLocks) -> Self {
        Self {
            root: root.to_owned(),
            store,
            find,
            left_out: LeftOut::of(root),
            studies: Mutex::default(),
        }
    }

    /// Returns the root folder of the site.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the id in addresses of the study with a lock.
    pub fn id_of(&self, lock: &Path) -> String {
        id_of(&self.root, lock)
    }

    /// Answers a question; a failure is also a reply.
    ///
    /// A query ends when `left` is raised, because its client has left.
    pub fn answer(&self, ask: &Ask, left: &Arc<AtomicBool>) -> Reply {
        self.try_answer(ask, left)
            .unwrap_or_else(|failure| self.left_out.explained(failure).reply())
    }

    fn try_answer(&self, ask: &Ask, left: &Arc<AtomicBool>) -> Result<Reply, Failure> {
        parameters::check(ask)?;
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["api", "v1"] => Ok(self.about()),
            ["api", "v1", "openapi.json"] => Ok(Reply::new(
                "application/json",
                assets::OPENAPI,
                Freshness::Tagged,
            )),
            ["api", "v1", "studies"] => self.list(),
            ["api", "v1", "runs"] => Ok(live::runs(&self.root)),
            ["api", "v1", "objects", digest] => self.object(digest),
            ["api", "v1", "studies", id, rest @ ..] => {
                let study = self.study(id)?;
                self.of_study(&study, rest, ask, left)
            }
            ["api", ..] => Err(Failure::nothing(
                format!("the API has no `/{}`", path.join("/")),
                "`/api/v1/openapi.json` describes it",
            )),
            [] | [""] => page("index.html"),
            [name] => page(name),
            _ => Err(Failure::nothing("no such file", "")),
        }
    }

    /// Answers a question about a study that has been read; `rest` is the path below the study.
    pub(crate) fn of_study(
        &self,
        study: &Study,
        rest: &[&str],
        ask: &Ask,
        left: &Arc<AtomicBool>,
    ) -> Result<Reply, Failure> {
        let needed = |name: &str| {
            let missing = || Failure::question(format!("`{name}` is missing"), "");
            ask.get(name).ok_or_else(missing)
        };
        match rest {
            [] => study.overview(&self.store),
            ["cells"] => study.cells(&self.store),
            ["cell"] => {
                let at = ask.get("cell").unwrap_or_default();
                cell::cell(study, needed("stage")?, at, &self.store)
            }
            ["tables", name] => study.table(name, ask, &self.store),
            ["report"] => report::report(study, ask.get("cell"), &self.store),
            ["why"] => trail::why(study, ask, &self.store),
            ["distribution"] => latency::distribution(study, ask, &self.store),
            ["objective"] => latency::objective(study, ask, &self.store),
            ["activity"] => activity::activity(study, ask, &self.store),
            ["contrast"] => contrast::contrast(study, ask, &self.store),
            // The folder of a bundle comes from others, and it has no commits of its own.
            ["history"] if self.is_bundle() => Err(Failure::nothing(
                "a bundle has no history",
                "open the project of the study, with its git repository",
            )),
            ["history"] => history::reply(&study.path, ask, &self.store),
            ["compare"] => {
                let other = self.study(needed("with")?)?;
                contrast::studies(study, &other, ask, &self.store)
            }
            ["sql"] => self.sql(study, needed("query")?, ask, left),
            _ => Err(Failure::nothing(
                format!("a study has no `{}`", rest.join("/")),
                "`/api/v1/openapi.json` describes what it has",
            )),
        }
    }

    /// Returns whether the site is a published bundle.
    fn is_bundle(&self) -> bool {
        self.root.join("manifest.json").is_file()
    }

    pub(crate) fn about(&self) -> Reply {
        let name = self.root.file_name().map(|n| n.to_string_lossy());
        let value = json!({
            "program": "benchtrail",
            "version": env!("CARGO_PKG_VERSION"),
            "api": 1,
            "project": name,
            "bundle": self.is_bundle(),
        });
        Reply::json(&value, Freshness::Tagged)
    }

    fn list(&self) -> Result<Reply, Failure> {
        let mut studies = Vec::new();
        let mut broken = Vec::new();
        for path in (self.find)().map_err(Failure::store)? {
            match self.read(&path) {
                Ok(study) => studies.push(study.line(&self.store)),
                Err(failure) => broken.push(Value::from(failure.message)),
            }
        }
        let value = json!({"studies": studies, "broken": broken});
        Ok(Reply::json(&value, Freshness::Tagged))
    }

    /// Returns the study with an id.
    pub(crate) fn study(&self, id: &str) -> Result<Arc<Study>, Failure> {
        let study = lock(&self.studies).get(id).cloned();
        if let Some(study) = study {
            // Cheap compared with what follows: the lock of 1,800 cells is half a megabyte.
            return self.read(&study.path);
        }
        for path in (self.find)().map_err(Failure::store)? {
            if id_of(&self.root, &path) == id {
                return self.read(&path);
            }
        }
        Err(Failure::nothing(
            format!("unknown study `{id}`"),
            "`/api/v1/studies` lists them",
        ))
    }

    /// Reads a lock, unless it has not changed since the last time.
    fn read(&self, path: &Path) -> Result<Arc<Study>, Failure> {
        let id = id_of(&self.root, path);
        let bytes = artifacts::regular::read(path).map_err(|e| {
            let shown = path.strip_prefix(&self.root).unwrap_or(path).display();
            match e.kind() {
                // Its results are still in the store.
                io::ErrorKind::NotFound => Failure::nothing(
                    format!("the lock {shown} is gone"),
                    "run its experiment again: `benchtrail run` takes the measured cells from the store and writes the lock",
                ),
                _ => Failure::store(format!("{shown}: {e}")),
            }
        })?;
        let digest = Digest::of(&bytes);
        let kept = lock(&self.studies).get(&id).cloned();
        if let Some(cached) = kept.filter(|cached| cached.digest == digest) {
            return Ok(cached);
        }
        let study = Arc::new(Study::read(id.clone(), path, &self.root, &bytes)?);
        lock(&self.studies).insert(id, Arc::clone(&study));
        Ok(study)
    }

    /// Answers with the bytes of an object. Content that could run in a browser is shown with no permissions.
    fn object(&self, digest: &str) -> Result<Reply, Failure> {
        let wrong =
            || Failure::question(format!("`{digest}` is not a digest"), "b3: and 64 digits");
        let digest: Digest = digest.parse().map_err(|_| wrong())?;
        let Some(size) = self.store.size(&digest)? else {
            return Err(Failure::nothing(format!("there is no object {digest}"), ""));
        };
        if size > MAX_OBJECT {
            return Err(Failure::new(
                Fault::TooMuch,
                format!("the object has {size} bytes"),
                "`benchtrail show DIGEST --raw` writes it",
            ));
        }
        let body = Bytes::from(self.store.get(&digest)?);
        Ok(Reply {
            status: 200,
            media: media_of(&body),
            tag: Some(digest.hex()),
            body,
            freshness: Freshness::Always,
            foreign: true,
        })
    }

    fn sql(
        &self,
        study: &Study,
        query: &str,
        ask: &Ask,
        left: &Arc<AtomicBool>,
    ) -> Result<Reply, Failure> {
        let view = View::of(ask)?;
        let catalogue = study.catalogue(&self.store)?;
        let values = catalogue.values(query, &self.store)?;
        if values > MAX_VALUES {
            return Err(Failure::new(
                Fault::TooMuch,
                format!("the tables of this query have {values} values: too many to hold"),
                "query a table of results, or use `benchtrail sql` on a machine with more memory",
            ));
        }
        let limits = Limits {
            rows: MAX_ROWS,
            bytes: SQL_BYTES,
            value: SQL_VALUE,
            instructions: INSTRUCTIONS,
            deadline: Instant::now().checked_add(QUERY_TIME),
            stop: Some(Arc::clone(left)),
        };
        let (table, notes) = catalogue.ask(query, &self.store, &limits)?;
        view.reply("answer", &table, &Part::default(), &notes)
    }

    /// Reads a table from the store.
    pub(crate) fn table(&self, digest: &Digest) -> Result<Table, Failure> {
        Ok(Table::from_parquet(self.store.get(digest)?)?)
    }
}

fn page(name: &str) -> Result<Reply, Failure> {
    let Some(asset) = assets::find(name) else {
        let hint = if assets::ASSETS.is_empty() {
            "this program was built without the page; the API is at /api/v1"
        } else {
            "the page begins at /"
        };
        return Err(Failure::nothing("no such file", hint));
    };
    Ok(Reply::new(asset.media, asset.text, Freshness::Tagged))
}

/// Returns the id of a study in addresses: the path of its lock relative to the root, with `~` for `/`. A digest is
/// appended if the name has characters that addresses cannot contain.
fn id_of(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path).with_extension("");
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let id: String = text
        .chars()
        .map(|c| match c {
            '/' => '~',
            c if plain(c) => c,
            _ => '_',
        })
        .collect();
    match text.chars().all(|c| plain(c) || c == '/') {
        true => id,
        false => format!("{id}~{}", &Digest::of(text.as_bytes()).hex()[..8]),
    }
}

/// Returns the media type of bytes with a known signature.
fn media_of(bytes: &[u8]) -> &'static str {
    let start = &bytes[..bytes.len().min(512)];
    let text = std::str::from_utf8(start)
        .unwrap_or_else(|e| std::str::from_utf8(&start[..e.valid_up_to()]).unwrap_or_default());
    let trimmed = text.trim_start();
    if start.starts_with(b"PAR1") {
        "application/vnd.apache.parquet"
    } else if trimmed.starts_with("<svg") {
        "image/svg+xml"
    } else if trimmed.starts_with("<!doctype html") || trimmed.starts_with("<!DOCTYPE html") {
        "text/html; charset=utf-8"
    } else if std::str::from_utf8(bytes).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_study_whatever_else_there_is() {
        let id = |path: &str| id_of(Path::new("/p"), Path::new(path));
        assert_eq!(id("/p/experiments/a.smoke.lock"), "experiments~a.smoke");
        assert_eq!(id("/p/a.lock"), "a");
        // Names that would become equal get different endings.
        let (one, two) = (id("/p/a b.lock"), id("/p/a?b.lock"));
        assert!(one != two && one.starts_with("a_b~"), "{one} {two}");
        assert_ne!(id("/p/a~b.lock"), id("/p/a/b.lock"));
    }

    #[test]
    fn bytes_tell_their_kind_and_never_become_a_script() {
        assert_eq!(media_of(b"PAR1..."), "application/vnd.apache.parquet");
        assert_eq!(media_of(b" <svg xmlns"), "image/svg+xml");
        assert_eq!(media_of(b"alert(1)"), "text/plain; charset=utf-8");
        assert_eq!(media_of(b"{\"a\":1}"), "text/plain; charset=utf-8");
        assert_eq!(media_of(&[0xff, 0]), "application/octet-stream");
    }
}
