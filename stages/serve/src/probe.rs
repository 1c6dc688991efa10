//! Reads what a server reports about itself and checks that its exporters answer. This happens
//! before the first request of a load, so that a study does not end with empty tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use artifacts::json::plain;
use contract::{Exporter, Telling};
use engines::{Engine, Program, states_version};
use net::{Ask, HttpError, Site, SiteError};
use pipeline::{Failure, Json};

/// The probe that is compared with the version in the definition.
pub(crate) const VERSION: &str = "version";

/// The version in a definition that does not know it.
pub(crate) const UNKNOWN: &str = "unknown";

const LIMIT: Duration = Duration::from_secs(10);

/// How long a server may take to say anything at all.
const SILENCE: Duration = Duration::from_secs(5);

/// Returns the servers of an engine that should already run but do not answer: the URL of each, and the reason. They get
/// one request without a prompt and without the engine's key.
pub fn silent(engine: &Engine) -> Vec<(String, String)> {
    let Program::Running(urls) = &engine.launch.program else {
        return Vec::new();
    };
    let endpoints = &engine.endpoints;
    let path = endpoints.health.as_ref().or(endpoints.models.as_ref());
    let path = path.map_or("/", String::as_str);
    let tried = urls.all().iter().filter_map(|url| {
        // Wrong certificates, which the run reports, are an answer.
        let reason = match Site::find(url, None, None)
            .ok()?
            .ask(&Ask::get(path), SILENCE)
        {
            Err(HttpError::Connect(reason)) => reason,
            Err(error @ HttpError::Late(_)) => error.to_string(),
            _ => return None,
        };
        Some((url.clone(), reason))
    });
    tried.collect()
}

/// Returns what the server reports, by the name of the probe.
///
/// # Errors
/// If the server does not report it, or reports another version than the definition declares.
pub(crate) fn probe(engine: &Engine, site: &Site) -> Result<BTreeMap<String, Json>, Failure> {
    let mut facts = BTreeMap::new();
    for (name, probe) in &engine.probe {
        let wrong = |why: String| {
            Failure::failed(format!("the probe `{name}` of {}: {why}", engine.title)).hint(format!(
                "correct `probe.{name}` in the engine's definition, or remove it"
            ))
        };
        let answer = site
            .ask(&Ask::get(&probe.path), LIMIT)
            .map_err(|e| wrong(format!("{}: {e}", probe.path)))?;
        if answer.status != 200 {
            return Err(wrong(answer.summary()));
        }
        let document = answer
            .json()
            .map_err(|e| wrong(format!("{} is {e}", probe.path)))?;
        let value = document
            .pointer(&probe.pointer)
            .filter(|value| !value.is_null())
            .ok_or_else(|| {
                let (path, pointer) = (&probe.path, &probe.pointer);
                wrong(format!(
                    "{path} has nothing at `{pointer}`: `{}`",
                    answer.start()
                ))
            })?;
        facts.insert(name.clone(), crate::ready::masked(value.clone(), site));
    }
    match facts.get(VERSION).map(plain) {
        Some(version)
            if engine.version != UNKNOWN && !states_version(&version, &engine.version) =>
        {
            let declared = &engine.version;
            Err(Failure::failed(format!(
                "{} {declared} is declared, but the server reports {version}",
                engine.title
            ))
            .hint(format!(
                "write `version: {version:?}` in the engine's definition, or start version {declared}"
            )))
        }
        _ => Ok(facts),
    }
}

/// Queries every exporter once.
///
/// # Errors
/// If an exporter does not answer, or has none of the metrics that its kind is read for.
pub(crate) fn check_exporters(
    exporters: &BTreeMap<String, Exporter>,
    ca_file: Option<&Path>,
) -> Result<(), Failure> {
    for (name, exporter) in exporters {
        let wrong = |why: String| {
            Failure::failed(format!("the exporter `{name}` at {}: {why}", exporter.url)).hint(
                format!("correct `exporters.{name}` in the engine's definition, or remove it"),
            )
        };
        let (server, path) = exporter.parts();
        let site = Site::find(server, ca_file, None).map_err(|e| match e {
            SiteError::Url(message) => wrong(message),
            SiteError::Tls(error) => wrong(error.reason),
        })?;
        let answer = site
            .ask(&Ask::get(path).accept("text/plain"), LIMIT)
            .map_err(|e| wrong(e.to_string()))?;
        if answer.status != 200 {
            return Err(wrong(answer.summary()));
        }
        let beginning = begins_with(exporter.tells);
        let text = answer.text();
        let tells = |line: &str| {
            !line.starts_with('#') && line.starts_with(beginning) && !line.trim().is_empty()
        };
        if !text.lines().any(tells) {
            let what = match exporter.tells {
                Telling::Metrics => "its answer has no metrics".to_owned(),
                _ => format!("its answer has no metric that begins with `{beginning}`"),
            };
            return Err(wrong(what));
        }
    }
    Ok(())
}

/// Returns the prefix of the metrics that an exporter is read for.
fn begins_with(tells: Telling) -> &'static str {
    match tells {
        Telling::Metrics => "",
        Telling::Node => "node_",
        Telling::Dcgm => "DCGM_FI_DEV_",
    }
}
