//! `load --compat`: applies another tool's formulas to the rows of a run.

use artifacts::{Digest, Table};
use contract::CellRows;
use contract::compat::{Bounds, Figure, Tool, figures};
use load::{LoadFiles, Slo};
use serde_json::{Map, Value, json};

use crate::args::LoadArgs;
use crate::columns::columns;
use crate::exit::Stop;

/// Returns the figures of the requested tool. Reads all rows into memory.
pub(super) fn compat(
    arguments: &LoadArgs,
    result: &LoadFiles,
    slo: &Slo,
) -> Result<Option<(Tool, Vec<Figure>)>, Stop> {
    let Some(word) = &arguments.compat else {
        return Ok(None);
    };
    let tool = Tool::from_word(word).expect("the parser admits only words of tools");
    let cell = rows_of(result)?;
    let figures = figures(tool, &contract::timings(&cell), &bounds_of(slo));
    Ok(Some((tool, figures)))
}

/// Returns the bounds in the form that the tools' formulas use.
pub(super) fn bounds_of(slo: &Slo) -> Bounds {
    Bounds {
        ttft_ms: slo.ttft_ms,
        tpot_ms: slo.tpot_ms,
        e2e_ms: slo.e2e_ms,
    }
}

/// Reads all rows of a run again.
pub(super) fn rows_of(result: &LoadFiles) -> Result<CellRows, Stop> {
    let table = |name: &str| -> Result<(Digest, Table), Stop> {
        let file = result.tables.iter().find(|t| t.name == name);
        let file = file.ok_or_else(|| Stop::machine(format!("the run wrote no table `{name}`")))?;
        let wrong =
            |e: &(dyn std::error::Error + 'static)| Stop::refused_at(file.path.display(), e);
        let bytes = std::fs::read(&file.path).map_err(|e| wrong(&e))?;
        let digest = Digest::of(&bytes);
        Ok((digest, Table::from_parquet(bytes).map_err(|e| wrong(&e))?))
    };
    let (requests, chunks) = (table("requests")?, table("chunks")?);
    Ok(CellRows::of(
        (requests.0, &requests.1),
        (chunks.0, &chunks.1),
    )?)
}

/// Returns the figures as a table.
pub(super) fn compat_table(tool: Tool, figures: &[Figure]) -> String {
    let heading = format!("as {} {} counts", tool.word(), tool.version());
    let rows: Vec<Vec<String>> = figures
        .iter()
        .map(|figure| {
            let unit = if figure.unit == "1" { "" } else { figure.unit };
            let value = figure.value.map_or_else(
                || "–".to_owned(),
                |v| {
                    if unit.is_empty() && v.fract() == 0.0 {
                        v.to_string()
                    } else {
                        format!("{v:.3}")
                    }
                },
            );
            vec![figure.name.clone(), value, unit.to_owned()]
        })
        .collect();
    columns(&[&heading, "", ""], &rows, &[1])
}

/// Returns the figures as JSON; undefined figures are null.
pub(super) fn compat_json(tool: Tool, figures: &[Figure]) -> Value {
    let values: Map<String, Value> = figures
        .iter()
        .map(|f| (f.name.clone(), json!({ "value": f.value, "unit": f.unit })))
        .collect();
    json!({ "tool": tool.word(), "version": tool.version(), "figures": values })
}
