//! Engine definitions: how to get, check, launch, probe and stop a serving engine.

use std::collections::BTreeMap;

use contract::{Api, Counters, Endpoints, EventPattern, Exporter, Limit, PromptCache};
use net::ApiKey;
use pipeline::{Failure, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::package::Package;
use crate::peers::PeerArguments;
use crate::running::{Facts, Probe};
use crate::settings::Setting;

/// A serving engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Engine {
    /// The name for people, as reports show it.
    pub title: String,
    /// The exact version of the build. For an engine that you installed or that is already running, it is the version
    /// that you declare; `launch.version-arguments` checks it.
    pub version: String,
    /// The URL of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// The engine's licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Why this definition is untested: the sources it was written from, instead of a run of the real engine. It has
    /// no effect, and keys do not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untested: Option<String>,
    /// Whether the engine loads weights only from a file, such as GGUF. Planning then refuses the id of a model on a hub. A
    /// definition that extends a shipped one may start another program, so it is not checked. Keys do not contain it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_weights_file: bool,
    /// All names of the engine in the registry of Python packages (`[vllm]`). In a `venv`, the pin
    /// of one of them is the version and replaces `version`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distributions: Vec<String>,
    /// The packages it comes in; none for an engine that is already installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// What the machine must have, checked before anything is fetched or started.
    #[serde(default)]
    pub requires: Requirements,
    /// The engine to use instead on a machine that lacks what this one requires. The
    /// substitution is recorded with its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// How to start the engine.
    pub launch: Launch,
    /// The settings an experiment may give, each with its type, default and flags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Setting>,
    /// The HTTP API it speaks.
    #[serde(default)]
    pub api: Api,
    /// The paths of its endpoints.
    #[serde(default)]
    pub endpoints: Endpoints,
    /// The names of its counters.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub counters: Counters,
    /// How to read what its answers leave out.
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// The cache of earlier prompts, and the setting that switches it off. Gates use it if neither answers nor
    /// counters report the cache. It has no effect on the execution, and keys of measurements do not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<PromptCache>,
    /// When it counts as ready: the model list answers and one token was generated.
    #[serde(default)]
    pub ready: Ready,
    /// How to stop the engine.
    #[serde(default)]
    pub stop: Stop,
    /// Limits read from the running server, each compared with what the settings promise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Limit>,
    /// How to read its log.
    #[serde(default)]
    pub log: Log,
    /// Facts that the server reports about itself, by name, read each time it is started or found.
    /// The value of `version` must name the definition's `version`, unless that is `unknown`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub probe: BTreeMap<String, Probe>,
    /// For a running server: what you know about it. Benchtrail does not check it, and marks it as declared wherever
    /// it appears.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub facts: Facts,
    /// For a running server: URLs with metrics of it and its machine, by name, sampled during the
    /// load.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exporters: BTreeMap<String, Exporter>,
}

/// How to read the usage in its answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{absent-cached-is-zero-with: SETTING}"))]
pub struct Usage {
    /// A boolean setting. If it is true, an answer that does not mention cached tokens had none.
    /// Without this key, their number is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent_cached_is_zero_with: Option<String>,
}

impl Usage {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether, with these settings, an answer that omits the count of cached tokens had none.
    pub fn absent_cached_is_zero(&self, settings: &BTreeMap<String, Json>) -> bool {
        let setting = self.absent_cached_is_zero_with.as_ref();
        setting.is_some_and(|name| settings.get(name) == Some(&Json::Bool(true)))
    }
}

/// What a machine must have to run an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{os: [linux], arch: [x86_64]}"))]
pub struct Requirements {
    /// Operating systems it runs on (`linux`); empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub os: Vec<String>,
    /// Processor architectures it runs on (`x86_64`, `aarch64`); empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arch: Vec<String>,
    /// The oldest glibc it runs with, for example `"2.35"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// Processor features it cannot run without, as `/proc/cpuinfo` names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_flags: Vec<String>,
    /// Processor features it uses if they are available; they are part of the host's identity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_flags_optional: Vec<String>,
    /// System libraries it is linked with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Library>,
    /// Programs that it needs on the search path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Tool>,
}

/// A shared library of the system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Library {
    /// Its file name, for example `libgomp.so.1`.
    pub file: String,
    /// The Debian package that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debian: Option<String>,
}

/// A program of the system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tool {
    /// Its name on the search path, for example `python3`.
    pub name: String,
    /// The Debian package that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debian: Option<String>,
}

/// How an engine is started.
///
/// Arguments and environment may hold `{model}` (path or id of the weights), `{model-name}`
/// (the name it is served under), `{host}`, `{port}`, `{side-port}` (a second free port, for programs
/// that listen on two) and `{packages}` (the folder its packages are unpacked in). The flags of the
/// settings follow the arguments, in the order of the settings' names, those of lists last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "env": "`environment: {NAME: value}`",
    "variables": "`environment: {NAME: value}`",
    "args": "`arguments: […]`",
    "command": "`program:` and `arguments:`",
    "cmd": "`program:` and `arguments:`",
}))]
pub struct Launch {
    /// The program to execute.
    pub program: Program,
    /// The fixed arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Environment variables to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Names of environment variables that the engine inherits from Benchtrail, in addition to `PATH`, `HOME` and
    /// `TMPDIR`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherit: Vec<String>,
    /// Arguments that pass the model's revision to the engine (`["--revision", "{revision}"]`).
    /// They are added if the engine itself resolves the weights and their definition pins a
    /// revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revision_arguments: Vec<String>,
    /// Arguments that pass the weights of a draft model, with the placeholder `{draft}`. They are
    /// added if the provision stage names one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draft_arguments: Vec<String>,
    /// Arguments that pass the members of other roles of its group, by the name to which a stage
    /// connects a role. They follow all other arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<String, PeerArguments>,
    /// Whether the engine knows the model only by the path or id that it was given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named_as_given: bool,
    /// Arguments that make an installed program print its version (`[--version]`). It must print the definition's
    /// `version`, or nothing is started; a local suffix (`+cu130`) may follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version_arguments: Vec<String>,
    /// For a running server at an `https://` URL: a PEM file with the only certificates to trust;
    /// by default those that the operating system trusts. A relative path begins at the experiment's
    /// folder; canonical parameters hold the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// For a running server: the environment variable that holds the key sent to it as `Authorization: Bearer`, also
    /// by the stages that load it. The key itself is stored nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub api_key_env: Option<String>,
    /// The header that carries the key alone, for a server that does not read `Authorization`, such as `X-Api-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]+$"))]
    pub api_key_header: Option<String>,
}

impl Launch {
    /// Reads the server's key from the environment; `None` if the server needs none.
    ///
    /// # Errors
    /// If the variable is not set, or its value cannot be sent.
    pub fn api_key(&self) -> Result<Option<ApiKey>, Failure> {
        let Some(variable) = &self.api_key_env else {
            return Ok(None);
        };
        let key = ApiKey::from_environment(variable).map_err(|e| {
            let run = format!("run with `{variable}=… benchtrail run …`");
            Failure::failed(e).hint(ApiKey::remedy(variable, &run))
        })?;
        Ok(Some(key.sent_in(self.api_key_header.clone())))
    }
}

/// The program to execute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// An executable inside the unpacked packages.
    Packaged(String),
    /// The text of a Python script, run by the system's `python3`, isolated from the user's
    /// own Python packages.
    Python(String),
    /// The text of a worker: a Python script that holds the model and generates without a server.
    /// Each load cell starts it.
    Worker(String),
    /// The same in a file, whose path begins at the experiment's folder.
    WorkerFile(String),
    /// A program on the search path, or its path, installed by you. A relative path begins at the experiment's folder.
    Installed(String),
    /// A server that is already running at this URL (`http://127.0.0.1:8000`, or `https://…`). Benchtrail neither
    /// starts nor stops it. A list names several identical servers, which receive requests in turn. A definition that
    /// extends that of an engine which Benchtrail starts does not inherit what is about starting it.
    #[schemars(extend("x-drops" = [
        "distributions", "exporters", "fallback", "launch.arguments", "launch.draft-arguments", "launch.environment",
        "launch.inherit", "launch.peers", "launch.revision-arguments", "launch.version-arguments", "limits", "log",
        "needs-weights-file", "packages", "requires", "settings", "stop", "untested", "usage",
    ]))]
    Running(Urls),
}

/// The URL of a server, or the URLs of several that serve the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Urls {
    /// One server.
    One(String),
    /// Several servers that requests go to in turn.
    Several(#[schemars(length(min = 1))] Vec<String>),
}

impl Urls {
    /// Returns every URL.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(url) => std::slice::from_ref(url),
            Self::Several(urls) => urls,
        }
    }
}

/// When a server is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{timeout-s: 600}"))]
pub struct Ready {
    /// How long it may take from the launch to the first generated token, in seconds.
    pub timeout_s: u32,
    /// The prompt for the token that shows that the server is ready.
    pub prompt: String,
}

impl Default for Ready {
    fn default() -> Self {
        Self {
            timeout_s: 120,
            prompt: "Hello".to_owned(),
        }
    }
}

/// How a server is stopped: SIGTERM to its process group, a wait, SIGKILL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{grace-s: 10}"))]
pub struct Stop {
    /// How long it may take after SIGTERM, in seconds. For a server that keeps open streams
    /// forever, use the time that it needs when idle.
    pub grace_s: f64,
}

impl Default for Stop {
    fn default() -> Self {
        Self { grace_s: 10.0 }
    }
}

/// How to read a server's log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{errors: [\"ERROR\"]}"))]
pub struct Log {
    /// Texts that mark a log line as an error. If the server dies, the last such line is quoted.
    pub errors: Vec<String>,
    /// Texts of lines that report a failure without its cause, such as those of a launcher. They
    /// are never quoted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aftermath: Vec<String>,
    /// Well-known failures, by name. If the server dies and its log has such a line, the hint is
    /// shown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, KnownFailure>,
    /// Log lines about the server's work, by the name of the event. They become the table
    /// `engine_events` of every load cell.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, EventPattern>,
}

impl Log {
    /// Returns the last line of a log that reports an error with its cause.
    pub fn last_error<'t>(&self, text: &'t str) -> Option<&'t str> {
        let has =
            |line: &str, marks: &[String]| marks.iter().any(|mark| line.contains(mark.as_str()));
        text.lines()
            .rfind(|line| has(line, &self.errors) && !has(line, &self.aftermath))
    }
}

/// A well-known failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KnownFailure {
    /// A regular expression for a log line that shows this failure.
    pub line: String,
    /// What to do about it.
    pub hint: String,
}

/// Variables that would let another environment decide what a program in a virtual environment imports. The program
/// does not inherit them, even if its definition asks for it.
pub const KEPT_OUT: [&str; 4] = ["CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"];

/// Returns whether a program in a virtual environment must not inherit a variable.
pub fn is_kept_out(variable: &str) -> bool {
    KEPT_OUT.contains(&variable)
}
