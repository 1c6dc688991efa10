//! `load.json` in the folder of a run: the server, the settings and the results, so that a study can start from it.

use std::fs;
use std::path::{Path, PathBuf};

use load::{Origin, Settings, Target};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::LoadArgs;
use crate::exit::Stop;

/// The file's name.
const FILE: &str = "load.json";

/// A run of `load`, described as a small study.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct LoadStudy {
    /// The version of the program that ran it.
    pub(super) benchtrail: String,
    pub(super) url: String,
    /// All servers if there are several, the one at `url` first; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) urls: Vec<String>,
    pub(super) model: String,
    pub(super) api: String,
    /// The variable with the API key, never the key.
    pub(super) api_key_env: Option<String>,
    pub(super) seed: u64,
    /// The load as a stage of an experiment.
    pub(super) stage: Value,
    /// The document that `--json` prints.
    pub(super) result: Value,
}

impl LoadStudy {
    /// Describes a finished run; `stage` is the load as an experiment would declare it.
    pub(super) fn new(
        arguments: &LoadArgs,
        origin: &Origin,
        target: &Target,
        settings: &Settings,
        mut stage: Value,
        result: Value,
    ) -> Self {
        // A number of tokens on the command line changes the named workload.
        if arguments.output_tokens.is_some() {
            stage["workload"] =
                serde_json::to_value(&settings.workload).expect("settings always serialize");
        }
        Self {
            benchtrail: env!("CARGO_PKG_VERSION").to_owned(),
            url: target.base_url.clone(),
            urls: target.servers.iter().map(|s| s.base_url.clone()).collect(),
            model: target.model.clone(),
            api: target.api.word().to_owned(),
            api_key_env: arguments.api_key_env.clone(),
            seed: origin.seed,
            stage,
            result,
        }
    }

    /// Returns the URLs of the loaded servers.
    pub(super) fn servers(&self) -> Vec<String> {
        match self.urls.is_empty() {
            true => vec![self.url.clone()],
            false => self.urls.clone(),
        }
    }

    /// Writes it next to the tables of the run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Stop> {
        let path = folder.join(FILE);
        let text = serde_json::to_string_pretty(self).expect("plain data");
        fs::write(&path, text + "\n").map_err(|e| Stop::refused_at(path.display(), &e))
    }

    /// Reads the descriptions of a run's levels, from the lowest to the highest; at least one.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) fn read_levels(folder: &Path) -> Result<Vec<Self>, Stop> {
        let below = || fs::read_dir(folder).into_iter().flatten().flatten();
        let levels = below().map(|entry| entry.path());
        let levels = levels.filter(|level| level.join(FILE).is_file());
        let levels: Vec<PathBuf> = match folder.join(FILE).exists() {
            true => Vec::new(),
            false => levels.collect(),
        };
        if levels.is_empty() {
            return Ok(vec![Self::read(folder)?]);
        }
        let studies = levels.iter().map(|level| Self::read(level));
        let mut studies = studies.collect::<Result<Vec<_>, Stop>>()?;
        studies.sort_by(|a, b| a.level().total_cmp(&b.level()));
        Ok(studies)
    }

    /// Returns the number of clients or the rate; infinite if all requests are sent at once.
    fn level(&self) -> f64 {
        let arrival = &self.stage["arrival"];
        let clients = arrival["closed-loop"]["clients"].as_f64();
        let rates = ["poisson", "gamma"]
            .iter()
            .filter_map(|process| arrival[*process]["rate"].as_f64());
        clients
            .into_iter()
            .chain(rates)
            .next()
            .unwrap_or(f64::INFINITY)
    }

    /// Reads the description from a run's folder.
    ///
    /// # Errors
    /// If the folder is not from a run, or its content cannot be read.
    pub(super) fn read(folder: &Path) -> Result<Self, Stop> {
        let path = folder.join(FILE);
        if !folder.is_dir() {
            let what = match folder.exists() {
                true => "this is a file, not a folder",
                false => "the folder does not exist",
            };
            return Err(Stop::usage(format!("{}: {what}", folder.display()))
                .hint("give the folder that `benchtrail load --out DIR` has written"));
        }
        let text = artifacts::regular::read_text(&path).map_err(|e| {
            Stop::usage(format!("{}: {e}", path.display()))
                .hint("give the folder that `benchtrail load --out DIR` has written")
        })?;
        serde_json::from_str(&text).map_err(|e| Stop::failed(format!("{}: {e}", path.display())))
    }
}
