//! What the pure stages share about measurements: the rows a load cell leaves, typed; the
//! metrics of one request, each with its one definition, and what other tools would make of the
//! same rows; the order of coordinates; and the checking of settings nested below a stage's own.

pub mod compat;
mod formula;
mod metrics;
mod narrow;
mod order;
mod request;
mod settings;
pub mod synthetic;
pub mod synthetic_grid;

pub use metrics::{ChunkGaps, METRICS, Metric, Timing, metric, timings};
pub use narrow::NarrowRows;
pub use order::{compare, compare_all};
pub use request::{CellRows, Chunk, Phase, Request, server_counter};
pub use settings::{Settings, canonical, did_you_mean, inline_schema};
