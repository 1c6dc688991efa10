//! Results of other tools as rows: `import:` in a load stage.
//!
//! During planning, a file is found and digested (`stage`); the key contains the digest, not the path. When the cell
//! executes, the file is read in its tool's format (`vllm`, `sglang`, `guidellm`, `aiperf`, `genai_perf`; tables
//! through the column map of `columns`) into `rows::Imported`. That becomes the tables of a measured cell, with the
//! original file beside them. What a file does not hold is null. The output of `benchtrail load --out` already consists
//! of such tables (`own`).

mod agreement;
mod aiperf;
mod arrays;
mod columns;
mod file;
mod genai_perf;
mod guidellm;
mod json;
mod own;
mod rows;
mod settings;
mod sglang;
mod stage;
mod statistics;
mod tables;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_genai_perf;
mod vllm;

pub use settings::{ColumnSource, Import, Tool, Unit};
pub use stage::{canonical, run};

/// What a file holds, as far as its keys tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The tool that wrote it.
    pub tool: Tool,
    /// The number of results in it; `entry` of an import chooses one.
    pub entries: usize,
}

/// Why a file is the result of no known tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecognised {
    /// The problem, with its place in the file.
    pub message: String,
    /// The remedy.
    pub hint: String,
}

/// Returns which tool wrote a file.
///
/// # Errors
/// If its keys are those of no tool, or it is not JSON.
pub fn recognised(bytes: &[u8]) -> Result<Recognised, Unrecognised> {
    let unreadable = |e: json::ImportError| Unrecognised {
        message: e.to_string(),
        hint: e.hint,
    };
    let documents = json::documents(bytes).map_err(unreadable)?;
    let tool = stage::recognise(&documents[0]).ok_or_else(|| Unrecognised {
        message: "it has the keys of no known tool".to_owned(),
        hint: "known are the files of vLLM, SGLang, GuideLLM, AIPerf and GenAI-Perf; docs/import.md says which; JSON with an \
               object per request is imported with `tool: json` and a column map"
            .to_owned(),
    })?;
    let listed = |key: &str| documents[0][key].as_array().map_or(1, Vec::len);
    let entries = match tool {
        Tool::Guidellm => listed("benchmarks"),
        Tool::GenaiPerf => listed("experiments"),
        Tool::Vllm | Tool::Sglang => documents.len(),
        _ => 1,
    };
    Ok(Recognised { tool, entries })
}

/// Returns the columns of JSON with an object per row; `None` if it is not a table.
pub fn json_columns(bytes: &[u8]) -> Option<Vec<String>> {
    let sheet = tabular::read_nested(bytes, None).ok()?;
    (!sheet.names.is_empty()).then_some(sheet.names)
}

/// Reads the text of a result file into the rows of its import.
///
/// # Errors
/// One sentence, if the tool is unknown or the text is not in its format.
pub fn read_text(tool: &str, text: &str) -> Result<Vec<contract::Request>, String> {
    use contract::Row as _;
    let settings = serde_json::json!({ "tool": tool, "file": "result" });
    let import: Import = serde_json::from_value(settings).map_err(|e| e.to_string())?;
    let imported = stage::read(&import, text.as_bytes()).map_err(|e| format!("{tool}: {e}"))?;
    let tables = tables::tables(&import, &imported, "b3:").map_err(|e| e.to_string())?;
    let requests = tables.iter().find(|(name, _)| *name == "requests");
    let (_, requests) = requests.ok_or("the file holds no requests")?;
    contract::Request::read(requests).map_err(|e| e.to_string())
}
