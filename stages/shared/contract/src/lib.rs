//! What the pure stages share about measurements: the typed rows of a load cell; the metrics of one
//! request, each with its one definition, and what other tools would compute from the same rows;
//! the order of coordinates; and the checks of settings nested below a stage's own.

mod api;
mod calibration;
mod cell;
mod cell_rows;
pub mod compat;
mod declare;
mod documents;
mod exclusions;
mod format;
mod formula;
mod interval;
mod limit;
mod lineage;
#[cfg(test)]
mod manual;
mod metrics;
mod narrow;
mod order;
mod parameters;
mod possible;
mod replication;
mod requests;
mod settings;
mod software;
mod start;
pub mod synthetic;
pub mod synthetic_grid;
mod tables;
mod telemetry;
mod trace;
pub mod uneven;
mod units;
mod usual;
mod verification;
mod words;

pub use api::Api;
pub use calibration::{CalibrationRow, ProbeRow, ProbeVerdict, ServerAccountRow};
pub use cell::{
    CacheReset, Cell, ClientVerdict, ImportClock, LengthSource, OutputMode, PromptRow, RowSource,
    ToolStatistic,
};
pub use cell_rows::{CellRows, ServerCounter, abandons, metrics_source, server_counter};
pub use declare::{ColumnSpec, ColumnType, Plain, Row, TableSpec, UnknownWord, Value, Word};
pub use documents::{
    AS_DECLARED, AT_SIDE_PORT, Counters, DECLARED, Endpoints, EngineIdentity, EngineSource,
    Environment, EventPattern, Exporter, HOST_NOT_KNOWN, InstalledSoftware, LiveElsewhere,
    LiveEnvironment, LiveMember, LiveServer, LiveWorker, ModelIdentity, ModelShape, OF_ENGINE,
    PassedOver, PinnedFile, PinnedPackage, PromptCache, RoleDescriptor, ServerCommand,
    ServerDescriptor, Telling, WeightsIdentity,
};
pub use exclusions::Exclusions;
pub use format::{ReadError, TableFormat};
pub use interval::{INTERVAL_LEVEL, IntervalEnd};
pub use limit::Limit;
pub use lineage::{Lineage, LineageRow, LineageSource, SourceArtifact, lineage_table};
pub use metrics::{
    ChunkGaps, METRICS, Metric, Timing, metric, metric_remedy, timings, without_ratio,
};
pub use narrow::NarrowRows;
pub use order::{compare, compare_all, in_order};
pub use parameters::{Parameter, parameters, sentence};
pub use possible::impossible_cell;
pub use replication::{LevelScope, NotReplicated};
pub use requests::{Chunk, Request};
pub use settings::{Settings, canonical, inline_schema};
pub use software::{SoftwareKind, SoftwareRow};
pub use start::{ReadyProof, ServerStart};
pub use tables::{LOAD_TABLES, column_of_axis, declared, tables};
pub use telemetry::{
    ERROR_EVENT, ERROR_TEXTS_NOTE, EngineEvent, Generator, GpuSample, HostSample, Member,
    ProcessRole, ProcessSample, RequestGenerator, RequestServer, ServerHostSample,
    ServerInfoChange, ServerMetric, SlotSample, ThrottleReason, slowing_reasons,
};
pub use trace::{TRACE, TraceRow, TraceSource, read_trace, trace_table};
pub use units::{UnitText, unit, units};
pub use usual::{usual_name, usual_table};
pub use verification::{
    CensusRow, ComparabilityRow, FacetStatus, GateOutcome, GateSeverity, PairVerdict,
};
pub use words::{Better, Phase, RequestStatus, TokenSource, Verdict};
