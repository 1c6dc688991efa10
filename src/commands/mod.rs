//! The commands, one file each.

mod audit;
mod calibrate;
mod detach;
mod diff;
mod doctor;
mod explore;
mod fsck;
mod gc;
mod gc_shared;
mod history;
mod history_figure;
mod init;
mod init_ask;
mod init_results;
mod init_text;
mod keygen;
mod list;
mod load;
mod load_compat;
mod load_failures;
mod load_level;
mod load_preflight;
mod load_save;
mod load_search;
mod load_server;
mod load_settings;
mod load_study;
mod load_sweep;
mod load_table;
mod load_words;
mod ls;
mod plan;
mod plan_reasons;
mod power;
mod publish;
mod pull;
mod push;
mod report;
mod reproduce;
mod run;
mod run_report;
mod run_summary;
mod schema;
mod shell;
mod show;
mod sql;
mod status;
mod verify;
mod why;

use std::path::Path;

use crate::args::{Cli, Command};
use crate::exit::Stop;
use crate::study::is_bundle;
pub(crate) use load::refusal;

/// Executes the command line.
///
/// # Errors
/// If the command fails or a check does not hold; see [`Stop`].
pub(crate) fn execute(cli: &Cli) -> Result<(), Stop> {
    crate::room::at_all()?;
    let global = &cli.global;
    let done = match &cli.command {
        Command::Init(arguments) => init::init(arguments, global),
        Command::List(arguments) => list::list(arguments, global),
        Command::Run(arguments) if arguments.detach => detach::detach(arguments, global),
        Command::Run(arguments) => run::run(arguments, global),
        Command::Attach(arguments) => detach::attach(arguments, global),
        Command::Stop(arguments) => detach::stop(arguments, global),
        Command::Load(arguments) => {
            load::load(arguments, global).map_err(|stop| stop.reworded(load_words::in_options))
        }
        Command::Calibrate(arguments) => calibrate::run(arguments, global),
        Command::Plan(arguments) => plan::plan(arguments, global),
        Command::Power(arguments) => power::power(arguments, global),
        Command::Status(arguments) => status::status(arguments, global),
        Command::Ls(arguments) => ls::ls(arguments, global),
        Command::Show(arguments) => show::show(arguments, global),
        Command::Sql(arguments) => sql::sql(arguments, global),
        Command::Why(arguments) => why::why(arguments, global),
        Command::Explore(arguments) => explore::explore(arguments, global),
        Command::Audit(arguments) => audit::audit(arguments, global),
        Command::Report(arguments) => report::report(arguments, global),
        Command::Publish(arguments) => publish::publish(arguments, global),
        Command::Push(arguments) => push::push(arguments, global),
        Command::Pull(arguments) => pull::pull(arguments, global),
        Command::Verify(arguments) => verify::verify(arguments, global),
        Command::Reproduce(arguments) => reproduce::reproduce(arguments, global),
        Command::Diff(arguments) => diff::diff(arguments, global),
        Command::Keygen(arguments) => keygen::keygen(arguments, global),
        Command::Fsck(arguments) => fsck::fsck(arguments, global),
        Command::Gc(arguments) => gc::gc(arguments, global),
        Command::Doctor(arguments) => doctor::doctor(arguments, global),
        Command::Completions(arguments) => shell::completions(arguments),
        Command::Man(arguments) => shell::man(arguments, global),
        Command::History(arguments) => history::history(arguments, global),
        Command::Schema(arguments) => schema::schema(arguments),
    };
    done.map_err(|stop| match bundle_of(&cli.command) {
        Some(bundle) => stop.of_bundle(bundle),
        None => stop,
    })
}

/// Returns the published bundle that a command only reads, if it is given one.
fn bundle_of(command: &Command) -> Option<&Path> {
    let given = match command {
        Command::Ls(arguments) => [Some(arguments.experiment.experiment.as_path()), None],
        Command::Show(arguments) => [Some(Path::new(&arguments.source)), None],
        Command::Sql(arguments) => [Some(arguments.experiment.as_path()), None],
        Command::Explore(arguments) => [arguments.what.as_deref(), None],
        Command::Report(arguments) => [Some(arguments.study.as_path()), None],
        Command::Diff(arguments) => [Some(arguments.a.as_path()), arguments.b.as_deref()],
        _ => return None,
    };
    given.into_iter().flatten().find(|path| is_bundle(path))
}
