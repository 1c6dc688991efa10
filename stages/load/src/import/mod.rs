//! Results of other tools as rows: `import:` in a load stage.
//!
//! While planning, a file is found and digested (`stage`); the digest, not the path, is in the
//! key. When the cell executes, the file is read as its tool writes it (`vllm`, `sglang`,
//! `guidellm`, `aiperf`, `genai_perf`, `csv`, `parquet`) into [`rows::Imported`], and that
//! becomes the tables a measured cell has, with the original file beside them. What a file does
//! not hold is null.

mod aiperf;
mod arrays;
mod columns;
mod csv;
mod file;
mod genai_perf;
mod guidellm;
mod json;
mod parquet;
mod rows;
mod settings;
mod sglang;
mod stage;
mod statistics;
mod tables;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_genai_perf;
mod vllm;

pub use settings::{ColumnSource, Import, Tool, Unit};
pub(crate) use stage::{canonical, run};
