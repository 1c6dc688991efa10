//! Prepares an engine on another host, where Benchtrail's binary does the same as here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use artifacts::Store;
use engines::Weights;
use pipeline::lease::Leases;
use pipeline::{
    Content, Control, Coordinates, Done, Failure, Inert, Job, Json, Lease, Media, Output,
    StageKind, Watch,
};
use places::cloud::{Rented, rent};
use places::{Host, Place};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::settings::Parameters;
use crate::stage::Provision;
use crate::weights::{check_local, files};

/// The facet that records how a machine is reached, if it is not this one.
pub(crate) const REACHED: &str = "reached";

/// An output on its way between two machines.
#[derive(Serialize, Deserialize)]
struct Sent {
    name: String,
    media: Media,
    rows: Option<u64>,
    /// The bytes as hexadecimal digits, because tables are not text.
    bytes: String,
}

/// The other host's answer.
#[derive(Serialize, Deserialize)]
struct Answer {
    outputs: Vec<Sent>,
    live: Json,
    observations: BTreeMap<String, Json>,
    warnings: Vec<String>,
}

/// Prepares on this host what another machine requests. All files lie below `folder`.
pub fn answer(folder: &Path, parameters: &Json) -> Json {
    match prepare(folder, parameters) {
        Ok(answer) => json!(answer),
        Err(failure) => json!({"failed": failure.reason, "hint": failure.hint}),
    }
}

fn prepare(folder: &Path, parameters: &Json) -> Result<Answer, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::failed(format!("{}: {e}", folder.display()));
    let store = Store::open(&folder.join("store")).map_err(|e| wrong(&e))?;
    // Remove what an earlier, killed process left behind.
    pipeline::lease::reap_orphans(store.root()).map_err(|e| wrong(&e))?;
    let scratch = tempfile::tempdir_in(folder).map_err(|e| wrong(&e))?;
    let nowhere = Coordinates::default();
    let done = Provision.run(&Job {
        experiment: "remote",
        stage: "provision",
        coordinates: &nowhere,
        parameters,
        seed: 0,
        replicate: &nowhere,
        inputs: &[],
        store: &store,
        files: &Default::default(),
        scratch: scratch.path(),
        control: &Control::quiet(),
        leases: &Leases::new(store.root(), "remote", "provision"),
        study: None,
    })?;
    let live = done.lease.as_ref().map(|lease| lease.live().clone());
    let sent = done.outputs.into_iter().map(|output| {
        let bytes = match output.content {
            Content::Bytes(bytes) => bytes,
            Content::File(path) => std::fs::read(&path).map_err(|e| wrong(&e))?,
        };
        Ok(Sent {
            name: output.name,
            media: output.media,
            rows: output.rows,
            bytes: artifacts::hex(&bytes),
        })
    });
    Ok(Answer {
        outputs: sent.collect::<Result<_, Failure>>()?,
        live: live.unwrap_or_default(),
        observations: done.observations,
        warnings: done.warnings,
    })
}

/// Makes another host prepare what the parameters request. `client` holds facets of this machine.
///
/// # Errors
/// If the host cannot be reached, or cannot prepare it.
pub(crate) fn prepare_there(
    place: &Place,
    parameters: &Parameters,
    client: &BTreeMap<String, Json>,
    job: &Job<'_>,
) -> Result<Done, Failure> {
    let (rented, host) = match place {
        Place::Ssh(ssh) => (None, Host::reach(ssh, job.files, job.control)?),
        Place::Slurm(_) | Place::Pool(_) | Place::Kubernetes(_) => {
            return Err(Failure::failed(
                "no engine is prepared from here, because whole launches are executed elsewhere",
            ));
        }
        Place::Cloud(cloud) => {
            let store = job.store.root();
            let (machine, host) = rent(cloud, store, job.files, job.experiment, job.control)?;
            (Some(Held(machine)), host)
        }
    };
    let mut there = json!(parameters);
    if let Some(document) = there.as_object_mut() {
        document.remove("place");
    }
    if let Weights::Local(weights) = &parameters.model.definition.weights {
        let target = push_weights(&host, &weights.path, weights.sha256.hex(), job)?;
        there["model"]["definition"]["weights"]["local"]["path"] = json!(target);
    }
    if let Some(Weights::Local(weights)) = parameters
        .draft
        .as_ref()
        .map(|draft| &draft.definition.weights)
    {
        let target = push_weights(&host, &weights.path, weights.sha256.hex(), job)?;
        there["draft"]["definition"]["weights"]["local"]["path"] = json!(target);
    }
    job.control
        .progress(1, None, format!("preparing the engine on {}", host.name));
    let answer = host.call(&["provision"], &there, job.control)?;
    let answer: Answer = serde_json::from_value(answer).map_err(|e| {
        Failure::failed(format!(
            "the host {} gave an unexpected answer: {e}",
            host.name
        ))
    })?;
    let mut outputs = Vec::new();
    for sent in answer.outputs {
        let mut bytes = unhex(&sent.bytes)
            .ok_or_else(|| Failure::failed(format!("`{}` came back damaged", sent.name)))?;
        if matches!(sent.name.as_str(), "environment" | "host") {
            bytes = with_client(&bytes, client)?;
        }
        outputs.push(Output {
            name: sent.name,
            media: sent.media,
            content: Content::Bytes(bytes),
            rows: sent.rows,
        });
    }
    let mut live = answer.live;
    live["place"] = json!(host);
    let mut observations = answer.observations;
    let lease: Box<dyn Lease> = match rented {
        None => Box::new(Inert { live }),
        Some(machine) => {
            observations.insert("rented".to_owned(), json!(machine.0.outputs()));
            Box::new(OnRented { live, machine })
        }
    };
    Ok(Done {
        outputs,
        lease: Some(lease),
        observations,
        warnings: answer.warnings,
    })
}

/// A rented machine that is released on drop.
struct Held(Arc<Rented>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// The lease of what was prepared on a rented machine.
struct OnRented {
    live: Json,
    machine: Held,
}

impl Lease for OnRented {
    fn live(&self) -> &Json {
        &self.live
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.machine.0.check()
    }

    fn watch(&self) -> Option<Watch> {
        let machine = Arc::clone(&self.machine.0);
        Some(Arc::new(move || machine.check()))
    }

    fn release(self: Box<Self>) -> Vec<Output> {
        Vec::new()
    }
}

/// Copies the weights to the host once, under their digest and their own name, by which an engine may know their form.
/// Returns their location.
fn push_weights(host: &Host, path: &str, sha256: &str, job: &Job<'_>) -> Result<String, Failure> {
    let path = job.files.path(path);
    let name = path.file_name().and_then(|name| name.to_str());
    let folder = format!("{}/models/{sha256}", host.folder);
    let target = format!("{folder}/{}", name.unwrap_or("weights"));
    if !host.has(&target, job.control)? {
        job.control.progress(0, None, "checking the weights");
        check_local(&path, sha256, job)?;
        host.make_folder(&folder, job.control)?;
        job.control
            .progress(0, None, format!("copying the weights to {}", host.name));
        if path.is_dir() {
            let trouble = |e| Failure::failed(format!("{}: {e}", path.display()));
            let files = files(&path).map_err(trouble)?;
            host.push_folder(&path, &files, &target, job.control)?;
        } else {
            host.push(&path, &target, "644", job.control)?;
        }
    }
    Ok(target)
}

/// Adds to a descriptor's facets how the machine is reached, and from which client.
fn with_client(bytes: &[u8], client: &BTreeMap<String, Json>) -> Result<Vec<u8>, Failure> {
    let wrong = |e: serde_json::Error| Failure::failed(e.to_string());
    let mut document: Json = serde_json::from_slice(bytes).map_err(wrong)?;
    for (name, value) in client {
        document["facets"][name] = value.clone();
    }
    match Output::json("", &document).content {
        Content::Bytes(bytes) => Ok(bytes),
        Content::File(_) => unreachable!("a document is made in memory"),
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (digits.len().is_multiple_of(2) && digits.is_ascii())
        .then(|| (0..digits.len()).step_by(2).map(pair).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_their_way_as_digits() {
        assert_eq!(unhex("00ff10"), Some(vec![0, 255, 16]));
        assert_eq!(unhex(""), Some(Vec::new()));
        for damaged in ["0", "0g", "é0"] {
            assert_eq!(unhex(damaged), None, "{damaged}");
        }
    }
}
