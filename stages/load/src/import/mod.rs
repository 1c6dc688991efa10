//! Results of other tools as rows: `import:` in a load stage.
//!
//! While planning, a file is found and digested (`stage`); the digest, not the path, is in the
//! key. When the cell executes, the file is read as its tool writes it (`vllm`, `sglang`,
//! `guidellm`, `aiperf`, `genai_perf`, `csv`, `parquet`) into [`rows::Imported`], and that
//! becomes the tables a measured cell has, with the original file beside them. What a file does
//! not hold is null. What `benchtrail load --out` wrote are such tables already (`own`).

mod aiperf;
mod arrays;
mod columns;
mod csv;
mod file;
mod genai_perf;
mod guidellm;
mod json;
mod own;
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

/// Reads the text of a result file into the rows that an import has.
#[cfg(test)]
pub(crate) fn read_text(tool: &str, text: &str) -> Vec<contract::Request> {
    use contract::Row as _;
    let import = serde_json::json!({ "tool": tool, "file": "result" });
    let import: Import = serde_json::from_value(import).expect("settings of an import");
    let imported = stage::read(&import, text.as_bytes()).unwrap_or_else(|e| panic!("{tool}: {e}"));
    let tables = tables::tables(&import, &imported, "b3:").expect("tables");
    let (_, requests) = tables
        .iter()
        .find(|(name, _)| *name == "requests")
        .expect("rows");
    contract::Request::read(requests).expect("rows as they are declared")
}
