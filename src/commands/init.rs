//! `init`: writes a short study that runs, as a file to edit.

use std::io::IsTerminal as _;
use std::path::Path;

use artifacts::counted;
use pipeline::language::{is_name, name_remedy};
use pipeline::suggest::remedy;
use serde_json::{Value, json};

use super::init_ask::Questions;
use super::init_results;
use super::init_text::text;
use super::list::{is_defined, names_of, needs_weights_file};
use super::load_study::LoadStudy;
use crate::args::{Global, InitArgs};
use crate::exit::Stop;
use crate::project::in_shell;
use crate::terminal::{complain, say};

/// The requested study.
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) server: Server,
    pub(super) workloads: Vec<String>,
    pub(super) levels: Levels,
    /// The line with the number of requests, or the duration.
    pub(super) extent: String,
    pub(super) repetitions: u32,
}

/// The server under load.
pub(super) enum Server {
    /// The engine that the study starts, or the two that it compares, and the model: the name of a definition, or an id or
    /// path that the engine itself loads.
    Started { engines: Vec<String>, model: Model },
    /// A server that is already running.
    Running {
        urls: Vec<String>,
        api: String,
        key: Option<String>,
        model: String,
    },
}

pub(super) enum Model {
    Defined(String),
    Named(String),
}

/// The levels of the load.
pub(super) enum Levels {
    Clients(Vec<u32>),
    Rates(Vec<f64>),
    /// The arrivals of an earlier `load` run.
    As(Value),
}

impl Levels {
    /// Checks that each level is given once.
    fn each_once(&self) -> Result<(), Stop> {
        match self {
            Self::Clients(clients) => each_once("clients", clients),
            Self::Rates(rates) => each_once("rate", rates),
            Self::As(_) => Ok(()),
        }
    }
}

/// Checks that no label of an axis is given twice, as a plan does.
fn each_once<T: PartialEq + std::fmt::Display>(axis: &str, labels: &[T]) -> Result<(), Stop> {
    let mut each = labels.iter().enumerate();
    match each.find(|(at, label)| labels[..*at].contains(label)) {
        Some((_, label)) => {
            let message = format!("the axis `{axis}` has the label `{label}` twice");
            Err(Stop::usage(message)
                .hint("remove one; the study repeats measurements in its `--repetitions`"))
        }
        None => Ok(()),
    }
}

pub(super) fn init(arguments: &InitArgs, global: &Global) -> Result<(), Stop> {
    let questions = Questions {
        asked: !arguments.yes
            && !global.json
            && arguments.from_load.is_none()
            && arguments.from_results.is_empty()
            && std::io::stdin().is_terminal()
            && std::io::stderr().is_terminal(),
    };
    check_order(arguments)?;
    let name = name(arguments, questions)?;
    let text = match arguments.from_results.as_slice() {
        [] => text(&wish(arguments, name.clone(), questions)?),
        files => init_results::text(&name, files)?,
    };
    let file = format!("{name}.yaml");
    let path = Path::new(&file);
    if path.exists() && !arguments.force {
        return Err(Stop::usage(format!("{file} already exists")).hint(
            "give another name, as in `benchtrail init other-study`, or replace it with `--force`",
        ));
    }
    std::fs::write(path, &text).map_err(|e| Stop::refused_at(&file, &e))?;
    if global.json {
        say(&json!({"file": file, "text": text}).to_string());
    } else {
        say(&format!(
            "wrote {file}. Next:\n  benchtrail plan {file}    what would run, and why\n  benchtrail run {file}     \
             run it and render the report"
        ));
    }
    Ok(())
}

/// Checks that the study's name is not taken for a file: an option with several values takes every word after it.
fn check_order(arguments: &InitArgs) -> Result<(), Stop> {
    let (None, [files @ .., last]) = (&arguments.name, arguments.from_results.as_slice()) else {
        return Ok(());
    };
    let meant = last.to_str().filter(|text| is_name(text));
    match (meant, files) {
        (Some(name), [_, ..]) if !last.exists() => {
            let files: Vec<String> = files.iter().map(|file| in_shell(file)).collect();
            let message = format!("the file `{name}` does not exist");
            Err(Stop::usage(message).hint(format!(
                "the name of the study comes first: `benchtrail init {name} --from-results {}`",
                files.join(" ")
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the study's name.
fn name(arguments: &InitArgs, questions: Questions) -> Result<String, Stop> {
    let read = |name: &str| {
        let name = name.strip_suffix(".yaml").unwrap_or(name);
        check_name(name).map(|()| name.to_owned())
    };
    match &arguments.name {
        Some(name) => read(name),
        None => questions.answer("Name of the study", "my-study", read),
    }
}

fn wish(arguments: &InitArgs, name: String, questions: Questions) -> Result<Wish, Stop> {
    if let Some(folder) = &arguments.from_load {
        return from_load(arguments, name, folder);
    }
    let server = match &arguments.from_url {
        Some(url) => running(arguments, url)?,
        None => server(arguments, questions)?,
    };
    let workloads = match arguments.workloads.as_slice() {
        [] => questions.answer("Workloads, separated by commas", "short-decode", |given| {
            let names = given.split(',').map(|name| name.trim().to_owned());
            checked_workloads(names.collect())
        })?,
        given => checked_workloads(given.to_vec())?,
    };
    let levels = match (arguments.clients.as_slice(), arguments.rates.as_slice()) {
        ([], []) => questions.answer("Levels of clients, separated by commas", "1,2,4", clients)?,
        ([], rates) => Levels::Rates(rates.to_vec()),
        (clients, _) => Levels::Clients(clients.to_vec()),
    };
    levels.each_once()?;
    // Three blocks find only large differences.
    let repetitions = match &server {
        Server::Started { engines, .. } if engines.len() > 1 => 5,
        _ => REPETITIONS,
    };
    Ok(Wish {
        name,
        server,
        workloads,
        extent: extent(arguments, &levels)?,
        levels,
        repetitions: arguments.repetitions.unwrap_or(repetitions),
    })
}

/// Checks that workloads are defined and that each is given once.
fn checked_workloads(workloads: Vec<String>) -> Result<Vec<String>, Stop> {
    for workload in &workloads {
        is_defined("workloads", workload)?;
    }
    each_once("workload", &workloads)?;
    Ok(workloads)
}

/// The number of repetitions, if nothing else sets it.
const REPETITIONS: u32 = 3;

/// The number of measured requests per cell, if nothing else sets it.
const REQUESTS: u64 = 16;

/// Returns whether one of the rates is infinite: every request at once.
pub(super) fn has_burst(rates: &[f64]) -> bool {
    rates.iter().any(|rate| rate.is_infinite())
}

fn most_clients(levels: &Levels) -> u64 {
    match levels {
        Levels::Clients(clients) => clients.iter().max().copied().map_or(0, u64::from),
        Levels::Rates(_) | Levels::As(_) => 0,
    }
}

/// Returns the line with the number of requests: enough for every client of the largest level.
fn extent(arguments: &InitArgs, levels: &Levels) -> Result<String, Stop> {
    let most = most_clients(levels);
    match arguments.requests {
        Some(requests) if requests < most => Err(Stop::usage(format!(
            "{} {} fewer than {most} clients, so {most} clients would never send at once",
            counted(requests, "request"),
            if requests == 1 { "is" } else { "are" }
        ))
        .hint(format!("give `--requests {most}` or more, or leave it out"))),
        Some(requests) => Ok(format!("requests: {requests}")),
        None if most > REQUESTS => Ok("requests-per-client: 8".to_owned()),
        None => Ok(format!("requests: {REQUESTS}")),
    }
}

/// Takes server, requests and arrivals from the output of an earlier `load` run.
fn from_load(arguments: &InitArgs, name: String, folder: &Path) -> Result<Wish, Stop> {
    let levels = LoadStudy::read_levels(folder)?;
    // The highest level has the most requests.
    let study = &levels[levels.len() - 1];
    let stage = &study.stage;
    let levels = match (arguments.clients.as_slice(), arguments.rates.as_slice()) {
        ([], []) => levels_as_before(&levels, folder)?,
        ([], rates) => Levels::Rates(rates.to_vec()),
        (clients, _) => Levels::Clients(clients.to_vec()),
    };
    let workloads = match (arguments.workloads.is_empty(), &stage["workload"]) {
        (true, Value::String(name)) => vec![name.clone()],
        (true, inline) => vec![inline.to_string()],
        (false, _) => arguments.workloads.clone(),
    };
    levels.each_once()?;
    each_once("workload", &workloads)?;
    Ok(Wish {
        name,
        server: Server::Running {
            urls: study.servers(),
            api: arguments.api.clone().unwrap_or_else(|| study.api.clone()),
            key: arguments
                .api_key_env
                .clone()
                .or_else(|| study.api_key_env.clone()),
            model: arguments
                .model
                .clone()
                .unwrap_or_else(|| study.model.clone()),
        },
        workloads,
        extent: match (&stage["requests"], stage["duration"].as_str()) {
            (Value::Number(requests), None)
                if arguments.requests.is_none()
                    && requests.as_u64() >= Some(most_clients(&levels)) =>
            {
                format!("requests: {requests}")
            }
            (Value::Number(requests), Some(duration)) => {
                format!("requests: {requests}\n    duration: {duration}")
            }
            (_, Some(duration)) => format!("duration: {duration}"),
            _ => extent(arguments, &levels)?,
        },
        levels,
        repetitions: arguments.repetitions.unwrap_or(REPETITIONS),
    })
}

/// Returns the levels of an earlier run.
fn levels_as_before(studies: &[LoadStudy], folder: &Path) -> Result<Levels, Stop> {
    let arrivals = || studies.iter().map(|study| &study.stage["arrival"]);
    let clients: Option<Vec<u32>> = arrivals()
        .map(|arrival| arrival["closed-loop"]["clients"].as_u64())
        .map(|clients| u32::try_from(clients?).ok())
        .collect();
    let rates: Option<Vec<f64>> = arrivals()
        .map(|arrival| match arrival.as_str() {
            Some("burst") if studies.len() > 1 => Some(f64::INFINITY),
            _ => arrival["poisson"]["rate"].as_f64(),
        })
        .collect();
    match (clients, rates, studies) {
        (Some(clients), ..) => Ok(Levels::Clients(clients)),
        (None, Some(rates), _) => Ok(Levels::Rates(rates)),
        (None, None, [one]) => Ok(Levels::As(one.stage["arrival"].clone())),
        (None, None, _) => {
            let message = format!(
                "the levels of {} are neither clients nor Poisson rates",
                folder.display()
            );
            Err(Stop::usage(message)
                .hint("name the folder of one level, or give `--clients` or `--rates`"))
        }
    }
}

/// Returns the server that the answers name: one that is running, or an engine to start with its model.
fn server(arguments: &InitArgs, questions: Questions) -> Result<Server, Stop> {
    enum Answer {
        Engines(Vec<String>),
        Running(Server),
    }
    let engines = match &arguments.engine {
        Some(names) => checked_engines(names)?,
        None => {
            let question = "Engine to start (`benchtrail list engines`), two to compare, separated by a comma, or the URL \
                            of a running server";
            let answer = questions.answer(question, "llama-cpp", |answer| {
                // No name of a definition has these.
                match answer.contains([':', '/']) {
                    true => running(arguments, answer).map(Answer::Running),
                    false => checked_engines(answer).map(Answer::Engines),
                }
            })?;
            match answer {
                Answer::Engines(engines) => engines,
                Answer::Running(server) => return Ok(server),
            }
        }
    };
    let model = match &arguments.model {
        Some(model) => model_of(&engines, model)?,
        None => questions.answer(
            "Model (`benchtrail list models`, or an id or a path)",
            "smollm2-135m-instruct",
            |model| model_of(&engines, model),
        )?,
    };
    Ok(Server::Started { engines, model })
}

/// Checks that the names are those of one engine, or of two different ones.
fn checked_engines(names: &str) -> Result<Vec<String>, Stop> {
    let engines: Vec<String> = names
        .split(',')
        .map(|name| name.trim().to_owned())
        .collect();
    for engine in &engines {
        is_defined("engines", engine)?;
    }
    match engines.as_slice() {
        [_] => Ok(engines),
        [a, b] if a != b => Ok(engines),
        [a, _] => Err(
            Stop::usage(format!("the engine `{a}` cannot be compared with itself")).hint(format!(
                "write the study with `--engine {a}`, and put the setting that differs into an axis, as in \
                 experiments/quickstart.yaml"
            )),
        ),
        more => Err(Stop::usage(format!(
            "`init` compares two engines, and these are {}",
            more.len()
        ))
        .hint("name two, and add the others to the axis `engine` of the file")),
    }
}

/// Returns the model that the engines are to serve.
fn model_of(engines: &[String], model: &str) -> Result<Model, Stop> {
    let defined = names_of("models");
    let model = match defined.iter().any(|name| name == model) {
        true => Model::Defined(model.to_owned()),
        false => Model::Named(model.to_owned()),
    };
    if let Model::Named(name) = &model
        && !name.ends_with(".gguf")
        && let Some(engine) = engines.iter().find(|engine| needs_weights_file(engine))
    {
        let message = format!("the engine `{engine}` loads a GGUF file, and `{name}` is not one");
        return Err(Stop::usage(message).hint(
            "choose an engine that loads ids from a hub, such as `--engine vllm` or `--engine sglang`, or give \
             `--model FILE.gguf`",
        ));
    }
    // An id on a hub has a `/`, an id of Ollama a `:`; other ids may be typing errors.
    if let Model::Named(name) = &model
        && !name.contains(['/', ':'])
        && !Path::new(name).exists()
    {
        let names = defined.iter().map(String::as_str);
        complain(&format!(
            "warning: neither a definition nor a file here is called `{name}`, so `{}` gets it as a model id\n\
             hint: {}",
            engines.join("` and `"),
            remedy(name, "models", names)
        ));
    }
    Ok(model)
}

/// Checks that a running server is reachable, and takes its first model unless one is named.
fn running(arguments: &InitArgs, url: &str) -> Result<Server, Stop> {
    let api = arguments
        .api
        .clone()
        .unwrap_or_else(|| "openai-chat".to_owned());
    let server = super::load_server::Server {
        url,
        further: Vec::new(),
        ca_file: None,
        model: arguments.model.as_deref(),
        api: &api,
        api_key_env: arguments.api_key_env.as_deref(),
        metrics: None,
        headers: &[],
    };
    let target = server.target()?;
    let model = match &arguments.model {
        Some(model) => model.clone(),
        None => target.model,
    };
    Ok(Server::Running {
        urls: vec![target.base_url],
        api,
        key: arguments.api_key_env.clone(),
        model,
    })
}

fn clients(text: &str) -> Result<Levels, Stop> {
    let each = text.split(',').map(|level| level.trim().parse::<u32>());
    let levels: Result<Vec<u32>, _> = each.collect();
    let levels = levels
        .ok()
        .filter(|levels| levels.iter().all(|level| *level > 0))
        .map(Levels::Clients)
        .ok_or_else(|| {
            Stop::usage(format!("`{text}` is not a list of levels"))
                .hint("write numbers of clients, as in `1,4,16`")
        })?;
    levels.each_once().map(|()| levels)
}

/// Checks the rules for an experiment's name.
fn check_name(name: &str) -> Result<(), Stop> {
    if is_name(name) {
        return Ok(());
    }
    Err(Stop::usage(format!("`{name}` cannot be the name of a study")).hint(name_remedy(name)))
}

/// Returns the title of a model: its id, or the last part of a path, which would be too long for headings.
pub(super) fn model_title(id: &str) -> &str {
    // An id on a hub has one `/`.
    let is_path = id.starts_with(['/', '.', '~']) || id.split('/').count() > 2;
    let last = id.trim_end_matches('/').rsplit('/').next();
    last.filter(|last| is_path && !last.is_empty())
        .unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_given_twice_is_refused_like_in_a_plan() {
        for levels in [
            Levels::Clients(vec![8, 4, 4]),
            Levels::Rates(vec![2.0, f64::INFINITY, f64::INFINITY]),
        ] {
            assert!(levels.each_once().is_err());
        }
        assert!(Levels::Clients(vec![8, 4]).each_once().is_ok());
        assert!(each_once("workload", &["a".to_owned(), "a".to_owned()]).is_err());
    }

    #[test]
    fn the_levels_of_an_earlier_sweep_are_those_of_the_study() {
        let folder = tempfile::tempdir().unwrap();
        let levels = |arrivals: &[(&str, Value)]| {
            let run = folder.path().join(arrivals[0].0);
            for (name, arrival) in arrivals {
                let level = run.join(name);
                std::fs::create_dir_all(&level).unwrap();
                let study = json!({
                    "benchtrail": "1", "url": "http://127.0.0.1:1", "model": "m", "api": "openai-chat",
                    "api_key_env": null, "seed": 0, "stage": {"arrival": arrival}, "result": null,
                });
                std::fs::write(level.join("load.json"), study.to_string()).unwrap();
            }
            let studies = LoadStudy::read_levels(&run)?;
            levels_as_before(&studies, &run)
        };
        let closed = |clients: u32| json!({"closed-loop": {"clients": clients}});
        let sweep = [("concurrency-16", closed(16)), ("concurrency-8", closed(8))];
        assert!(matches!(levels(&sweep), Ok(Levels::Clients(all)) if all == [8, 16]));
        let open = |rate: f64| json!({"poisson": {"rate": rate}});
        let sweep = [("rate-inf", json!("burst")), ("rate-2", open(2.0))];
        assert!(matches!(levels(&sweep), Ok(Levels::Rates(all)) if all == [2.0, f64::INFINITY]));
        assert!(matches!(
            levels(&[("burst", json!("burst"))]),
            Ok(Levels::As(_))
        ));
        let gamma = |rate: f64| json!({"gamma": {"rate": rate, "burstiness": 0.5}});
        let sweep = [("gamma-2", gamma(2.0)), ("gamma-4", gamma(4.0))];
        assert!(levels(&sweep).is_err());
    }

    #[test]
    fn a_path_gives_its_last_part_as_the_title() {
        for (id, title) in [
            (
                "/home/ada/models/Qwen3-0.6B-Q8_0.gguf",
                "Qwen3-0.6B-Q8_0.gguf",
            ),
            ("./m.gguf", "m.gguf"),
            ("models/of/Org--M/", "Org--M"),
            ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
            ("m", "m"),
            ("/", "/"),
        ] {
            assert_eq!(model_title(id), title);
        }
    }
}
