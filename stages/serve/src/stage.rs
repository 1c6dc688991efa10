//! The stage kind: settings, early checks, one start.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use artifacts::Store;
use contract::{LiveServer, ServerDescriptor};
use engines::Engine;
use pipeline::process::Spawner;
use pipeline::sources::NamedFiles;
use pipeline::suggest::nearest;
use pipeline::{
    Class, Done, Effect, Failure, Input, Job, Json, Library, Needed, Output, Problem, StageKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fit;
use crate::group::{self, Plan, Role};
use crate::part::Part;
use crate::start::{Manner, Server, ca_file};

/// The serve kind.
#[derive(Default)]
pub struct Serve {
    exe: Option<PathBuf>,
    spawner: Mutex<Option<Arc<Spawner>>>,
}

/// What a serve stage says.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-other-words" = {
    "engine": "a key of the provision stage that this one needs",
    "model": "a key of the provision stage that this one needs",
    "args": "`settings:`, by the names in the engine's definition",
    "arguments": "`settings:`, by the names in the engine's definition",
    "flags": "`settings:`, by the names in the engine's definition",
    "env": "a key of the engine's definition: `launch: {environment: {NAME: value}}`",
    "command": "a part of the engine's definition: `launch: {program: …, arguments: […]}`",
    "cmd": "a part of the engine's definition: `launch: {program: …, arguments: […]}`",
    "environment": "a key of the provision stage that the server needs",
    "image": "a key of the provision stage: `environment: {container: {image: …}}`",
    "volumes": "a key of the provision stage: `environment: {container: …}`",
    "gpus": "chosen by the engine's settings, such as `settings: {tensor-parallel: N}`",
    "healthcheck": "a key of the engine's definition: `ready: {…}`",
    "ports": "chosen automatically: Benchtrail finds a free port",
    "port": "chosen automatically: Benchtrail finds a free port",
    "host": "the engine of the provision stage: `launch: {program: {running: URL}}`",
    "url": "the engine of the provision stage: `launch: {program: {running: URL}}`",
    "base-url": "the engine of the provision stage: `launch: {program: {running: URL}}`",
}))]
pub(crate) struct Settings {
    /// Settings of the engine, under the names in its definition; all others keep their defaults.
    pub(crate) settings: BTreeMap<String, Json>,
    /// The roles of a group of servers, such as a router and the replicas behind it, instead of one
    /// server.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) roles: BTreeMap<String, Role>,
    /// The role of a group that receives the load. If it has several members, they get requests in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) load: Option<String>,
}

impl Serve {
    /// Makes a kind that starts engines through another executable than the current one. That executable must forward
    /// the pipeline's hidden exec subcommand.
    pub fn through(exe: PathBuf) -> Self {
        Self {
            exe: Some(exe),
            ..Self::default()
        }
    }

    fn spawner(&self) -> Result<Arc<Spawner>, Failure> {
        let make = || -> io::Result<Arc<Spawner>> {
            let exe = match &self.exe {
                Some(exe) => exe.clone(),
                None => std::env::current_exe()?,
            };
            Ok(Arc::new(Spawner::new(exe)?))
        };
        let mut kept = self
            .spawner
            .lock()
            .map_err(|_| Failure::failed("an earlier start panicked"))?;
        if let Some(spawner) = &*kept {
            return Ok(spawner.clone());
        }
        let spawner = make().map_err(|e| {
            Failure::failed(format!(
                "cannot start the thread that launches \
                engines: {e}"
            ))
        })?;
        *kept = Some(spawner.clone());
        Ok(spawner)
    }
}

impl StageKind for Serve {
    fn name(&self) -> &'static str {
        "serve"
    }

    fn other_words(&self) -> &'static [&'static str] {
        &["server", "launch", "start", "deploy", "endpoint"]
    }

    fn semantic_version(&self) -> u32 {
        1
    }

    fn class(&self) -> Class {
        Class::Resource
    }

    fn uses_one(&self, gives: &dyn Fn(&str) -> bool) -> &'static [(&'static str, &'static str)] {
        if gives("roles") {
            &[]
        } else {
            &[("provision", "runs in one environment")]
        }
    }

    fn schema(&self) -> schemars::Schema {
        schemars::schema_for!(Settings)
    }

    /// Checks the settings as far as they do not depend on the engine, which only the provision stage decides. A
    /// setting is refused here if no engine of the library accepts it; otherwise it is checked when the cell starts.
    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        let mut settings: Settings = serde_json::from_value(settings.clone())
            .map_err(|e| vec![Problem::at(&[], e.to_string())])?;
        settings.settings.retain(|_, value| !value.is_null());
        let mut problems = early_problems(&[], &settings.settings, library);
        for (name, role) in &mut settings.roles {
            role.settings.retain(|_, value| !value.is_null());
            problems.extend(early_problems(&["roles", name], &role.settings, library));
        }
        problems.extend(group::problems(&settings));
        if problems.is_empty() {
            Ok(serde_json::to_value(&settings).expect("settings always serialize"))
        } else {
            Err(problems)
        }
    }

    /// Returns what identifies the files that the settings name.
    fn facets(&self, parameters: &Json) -> Result<BTreeMap<String, Json>, Failure> {
        let settings = read(parameters)?;
        let of_roles = settings
            .roles
            .values()
            .flat_map(|role| role.settings.values());
        let values = settings.settings.values().chain(of_roles);
        let files = engines::files_named(values.flat_map(engines::texts_of));
        let facet = (!files.is_empty()).then(|| (engines::FILES.to_owned(), json!(files)));
        Ok(facet.into_iter().collect())
    }

    /// Returns the effects of starting the engines, or of connecting to running ones.
    fn effects(
        &self,
        parameters: &Json,
        inputs: &[Input],
        store: &Store,
        files: &NamedFiles,
    ) -> Result<Vec<Effect>, Failure> {
        let settings = read(parameters)?;
        if !settings.roles.is_empty() {
            return Plan::of(&settings, inputs, store).map(|plan| plan.effects(files));
        }
        let provision = inputs.iter().find(|i| i.kind == "provision");
        Ok(Part::of(provision, &json!(settings.settings), store)?.effects(files))
    }

    fn setting_meant(&self, key: &str, value: &Json, library: &dyn Library) -> Option<String> {
        fit::setting_meant(key, value, library)
    }

    fn fits(
        &self,
        parameters: &Json,
        needs: &[Needed<'_>],
        library: &dyn Library,
    ) -> Result<(), Vec<Problem>> {
        fit::fits(parameters, needs, library)
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        let settings = read(job.parameters)?;
        let spawner = || self.spawner();
        if !settings.roles.is_empty() {
            let plan = Plan::of(&settings, job.inputs, job.store)?;
            return plan.start(&spawner, job);
        }
        let provision = job.input_of_kind("provision");
        let part = Part::of(provision, &json!(settings.settings), job.store)?;
        alone(&part)?;
        if let Some(settings) = group::of_several(&part, &settings) {
            return Plan::of(&settings, job.inputs, job.store)?.start(&spawner, job);
        }
        if part.engine.is_worker() {
            return part.in_process(job);
        }
        let mut server = part.start(&Manner::default(), &spawner, job)?;
        job.control.progress(2, Some(3), "reading its limits");
        let (descriptor, warnings) = part.describe(&server)?;
        server.live = json!(live(&part, &server, &descriptor, job.files)?);
        Ok(Done {
            outputs: vec![Output::json("server", &json!(descriptor))],
            lease: Some(Box::new(server)),
            observations: BTreeMap::new(),
            warnings,
        })
    }

    /// Describes the server from its settings alone.
    fn rehearse(&self, job: &Job<'_>, _slowdown: f64) -> Result<Done, Failure> {
        let settings = read(job.parameters)?;
        let descriptor = if settings.roles.is_empty() {
            let provision = job.input_of_kind("provision");
            let part = Part::of(provision, &json!(settings.settings), job.store)?;
            alone(&part)?;
            match group::of_several(&part, &settings) {
                Some(settings) => Plan::of(&settings, job.inputs, job.store)?.promised(),
                None => part.promised(),
            }
        } else {
            Plan::of(&settings, job.inputs, job.store)?.promised()
        };
        Ok(Done {
            outputs: vec![Output::json("server", &json!(descriptor))],
            ..Done::default()
        })
    }
}

fn read(parameters: &Json) -> Result<Settings, Failure> {
    serde_json::from_value(parameters.clone())
        .map_err(|e| Failure::failed(format!("invalid parameters of a serve stage: {e}")))
}

/// Refuses an engine that needs other servers.
fn alone(part: &Part<'_>) -> Result<(), Failure> {
    match group::needs_others(&part.engine.title, &part.engine) {
        Some(message) => Err(Failure::failed(message).hint(fit::IN_A_GROUP)),
        None => Ok(()),
    }
}

/// Returns how to reach a server.
pub(crate) fn live(
    part: &Part<'_>,
    server: &Server,
    descriptor: &ServerDescriptor,
    files: &NamedFiles,
) -> Result<LiveServer, Failure> {
    let engine = &part.engine;
    Ok(LiveServer {
        worker: None,
        base_url: server.site.url().to_owned(),
        ca_file: ca_file(&engine.launch, files)?,
        api_key_env: engine.launch.api_key_env.clone(),
        api_key_header: engine.launch.api_key_header.clone(),
        // For a server on another host, the local process is only the client.
        pid: match server.elsewhere {
            Some(_) => None,
            None => {
                let pid = server.process.as_ref().map(|process| process.pid());
                pid.transpose()?.map(i64::from)
            }
        },
        log_path: server.process.as_ref().map(|p| p.log_path().to_owned()),
        model: server.model.clone(),
        api: engine.api,
        endpoints: engine.endpoints.clone(),
        counters: engine.counters.clone(),
        absent_cached_is_zero: engine.usage.absent_cached_is_zero(&part.settings),
        log_events: engine.log.events.clone(),
        log_errors: engine.log.errors.clone(),
        limits: descriptor.limits.clone(),
        exporters: server.exporters(engine),
        members: Vec::new(),
        elsewhere: server.elsewhere.clone(),
        starts: server.start.clone().into_iter().collect(),
    })
}

/// Finds settings that no engine of the library accepts; `at` is the route to them.
fn early_problems(
    at: &[&str],
    given: &BTreeMap<String, Json>,
    library: &dyn Library,
) -> Vec<Problem> {
    let engines = Engine::all(library);
    let mut problems = Vec::new();
    let mut unknown = Vec::new();
    for (name, value) in given {
        let route = [at, &["settings", name]].concat();
        let takers: Vec<_> = engines
            .iter()
            .filter_map(|e| e.settings.get(name))
            .collect();
        // Reported with the engine's name (see `fits`), or with the definition.
        let elsewhere = at.is_empty() || fit::a_definition_is_wrong(library);
        if takers.is_empty() {
            let problem = Problem::at_key(&route, format!("no engine has a setting `{name}`"));
            let names = engines.iter().flat_map(|e| e.settings.keys());
            let hint = engines
                .iter()
                .find_map(|engine| engines::setting_meant(&engine.settings, name, value))
                .or_else(|| nearest(name, names.map(String::as_str)));
            let problem = match hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            };
            if elsewhere {
                unknown.push(problem);
            } else {
                problems.push(problem);
            }
        } else if let Some(phrase) = takers
            .iter()
            .map(|s| s.check(value))
            .reduce(Result::or)
            .and_then(Result::err)
        {
            let problem = Problem::at(&route, format!("the setting `{name}` {phrase}"));
            problems.push(match takers.iter().find_map(|s| s.remedy(name, value)) {
                Some(hint) => problem.hint(hint),
                None => {
                    problem.hint("`benchtrail list engines NAME` shows what each setting takes")
                }
            });
        }
    }
    // The check with the engine's name only runs if nothing else is wrong, and all mistakes are reported at once.
    if !problems.is_empty() {
        problems.append(&mut unknown);
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_setting_names_is_part_of_the_key_with_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let template = folder.path().join("t.jinja").display().to_string();
        let alone = json!({"settings": {"extra-arguments": ["--chat-template-file", template]}});
        let in_role = json!({"roles": {"replica": {"settings": {"config": template}}}});
        for parameters in [alone, in_role] {
            let facets = |content: &str| {
                std::fs::write(&template, content).unwrap();
                Serve::default().facets(&parameters).unwrap()
            };
            let (first, second) = (facets("one"), facets("two"));
            assert!(first["files"][&template].is_string(), "{first:?}");
            assert_ne!(first, second);
            std::fs::remove_file(&template).unwrap();
            assert!(Serve::default().facets(&parameters).unwrap().is_empty());
        }
    }
}
