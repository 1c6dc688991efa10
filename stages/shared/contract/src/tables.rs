//! The lists of declared tables.

use crate::declare::{Row, TableSpec};
use crate::{calibration, cell, requests, software, start, telemetry, verification};

/// The tables that a load cell can have.
pub const LOAD_TABLES: &[TableSpec] = &[
    requests::Request::TABLE,
    requests::Chunk::TABLE,
    cell::Cell::TABLE,
    cell::PromptRow::TABLE,
    cell::ToolStatistic::TABLE,
    telemetry::HostSample::TABLE,
    telemetry::ServerHostSample::TABLE,
    telemetry::ProcessSample::TABLE,
    telemetry::GpuSample::TABLE,
    telemetry::ServerMetric::TABLE,
    telemetry::SlotSample::TABLE,
    telemetry::ServerInfoChange::TABLE,
    telemetry::EngineEvent::TABLE,
    telemetry::Member::TABLE,
    start::ServerStart::TABLE,
    telemetry::RequestServer::TABLE,
    telemetry::Generator::TABLE,
    telemetry::RequestGenerator::TABLE,
];

/// The tables of a search and of a calibration.
const CALIBRATION_TABLES: &[TableSpec] = &[
    calibration::ProbeRow::TABLE,
    calibration::CalibrationRow::TABLE,
    calibration::ServerAccountRow::TABLE,
];

/// The tables of a verification.
const VERIFICATION_TABLES: &[TableSpec] = &[
    verification::CensusRow::TABLE,
    verification::ComparabilityRow::TABLE,
];

/// The table of a provision cell that has its own environment.
const SOFTWARE_TABLES: &[TableSpec] = &[software::SoftwareRow::TABLE];

/// Every declared table.
const TABLES: &[&[TableSpec]] = &[
    LOAD_TABLES,
    CALIBRATION_TABLES,
    VERIFICATION_TABLES,
    SOFTWARE_TABLES,
];

/// Returns every declared table, those of a load cell first.
pub fn tables() -> impl Iterator<Item = &'static TableSpec> {
    TABLES.iter().copied().flatten()
}

/// Returns the declaration of a table.
pub fn declared(name: &str) -> Option<&'static TableSpec> {
    tables().find(|table| table.name == name)
}

/// Returns the column of an axis in a table of all cells of a stage. If the cells' own table has a column with the name of the
/// axis, as `requests` has `phase`, the column keeps its name, and the axis is `axis_phase`.
pub fn column_of_axis(axis: &str, axes: &[String], own: &[String]) -> String {
    let mut name = axis.to_owned();
    while own.contains(&name) || (name != axis && axes.contains(&name)) {
        name = format!("axis_{name}");
    }
    name
}
