//! The stage kind: the parts of the key, the check before the run, and one execution.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use contract::{LiveEnvironment, LiveServer};
use net::Secrets;
use pipeline::executable::digest_of;
use pipeline::sources::NamedFiles;
use pipeline::version_manager::selection;
use pipeline::{
    CellStatus, Class, Consent, Content, Done, Effect, Failure, Input, Job, Json, Library, Media,
    Needed, Output, Problem, StageKind, What,
};
use serde::Deserialize;
use serde_json::json;

use crate::inputs;
use crate::launch::{self, Launch, last_words};
use crate::settings::{Program, Settings, placeholders};
use crate::tables;

/// The file in which a program states why it has no result.
const TOLD: &str = "status.json";

/// The number of bytes kept from the end of its log.
const LOG: usize = 1 << 20;

/// The stage kind `run`.
#[derive(Debug, Default)]
pub struct Run;

/// What a program reports about itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    status: ToldStatus,
    reason: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ToldStatus {
    /// Something that it needs is missing or locked on this machine.
    Blocked,
    /// It ran, but its files cannot be turned into a table.
    Unconvertible,
}

impl StageKind for Run {
    fn name(&self) -> &'static str {
        "run"
    }

    fn other_words(&self) -> &'static [&'static str] {
        &[
            "program", "script", "command", "shell", "exec", "bash", "python",
        ]
    }

    fn semantic_version(&self) -> u32 {
        1
    }

    fn class(&self) -> Class {
        Class::Measurement
    }

    /// Readers get its tables, which state units and meaning themselves.
    fn shows_parameters(&self) -> bool {
        false
    }

    fn uses_one(&self, _gives: &dyn Fn(&str) -> bool) -> &'static [(&'static str, &'static str)] {
        &[
            ("serve", "asks one server"),
            ("provision", "runs in one environment"),
        ]
    }

    fn schema(&self) -> schemars::Schema {
        schemars::schema_for!(Settings)
    }

    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        let settings: Settings = serde_json::from_value(settings.clone())
            .map_err(|e| vec![Problem::at(&[], e.to_string())])?;
        Ok(json!(settings.pin(library)?))
    }

    /// Returns what decides a result in addition to the study: the processor, and the bytes of what
    /// is executed.
    fn facets(&self, parameters: &Json) -> Result<BTreeMap<String, Json>, Failure> {
        let settings = read(parameters)?;
        let mut facets = BTreeMap::from([
            ("os".to_owned(), json!(std::env::consts::OS)),
            ("arch".to_owned(), json!(std::env::consts::ARCH)),
            ("cpu_model".to_owned(), json!(cpu_model())),
        ]);
        let executed = settings.executed();
        let unreadable =
            |e: io::Error| Failure::failed(format!("`{executed}` cannot be read: {e}"));
        let path = launch::find(executed, None);
        let digest = path.as_deref().map(digest_of).transpose();
        let digest = digest.map_err(unreadable)?;
        facets.insert("program".to_owned(), json!(digest.map(|d| d.to_string())));
        // The script of a version manager is the same for every version that it starts.
        let selected = path.as_deref().map(selection).transpose();
        if let Some(selected) = selected.map_err(unreadable)?.flatten() {
            facets.insert("selected".to_owned(), json!(selected));
        }
        if !settings.inherit.is_empty() {
            let values = settings
                .inherit
                .iter()
                .map(|name| (name.clone(), launch::variable(name)));
            facets.insert(
                "inherited".to_owned(),
                json!(values.collect::<BTreeMap<_, _>>()),
            );
        }
        Ok(facets)
    }

    fn effects(
        &self,
        parameters: &Json,
        _inputs: &[Input],
        _store: &artifacts::Store,
        files: &NamedFiles,
    ) -> Result<Vec<Effect>, Failure> {
        let settings = read(parameters)?;
        let script = settings.script(files)?;
        let checked = (!settings.check.is_empty()).then(|| Effect {
            what: What::Start {
                purpose: "a check of what a program needs".to_owned(),
                program: settings.check.iter().take(1).cloned().collect(),
                arguments: settings.check.iter().skip(1).cloned().collect(),
                environment: settings.variables(),
                inherits: settings.inherit.clone(),
                script: None,
            },
            consent: Some(settings.consent()),
        });
        let program = match &settings.program {
            Program::Script(_) => {
                let interpreter = settings.interpreter.iter().cloned();
                interpreter.chain(["{launcher}".to_owned()]).collect()
            }
            Program::Installed(name) => vec![name.clone()],
        };
        let started = Effect {
            what: What::Start {
                purpose: "a program of the study".to_owned(),
                program,
                arguments: settings
                    .arguments
                    .iter()
                    .map(|word| word.0.clone())
                    .collect(),
                environment: settings.variables(),
                inherits: settings.inherit.clone(),
                script,
            },
            consent: Some(settings.consent()),
        };
        Ok(checked.into_iter().chain([started]).collect())
    }

    fn fits(
        &self,
        parameters: &Json,
        needs: &[Needed<'_>],
        _library: &dyn Library,
    ) -> Result<(), Vec<Problem>> {
        let Ok(settings) = read(parameters) else {
            return Ok(());
        };
        let used = ["url", "urls", "model"]
            .into_iter()
            .find(|name| settings.mentions(name));
        let problem = |message: String| Problem::at(&["arguments"], message);
        match (Needed::of_kind(needs, "serve"), used) {
            (None, Some(name)) => {
                let message =
                    format!("`{{{name}}}` refers to a server, but the stage does not need one");
                Err(vec![problem(message).hint("add a serve stage to `needs`")])
            }
            (Some(serve), _) if settings.mentions("url") => match one_of_several(servers(serve)) {
                Some(message) => Err(vec![problem(message).hint(ALL_OF_THEM)]),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        execute(job).map_err(|mut failure| {
            // It may quote a file that the program wrote.
            failure.reason = Secrets::of_this_process().mask(&failure.reason);
            failure
        })
    }

    fn rehearse(&self, job: &Job<'_>, slowdown: f64) -> Result<Done, Failure> {
        let settings = read(job.parameters)?;
        let mut done = Done::default();
        for (name, declared) in &settings.tables {
            let table = tables::made_up(declared, slowdown).map_err(Failure::failed)?;
            done.outputs.push(Output::table(name, &table)?);
        }
        for name in settings.blobs.keys() {
            done.outputs
                .push(Output::text(name, Media::Binary, "made up"));
        }
        Ok(done)
    }
}

/// Executes a program, and reads what it leaves.
fn execute(job: &Job<'_>) -> Result<Done, Failure> {
    let settings = read(job.parameters)?;
    job.control.permits(&settings.consent())?;
    let prepared = Prepared::of(&settings, job)?;
    if !settings.check.is_empty() {
        job.control
            .progress(0, None, "checking what the program needs");
        prepared.check(&settings, job)?;
    }
    job.control.progress(0, None, "running the program");
    let status = launch::run(&prepared.launch(&settings), job);
    let log = prepared.log_text();
    let kept = Output::text("log", Media::Text, log.clone());
    let status = match status {
        Ok(status) => status,
        Err(failure) => return Err(prepared.leave(&settings, failure).evidence(kept)),
    };
    if let Some(stored) = prepared.written_status() {
        let failure =
            match stored.map_err(|why| Failure::failed(format!("the program's {TOLD}: {why}")))? {
                Told {
                    status: ToldStatus::Blocked,
                    reason,
                } => Failure::blocked(reason),
                Told {
                    status: ToldStatus::Unconvertible,
                    reason,
                } => prepared.leave(
                    &settings,
                    Failure::failed(format!("unconvertible: {reason}")),
                ),
            };
        return Err(failure.evidence(kept));
    }
    if !status.success() {
        let reason = format!("the program ended with {status}{}", last_words(&log));
        return Err(prepared
            .leave(&settings, Failure::failed(reason))
            .evidence(kept));
    }
    let mut outputs = match prepared.outputs(&settings) {
        Ok(outputs) => outputs,
        Err(failure) => return Err(prepared.leave(&settings, failure).evidence(kept)),
    };
    outputs.push(kept);
    Ok(Done {
        outputs,
        ..Done::default()
    })
}

fn read(parameters: &Json) -> Result<Settings, Failure> {
    serde_json::from_value(parameters.clone())
        .map_err(|e| Failure::failed(format!("invalid parameters of a run stage: {e}")))
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

impl Settings {
    /// Returns the program to execute.
    fn executed(&self) -> &str {
        match &self.program {
            Program::Script(_) => self.interpreter.first().map_or("", String::as_str),
            Program::Installed(name) => name,
        }
    }

    fn variables(&self) -> BTreeMap<String, String> {
        let variables = self.environment.iter();
        variables
            .map(|(name, word)| (name.clone(), word.0.clone()))
            .collect()
    }

    /// Returns the text of the script.
    fn script(&self, files: &NamedFiles) -> Result<Option<String>, Failure> {
        let Program::Script(digest) = &self.program else {
            return Ok(None);
        };
        let read = files.read(digest);
        let (_, bytes) = read.map_err(|e| Failure::failed(e.message).hint(e.hint))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Returns what you consent to: everything that decides what is executed.
    fn consent(&self) -> Consent {
        Consent {
            definition: json!({
                "run": self.program, "interpreter": self.interpreter, "arguments": self.arguments,
                "files": self.files, "environment": self.environment, "inherit": self.inherit, "check": self.check,
            }),
            texts: BTreeMap::new(),
            arguments: BTreeMap::new(),
        }
    }
}

/// The folders of one execution, and the values of the placeholders.
struct Prepared {
    work: PathBuf,
    out: PathBuf,
    log: PathBuf,
    program: PathBuf,
    venv: Option<PathBuf>,
    values: BTreeMap<&'static str, String>,
}

impl Prepared {
    /// Creates the folders and writes the program's inputs.
    fn of(settings: &Settings, job: &Job<'_>) -> Result<Self, Failure> {
        let at = |name: &str| job.scratch.join(name);
        let (work, out) = (at("work"), at("out"));
        let trouble = |e: io::Error| Failure::failed(format!("{}: {e}", job.scratch.display()));
        for folder in [&work, &out, &at("files"), &at("inputs")] {
            fs::create_dir_all(folder).map_err(trouble)?;
        }
        let program = at("program");
        if let Program::Script(digest) = &settings.program {
            place(job.files, digest, &program)?;
        }
        for (name, digest) in &settings.files {
            let path = at("files").join(name);
            fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(trouble)?;
            place(job.files, digest, &path)?;
        }
        if settings.mentions("inputs") {
            inputs::lay_out(job.inputs, job.store, &at("inputs"))?;
        }
        let text = |path: &Path| path.display().to_string();
        let mut values = BTreeMap::from([
            ("out", text(&absolute(&out)?)),
            ("files", text(&absolute(&at("files"))?)),
            ("inputs", text(&absolute(&at("inputs"))?)),
            ("seed", job.seed.to_string()),
        ]);
        if let Some(server) = live::<LiveServer>(job, "serve")? {
            for name in ["url", "urls"] {
                if server.worker.is_some() && settings.mentions(name) {
                    let message = format!("the engine has no server, so there is no `{{{name}}}`");
                    return Err(Failure::failed(message));
                }
            }
            let urls = urls(&server);
            if let Some(message) = one_of_several(urls.len()).filter(|_| settings.mentions("url")) {
                return Err(Failure::failed(message).hint(ALL_OF_THEM));
            }
            values.insert("urls", urls.join(","));
            values.insert("url", server.base_url);
            values.insert("model", server.model);
        }
        let venv = live::<LiveEnvironment>(job, "provision")?.and_then(|live| live.venv);
        Ok(Self {
            log: at("program.log"),
            program: absolute(&program)?,
            work,
            out,
            venv,
            values,
        })
    }

    fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for name in placeholders(text) {
            if let Some(value) = self.values.get(name) {
                filled = filled.replace(&format!("{{{name}}}"), value);
            }
        }
        filled
    }

    /// Returns the path of a program, in the venv or on the search path.
    fn program_path(&self, name: &str) -> String {
        let program = launch::find(name, self.venv.as_deref());
        program.map_or_else(|| name.to_owned(), |path| path.display().to_string())
    }

    fn launch<'a>(&'a self, settings: &'a Settings) -> Launch<'a> {
        let arguments = settings.arguments.iter().map(|word| self.fill(&word.0));
        let line = match &settings.program {
            Program::Script(_) => {
                let (first, rest) = settings.interpreter.split_first().expect("it was checked");
                let script = self.program.display().to_string();
                let own = std::iter::once(self.program_path(first)).chain(rest.iter().cloned());
                own.chain([script]).chain(arguments).collect()
            }
            Program::Installed(name) => std::iter::once(self.program_path(name))
                .chain(arguments)
                .collect(),
        };
        self.launching(settings, line, &self.log, self.budget(settings))
    }

    /// Returns the folder whose size is limited, and the limit in bytes.
    fn budget(&self, settings: &Settings) -> Option<(&Path, u64)> {
        Some((&self.out, settings.budget_mib.saturating_mul(1 << 20)))
    }

    fn launching<'a>(
        &'a self,
        settings: &'a Settings,
        line: Vec<String>,
        log: &'a Path,
        budget: Option<(&'a Path, u64)>,
    ) -> Launch<'a> {
        let variables = settings.variables().into_iter();
        Launch {
            line,
            environment: variables
                .map(|(name, text)| (name, self.fill(&text)))
                .collect(),
            inherit: &settings.inherit,
            venv: self.venv.clone(),
            folder: &self.work,
            log,
            budget,
        }
    }

    /// Runs the check command, which decides whether the program can work on this machine.
    fn check(&self, settings: &Settings, job: &Job<'_>) -> Result<(), Failure> {
        let mut line: Vec<String> = settings.check.iter().map(|text| self.fill(text)).collect();
        if let Some(first) = line.first_mut() {
            if launch::find(first, self.venv.as_deref()).is_none() {
                let reason = format!("the program `{first}` is not on the search path");
                return Err(Failure::blocked(reason));
            }
            *first = self.program_path(first);
        }
        let log = self.log.with_extension("check");
        let status = launch::run(&self.launching(settings, line, &log, None), job)?;
        if status.success() {
            return Ok(());
        }
        let said = end_of(&log, LOG as u64).unwrap_or_default();
        let said = Secrets::of_this_process().mask(&String::from_utf8_lossy(&said));
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map_or_else(|| status.to_string(), |line| line.trim().to_owned());
        let failure = Failure::blocked(last);
        Err(failure.evidence(Output::text("log", Media::Text, said)))
    }

    fn log_text(&self) -> String {
        // Masked before it is cut, or the end of a secret could remain.
        let end = end_of(&self.log, 2 * LOG as u64).unwrap_or_default();
        let masked = Secrets::of_this_process().mask(&String::from_utf8_lossy(&end));
        let from = masked.ceil_char_boundary(masked.len().saturating_sub(LOG));
        masked[from..].to_owned()
    }

    fn written_status(&self) -> Option<Result<Told, String>> {
        match tables::contents(&self.out, TOLD) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => Some(Err(e.to_string())),
            Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|e| e.to_string())),
        }
    }

    /// Returns the declared outputs.
    ///
    /// # Errors
    /// If an output is missing or does not match its declaration.
    fn outputs(&self, settings: &Settings) -> Result<Vec<Output>, Failure> {
        let mut outputs = Vec::new();
        for (name, declared) in &settings.tables {
            let table = tables::read(&self.out, declared)
                .map_err(|why| Failure::failed(format!("the table `{name}`: {why}")))?;
            outputs.push(Output::table(name, &table)?);
        }
        for (name, file) in &settings.blobs {
            let blob = self.blob(name, file);
            outputs.push(blob.ok_or_else(|| {
                Failure::failed(format!("the program left no file `{file}` (`{name}`)"))
            })?);
        }
        Ok(outputs)
    }

    fn blob(&self, name: &str, file: &str) -> Option<Output> {
        let path = self.out.join(file);
        // A link could point anywhere.
        let plain = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        plain.then(|| Output {
            name: name.to_owned(),
            media: Media::Binary,
            content: Content::File(path),
            rows: None,
        })
    }

    /// Adds the existing blobs to a failure, unless they are larger than a program may write.
    fn leave(&self, settings: &Settings, failure: Failure) -> Failure {
        if launch::within(self.budget(settings)).is_err() {
            return failure;
        }
        let left = settings
            .blobs
            .iter()
            .filter_map(|(name, file)| self.blob(name, file));
        left.fold(failure, Failure::evidence)
    }
}

/// Reads the last bytes of a file, at most `most`.
fn end_of(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (mut file, size) = artifacts::regular::open(path)?;
    let from = size.saturating_sub(most);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))
}

/// Writes a file of the study to the path where the program expects it.
fn place(files: &NamedFiles, digest: &str, to: &Path) -> Result<(), Failure> {
    let read = files.read(digest);
    let (_, bytes) = read.map_err(|e| Failure::failed(e.message).hint(e.hint))?;
    fs::write(to, bytes).map_err(|e| Failure::failed(format!("{}: {e}", to.display())))
}

/// The replacement for `{url}`.
const ALL_OF_THEM: &str =
    "write `{urls}` for all of them with commas between, or put a balancer before them";

/// Returns a message if `{url}` is only one of several addresses.
fn one_of_several(servers: usize) -> Option<String> {
    let message =
        || format!("the stage has {servers} servers, and `{{url}}` is the address of one");
    (servers > 1).then(message)
}

/// Returns the number of servers that receive the load, as far as planning knows.
fn servers(serve: &Needed<'_>) -> usize {
    let parameters = serve.parameters;
    let count = if let Some(roles) = parameters["roles"].as_object() {
        let named = parameters["load"].as_str();
        let role = named.map_or_else(|| roles.values().next(), |name| roles.get(name));
        role.and_then(|role| role["count"].as_u64())
    } else {
        let environment = Needed::of_kind(&serve.needs, "provision");
        let engine = environment.map(|e| &e.parameters["engines"][0]["definition"]);
        let urls = engine.and_then(|e| e["launch"]["program"]["running"].as_array());
        urls.map(|urls| urls.len() as u64)
    };
    count.and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
}

/// Returns the addresses that receive the load.
fn urls(server: &LiveServer) -> Vec<String> {
    let loaded = server.members.iter().filter(|member| member.loaded);
    let urls: Vec<String> = loaded.map(|member| member.base_url.clone()).collect();
    if urls.is_empty() {
        vec![server.base_url.clone()]
    } else {
        urls
    }
}

/// Reads the live document of the one cell of a kind.
fn live<T: serde::de::DeserializeOwned>(job: &Job<'_>, kind: &str) -> Result<Option<T>, Failure> {
    let Some(input) = job.input_of_kind(kind) else {
        return Ok(None);
    };
    let [cell] = &input.cells[..] else {
        let message = format!(
            "a program uses one cell of `{}`, which gives {}",
            input.stage,
            input.cells.len()
        );
        return Err(Failure::failed(message).hint("expand this stage over the same axes"));
    };
    if cell.status != CellStatus::Ok {
        let reason = cell.reason.as_deref().unwrap_or("no reason given");
        let reason = format!("`{}` is {}: {reason}", input.stage, cell.status.word());
        return Err(Failure::new(CellStatus::Skipped, reason));
    }
    let live = cell.live.clone().map(serde_json::from_value).transpose();
    live.map_err(|e| Failure::failed(format!("`{}` is unreadable: {e}", input.stage)))
}
