//! Containers: the image that a study names as the environment of its engine.
//!
//! Layout: `<store>/images/<64 hex digits>.json` records the image of a tag when it was first
//! resolved. The digest is that of the tag as the study writes it.

mod image;

use std::collections::BTreeMap;

use pipeline::{Consent, Effect, Problem, Step, What};
use places::Network;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(crate) use image::{Ready, prepare, promised, runtime, table};

/// Options of `run` that Benchtrail sets itself, with the key to use instead.
const OWN: [(&str, &str); 15] = [
    ("--cidfile", "Benchtrail names the container itself"),
    ("--detach", "Benchtrail waits for the container"),
    ("-d", "Benchtrail waits for the container"),
    (
        "--entrypoint",
        "write the program as `launch.program` of the engine's definition",
    ),
    ("--gpus", "write `gpus:`"),
    ("--label", "Benchtrail labels the container itself"),
    ("--log-driver", "Benchtrail keeps the log itself"),
    ("--name", "Benchtrail names the container itself"),
    ("--net", "write `network:`"),
    ("--network", "write `network:`"),
    ("--publish", "write `network: published`"),
    ("-p", "write `network: published`"),
    ("--restart", "a container that ended is a result"),
    ("--rm", "Benchtrail removes the container itself"),
    ("--user", "write `user:`"),
];

/// A container.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "tag": "a part of `image:`",
    "digest": "a part of `image:`, for example `name@sha256:…`",
    "volumes": "`mounts:` for what is read, `caches:` for what is written",
    "shm-size": "`shm:`",
    "ipc": "`run-arguments: [--ipc=host]`",
    "env": "a key of the engine's definition: `launch: {environment: {NAME: value}}`",
    "environment": "a key of the engine's definition: `launch: {environment: {NAME: value}}`",
    "command": "keys of the engine's definition: `launch: {program: …, arguments: […]}`",
    "entrypoint": "a key of the engine's definition: `launch: {program: {installed: NAME}}`",
    "ports": "`network: published`; the port is chosen automatically",
}))]
pub struct ContainerSettings {
    /// The image: `name@sha256:DIGEST`, the digest of one that you built (`sha256:DIGEST`), or a
    /// name with a tag, which is resolved once and kept in the store.
    pub image: String,
    /// The runtime: a program on the search path, or the path of one. By default `podman` if it is installed,
    /// otherwise `docker`. It takes the options of docker if `docker` is part of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub runtime: Option<String>,
    /// Arguments of the runtime before its own command, for example `--storage-driver=vfs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime_arguments: Vec<String>,
    /// Further arguments of `run`, for example `--ipc=host` or `--memory=64g`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_arguments: Vec<String>,
    /// The GPUs that it sees: `all`, or numbers such as `"0,1"`. By default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^(all|\d+(,\d+)*)$"))]
    pub gpus: Option<String>,
    /// The size of its shared memory, for example `16g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^[1-9]\d*[bkmg]?$"))]
    pub shm: Option<String>,
    /// Files and folders of this machine that it can read, by their path inside.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mounts: BTreeMap<String, String>,
    /// Folders of this machine that it can write, by their path inside, for example the cache of
    /// a hub.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub caches: BTreeMap<String, String>,
    /// The user inside, for example `"1000:1000"`. By default that of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub user: Option<String>,
    /// How the server is reached.
    #[serde(default)]
    pub network: Network,
}

/// Makes settings canonical and reports their problems.
pub(crate) fn canonical(
    settings: ContainerSettings,
    problems: &mut Vec<Problem>,
) -> ContainerSettings {
    let mut add = |key: &str, index: Option<usize>, message: String, hint: &str| {
        let keys = ["environment", "container", key];
        let mut route: Vec<Step> = keys.iter().map(|k| Step::Key((*k).to_owned())).collect();
        route.extend(index.map(Step::Index));
        problems.push(Problem {
            route,
            ..Problem::at(&[], message).hint(hint)
        });
    };
    if let Err((message, hint)) = named(&settings.image) {
        add("image", None, message, hint);
    }
    for (index, argument) in settings.run_arguments.iter().enumerate() {
        let option = argument.split('=').next().unwrap_or_default();
        if let Some((_, instead)) = OWN.iter().find(|(own, _)| *own == option) {
            add(
                "run-arguments",
                Some(index),
                format!("`{option}` cannot be given here"),
                instead,
            );
        }
    }
    for (key, paths) in [("mounts", &settings.mounts), ("caches", &settings.caches)] {
        for (inside, here) in paths {
            if !inside.starts_with('/') || inside.contains(',') || here.contains(',') {
                let message = format!("`{inside}` cannot be a path inside the container");
                let message = match here.contains(',') {
                    true => format!("`{here}` has a comma, which runtimes read as an option"),
                    false => message,
                };
                add(
                    key,
                    None,
                    message,
                    "write absolute paths without commas: `/inside: /here`",
                );
            }
        }
    }
    settings
}

/// Checks that a text names one image.
fn named(image: &str) -> Result<(), (String, &'static str)> {
    let hint = "write `name@sha256:DIGEST`, `sha256:DIGEST`, or a name with its tag";
    let is_digest = |text: &str| {
        text.len() == 64
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    if image.is_empty() || image.starts_with('-') || !image.chars().all(plain) {
        return Err((format!("`{image}` cannot be the name of an image"), hint));
    }
    if let Some((_, digest)) = image.split_once("sha256:") {
        return match is_digest(digest) {
            true => Ok(()),
            false => Err((
                format!("`sha256:{digest}` is not a digest of 64 digits"),
                hint,
            )),
        };
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    if last.contains(':') {
        return Ok(());
    }
    Err((
        format!("`{image}` has no tag, so the image may change"),
        hint,
    ))
}

/// Returns whether a study itself pins an image.
pub(crate) fn is_pinned(image: &str) -> bool {
    image.contains("sha256:")
}

/// Returns the effect of running an engine in a container. The image's publisher controls all of
/// its code, and mounts and options decide what it can reach.
pub(crate) fn effect(recipe: &ContainerSettings) -> Effect {
    Effect {
        what: What::Contain {
            image: recipe.image.clone(),
            pinned: is_pinned(&recipe.image),
            runtime: recipe.runtime.clone(),
            arguments: recipe
                .runtime_arguments
                .iter()
                .chain(&recipe.run_arguments)
                .cloned()
                .collect(),
            gpus: recipe.gpus.clone(),
            mounts: recipe.mounts.clone(),
            caches: recipe.caches.clone(),
        },
        consent: Some(Consent {
            definition: json!({ "container": recipe }),
            texts: BTreeMap::new(),
            arguments: BTreeMap::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_by_a_digest_or_a_tag() {
        let digest = "a".repeat(64);
        for image in [
            "vllm/vllm-openai:v0.20.2".to_owned(),
            format!("registry.example.org:5000/a/b@sha256:{digest}"),
            format!("sha256:{digest}"),
        ] {
            assert_eq!(named(&image), Ok(()), "{image}");
        }
        for image in [
            "vllm/vllm-openai",
            "host:5000/name",
            "",
            "--privileged",
            "a b:1",
            "a:1;x",
            "a@sha256:12",
        ] {
            assert!(named(image).is_err(), "{image}");
        }
    }
}
