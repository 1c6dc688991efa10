//! Finds mistakes in the settings when the experiment is read. Kubernetes itself would report them one at a time, when
//! the first Job is created.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::{Problem, Step};

use super::{Kubernetes, TaintEffect, Toleration, Volume};

/// The resource that `gpus` counts.
pub(super) const GPU: &str = "nvidia.com/gpu";

/// The longest label and the longest name of an object, in characters.
const LABEL: usize = 63;
const NAME: usize = 253;

/// Returns the mount that holds a folder of the pod, if any.
pub fn volume_of<'v>(volumes: &'v [Volume], folder: &Path) -> Option<&'v Volume> {
    let holds = volumes.iter().filter(|v| folder.starts_with(&v.path));
    holds.max_by_key(|volume| volume.path.len())
}

/// The problems found so far.
#[derive(Default)]
struct Found(Vec<Problem>);

impl Found {
    fn tell(&mut self, route: &[&str], index: Option<usize>, message: String, hint: &str) {
        let keys = [&["kubernetes"], route].concat();
        let mut problem = Problem::at(&keys[..keys.len().min(2)], message).hint(hint.to_owned());
        problem.route.extend(index.map(Step::Index));
        let rest = keys.iter().skip(2);
        problem
            .route
            .extend(rest.map(|key| Step::Key((*key).to_owned())));
        self.0.push(problem);
    }

    /// Checks the name of an object: parts of lower-case letters, digits and hyphens, joined by full stops.
    fn name(&mut self, route: &[&str], index: Option<usize>, what: &str, name: &str) {
        if !is_name(name) {
            let message = format!("`{name}` cannot be the name of {what}");
            let hint = "names have lower-case letters, digits, `-` and `.`, and begin and end with a letter or a digit";
            self.tell(route, index, message, hint);
        }
    }

    fn quantity(&mut self, key: &str, text: Option<&str>) {
        let Some(text) = text.filter(|text| !is_quantity(text)) else {
            return;
        };
        let hint = quantity_hint(text).unwrap_or_else(|| {
            "write a number and a unit, for example `512Mi` or `64Gi`".to_owned()
        });
        let message = format!("`{text}` is not a quantity of Kubernetes");
        self.tell(&[key], None, message, &hint);
    }
}

/// Returns how Kubernetes spells a size that somebody wrote as usual, such as `2 GiB` or `512 mb`.
fn quantity_hint(text: &str) -> Option<String> {
    let text: String = text.split_whitespace().collect();
    let end = text.find(|c: char| c.is_alphabetic())?;
    let (number, unit) = text.split_at(end);
    let unit = unit.to_lowercase();
    let unit = unit
        .strip_suffix("bytes")
        .or(unit.strip_suffix('b'))
        .unwrap_or(&unit);
    let letter = unit.trim_end_matches('i').to_uppercase();
    let is_known = matches!(letter.as_str(), "K" | "M" | "G" | "T" | "P" | "E");
    let binary = format!("{number}{letter}i");
    let fits = is_known && is_quantity(&binary);
    if !fits {
        return None;
    }
    if unit.ends_with('i') {
        return Some(format!("write `{binary}`"));
    }
    let letter = if letter == "K" { "k" } else { letter.as_str() };
    Some(format!(
        "write `{number}{letter}`, or `{binary}` for powers of 1,024"
    ))
}

impl Kubernetes {
    /// Returns every mistake, with a route that begins at the place.
    pub(crate) fn check(&self) -> Vec<Problem> {
        let currency = self.currency.as_deref();
        let terms = crate::terms::read("kubernetes", self.cost_per_hour, self.budget, currency);
        let mut problems = Found(terms.err().unwrap_or_default());
        if let Some((message, hint)) = image_problem(&self.image) {
            problems.tell(&["image"], None, message, &hint);
        }
        self.check_names(&mut problems);
        self.check_resources(&mut problems);
        for (key, value) in &self.node_selector {
            check_selector(&mut problems, key, value);
        }
        for (i, toleration) in self.tolerations.iter().enumerate() {
            check_toleration(&mut problems, i, toleration);
        }
        self.check_volumes(&mut problems);
        self.check_times(&mut problems);
        problems.0
    }

    fn check_names(&self, problems: &mut Found) {
        if let Some(context) = &self.context
            && (context.is_empty() || context.chars().any(char::is_control))
        {
            let message = format!("`{context}` cannot be the name of a context");
            let hint = "`kubectl config get-contexts --output=name` lists yours";
            problems.tell(&["context"], None, message, hint);
        }
        if let Some(namespace) = self
            .namespace
            .as_deref()
            .filter(|name| !is_label_name(name))
        {
            let message = format!("`{namespace}` cannot be the name of a namespace");
            let hint = "names of namespaces have at most 63 lower-case letters, digits and `-`, and begin and end with a \
                        letter or a digit";
            problems.tell(&["namespace"], None, message, hint);
        }
        let named = [
            (
                "service-account",
                "a service account",
                &self.service_account,
            ),
            ("priority", "a PriorityClass", &self.priority),
        ];
        for (key, what, name) in named {
            if let Some(name) = name {
                problems.name(&[key], None, what, name);
            }
        }
        let lists = [
            ("secrets", "a Secret", &self.secrets),
            ("image-pull-secrets", "a Secret", &self.image_pull_secrets),
            ("nodes", "a node", &self.nodes),
        ];
        for (key, what, names) in lists {
            for (i, name) in names.iter().enumerate() {
                problems.name(&[key], Some(i), what, name);
            }
        }
        if !self.nodes.is_empty() && self.node_selector.contains_key("kubernetes.io/hostname") {
            let message =
                "the label `kubernetes.io/hostname` is what `nodes` selects by".to_owned();
            let hint = "remove it here, or remove `nodes`";
            problems.tell(
                &["node-selector", "kubernetes.io/hostname"],
                None,
                message,
                hint,
            );
        }
    }

    fn check_resources(&self, problems: &mut Found) {
        if let Some(cpu) = self
            .cpu
            .filter(|cpu| !cpu.is_finite() || *cpu < 0.001 || *cpu > 1e6)
        {
            let message = format!("`cpu` must be a number of processors, got {cpu}");
            problems.tell(
                &["cpu"],
                None,
                message,
                "write, for example, `cpu: 8`, or `cpu: 0.5`",
            );
        }
        problems.quantity("memory", self.memory.as_deref());
        problems.quantity("ephemeral-storage", self.ephemeral_storage.as_deref());
        problems.quantity("shared-memory", self.shared_memory.as_deref());
        for (name, count) in &self.resources {
            let own = match name.as_str() {
                "cpu" => Some("cpu"),
                "memory" => Some("memory"),
                "ephemeral-storage" => Some("ephemeral-storage"),
                GPU => Some("gpus"),
                _ => None,
            };
            let wrong = match own {
                Some(key) => Some((
                    format!("`{name}` has its own key"),
                    format!("write `{key}: …` beside `resources`"),
                )),
                None if !is_qualified(name) || !name.contains('/') => Some((
                    format!("`{name}` cannot be the name of a resource"),
                    "write it as the nodes report it, for example `amd.com/gpu`; `kubectl describe nodes` lists them"
                        .to_owned(),
                )),
                None if *count == 0 => Some((
                    format!("`{name}` must be at least 1"),
                    "remove it if the pod needs none".to_owned(),
                )),
                None => None,
            };
            if let Some((message, hint)) = wrong {
                problems.tell(&["resources", name], None, message, &hint);
            }
        }
    }

    fn check_volumes(&self, problems: &mut Found) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, volume) in self.volumes.iter().enumerate() {
            problems.name(
                &["volumes", "claim"],
                Some(i),
                "a persistent volume claim",
                &volume.claim,
            );
            if let Some((message, hint)) = mount_problem(&volume.path) {
                problems.tell(&["volumes", "path"], Some(i), message, hint);
            } else if seen.insert(&volume.path, i).is_some() {
                let message = format!("two volumes have the path `{}`", volume.path);
                problems.tell(&["volumes", "path"], Some(i), message, "give each its own");
            } else if self.shared_memory.is_some() && volume.path == "/dev/shm" {
                let message = "`shared-memory` is mounted at /dev/shm".to_owned();
                problems.tell(&["volumes", "path"], Some(i), message, "remove one of them");
            }
            if let Some(path) = &volume.sub_path {
                let steps = path.split('/');
                if path.is_empty() || path.starts_with('/') || steps.into_iter().any(|s| s == "..")
                {
                    let message = format!("`{path}` is not a relative path in the volume");
                    let hint = "write, for example, `sub-path: studies/shared`";
                    problems.tell(&["volumes", "sub-path"], Some(i), message, hint);
                }
            }
        }
        let Some(folder) = self.folder.as_deref() else {
            return;
        };
        if let Some(problem) = crate::settings::folder_problem("kubernetes", Some(folder)) {
            problems.0.push(problem);
            return;
        }
        match volume_of(&self.volumes, Path::new(folder)) {
            Some(volume) if volume.read_only => {
                let message = format!(
                    "`{folder}` is on the volume `{}`, which is read-only",
                    volume.claim
                );
                let hint = "keep engines on a volume that the pod can write";
                problems.tell(&["folder"], None, message, hint);
            }
            Some(_) => {}
            None => {
                let message =
                    format!("`{folder}` is not on a volume, so its contents are lost with the pod");
                let hint = "mount a claim there: `volumes: [{claim: NAME, path: …}]`";
                problems.tell(&["folder"], None, message, hint);
            }
        }
    }

    fn check_times(&self, problems: &mut Found) {
        if self.time.is_some_and(|time| time.0.is_zero()) {
            let message = "`time` must be longer than 0".to_owned();
            problems.tell(
                &["time"],
                None,
                message,
                "write, for example, `time: 30 min`",
            );
        }
    }
}

fn check_selector(problems: &mut Found, key: &str, value: &str) {
    if !is_qualified(key) {
        let message = format!("`{key}` cannot be the key of a label");
        let hint = "write, for example, `nvidia.com/gpu.product`; `kubectl get nodes --show-labels` lists the labels of nodes";
        problems.tell(&["node-selector", key], None, message, hint);
    }
    if !value.is_empty() && !is_label(value) {
        let message = format!("`{value}` cannot be the value of a label");
        let hint = "values have at most 63 letters, digits, `-`, `_` and `.`, and begin and end with a letter or a digit";
        problems.tell(&["node-selector", key], None, message, hint);
    }
}

fn check_toleration(problems: &mut Found, i: usize, toleration: &Toleration) {
    let mut tell = |key: &str, message: String, hint: &str| {
        problems.tell(&["tolerations", key], Some(i), message, hint);
    };
    if let Some(key) = toleration.key.as_deref().filter(|key| !is_qualified(key)) {
        let message = format!("`{key}` cannot be the key of a taint");
        tell(
            "key",
            message,
            "write, for example, `nvidia.com/gpu`; `kubectl describe node NAME` lists the taints of a node",
        );
    }
    if let Some(value) = &toleration.value {
        if toleration.key.is_none() {
            let message = "a toleration with a value needs the key of the taint".to_owned();
            tell("value", message, "add `key: …`");
        } else if !value.is_empty() && !is_label(value) {
            let message = format!("`{value}` cannot be the value of a taint");
            tell(
                "value",
                message,
                "values have at most 63 letters, digits, `-`, `_` and `.`",
            );
        }
    }
    if toleration.stays.is_some() && toleration.effect != Some(TaintEffect::NoExecute) {
        let message =
            "only a taint with the effect `NoExecute` evicts a pod after a while".to_owned();
        tell("for", message, "add `effect: NoExecute`, or remove `for`");
    }
}

/// Returns the problem with an image, and how to fix it.
fn image_problem(image: &str) -> Option<(String, String)> {
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || "./:_-".contains(c);
    let is_reference =
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain);
    if !is_reference {
        let hint = "write `registry.example/name@sha256:DIGEST`".to_owned();
        return Some((format!("`{image}` is not the name of an image"), hint));
    }
    let hex = |digits: &str| {
        digits.len() == 64
            && digits
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    match digest.strip_prefix("sha256:") {
        Some(digits) if hex(digits) => None,
        _ if digest.is_empty() => {
            let hint = format!(
                "write `{}@sha256:DIGEST`; `docker buildx imagetools inspect {name}`, `crane digest {name}` or `skopeo \
                 inspect docker://{name}` prints the digest",
                without_tag(name)
            );
            let message =
                format!("the image `{image}` has no digest, so two pods could run two images");
            Some((message, hint))
        }
        _ => {
            let hint = "a digest is `sha256:` and 64 hexadecimal digits in lower case".to_owned();
            Some((format!("`{digest}` is not the digest of an image"), hint))
        }
    }
}

/// Returns the name of an image without its tag. A colon before the last slash belongs to a port.
fn without_tag(name: &str) -> &str {
    let last = name.rfind('/').map_or(0, |at| at + 1);
    name[last..].find(':').map_or(name, |at| &name[..last + at])
}

/// Returns the problem with the path of a mount, and how to fix it.
fn mount_problem(path: &str) -> Option<(String, &'static str)> {
    const SYSTEM: [&str; 3] = ["/dev", "/proc", "/sys"];
    let mut steps = path.split('/').skip(1);
    let is_plain = path.starts_with('/')
        && !path.contains(':')
        && steps.all(|step| !step.is_empty() && step != "." && step != "..");
    let hint = "write, for example, `path: /data`";
    if !is_plain {
        return Some((
            format!("`{path}` is not an absolute path of a folder"),
            hint,
        ));
    }
    let first = SYSTEM
        .iter()
        .find(|system| Path::new(path).starts_with(system));
    first.filter(|_| path != "/dev/shm").map(|system| {
        (
            format!("`{path}` is in {system}, which belongs to the system"),
            hint,
        )
    })
}

/// Returns whether a text is a positive quantity of bytes in Kubernetes' notation.
fn is_quantity(text: &str) -> bool {
    const UNITS: [&str; 12] = [
        "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E",
    ];
    let unit = UNITS.iter().find_map(|unit| text.strip_suffix(unit));
    let number = unit.unwrap_or(text);
    let is_decimal = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_decimal && number.len() <= 15 && number.parse::<f64>().is_ok_and(|n| n > 0.0)
}

fn is_end(c: Option<char>, lower: bool) -> bool {
    c.is_some_and(|c| c.is_ascii_alphanumeric() && !(lower && c.is_ascii_uppercase()))
}

/// Returns whether a text is valid as the value of a label.
fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= LABEL
        && is_end(text.chars().next(), false)
        && is_end(text.chars().last(), false)
        && text.chars().all(plain)
}

/// Returns whether a text is valid as the name of a namespace.
fn is_label_name(text: &str) -> bool {
    text.len() <= LABEL && !text.contains('.') && is_name(text)
}

/// Returns whether a text is valid as the name of an object.
fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        is_end(part.chars().next(), true)
            && is_end(part.chars().last(), true)
            && part.chars().all(plain)
    };
    text.len() <= NAME && text.split('.').all(is_part)
}

/// Returns whether a text is valid as the key of a label or a taint, or as the name of a resource: a name, with or
/// without a domain.
fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_name(domain) && is_label(name),
        None => is_label(text),
    }
}
