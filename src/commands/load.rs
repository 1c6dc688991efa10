//! `load`: runs one load against a server at a URL, without an experiment.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use load::{DirectArrival, Monitoring, Origin, Settings, Telemetry, WorkloadChoice};
use pipeline::stage::Coordinates;
use tempfile::TempDir;

use super::load_level::{Level, Run};
use super::load_preflight::try_once;
use super::load_save;
use super::load_search::search;
use super::load_server::Server;
use super::load_settings::{
    Levelled, axis_of, check_bounds, check_levels, checked_settings, direct, levels, slo,
};
use super::load_sweep::{self, Sweep};
use super::load_words;
use crate::args::{Global, LoadArgs};
use crate::exit::Stop;
use crate::project::shown;
use crate::signals::listen_for_signals;
use crate::terminal::{complain, say};

pub(super) fn load(arguments: &LoadArgs, global: &Global) -> Result<(), Stop> {
    let mut levels = levels(arguments);
    let several = levels.len() > 1;
    check_levels(&levels)?;
    check_bounds(arguments, &levels)?;
    if several && arguments.search.is_some() {
        return Err(Stop::usage("a search finds its levels itself")
            .hint("give one level, at which --search begins"));
    }
    let settings = checked_settings(arguments, &levels[0].arrival)?;
    load_words::check_api(&settings, &arguments.api)?;
    load_save::check(arguments, several)?;
    let server = server_of(arguments);
    let mut target = server.target()?;
    let origin = Origin {
        seed: arguments.seed,
        replicate: Coordinates::default(),
    };
    let folder = RowsFolder::of(arguments.out.as_deref())?;
    let folder = folder.path();
    let mut monitoring = monitoring_of(arguments, &settings);
    monitoring.apart(&mut target);
    if settings.search.is_some() {
        return search(
            arguments,
            global,
            folder,
            &settings,
            &origin,
            &target,
            &monitoring,
        );
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    // A single request tests the server itself.
    let alone = !several && settings.warmup == 0 && settings.requests == Some(1);
    if !arguments.no_preflight && !alone {
        let like = direct(arguments, &levels[0].arrival)?;
        try_once(&like, &server, &target, &cancelled)?;
    }
    let level = |settings: Settings, arrival: &DirectArrival, folder: &Path, origin: &Origin| {
        let one = Level {
            arguments,
            global,
            arrival,
            folder,
            several,
        };
        one.measure(settings, origin, &server, &target, &monitoring, &cancelled)
    };
    if several {
        let sweep = Sweep {
            axis: axis_of(arguments),
            levels: std::mem::take(&mut levels),
        };
        warn_of_written(&settings);
        return measure_levels(&sweep, arguments, global, |i, at| {
            let settings = checked_settings(arguments, &at.arrival)?;
            let own = folder.join(load_sweep::folder_of(at));
            make_folder(&own)?;
            // As the probes of a search: no level profits from the server's cache of another.
            let origin = Origin {
                seed: origin.seed.wrapping_add(i as u64),
                ..origin.clone()
            };
            level(settings, &at.arrival, &own, &origin)
        });
    }
    let run = level(settings, &levels[0].arrival, folder, &origin)?;
    if global.json {
        say(&run.document.to_string());
    } else {
        say(&run.table);
    }
    run.stop().map_or(Ok(()), Err)
}

/// Returns why a load would be refused before its first connection. `None` if it would not, or if that depends on the
/// content of a file.
pub(crate) fn refusal(arguments: &LoadArgs) -> Option<String> {
    let has_files = arguments.dataset.is_some() || arguments.trace.is_some();
    if has_files || arguments.workload.is_some() || arguments.tokenizer.is_some() {
        let at_once = arguments.rate.iter().any(|rate| rate.is_infinite());
        let is_bounded = arguments.max_concurrency.is_some()
            || arguments.requests.is_some()
            || arguments.trace.is_some();
        return (at_once && !is_bounded)
            .then(|| "the number of requests to measure is missing".to_owned());
    }
    let levels = levels(arguments);
    let check = |at: &Levelled| {
        let settings = checked_settings(arguments, &at.arrival)?;
        load_words::check_api(&settings, &arguments.api)
    };
    let each = || levels.iter().try_for_each(check);
    let stop = check_levels(&levels).and_then(|()| each()).err()?;
    stop.first_line().map(str::to_owned)
}

fn server_of(arguments: &LoadArgs) -> Server<'_> {
    Server {
        url: &arguments.servers()[0],
        further: arguments.servers()[1..]
            .iter()
            .map(String::as_str)
            .collect(),
        ca_file: arguments.ca_file.as_deref(),
        model: arguments.model.as_deref(),
        api: &arguments.api,
        api_key_env: arguments.api_key_env.as_deref(),
        // Without a folder, the metrics would be lost.
        metrics: arguments.out.is_some().then_some(&arguments.metrics),
        headers: &arguments.headers,
    }
}

fn monitoring_of(arguments: &LoadArgs, settings: &Settings) -> Monitoring {
    // Without a folder, the samples would be lost.
    let wanted = arguments.out.is_some() || arguments.hung_below.is_some();
    let telemetry = if wanted {
        settings.telemetry.clone()
    } else {
        Telemetry::none()
    };
    Monitoring {
        server_pid: arguments.server_pid.map(i64::from),
        slots: arguments.slots.clone(),
        server_info: arguments.server_info.clone(),
        ..Monitoring::new(telemetry)
    }
}

/// The folder of the rows: the folder that the user names, or a temporary one.
enum RowsFolder<'a> {
    Named(&'a Path),
    Temporary(TempDir),
}

impl<'a> RowsFolder<'a> {
    fn of(out: Option<&'a Path>) -> Result<Self, Stop> {
        match out {
            Some(folder) => make_folder(folder).map(|()| Self::Named(folder)),
            None => tempfile::tempdir()
                .map(Self::Temporary)
                .map_err(|e| Stop::refused_at("cannot create the folder for the rows", &e)),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Named(folder) => folder,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// Warns that the levels of a sweep send the same prompts if a file has them, whatever the seed.
fn warn_of_written(settings: &Settings) {
    if let Some(WorkloadChoice::Inline(workload)) = &settings.workload
        && workload.prompts.is_written()
    {
        complain(
            "warning: every level takes its prompts from the same file, so a server with a prefix cache may answer all levels but \
             the first from it",
        );
    }
}

/// Measures the levels of a sweep up to the first that stops it, and prints them side by side.
fn measure_levels(
    sweep: &Sweep,
    arguments: &LoadArgs,
    global: &Global,
    measure: impl Fn(usize, &Levelled) -> Result<Run, Stop>,
) -> Result<(), Stop> {
    let (mut runs, mut stop) = (Vec::new(), None);
    for (i, at) in sweep.levels.iter().enumerate() {
        let run = measure(i, at)?;
        stop = run.stop();
        runs.push((at.level, run));
        if stop.is_some() {
            break;
        }
    }
    let slo = slo(arguments);
    load_sweep::tell(sweep, &runs, &slo, arguments.out.as_deref(), global.json)?;
    stop.map_or(Ok(()), Err)
}

/// Creates the folder for the tables before anything is measured; does not replace earlier rows.
fn make_folder(folder: &Path) -> Result<(), Stop> {
    // Of one load, or of several levels.
    for file in ["requests.parquet", "sweep.json"] {
        let rows = folder.join(file);
        if rows.exists() {
            return Err(Stop::usage(format!("{} already exists", rows.display()))
                .hint("choose another folder with --out"));
        }
    }
    if folder.is_file() {
        let message = format!("{} is a file, and `--out` names a folder", shown(folder));
        return Err(Stop::usage(message).hint("name a new folder"));
    }
    fs::create_dir_all(folder).map_err(|e| {
        let place = format!("the folder {} cannot be made", folder.display());
        Stop::refused_at(place, &e)
            .hint("name another folder with --out: a new one, or an empty one that you own")
    })
}
