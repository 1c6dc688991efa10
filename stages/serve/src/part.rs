//! What one server starts from: an engine with its settings in a prepared environment.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use artifacts::Store;
use contract::{Environment, LiveEnvironment, LiveServer, LiveWorker, ServerDescriptor};
use engines::{Engine, Paths, Program, render, resolve};
use pipeline::process::Spawner;
use pipeline::sources::NamedFiles;
use pipeline::{
    CellStatus, Done, Effect, Failure, Inert, Input, InputCell, Job, Json, Output, Problem, What,
};
use serde_json::json;

use crate::describe::{describe, drafts, reads_files_here};
use crate::probe::probe;
use crate::reach::Home;
use crate::ready;
use crate::start::{Manner, Server, ToLaunch, attach, start};

/// An engine with its settings, in a prepared environment.
pub(crate) struct Part<'a> {
    cell: &'a InputCell,
    environment: Environment,
    pub(crate) engine: Engine,
    pub(crate) settings: BTreeMap<String, Json>,
}

impl<'a> Part<'a> {
    /// Reads what a provision stage prepared and fills in the given settings.
    ///
    /// # Errors
    /// If the environment is missing, or its engine does not accept the settings.
    pub(crate) fn of(
        provision: Option<&'a Input>,
        given: &Json,
        store: &Store,
    ) -> Result<Self, Failure> {
        let cell = provisioned(provision)?;
        let environment = environment(cell, store)?;
        let engine = definition(&environment)?;
        let given = given.as_object().cloned().unwrap_or_default();
        let settings =
            resolve(&engine.settings, &given).map_err(|problems| unfit(&engine, &problems))?;
        Ok(Self {
            cell,
            environment,
            engine,
            settings,
        })
    }

    fn name(&self) -> &str {
        self.environment.model.served_name()
    }

    fn revision(&self) -> Option<&str> {
        self.environment.model.weights.revision_to_resolve()
    }

    /// Returns the effects of starting the engine, or of connecting to a running one, of sending files to that, and of
    /// reaching its exporters.
    pub(crate) fn effects(&self, files: &NamedFiles) -> Vec<Effect> {
        let start = self.engine.start(
            &self.settings,
            self.name(),
            self.revision(),
            drafts(&self.environment),
        );
        // Whoever starts an engine reads its second port, too.
        let others = self.engine.exporters.values();
        let others = others.filter(|exporter| exporter.path_at_side_port().is_none());
        let reached = others.map(|exporter| Effect {
            what: What::Reach {
                url: exporter.url.clone(),
                key: None,
            },
            consent: None,
        });
        let sent = self.engine.sends(files);
        std::iter::once(start).chain(sent).chain(reached).collect()
    }

    /// Checks whether the user has consented to everything that needs it.
    fn permitted(&self, job: &Job<'_>) -> Result<(), Failure> {
        let consents = self.engine.sends(job.files).into_iter();
        let consents = consents.filter_map(|effect| effect.consent);
        let mut all = self
            .engine
            .consent(&self.settings)
            .into_iter()
            .chain(consents);
        all.try_for_each(|consent| job.control.permits(&consent))
    }

    /// Checks that the files that the definition names are as they were when the environment was prepared: keys contain them
    /// in that form.
    fn has_the_same_files(&self) -> Result<(), Failure> {
        let prepared = self.environment.facets.get(engines::FILES);
        let prepared = prepared.filter(|_| reads_files_here(&self.environment));
        match prepared.and_then(|files| changed_file(files, &self.engine.files())) {
            None => Ok(()),
            Some(path) => Err(Failure::failed(format!(
                "{path} changed after the engine was prepared, so this server would not be comparable with the others"
            ))
            .hint("run again: cells that have another key now are measured again")),
        }
    }

    /// Returns the number of URLs at which its servers already run; 0 if Benchtrail starts it.
    pub(crate) fn running(&self) -> usize {
        match &self.engine.launch.program {
            Program::Running(urls) => urls.all().len(),
            _ => 0,
        }
    }

    fn live(&self) -> Result<LiveEnvironment, Failure> {
        let live = self
            .cell
            .live
            .clone()
            .ok_or_else(|| Failure::failed("the provisioned environment does not exist"))?;
        serde_json::from_value(live)
            .map_err(|e| Failure::failed(format!("the provisioned environment is unreadable: {e}")))
    }

    /// Returns where its servers run.
    ///
    /// # Errors
    /// If nothing is prepared.
    pub(crate) fn home(&self) -> Result<Home, Failure> {
        Home::of(&self.live()?)
    }

    /// Describes an engine that needs no server, because each load cell starts its worker.
    ///
    /// # Errors
    /// If you have not consented, or nothing is prepared.
    pub(crate) fn in_process(&self, job: &Job<'_>) -> Result<Done, Failure> {
        self.permitted(job)?;
        self.has_the_same_files()?;
        let (live, launch) = (self.live()?, &self.engine.launch);
        let paths = Paths {
            model: live.model_path.clone(),
            packages: live.packages.clone().unwrap_or_default(),
            draft: live.draft_path.clone(),
            ..Paths::placeholders(self.name(), self.revision())
        };
        let rendered = render(&self.engine, &self.settings, &paths);
        let inherited = |name: &&String| live.venv.is_none() || !engines::is_kept_out(name);
        let inherits = launch.inherit.iter().filter(inherited).cloned();
        let program = live.bin.first().map_or(Path::new(""), Path::new);
        let of_manager = engines::read_by_version_manager(program);
        let worker = LiveWorker {
            program: live.bin.into_iter().chain(rendered.arguments).collect(),
            environment: rendered.environment,
            inherits: inherits.chain(of_manager).collect(),
            venv: live.venv.clone(),
            model_path: live.model_path,
            settings: self.settings.clone(),
            ready_s: self.engine.ready.timeout_s,
        };
        let live = LiveServer {
            worker: Some(worker),
            model: self.name().to_owned(),
            ..LiveServer::default()
        };
        Ok(Done {
            outputs: vec![Output::json("server", &json!(self.promised()))],
            lease: Some(Box::new(Inert { live: json!(live) })),
            ..Done::default()
        })
    }

    /// Starts the server, or connects to a running one, and waits until it is ready.
    ///
    /// # Errors
    /// If you have not consented, or the server does not become ready.
    pub(crate) fn start(
        &self,
        manner: &Manner,
        spawner: &(dyn Fn() -> Result<Arc<Spawner>, Failure> + Sync),
        job: &Job<'_>,
    ) -> Result<Server, Failure> {
        self.permitted(job)?;
        self.has_the_same_files()?;
        let live = self.live()?;
        match &self.engine.launch.program {
            Program::Running(urls) => {
                let url = urls.all().get(manner.number).ok_or_else(|| {
                    Failure::failed(format!("{} has no such server", self.engine.title))
                })?;
                let names = [self.name().to_owned(), live.model_path];
                attach(&self.engine, url, &names, manner, job)
            }
            Program::Worker(_) | Program::WorkerFile(_) => {
                let message = format!("{} is not a server", self.engine.title);
                Err(Failure::failed(message).hint("a worker cannot be a role of a group"))
            }
            Program::Packaged(_) | Program::Python(_) | Program::Installed(_) => {
                let launch = ToLaunch {
                    engine: &self.engine,
                    settings: &self.settings,
                    live: &live,
                    name: self.name(),
                    revision: self.revision(),
                    manner,
                };
                start(&spawner()?, &launch, job)
            }
        }
    }

    /// Describes a server that is ready. Also returns its limits and warnings.
    ///
    /// # Errors
    /// If the server does not report what its definition asks for.
    pub(crate) fn describe(
        &self,
        server: &Server,
    ) -> Result<(ServerDescriptor, Vec<String>), Failure> {
        let (limits, mut warnings) = ready::limits(&self.engine, &server.site, &self.settings);
        let probed = probe(&self.engine, &server.site)?;
        // The local path of the weights is not part of what is served.
        let model_name = match self.engine.launch.named_as_given && server.model.starts_with('/') {
            true => self.name(),
            false => &server.model,
        };
        let descriptor = describe(
            &self.environment,
            &self.engine,
            model_name,
            &self.settings,
            &limits,
            &probed,
        );
        warnings.extend(engines::not_in_key(&descriptor.files));
        Ok((descriptor, warnings))
    }

    /// Describes the server from its settings alone.
    pub(crate) fn promised(&self) -> ServerDescriptor {
        let limits = ready::promised(&self.engine, &self.settings);
        describe(
            &self.environment,
            &self.engine,
            self.name(),
            &self.settings,
            &limits,
            &BTreeMap::new(),
        )
    }
}

fn provisioned(input: Option<&Input>) -> Result<&InputCell, Failure> {
    let input = input.ok_or_else(|| {
        Failure::failed("a serve stage needs a provision stage")
            .hint("add it to the stage's `needs`")
    })?;
    match &input.cells[..] {
        [cell] if cell.status == CellStatus::Ok => Ok(cell),
        [cell] => {
            let reason = cell.reason.as_deref().unwrap_or("no reason given");
            Err(Failure::new(
                CellStatus::Skipped,
                format!("`{}` is {}: {reason}", input.stage, cell.status.word()),
            ))
        }
        cells => {
            let message = format!(
                "a server runs in one environment, but `{}` gives {}",
                input.stage,
                cells.len()
            );
            Err(Failure::failed(message).hint("expand this stage over the same axes"))
        }
    }
}

fn environment(cell: &InputCell, store: &Store) -> Result<Environment, Failure> {
    let missing = || Failure::failed("the provision stage has no output `environment`");
    let artifact = cell.outputs.get("environment").ok_or_else(missing)?;
    let bytes = store
        .get(&artifact.digest)
        .map_err(|e| Failure::failed(e.to_string()))?;
    serde_json::from_slice(&bytes)
        .map_err(|e| Failure::failed(format!("`environment` cannot be read: {e}")))
}

/// Reads the definition of the provisioned engine.
fn definition(environment: &Environment) -> Result<Engine, Failure> {
    let definition = environment.engine.definition.clone().unwrap_or_default();
    serde_json::from_value(definition).map_err(|e| {
        Failure::failed(format!(
            "the provisioned engine's definition is unreadable: {e}"
        ))
    })
}

fn unfit(engine: &Engine, problems: &[Problem]) -> Failure {
    let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
    let hints: Vec<&str> = problems.iter().filter_map(|p| p.hint.as_deref()).collect();
    let failure = Failure::failed(format!(
        "{} cannot be started: {}",
        engine.title,
        messages.join("; ")
    ));
    if hints.is_empty() {
        failure
    } else {
        failure.hint(hints.join("; "))
    }
}

/// Returns the first file that is not as it was, has appeared, or is gone.
fn changed_file(before: &Json, now: &BTreeMap<String, Json>) -> Option<String> {
    let gone = before
        .as_object()
        .into_iter()
        .flatten()
        .map(|(path, _)| path)
        .find(|path| !now.contains_key(*path));
    let other = || {
        now.iter()
            .find(|(path, identity)| before[*path] != **identity)
    };
    gone.or_else(|| other().map(|(path, _)| path)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_appeared_or_is_gone_is_named() {
        let files = |pairs: &[(&str, &str)]| -> BTreeMap<String, Json> {
            let pairs = pairs.iter();
            pairs
                .map(|(path, digest)| ((*path).to_owned(), json!(digest)))
                .collect()
        };
        let before = json!(files(&[("/a", "1"), ("/b", "2")]));
        let changed = |now: &[(&str, &str)]| changed_file(&before, &files(now));
        assert_eq!(changed(&[("/a", "1"), ("/b", "2")]), None);
        assert_eq!(changed(&[("/a", "1"), ("/b", "3")]), Some("/b".to_owned()));
        assert_eq!(changed(&[("/a", "1")]), Some("/b".to_owned()));
        let more = changed(&[("/a", "1"), ("/b", "2"), ("/c", "3")]);
        assert_eq!(more, Some("/c".to_owned()));
    }
}
