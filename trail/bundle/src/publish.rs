//! Writes a bundle.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use artifacts::json::pretty;
use artifacts::{Digest, Table};
use pipeline::lock::LockClass;
use pipeline::{CellStatus, Media, file_of_output};

use crate::catalogue::{Catalogue, times};
use crate::check::verify;
use crate::envelope::{Envelope, IN_TOTO};
use crate::error::BundleError;
use crate::layout;
use crate::manifest::{Colophon, Entry, FORMAT, Manifest};
use crate::open::Bundle;
use crate::place::BundlePath;
use crate::publication::Publication;
use crate::ro_crate::{Facts, ro_crate};
use crate::secrets::Scanner;
use crate::statement::statement;
use crate::{citation, prov};

/// The result of a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The directory.
    pub folder: PathBuf,
    /// The number of files in it.
    pub files: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// The number of artifacts and records among them.
    pub objects: usize,
    /// The number of artifacts that the bundle names but does not hold.
    pub left_out: usize,
    /// The number of earlier results whose records the bundle names but the store no longer holds.
    pub gone: usize,
    /// The reports, as paths in the bundle.
    pub reports: Vec<BundlePath>,
    /// The name of the signing key.
    pub key: Option<String>,
}

/// Writes a bundle into a directory that must not exist yet. It appears completely or not at all.
///
/// # Errors
/// If secrets would be published, an artifact is missing or damaged, [`verify`] would have a complaint, or a file system
/// operation fails.
pub fn publish(publication: &Publication<'_>, folder: &Path) -> Result<Published, BundleError> {
    if folder.exists() {
        return Err(BundleError::Exists(folder.to_owned()));
    }
    if publication.authors.is_empty() {
        return Err(BundleError::Study("no author is given".to_owned()));
    }
    let catalogue = Catalogue::read(publication.lock, publication.store, publication.without)?;
    if catalogue.cells.is_empty() {
        return Err(BundleError::Study(
            "the lock has no executed cell, so there is nothing to publish".to_owned(),
        ));
    }
    let parent = folder
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|e| BundleError::Io(parent.to_owned(), e))?;
    let draft = pipeline::temporary::folder(parent, ".bundle");
    let draft = draft.map_err(|e| BundleError::Io(parent.to_owned(), e))?;
    let mut writer = Writer {
        folder: Some(draft.path()),
        entries: Vec::new(),
        scanner: Some(Scanner::new(
            publication.allowed,
            publication.names,
            publication.keys,
        )),
        findings: Vec::new(),
        signed: publication.key.is_some(),
        attestation: None,
    };
    let mut published = writer.all(publication, &catalogue)?;
    // What a reader would refuse is not published.
    let checked = verify(&Bundle::open(draft.path())?, None)?;
    if !checked.complaints.is_empty() {
        return Err(BundleError::DoesNotHold(checked.complaints));
    }
    published.folder = folder.to_owned();
    // From here on the directory belongs to the user, so it loses the private mode of temporary
    // ones.
    let path = draft.keep();
    let finish = || {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        fs::rename(&path, folder)
    };
    finish().map_err(|e| {
        // If it cannot be moved into place, it is useless.
        let _ = fs::remove_dir_all(&path);
        BundleError::Io(folder.to_owned(), e)
    })?;
    Ok(published)
}

/// Derives again every file of a bundle except the envelope of its signature, and describes them.
/// Nothing is written. `publication` has no key; `attestation` is the envelope of the bundle's
/// signature, if any.
///
/// # Errors
/// If an artifact is missing or damaged.
pub(crate) fn describe(
    publication: &Publication<'_>,
    catalogue: &Catalogue,
    attestation: Option<&[u8]>,
) -> Result<Vec<Entry>, BundleError> {
    let mut writer = Writer {
        folder: None,
        entries: Vec::new(),
        scanner: None,
        findings: Vec::new(),
        signed: attestation.is_some(),
        attestation,
    };
    writer.all(publication, catalogue)?;
    Ok(writer.entries)
}

struct Writer<'a> {
    /// The target folder; `None` if files are only described.
    folder: Option<&'a Path>,
    entries: Vec<Entry>,
    /// The search for secrets; `None` for a bundle that is already published.
    scanner: Option<Scanner>,
    findings: Vec<crate::secrets::SecretFinding>,
    signed: bool,
    /// The envelope of a bundle that is already published, which only its signer could recreate.
    attestation: Option<&'a [u8]>,
}

impl Writer<'_> {
    fn all(
        &mut self,
        publication: &Publication<'_>,
        catalogue: &Catalogue,
    ) -> Result<Published, BundleError> {
        self.document(&publication.sources.experiment, publication.experiment_text)?;
        self.document(&publication.sources.lock, &publication.lock.to_text())?;
        for (place, path, digest) in &publication.sources.carried {
            self.carry(place, path, digest)?;
        }
        self.json(
            layout::STUDY,
            &serde_json::to_value(publication.study).expect("a study serializes"),
        )?;
        self.document(&own(layout::ARTIFACTS), &catalogue.listing())?;
        for (digest, object) in &catalogue.objects {
            let bytes = publication.store.get(digest)?;
            let path = own(&layout::object(digest));
            self.scan(&path, &object.what, object.media, &bytes)?;
            self.write(&path, &bytes)?;
        }
        let reports = self.reports(publication, catalogue)?;
        if !self.findings.is_empty() {
            self.findings.sort();
            return Err(BundleError::Secrets(std::mem::take(&mut self.findings)));
        }
        let spec = &publication.study.spec;
        let title = spec["title"]
            .as_str()
            .unwrap_or(&publication.lock.experiment);
        let description = spec["question"].as_str().unwrap_or(title);
        let spans: Vec<(String, String)> =
            catalogue.cells.iter().map(|c| times(&c.record)).collect();
        let start = spans.iter().map(|s| s.0.as_str()).min().unwrap_or_default();
        let end = spans.iter().map(|s| s.1.as_str()).max().unwrap_or_default();
        // RFC 3339 in UTC begins with the date, ten characters.
        let date = end.get(..10).unwrap_or(end);
        let facts = citation::Facts {
            cells: catalogue.cells.len(),
            objects: catalogue.objects.len(),
            left_out: catalogue.left_out.len(),
            gone: &catalogue.gone,
            reports: &reports,
            signed: self.signed,
        };
        self.document(
            &own(layout::README),
            &citation::readme(publication, title, &facts),
        )?;
        self.document(
            &own(layout::CITATION),
            &citation::citation(publication, title, date),
        )?;
        self.json(layout::PROV, &prov::prov(publication, catalogue))?;
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        let described = self.entries.clone();
        let facts = Facts {
            title,
            description,
            date,
            window: (start, end),
            files: &described,
            reports: &reports,
        };
        self.json(layout::RO_CRATE, &ro_crate(publication, catalogue, &facts))?;
        self.seal(publication, catalogue, &reports, (start, end))?;
        Ok(Published {
            folder: PathBuf::new(),
            files: self.entries.len(),
            bytes: self.entries.iter().map(|e| e.bytes).sum(),
            objects: catalogue.objects.len(),
            left_out: catalogue.left_out.len(),
            gone: catalogue.gone.len(),
            reports,
            key: publication.key.map(|k| k.public().id()),
        })
    }

    /// Writes manifest, statement, envelope and sums, which cover all other files.
    fn seal(
        &mut self,
        publication: &Publication<'_>,
        catalogue: &Catalogue,
        reports: &[BundlePath],
        window: (&str, &str),
    ) -> Result<(), BundleError> {
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        let manifest = Manifest {
            format: FORMAT,
            experiment: publication.lock.experiment.clone(),
            lock: publication.sources.lock.clone(),
            trail: publication.lock.trail(),
            allowed: publication.allowed.to_vec(),
            colophon: colophon(publication),
            files: self.entries.clone(),
        };
        self.write(&own(layout::MANIFEST), &manifest.to_bytes())?;
        let entry = self
            .entries
            .last()
            .expect("the manifest was just written")
            .clone();
        let named = |e: &&Entry| e.path == publication.sources.lock || reports.contains(&e.path);
        let named: Vec<&Entry> = manifest.files.iter().filter(named).collect();
        let statement = statement(publication, catalogue, &entry, &named, window);
        self.json(layout::STATEMENT, &statement)?;
        if let Some(key) = publication.key {
            let body = pretty(&statement);
            let envelope = Envelope::seal(IN_TOTO, &body, key);
            self.json(
                layout::ATTESTATION,
                &serde_json::to_value(envelope).expect("an envelope serializes"),
            )?;
        }
        if let Some(envelope) = self.attestation {
            self.write(&own(layout::ATTESTATION), envelope)?;
        }
        let sums: String = self
            .entries
            .iter()
            .map(|e| format!("{}  {}\n", e.sha256, e.path))
            .collect();
        self.document(&own(layout::SUMS), &sums)
    }

    /// Writes the reports to the paths where readers expect them.
    fn reports(
        &mut self,
        publication: &Publication<'_>,
        catalogue: &Catalogue,
    ) -> Result<Vec<BundlePath>, BundleError> {
        let cells = catalogue.cells.iter().filter(|c| {
            c.class == LockClass::Study
                && c.record.status == CellStatus::Ok
                && c.record.outputs.contains_key("report")
        });
        let cells: Vec<_> = cells.collect();
        let mut reports = Vec::new();
        for (n, cell) in cells.iter().enumerate() {
            let folder = if n == 0 {
                layout::REPORT.to_owned()
            } else {
                format!("{}-{}", layout::REPORT, n + 1)
            };
            for (name, artifact) in &cell.record.outputs {
                let report = Path::new("report.md");
                let file = file_of_output(report, name, artifact.media);
                let path = own(&format!("{folder}/{}", file.display()));
                self.write(&path, &publication.store.get(&artifact.digest)?)?;
                if matches!(name.as_str(), "report" | "html") {
                    reports.push(path);
                }
            }
        }
        reports.sort();
        Ok(reports)
    }

    /// Writes a file that the plan read, with its content at that time.
    fn carry(
        &mut self,
        place: &BundlePath,
        path: &Path,
        digest: &Digest,
    ) -> Result<(), BundleError> {
        let bytes = fs::read(path).map_err(|e| BundleError::Io(path.to_owned(), e))?;
        if Digest::of(&bytes) != *digest {
            return Err(BundleError::Study(format!(
                "{} changed while it was read",
                path.display()
            )));
        }
        if let Some(scanner) = &mut self.scanner {
            scanner.text(place, "its path", place, &mut self.findings);
            match Table::from_parquet(bytes.clone()) {
                Ok(table) if bytes.starts_with(b"PAR1") => {
                    scanner.table(place, place, &table, &mut self.findings);
                }
                _ => {
                    let text = String::from_utf8_lossy(&bytes);
                    scanner.text(place, place, &text, &mut self.findings);
                }
            }
        }
        self.write(place, &bytes)
    }

    fn scan(
        &mut self,
        path: &str,
        what: &str,
        media: Media,
        bytes: &[u8],
    ) -> Result<(), BundleError> {
        let Some(scanner) = &mut self.scanner else {
            return Ok(());
        };
        match media {
            Media::Parquet => {
                let table = Table::from_parquet(bytes.to_vec())
                    .map_err(|e| BundleError::Study(format!("{what}: {e}")))?;
                scanner.table(path, what, &table, &mut self.findings);
            }
            _ => {
                let text = String::from_utf8_lossy(bytes);
                scanner.text(path, what, &text, &mut self.findings);
            }
        }
        Ok(())
    }

    /// Scans and writes a text of Benchtrail or of the user.
    fn document(&mut self, path: &BundlePath, text: &str) -> Result<(), BundleError> {
        if let Some(scanner) = &mut self.scanner {
            scanner.text(path, path, text, &mut self.findings);
        }
        self.write(path, text.as_bytes())
    }

    fn json(&mut self, name: &str, value: &serde_json::Value) -> Result<(), BundleError> {
        self.write(&own(name), &pretty(value))
    }

    fn write(&mut self, path: &BundlePath, bytes: &[u8]) -> Result<(), BundleError> {
        if let Some(folder) = self.folder {
            let target = path.below(folder);
            let write = || {
                fs::create_dir_all(target.parent().expect("a file lies in a folder"))?;
                let mut file = fs::File::create_new(&target)?;
                file.write_all(bytes)
            };
            write().map_err(|e| BundleError::Io(target.clone(), e))?;
        }
        self.entries.push(Entry::of_bytes(path, bytes));
        Ok(())
    }
}

/// Returns the path of a file that every bundle has.
fn own(name: &str) -> BundlePath {
    BundlePath::new(name).expect("a bundle's own names are places in it")
}

fn colophon(publication: &Publication<'_>) -> Colophon {
    let sources = publication.sources;
    Colophon {
        experiment: sources.experiment.clone(),
        carried: sources.carried.iter().map(|c| c.0.clone()).collect(),
        left_out: sources.left_out.clone(),
        without: publication.without.to_vec(),
        authors: publication.authors.to_vec(),
        license: publication.license.to_owned(),
        version: publication.version.to_owned(),
    }
}
