//! Finds an image and reads what it contains.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use artifacts::{Digest, Table};
use contract::{InstalledSoftware, Row, SoftwareKind, SoftwareRow};
use pipeline::sources::NamedFiles;
use pipeline::{Failure, Job, Json};
use places::{ContainerError, Containment, PACKAGES, Runtime, WEIGHTS};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ContainerSettings, is_pinned};
use crate::machine::Machine;
use crate::prepare::text;
use crate::venv;

/// The subfolder of the store that records the images of tags.
const FOLDER: &str = "images";

/// The time in which the runtime must answer.
const ANSWER: Duration = Duration::from_secs(120);

/// The time limit for fetching an image; some have 30 GB.
const FETCH: Duration = Duration::from_secs(4 * 3600);

/// A container ready to be started any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) containment: Containment,
    image: Image,
    runtime_version: String,
    pub(crate) software: Option<InstalledSoftware>,
}

/// What a runtime reports about an image.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    /// The digest of its configuration, which names its layers.
    id: String,
    /// The names under which others can fetch the same image: `name@sha256:…`.
    published: Vec<String>,
    os: String,
    arch: String,
    labels: BTreeMap<String, String>,
}

/// The image of a tag when it was first resolved.
#[derive(Serialize, Deserialize)]
struct Resolved {
    image: String,
    id: String,
    published: Option<String>,
}

impl Ready {
    /// Returns what identifies the environment, by facet.
    pub(crate) fn facets(&self, recipe: &ContainerSettings) -> BTreeMap<String, Json> {
        let mut facets = promised(recipe);
        let mut add = |name: &str, value: Json| facets.insert(name.to_owned(), value);
        add("container_runtime", json!(self.runtime_version));
        add("image_digest", json!(self.image.id));
        add(
            "image_platform",
            json!(format!("{}/{}", self.image.os, self.image.arch)),
        );
        if !self.image.labels.is_empty() {
            add("image_labels", json!(self.image.labels));
        }
        facets
    }

    /// Mounts a local file or folder, readable inside.
    pub(crate) fn mount(&mut self, here: &str, inside: &str) {
        self.containment.arguments.extend(bind(here, inside, true));
    }

    /// Mounts the folder of the unpacked packages. Returns its path inside.
    pub(crate) fn mount_packages(&mut self, folder: &str) -> String {
        self.mount(folder, PACKAGES);
        PACKAGES.to_owned()
    }

    /// Mounts weights below a folder named `place`. Returns their path inside.
    ///
    /// # Errors
    /// If the weights are a folder with links that lead out of it.
    pub(crate) fn mount_weights(&mut self, path: &str, place: &str) -> Result<String, Failure> {
        let here = Path::new(path);
        let trouble = |e: io::Error| Failure::failed(format!("{path}: {e}"));
        let whole = here.canonicalize().map_err(trouble)?;
        if whole.is_dir()
            && let Some(link) = leads_out(&whole).map_err(trouble)?
        {
            let message = format!(
                "{link} is a link to a file outside of {path}, which a container does not see"
            );
            return Err(
                Failure::failed(message).hint("copy the folder with its files: `cp -rL FROM TO`")
            );
        }
        let name = here
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("weights");
        let inside = format!("{WEIGHTS}/{place}/{name}");
        self.mount(whole.to_str().unwrap_or(path), &inside);
        Ok(inside)
    }

    /// Runs a program in a container, with these variables and those that it inherits, and returns what it prints.
    pub(crate) fn answer(
        &self,
        command: &[&str],
        environment: &BTreeMap<String, String>,
        inherit: &[String],
    ) -> Result<String, ContainerError> {
        let name = places::container_name();
        let line = self.containment.command(
            &name,
            &places::Inside {
                command: &command
                    .iter()
                    .map(|word| (*word).to_owned())
                    .collect::<Vec<_>>(),
                environment,
                inherit,
                port: None,
                grace: Duration::from_secs(1),
            },
        );
        let rest: Vec<&str> = line[1 + self.containment.runtime.arguments.len()..]
            .iter()
            .map(String::as_str)
            .collect();
        let said = self.containment.runtime.ask(&rest, ANSWER, &|| true);
        if said.is_err() {
            // It was stopped, but perhaps only the client.
            let _gone = self.containment.remove(&name, Duration::from_secs(1));
        }
        said
    }
}

/// Returns a link below a folder that leads to a file outside it.
fn leads_out(folder: &Path) -> io::Result<Option<String>> {
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.is_symlink() && !path.canonicalize().is_ok_and(|to| to.starts_with(folder))
            {
                return Ok(Some(path.display().to_string()));
            }
            if metadata.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(None)
}

fn bind(here: &str, inside: &str, read_only: bool) -> [String; 2] {
    let end = if read_only { ",readonly" } else { "" };
    [
        "--mount".to_owned(),
        format!("type=bind,source={here},target={inside}{end}"),
    ]
}

/// Returns what identifies the environment before its image is inspected.
pub(crate) fn promised(recipe: &ContainerSettings) -> BTreeMap<String, Json> {
    let mut facets = BTreeMap::from([("image".to_owned(), json!(recipe.image))]);
    let network = json!(recipe.network);
    facets.insert("container_network".to_owned(), network);
    for (name, value) in [
        ("container_gpus", &recipe.gpus),
        ("container_shm", &recipe.shm),
        ("container_user", &recipe.user),
    ] {
        if let Some(value) = value {
            facets.insert(name.to_owned(), json!(value));
        }
    }
    if !recipe.run_arguments.is_empty() {
        facets.insert(
            "container_arguments".to_owned(),
            json!(recipe.run_arguments),
        );
    }
    facets
}

/// Finds the runtime of a study.
///
/// # Errors
/// If no runtime is found.
pub(crate) fn runtime(
    recipe: &ContainerSettings,
    machine: &Machine,
    files: &NamedFiles,
) -> Result<Runtime, Failure> {
    let wanted: Vec<String> = match &recipe.runtime {
        Some(path) if path.contains('/') => vec![placed(path, files)?],
        Some(name) => vec![name.clone()],
        None => ["podman", "docker"].map(str::to_owned).to_vec(),
    };
    let location = wanted.iter().find_map(|name| machine.program(name));
    let Some(program) = location else {
        let message = format!(
            "no container runtime is on the search path: {}",
            wanted.join(", ")
        );
        let hint = "on Debian: apt install podman; another one is named by `runtime:`";
        return Err(Failure::failed(message).hint(hint));
    };
    Ok(Runtime {
        program: program.display().to_string(),
        arguments: recipe.runtime_arguments.clone(),
    })
}

/// Returns the absolute path of a path in the study.
fn placed(path: &str, files: &NamedFiles) -> Result<String, Failure> {
    let path = files.path(path);
    let whole = std::path::absolute(&path)
        .map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    text(&whole)
}

/// Finds the image and reads what it contains. Fetches it if the runtime does not have it.
///
/// # Errors
/// If there is no runtime, or it neither has the image nor can fetch it.
pub(crate) fn prepare(
    recipe: &ContainerSettings,
    machine: &Machine,
    job: &Job<'_>,
    warnings: &mut Vec<String>,
) -> Result<Ready, Failure> {
    let runtime = runtime(recipe, machine, job.files)?;
    let version = ask(&runtime, &["--version"], ANSWER, job)
        .map_err(|why| Failure::failed(format!("`{}`: {why}", runtime.program)))?;
    job.control
        .progress(0, None, "looking for leftovers of earlier runs");
    if let Err(why) = places::sweep(&runtime) {
        let failure = Failure::failed(format!("the container runtime does not work: {why}"));
        return Err(failure.hint(format!("see what `{} ps` says", runtime.program)));
    }
    job.control
        .progress(0, None, format!("looking for the image {}", recipe.image));
    let image = find(recipe, &runtime, job, warnings)?;
    let mut ready = Ready {
        containment: Containment {
            arguments: arguments(recipe, &runtime, job.files)?,
            runtime,
            image: image.id.clone(),
            network: recipe.network,
        },
        runtime_version: version.trim().lines().next().unwrap_or_default().to_owned(),
        image,
        software: None,
    };
    job.control.progress(0, None, "looking into the image");
    // An image without Python has no distributions to report.
    ready.software = ready
        .answer(&venv::TELL, &BTreeMap::new(), &[])
        .ok()
        .and_then(|said| venv::installed_software("container", &said));
    Ok(ready)
}

/// Returns the arguments of `run` that the study determines.
fn arguments(
    recipe: &ContainerSettings,
    runtime: &Runtime,
    files: &NamedFiles,
) -> Result<Vec<String>, Failure> {
    let mut all = recipe.run_arguments.clone();
    let mut add = |option: &str, value: String| all.extend([option.to_owned(), value]);
    match recipe.gpus.as_deref() {
        None => {}
        Some("all") if runtime.is_docker() => add("--gpus", "all".to_owned()),
        // The quotes keep the runtime from reading the comma as the start of another option.
        Some(some) if runtime.is_docker() => add("--gpus", format!("\"device={some}\"")),
        Some(some) => some
            .split(',')
            .for_each(|gpu| add("--device", format!("nvidia.com/gpu={gpu}"))),
    }
    if let Some(size) = &recipe.shm {
        add("--shm-size", size.clone());
    }
    if let Some(user) = &recipe.user {
        add("--user", user.clone());
    }
    for (paths, read_only) in [(&recipe.mounts, true), (&recipe.caches, false)] {
        for (inside, here) in paths {
            let here = placed(here, files)?;
            if !Path::new(&here).exists() {
                let failure = Failure::failed(format!("cannot mount {here}: it does not exist"));
                return Err(failure.hint("correct the path, or create the folder"));
            }
            all.extend(bind(&here, inside, read_only));
        }
    }
    Ok(all)
}

fn ask(
    runtime: &Runtime,
    rest: &[&str],
    limit: Duration,
    job: &Job<'_>,
) -> Result<String, ContainerError> {
    runtime.ask(rest, limit, &|| job.control.check().is_ok())
}

fn find(
    recipe: &ContainerSettings,
    runtime: &Runtime,
    job: &Job<'_>,
    warnings: &mut Vec<String>,
) -> Result<Image, Failure> {
    let wanted = recipe.image.as_str();
    if is_pinned(wanted) {
        return inspect(runtime, wanted, job).or_else(|_| fetch(runtime, wanted, job));
    }
    let file = job
        .store
        .root()
        .join(FOLDER)
        .join(format!("{}.json", Digest::of(wanted.as_bytes()).hex()));
    let trouble = |e: io::Error| Failure::failed(format!("{}: {e}", file.display()));
    let remembered: Option<Resolved> = match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(trouble(e)),
    };
    let Some(remembered) = remembered else {
        let image = inspect(runtime, wanted, job).or_else(|_| fetch(runtime, wanted, job))?;
        let resolved = Resolved {
            image: wanted.to_owned(),
            id: image.id.clone(),
            published: image.published_as(wanted),
        };
        fs::create_dir_all(job.store.root().join(FOLDER)).map_err(trouble)?;
        crate::environment::note(&file, &resolved).map_err(trouble)?;
        warnings.push(format!(
            "the image {wanted} is {} from now on in this store; to pin it for everybody, write `image: {}`",
            image.id,
            resolved.published.as_deref().unwrap_or(&image.id)
        ));
        return Ok(image);
    };
    if let Ok(now) = inspect(runtime, wanted, job)
        && now.id != remembered.id
    {
        warnings.push(format!(
            "the tag {wanted} now names another image than the one that this store resolved it to: {}, not {}; \
             to measure the new one, write `image: {}`",
            now.id, remembered.id, now.id
        ));
    }
    let image = inspect(runtime, &remembered.id, job).or_else(|gone| match &remembered.published {
        Some(published) => fetch(runtime, published, job),
        None => Err(gone),
    });
    let failure = match image {
        Ok(image) if image.id == remembered.id => return Ok(image),
        Ok(image) => Failure::failed(format!(
            "{wanted} arrived as {}, not as {}",
            image.id, remembered.id
        )),
        Err(failure) => failure,
    };
    Err(Failure::failed(format!(
        "the image that {wanted} was resolved to is no longer available: {}",
        failure.reason
    ))
    .hint(format!(
        "name another one in `image:`, or remove {} to resolve the tag again",
        file.display()
    )))
}

fn fetch(runtime: &Runtime, wanted: &str, job: &Job<'_>) -> Result<Image, Failure> {
    job.control
        .progress(0, None, format!("fetching the image {wanted}"));
    if let Err(why) = ask(runtime, &["pull", "--quiet", wanted], FETCH, job) {
        job.control.check()?;
        let failure = Failure::failed(format!(
            "the image {wanted} is missing and cannot be fetched: {why}"
        ));
        return Err(failure.hint("build or load it, or correct `image:`"));
    }
    inspect(runtime, wanted, job)
}

fn inspect(runtime: &Runtime, wanted: &str, job: &Job<'_>) -> Result<Image, Failure> {
    let said = ask(runtime, &["image", "inspect", wanted], ANSWER, job)
        .map_err(|why| Failure::failed(format!("the image {wanted}: {why}")))?;
    let inspected: Json = serde_json::from_str(&said).map_err(|e| {
        Failure::failed(format!(
            "the runtime's description of {wanted} cannot be read: {e}"
        ))
    })?;
    Image::read(&inspected[0]).ok_or_else(|| {
        Failure::failed(format!(
            "the runtime does not report the digest of {wanted}"
        ))
    })
}

impl Image {
    /// Reads the report of docker or podman.
    fn read(inspected: &Json) -> Option<Self> {
        let id = inspected["Id"].as_str()?;
        let text = |key: &str| inspected[key].as_str().unwrap_or("unknown").to_owned();
        let labels = [&inspected["Config"]["Labels"], &inspected["Labels"]];
        let labels = labels.iter().find_map(|labels| labels.as_object());
        let labels = labels.into_iter().flatten();
        let published = inspected["RepoDigests"].as_array().into_iter().flatten();
        Some(Self {
            id: format!("sha256:{}", id.trim_start_matches("sha256:")),
            published: published
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
            os: text("Os"),
            arch: text("Architecture"),
            labels: labels
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect(),
        })
    }

    /// Returns the name with the digest under which it was fetched; `None` for an image built locally.
    fn published_as(&self, wanted: &str) -> Option<String> {
        let (name, _) = wanted.rsplit_once(':')?;
        let fetched = self
            .published
            .iter()
            .filter(|reference| !reference.starts_with("localhost/"));
        fetched
            .filter(|reference| {
                reference
                    .split('@')
                    .next()
                    .is_some_and(|repository| repository.ends_with(name))
            })
            .min()
            .cloned()
    }
}

/// Returns the table `software`: the image, its labels, and the distributions in it.
pub(crate) fn table(ready: &Ready, recipe: &ContainerSettings, machine: &Machine) -> Table {
    let row = |kind, name: &str, version: Option<String>, named| SoftwareRow {
        kind,
        name: name.to_owned(),
        version,
        named,
    };
    let mut rows = vec![
        row(
            SoftwareKind::Image,
            &recipe.image,
            Some(ready.image.id.clone()),
            true,
        ),
        row(
            SoftwareKind::System,
            "container-runtime",
            Some(ready.runtime_version.clone()),
            false,
        ),
    ];
    let driver = machine.gpus.as_ref().ok().and_then(|all| all.first());
    rows.push(row(
        SoftwareKind::System,
        "gpu-driver",
        driver.map(|gpu| gpu.driver.clone()),
        false,
    ));
    for (name, value) in &ready.image.labels {
        rows.push(row(SoftwareKind::Label, name, Some(value.clone()), false));
    }
    if let Some(software) = &ready.software {
        rows.push(row(
            SoftwareKind::Interpreter,
            "python",
            Some(software.python.clone()),
            false,
        ));
        rows.push(row(
            SoftwareKind::Runtime,
            "cuda",
            software.cuda.clone(),
            false,
        ));
        for (name, version) in &software.distributions {
            rows.push(row(
                SoftwareKind::Distribution,
                name,
                Some(version.clone()),
                false,
            ));
        }
    }
    SoftwareRow::table(&rows).expect("the table is declared")
}

#[cfg(test)]
mod tests {
    use places::Network;

    use super::*;

    /// The reports of podman 4.3.1 and docker: without labels, and with the digest's algorithm.
    #[test]
    fn both_runtimes_are_understood() {
        let podman = json!({
            "Id": "ab", "RepoDigests": ["localhost/x@sha256:1", "registry.example.org/a/x@sha256:2"],
            "Os": "linux", "Architecture": "amd64", "Labels": {"version": "1"}, "Config": {"Labels": {"version": "1"}},
        });
        let image = Image::read(&podman).expect("an image");
        assert_eq!(image.id, "sha256:ab");
        assert_eq!(image.labels["version"], "1");
        assert_eq!(
            image.published_as("registry.example.org/a/x:3").as_deref(),
            Some("registry.example.org/a/x@sha256:2")
        );
        assert_eq!(
            image.published_as("localhost/x:3"),
            None,
            "nobody else can fetch it"
        );
        let docker = json!({"Id": "sha256:ab", "RepoDigests": [], "Os": "linux", "Architecture": "amd64",
            "Config": {"Labels": null}});
        let other = Image::read(&docker).expect("an image");
        assert_eq!((other.id, other.labels.len()), ("sha256:ab".to_owned(), 0));
        assert_eq!(Image::read(&json!({})), None);
    }

    #[test]
    fn gpus_are_named_as_each_runtime_wants_them() {
        let recipe = |gpus: &str| ContainerSettings {
            image: "a:1".into(),
            runtime: None,
            runtime_arguments: Vec::new(),
            run_arguments: Vec::new(),
            gpus: Some(gpus.to_owned()),
            shm: None,
            mounts: BTreeMap::from([("/m".to_owned(), "/usr".to_owned())]),
            caches: BTreeMap::new(),
            user: None,
            network: Network::Host,
        };
        let command = |program: &str, gpus: &str| {
            let runtime = Runtime {
                program: program.to_owned(),
                arguments: Vec::new(),
            };
            arguments(&recipe(gpus), &runtime, &NamedFiles::default())
                .expect("it exists")
                .join(" ")
        };
        let mount = "--mount type=bind,source=/usr,target=/m,readonly";
        assert_eq!(
            command("/usr/bin/docker", "all"),
            format!("--gpus all {mount}")
        );
        assert_eq!(
            command("docker", "0,1"),
            format!("--gpus \"device=0,1\" {mount}")
        );
        assert_eq!(
            command("podman", "all"),
            format!("--device nvidia.com/gpu=all {mount}")
        );
        assert_eq!(
            command("podman", "0,1"),
            format!("--device nvidia.com/gpu=0 --device nvidia.com/gpu=1 {mount}")
        );
    }
}
