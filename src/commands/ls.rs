//! `ls`: lists the artifacts of a stage.

use pipeline::place::{CellPattern, cell_text};
use serde_json::json;

use crate::args::{Global, LsArgs};
use crate::cells::{find_cells, parse_pattern, read_record};
use crate::columns::columns;
use crate::exit::Stop;
use crate::session::check_set;
use crate::study::Study;
use crate::terminal::{bytes, say};

pub(super) fn ls(arguments: &LsArgs, global: &Global) -> Result<(), Stop> {
    let experiment = &arguments.experiment;
    check_set("ls", experiment, global)?;
    let Study { lock, store, .. } = &Study::open(
        &experiment.experiment,
        experiment.profile().as_deref(),
        global,
    )?;
    let patterns = match &arguments.cells {
        Some(text) => vec![parse_pattern(text)?],
        None => lock
            .stages
            .iter()
            .map(|s| CellPattern::of_stage(&s.name))
            .collect(),
    };
    let mut rows = Vec::new();
    let mut list = Vec::new();
    for pattern in &patterns {
        let (stage, cells) = find_cells(pattern, lock)?;
        for cell in cells.into_iter().filter(|c| c.record.is_some()) {
            let record = read_record(store, &stage.name, cell)?;
            let name = cell_text(&stage.name, &cell.coordinates);
            for (output, artifact) in record.outputs.iter().chain(&record.evidence) {
                if pattern
                    .output
                    .as_ref()
                    .is_some_and(|wanted| wanted.as_str() != output.as_str())
                {
                    continue;
                }
                let row_count = artifact.rows.map(|n| n.to_string()).unwrap_or_default();
                rows.push(vec![
                    format!("{name}.{output}"),
                    row_count,
                    bytes(artifact.bytes),
                    artifact.digest.short(),
                ]);
                list.push(json!({
                    "stage": stage.name, "coordinates": cell.coordinates, "output": output, "artifact": artifact,
                }));
            }
        }
    }
    if global.json {
        say(&serde_json::Value::Array(list).to_string());
    } else {
        say(&columns(
            &["artifact", "rows", "size", "digest"],
            &rows,
            &[1, 2],
        ));
    }
    Ok(())
}
