//! The load stage: the load generator.
//!
//! Settings become prompts in a file and times drawn before the clock starts (`settings`, `workload`, `prompts`,
//! `arrival`). Requests are rendered to bytes before their turn (`render`, with the crate `apis`). The measuring thread
//! sends and stamps (`measure`). Another thread parses the bytes (`wire`, `interpret`) and makes rows (`rows`).
//! [`run_load`] does all of that against any server; [`Load`] wraps it as a stage kind. Instead of using a server, rows
//! can be drawn from a declared model of one (`simulate`). [`mod@reference`] is a server with known timing and known
//! faults for tests.

// The words of other tools in a schema are one long `json!`.
#![recursion_limit = "256"]

mod answered;
mod arrival;
mod claims;
mod client_health;
mod companions;
mod dataset;
mod direct;
mod drive;
mod export;
mod extent;
mod figure;
mod files;
mod generators;
mod get;
mod headers;
mod images;
mod interpret;
mod kind;
mod measure;
mod models;
mod named_file;
mod ordered;
mod pauses;
mod peer;
mod plan;
mod prompts;
mod random;
pub mod reference;
mod refused;
mod render;
mod rescue;
mod reset;
mod rolling;
mod run;
mod sample;
mod scrape;
mod search;
mod servers;
mod session_history;
mod settings;
mod sheet;
mod simulate;
mod span;
mod structured;
mod suits;
mod summarizer;
mod summary;
mod sweep;
mod tables;
mod tally;
mod telemetry;
mod trace;
mod watching;
mod wire;
mod worker;
mod workload;

pub use apis::Delivery;
pub use arrival::{Arrival, ClosedLoop, Gamma, Level, Process, Ramp, Rate, Steps};
pub use client_health::{ClientHealth, ClientVerdict};
pub use dataset::{NoPrompts, dataset_prompts};
pub use direct::{
    DirectArrival, DirectLoad, DirectPrompts, DirectSearch, DirectServer, TargetError, is_address,
    target_in_turn,
};
pub use export::{LAYOUTS, ResultFacts, result_file, stamp};
pub use extent::{Cancel, Extent};
pub use files::{LoadFiles, Monitoring, ServerCount, run_load_into};
pub use generators::{
    GENERATOR_COMMAND, Generators, GeneratorsChoice, Lost, OnHosts, There, generate_process,
};
pub use headers::header_problem;
pub use kind::{Load, target};
pub use models::{ModelsError, list_models};
pub use net::ApiKey;
pub use prompts::{LengthSource, Prompt, PromptError, PromptSet};
pub use random::Origin;
pub use refused::Refusal;
pub use run::{CellFacts, Ending, LoadError, LoadResult, LoadSpec, LoadedServer, Target, run_load};
pub use search::{
    Bounds as SearchBounds, Found, Level as SearchLevel, Overload, Pooled, Probe, Rules, Search,
    SearchFiles, Tried, Undecided, run_search,
};
pub use settings::{Settings, Timeouts, WorkloadChoice};
pub use sheet::TableFile;
pub use simulate::{
    Clock, DecodeCost, Faults, Hang, HttpErrors, Noise, PrefillCost, Share, SimulatedServer,
    Simulation, SimulationChoice,
};
pub use span::TimeSpan;
pub use suits::unsuited;
pub use summarizer::Summarizer;
pub use summary::{Arrivals, Distribution, Slo, Summary, e2e_beyond_server, ttft_beyond_server};
pub use sweep::{LevelFigures, escaped, knee, level_name, sweep_figure};
pub use tables::tables;
pub use tally::Tally;
pub use telemetry::{Gpu, Telemetry, answer_questions, surroundings};
pub use trace::{RecordedLengths, Replay};
pub use wire::{AddressError, meant_address};
pub use workload::{
    ChatTemplate, Corpus, Count, Dataset, Documents, DrawnBy, Images, Length, Measure, Output,
    OutputMode, Pack, Part, PromptSource, Range, Sampling, ServerTokenizer, Sessions, SharedPrefix,
    Structured, Think, ThinkDrawn, ThinkRange, Tokenizer, TokenizerFile, TokenizerServer, Turns,
    TurnsDrawn, WhenShort, Words, Workload,
};

/// Returns the definitions of workloads and simulated servers shipped with the binary.
pub fn shipped() -> Vec<pipeline::stage::Shipped> {
    let mut shipped = workload::shipped();
    shipped.extend(simulate::shipped());
    shipped
}

/// Returns the schema of one definition of each collection this kind reads.
pub fn collections() -> Vec<(&'static str, schemars::Schema)> {
    vec![
        ("workloads", schemars::schema_for!(Workload)),
        simulate::schema(),
    ]
}
