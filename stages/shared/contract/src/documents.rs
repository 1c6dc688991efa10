//! The documents that one stage passes to another: the environment that `provision` prepares, and the server that
//! `serve` started. They identify what was used and hold nothing about a single run.
//!
//! Reading is lenient: a field that an older or shorter document lacks is absent. An unknown word is refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Api;
use crate::start::ServerStart;

/// The output `environment` of a provision cell: an engine and a model on a kind of machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// The engine.
    pub engine: EngineIdentity,
    /// The model.
    pub model: ModelIdentity,
    /// The model that drafts tokens for it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<ModelIdentity>,
    /// The facts that identify the machine, by facet.
    pub facets: BTreeMap<String, Value>,
    /// The software installed in the engine's environment, if a study pins one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub software: Option<InstalledSoftware>,
}

/// The software installed in an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstalledSoftware {
    /// The kind of environment: `venv` or `container`.
    pub environment: String,
    /// The interpreter with its exact version, such as `CPython 3.12.7`.
    pub python: String,
    /// Whether the interpreter runs without a global lock.
    pub free_threaded: bool,
    /// The version of CUDA that the installed torch was built for; `None` without torch or CUDA.
    pub cuda: Option<String>,
    /// The SHA-256 of the lock file's text; empty for a container, whose image identifies it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lock: String,
    /// The distributions that readers look for first, as `name==version`.
    pub notable: Vec<String>,
    /// The version of every installed distribution, by normalized name.
    pub distributions: BTreeMap<String, String>,
}

/// An engine, pinned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineIdentity {
    /// The name of the engine's definition.
    pub name: String,
    /// The display name.
    pub title: String,
    /// The version, exactly as it identifies the build.
    pub version: String,
    /// Its licence.
    pub licence: Option<String>,
    /// The project's home page.
    pub homepage: Option<String>,
    /// Where the engine comes from; `None` if the document does not record it.
    pub source: Option<EngineSource>,
    /// The URLs of servers that already run. Only these tell two such servers apart: what they run, and on what
    /// hardware, is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// The engine's packages.
    pub packages: Vec<PinnedPackage>,
    /// Preferred engines that this machine cannot run.
    pub passed_over: Vec<PassedOver>,
    /// The full definition; only in the environment, not in the server's descriptor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<Value>,
}

crate::words! {
    /// Where an engine comes from.
    pub enum EngineSource: "source of an engine" {
        /// Packages that Benchtrail fetched and checked.
        Packages = "packages",
        /// A program that you installed.
        Installed = "installed by the user",
        /// A worker that generates in the process of a load cell, with the interpreter on the search
        /// path.
        Worker = "a worker, run by the installed interpreter",
        /// A virtual environment that Benchtrail made from the study's pins.
        Venv = "a venv of pinned packages",
        /// A container of an image that the study names.
        Container = "a container",
        /// A server that was running before.
        Running = "running already",
    }
}

/// A package with the digests of its files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PinnedPackage {
    /// The registry it was fetched from.
    pub registry: Option<String>,
    /// The name in the registry.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// The files of this version that are acceptable.
    pub files: Vec<PinnedFile>,
}

/// One file of a package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PinnedFile {
    /// The name in the registry.
    pub name: String,
    /// The SHA-256, as 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// The size in bytes.
    pub bytes: u64,
}

/// A preferred engine that was not available.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PassedOver {
    /// The name of its definition.
    pub engine: String,
    /// What the machine lacks.
    pub reasons: Vec<String>,
}

/// A model, pinned as far as its weights are pinned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelIdentity {
    /// The name of the model's definition.
    pub name: String,
    /// The display name.
    pub title: String,
    /// The SHA-256 of the weights, if it was verified.
    pub sha256: Option<String>,
    /// Where the weights come from.
    pub weights: WeightsIdentity,
    /// The number of parameters.
    pub parameters: Option<u64>,
    /// The longest context the model was trained for, tokens.
    pub context: Option<u64>,
    /// The file format.
    pub format: Option<String>,
    /// The architecture's name.
    pub architecture: Option<String>,
    /// How the weights are quantized.
    pub quantization: Option<String>,
    /// Whether the weights come with a chat template; `None` if the document does not record it.
    pub chat_template: Option<bool>,
    /// The licence of the weights.
    pub licence: Option<String>,
    /// The name the model is served under, if it differs from the definition's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_name: Option<String>,
    /// The shape that decides the size of the key-value cache; omitted if the definition has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<ModelShape>,
}

/// Where weights come from: a package, a file, or a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WeightsIdentity {
    /// The package that contains them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<PinnedPackage>,
    /// The file, inside the package or on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The size of the file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// A name that the engine resolves itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The exact revision that the name stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl WeightsIdentity {
    /// Returns the revision that the engine must resolve. A local folder (an absolute path) has none, even if one is
    /// declared.
    pub fn revision_to_resolve(&self) -> Option<&str> {
        let id = self.id.as_deref()?;
        self.revision.as_deref().filter(|_| !id.starts_with('/'))
    }
}

impl ModelIdentity {
    /// Returns the name to serve the model under.
    pub fn served_name(&self) -> &str {
        self.served_name.as_deref().unwrap_or(&self.name)
    }
}

/// The attention of a model: a token takes 2 · layers · kv_heads · head_dim values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelShape {
    /// The number of layers with attention.
    pub layers: Option<u64>,
    /// The number of key-value heads of a layer.
    pub kv_heads: Option<u64>,
    /// The number of values in a head.
    pub head_dim: Option<u64>,
}

/// The output `server` of a serve cell: what was served and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerDescriptor {
    /// The engine.
    pub engine: EngineIdentity,
    /// The engine's version.
    pub version: String,
    /// The API that the server speaks.
    pub api: Api,
    /// The server's endpoints.
    pub endpoints: Endpoints,
    /// The server's names for its counters; omitted if its definition names none.
    #[serde(skip_serializing_if = "Counters::is_empty")]
    pub counters: Counters,
    /// The model.
    pub model: ModelIdentity,
    /// The model that drafts tokens for it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<ModelIdentity>,
    /// The name the model is served under.
    pub model_name: String,
    /// The settings, defaults filled in.
    pub settings: BTreeMap<String, Value>,
    /// The command it was started with.
    pub command: ServerCommand,
    /// What identifies the files that the settings name, by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Value>,
    /// The limits that the running server reported.
    pub limits: BTreeMap<String, Value>,
    /// The values that the server reported about itself, by the name of the probe; omitted if there are no probes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub probed: BTreeMap<String, Value>,
    /// Settings that the user declared for a server that already runs. Nothing verified them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub declared_settings: BTreeMap<String, Value>,
    /// The facts that identify the machine, by facet.
    pub facets: BTreeMap<String, Value>,
    /// For a group of servers, the role that receives the load. The other fields describe it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_role: Option<String>,
    /// For a group of servers, every role, including the loaded one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, RoleDescriptor>,
}

/// One role of a group of servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoleDescriptor {
    /// The number of members.
    pub count: u32,
    /// The GPUs of each member, as in `CUDA_VISIBLE_DEVICES`; empty if the members see all GPUs.
    pub gpus: Vec<String>,
    /// The server that each member runs.
    pub server: ServerDescriptor,
}

/// The facet `host` of a server that already runs.
pub const HOST_NOT_KNOWN: &str = "not known: the server runs already";

/// The facets of an environment that identify its engine: its name, the program with its packages, the files and processor
/// flags that its definition names, the variables that it inherits, and the image of its container.
pub const OF_ENGINE: [&str; 9] = [
    "cpu_flags",
    "engine",
    "files",
    "program",
    "inherited",
    "image",
    "image_digest",
    "image_platform",
    "image_labels",
];

/// The facet that holds what the user declared about a machine that was not inspected.
pub const DECLARED: &str = "declared";

/// The mark behind a value that only the user declared, so that nothing verified it.
pub const AS_DECLARED: &str = " (declared)";

/// A URL with metrics of a server or its machine, in the text format of Prometheus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Exporter {
    /// The full URL, for example `http://10.0.0.5:9100/metrics`. Benchtrail sends no key to it. An engine that Benchtrail
    /// starts has `http://{host}:{side-port}/metrics`: metrics that it serves at a second port.
    pub url: String,
    /// The kind of metrics.
    pub tells: Telling,
}

/// The metrics of an exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Telling {
    /// Metrics of a server, a worker or a router: more rows of `server_metrics`.
    Metrics,
    /// The machine, from the Prometheus node exporter: `server_host_telemetry`.
    Node,
    /// GPUs, from NVIDIA's DCGM exporter: `gpu_telemetry`.
    Dcgm,
}

/// The second port of an engine that Benchtrail starts, in the address of an exporter.
pub const AT_SIDE_PORT: &str = "http://{host}:{side-port}";

impl Exporter {
    /// Returns the path, if the address is at the engine's second port.
    pub fn path_at_side_port(&self) -> Option<&str> {
        let path = self.url.strip_prefix(AT_SIDE_PORT)?;
        (path.is_empty() || path.starts_with('/')).then_some(path)
    }

    /// Splits the address into the server's address and the path.
    pub fn parts(&self) -> (&str, &str) {
        let host = self.url.find("://").map_or(0, |at| at + 3);
        let path = self.url[host..]
            .find('/')
            .map_or(self.url.len(), |at| host + at);
        let (server, path) = self.url.split_at(path);
        (server, if path.is_empty() { "/metrics" } else { path })
    }
}

/// A command with placeholders for the paths and ports of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerCommand {
    /// The program.
    pub program: Vec<String>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment variables.
    pub environment: BTreeMap<String, String>,
}

/// The server's endpoints: paths below its base URL, or `null` if it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{health: /health, metrics: /metrics}"))]
pub struct Endpoints {
    /// Answers 200 when the server is up.
    pub health: Option<String>,
    /// Lists the models.
    pub models: Option<String>,
    /// Plain completions.
    pub completions: Option<String>,
    /// Chat completions.
    pub chat: Option<String>,
    /// Text to tokens.
    pub tokenize: Option<String>,
    /// Prometheus metrics.
    pub metrics: Option<String>,
    /// The state of the slots.
    pub slots: Option<String>,
    /// The server's properties.
    pub props: Option<String>,
    /// A JSON document of the server's state whose numbers change (SGLang).
    pub server_info: Option<String>,
    /// The prefix of its metric names, for example `llamacpp:`.
    pub metrics_prefix: Option<String>,
    /// A POST to this path empties the cache of prompt prefixes. Benchtrail calls it before each
    /// load cell.
    // Omitted rather than null, so that servers without it keep their descriptor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_cache: Option<String>,
}

impl Default for Endpoints {
    fn default() -> Self {
        let path = |p: &str| Some(p.to_owned());
        Self {
            health: path("/health"),
            models: path("/v1/models"),
            completions: path("/v1/completions"),
            chat: path("/v1/chat/completions"),
            tokenize: None,
            metrics: None,
            slots: None,
            props: None,
            server_info: None,
            metrics_prefix: None,
            reset_cache: None,
        }
    }
}

/// The full names of a server's counters, as its metrics print them (`vllm:generation_tokens_total`). Leave out a
/// counter that it does not have. All count from the server's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{generated-tokens: \"vllm:generation_tokens_total\"}"))]
pub struct Counters {
    /// Tokens generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated_tokens: Option<String>,
    /// Tokens of prompts, those that came from a cache included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<String>,
    /// Tokens of prompts that came from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_prompt_tokens: Option<String>,
}

impl Counters {
    /// Returns whether no counter has a name.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The cache in which an engine keeps the prefixes of earlier prompts, and the setting that switches it off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{setting: SETTING, off: false}"))]
pub struct PromptCache {
    /// The setting that switches it. Without one, `off-by-default` alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// The value of the setting that switches it off, for example `false`, or `0` for a size.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub off: Value,
    /// Whether it is off if the setting has no value.
    pub off_by_default: bool,
}

impl PromptCache {
    /// Returns whether these settings switch it off. If not, it may be on.
    pub fn is_off<'a>(&self, value: impl FnOnce(&str) -> Option<&'a Value>) -> bool {
        let given = self.setting.as_deref().and_then(value);
        match given.filter(|value| !value.is_null()) {
            Some(value) => *value == self.off,
            None => self.off_by_default,
        }
    }
}

/// How to recognize and split log lines of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EventPattern {
    /// A regular expression that such a line matches. Its named groups (`(?<name>…)`) are
    /// fields; the group `time` is the line's time.
    pub line: String,
    /// Further expressions to search for in such a line, each with named groups. Expressions that
    /// do not match are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// How the group `time` is written, as `strptime` takes it (`"%Y-%m-%d %H:%M:%S"`); local
    /// time. A missing year is the nearest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// What `provision` passes to `serve` during a run: the locations of the prepared files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveEnvironment {
    /// The name of the engine's definition.
    pub engine: String,
    /// The name of the model's definition.
    pub model: String,
    /// The program and its first arguments.
    pub bin: Vec<String>,
    /// The folder of the unpacked packages.
    pub packages: Option<String>,
    /// The file of the weights, or the name that the engine resolves.
    pub model_path: String,
    /// The file of the draft model's weights, or the name that the engine resolves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_path: Option<String>,
    /// The virtual environment that the program runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub venv: Option<PathBuf>,
    /// What the program's container is started from. Paths are then those inside the container.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub container: Value,
    /// The host of all these files, if it is not this machine.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub place: Value,
}

/// How to start a worker that generates without a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveWorker {
    /// The program and all its arguments.
    pub program: Vec<String>,
    /// The environment variables set for the worker.
    pub environment: BTreeMap<String, String>,
    /// The variables that it inherits in addition to `PATH`, `HOME` and `TMPDIR`.
    pub inherits: Vec<String>,
    /// The virtual environment that it runs in.
    pub venv: Option<PathBuf>,
    /// The file or folder of the weights, or the name that the worker resolves.
    pub model_path: String,
    /// The settings, defaults filled in.
    pub settings: BTreeMap<String, Value>,
    /// How long it may take to load the model, in seconds.
    pub ready_s: u32,
}

/// What `serve` passes to `load` while the server runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveServer {
    /// The base URL of the server.
    pub base_url: String,
    /// A file with the certificate authority to trust.
    pub ca_file: Option<PathBuf>,
    /// The name of the environment variable that holds the API key.
    pub api_key_env: Option<String>,
    /// The header that carries the key alone; none for `Authorization: Bearer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_header: Option<String>,
    /// The worker that generates instead of a server; nothing is then reachable at `base_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<LiveWorker>,
    /// The leader of its process group, if Benchtrail started it.
    pub pid: Option<i64>,
    /// The path of its log.
    pub log_path: Option<PathBuf>,
    /// The name the model is served under.
    pub model: String,
    /// The API that the server speaks.
    pub api: Api,
    /// The server's endpoints.
    pub endpoints: Endpoints,
    /// The server's names for its counters.
    pub counters: Counters,
    /// Whether an answer whose usage omits cached tokens had none.
    pub absent_cached_is_zero: bool,
    /// Lines of its log that become events.
    pub log_events: BTreeMap<String, EventPattern>,
    /// Texts that mark a line of its log as an error.
    pub log_errors: Vec<String>,
    /// The limits that the server reported.
    pub limits: BTreeMap<String, Value>,
    /// The addresses that export metrics of the server and its machine, by name.
    pub exporters: BTreeMap<String, Exporter>,
    /// For a group of servers, every member, including the loaded one; otherwise empty.
    pub members: Vec<LiveMember>,
    /// What samples the server's host, if it is not this machine.
    pub elsewhere: Option<LiveElsewhere>,
    /// The starts of the servers that Benchtrail started.
    pub starts: Vec<ServerStart>,
}

/// How to sample a server's host that is not this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveElsewhere {
    /// The host's name.
    pub host: String,
    /// The command that answers queries about the host.
    pub command: Vec<String>,
}

/// A member of a group of servers during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveMember {
    /// The role and the member's number within the role, from 0 (`replica-1`).
    pub name: String,
    /// Its role.
    pub role: String,
    /// Whether the member receives load.
    pub loaded: bool,
    /// The engine's name and version.
    pub engine: String,
    /// Its GPUs, if it does not see all of them.
    pub gpus: Option<String>,
    /// The base URL of the member.
    pub base_url: String,
    /// The path of its Prometheus metrics.
    pub metrics: Option<String>,
    /// The leader of its process group, if Benchtrail started it.
    pub pid: Option<i64>,
    /// The path of its log.
    pub log_path: Option<PathBuf>,
    /// Lines of its log that become events.
    pub log_events: BTreeMap<String, EventPattern>,
    /// Texts that mark a line of its log as an error.
    pub log_errors: Vec<String>,
    /// What samples the member's host, if it is not this machine.
    pub elsewhere: Option<LiveElsewhere>,
    /// The model's name on this member.
    pub model: String,
    /// The API that the member speaks.
    pub api: Api,
    /// The member's endpoints.
    pub endpoints: Endpoints,
    /// The member's names for its counters.
    pub counters: Counters,
    /// Whether the member generates only together with others, such as a worker for prefill. Nothing may ask it alone.
    pub generates_with_others: bool,
}
