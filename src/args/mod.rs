//! The command line's grammar: every command, option and example that `--help` shows.

mod bundle;
mod calibrate;
mod command;
mod global;
mod history;
mod init;
mod load;
mod output;
mod remote;
mod report;
mod schema;
mod shell;
mod store;
mod study;
mod values;

pub(crate) use self::bundle::{KeygenArgs, PublishArgs, ReproduceArgs, VerifyArgs};
pub(crate) use self::history::HistoryArgs;
pub(crate) use self::init::{InitArgs, ListArgs, Listed};
pub(crate) use self::load::LoadArgs;
pub(crate) use self::remote::{PullArgs, PushArgs, RemoteArgs};
pub(crate) use self::report::{AuditArgs, ExploreArgs, ReportArgs, WhyArgs};
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use command::{Cli, Command, parse};
pub(crate) use global::{ExperimentArgs, Global, Selection};
pub(crate) use schema::{SchemaArgs, SchemaOf};
pub(crate) use shell::{CompletionsArgs, ManArgs};
pub(crate) use store::{FsckArgs, GcArgs};
pub(crate) use study::{
    AttachArgs, DiffArgs, DoctorArgs, LsArgs, PlanArgs, PowerArgs, RunArgs, ShowArgs, SqlArgs,
    StatusArgs, StopArgs,
};
