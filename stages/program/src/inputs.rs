//! Writes the outputs of needed stages to files, for programs that read them.

use std::fs;
use std::path::Path;

use pipeline::{Failure, Input, Json, Media};
use serde_json::json;

/// Writes the outputs of needed stages below a folder, with an index `inputs.json`: a list of cells with `stage`,
/// `kind`, `coordinates`, `status`, `reason` and the paths of their `outputs` by name.
///
/// # Errors
/// If an artifact is missing or damaged, or the folder cannot be written.
pub(crate) fn lay_out(
    inputs: &[Input],
    store: &artifacts::Store,
    folder: &Path,
) -> Result<(), Failure> {
    let wrong =
        |e: &dyn std::fmt::Display| Failure::failed(format!("the inputs of the program: {e}"));
    let mut index = Vec::new();
    for input in inputs {
        for (number, cell) in input.cells.iter().enumerate() {
            let own = folder.join(&input.stage).join(number.to_string());
            fs::create_dir_all(&own).map_err(|e| wrong(&e))?;
            let mut outputs = serde_json::Map::new();
            for (name, artifact) in &cell.outputs {
                let path = own.join(format!("{name}.{}", extension(artifact.media)));
                let bytes = store.get(&artifact.digest).map_err(|e| wrong(&e))?;
                fs::write(&path, bytes).map_err(|e| wrong(&e))?;
                let inside = path.strip_prefix(folder).unwrap_or(&path);
                outputs.insert(name.clone(), json!(inside));
            }
            let coordinates: serde_json::Map<String, Json> = cell
                .coordinates
                .0
                .iter()
                .map(|(axis, label)| (axis.clone(), json!(label)))
                .collect();
            index.push(json!({
                "stage": input.stage, "kind": input.kind, "coordinates": coordinates,
                "status": cell.status.word(), "reason": cell.reason, "outputs": outputs,
            }));
        }
    }
    let text = json!(index).to_string();
    fs::create_dir_all(folder).map_err(|e| wrong(&e))?;
    fs::write(folder.join("inputs.json"), text).map_err(|e| wrong(&e))
}

fn extension(media: Media) -> &'static str {
    match media {
        Media::Parquet => "parquet",
        Media::Json => "json",
        Media::Text => "txt",
        Media::Markdown => "md",
        Media::Svg => "svg",
        Media::Html => "html",
        Media::Binary => "bin",
    }
}
