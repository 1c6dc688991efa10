//! The stage side of an import: settings to canonical parameters, a file to outputs.

use pipeline::sources::Unusable;
use pipeline::stage::{Content, Done, Failure, Job, Json, Library, Media, Output, Problem};
use serde_json::json;
use tabular::Format;

use crate::json::{At, ImportError, documents};
use crate::rows::Imported;
use crate::settings::{Import, Tool};
use crate::{aiperf, columns, file, genai_perf, guidellm, own, sglang, tables, vllm};

/// Returns the canonical parameters: the file's contents, as its digest, and how to read it.
pub fn canonical(
    mut import: Import,
    given: &Json,
    library: &dyn Library,
) -> Result<Json, Vec<Problem>> {
    let mut problems: Vec<Problem> = given
        .as_object()
        .into_iter()
        .flat_map(|settings| settings.keys())
        .filter(|key| *key != "import")
        .map(|key| {
            Problem::at(
                &[key],
                format!("`{key}` has no meaning for imported results"),
            )
            .hint("remove it; the file says what was measured")
        })
        .collect();
    columns::add_units(&mut import);
    problems.extend(columns::problems(&import));
    if let Some(pattern) = import.file.take() {
        match file::find(&pattern, library) {
            Ok((path, digest)) => {
                if import
                    .digest
                    .as_ref()
                    .is_some_and(|pinned| *pinned != digest)
                {
                    let message = format!(
                        "{} has the digest {digest}, not the declared one",
                        path.display()
                    );
                    problems.push(
                        Problem::at(&["import", "digest"], message)
                            .hint("correct `digest`, or restore the file"),
                    );
                }
                import.digest = Some(digest);
                if import.tool == Tool::Benchtrail {
                    match own::beside(&pattern, &path, library) {
                        Ok(tables) => import.tables = tables,
                        Err(e) => {
                            problems.push(Problem::at(&["import", "file"], e.message).hint(e.hint));
                        }
                    }
                }
            }
            Err(e) => problems.push(Problem::at(&["import", "file"], e.message).hint(e.hint)),
        }
    } else if import.digest.is_none() {
        problems.push(Problem::at(&["import"], "missing key `file`").hint("add `file:`"));
    }
    if problems.is_empty() {
        Ok(json!({ "import": import }))
    } else {
        Err(problems)
    }
}

/// Executes the cell: reads the file and returns its rows as tables.
pub fn run(import: &Import, job: &Job<'_>) -> Result<Done, Failure> {
    if import.tool == Tool::Benchtrail {
        return own::run(import, job);
    }
    let fail = |e: Unusable| Failure::failed(e.message).hint(e.hint);
    let digest = import.digest.as_deref().unwrap_or_default();
    let (source, bytes) = job.files.read(digest).map_err(fail)?;
    job.control.check()?;
    // The values, and the rows and tables that they become.
    let needed = tabular::memory(&bytes).saturating_add(5 * bytes.len() as u64);
    artifacts::regular::room_for(needed).map_err(|e| {
        Failure::failed(format!("{}: {e} (`ulimit -v`)", source.path.display()))
            .hint("raise the limit, or divide the file")
    })?;
    let read = read(import, &bytes);
    let original = |bytes: Vec<u8>| Output {
        name: "original".to_owned(),
        media: media(import.tool),
        content: Content::Bytes(bytes),
        rows: None,
    };
    let imported = match read {
        Ok(imported) => imported,
        Err(error) => {
            let failure =
                Failure::failed(format!("{}: {error}", source.path.display())).hint(&error.hint);
            return Err(failure.evidence(original(bytes)));
        }
    };
    let wrong =
        |e: artifacts::TableError| Failure::failed(format!("{}: {e}", source.path.display()));
    let mut done = Done::default();
    for (name, table) in tables::tables(import, &imported, digest).map_err(wrong)? {
        done.outputs.push(Output::table(name, &table)?);
    }
    done.outputs.push(Output::json(
        "import",
        &tables::description(import, &imported, digest),
    ));
    done.outputs.push(original(bytes));
    done.observations
        .insert("source".to_owned(), json!("imported"));
    done.observations
        .insert("file".to_owned(), json!(source.name));
    done.warnings = imported.warnings;
    Ok(done)
}

/// Reads a file in its tool's format.
pub(crate) fn read(import: &Import, bytes: &[u8]) -> Result<Imported, ImportError> {
    check_version(import, rows_of(import, bytes)?)
}

fn rows_of(import: &Import, bytes: &[u8]) -> Result<Imported, ImportError> {
    match import.tool {
        Tool::Csv => return columns::read(import, Format::Csv, bytes),
        Tool::Parquet => return columns::read(import, Format::Parquet, bytes),
        Tool::Json => return columns::read(import, Format::Json, bytes),
        _ if bytes.starts_with(b"PAR1") => {
            let hint = "import it with `tool: parquet` and a column map";
            return Err(ImportError::at("", "this is a Parquet file", hint));
        }
        // `profile_export_genai_perf.csv`.
        Tool::GenaiPerf if bytes.starts_with(b"Metric,") => return Err(genai_perf::aggregates()),
        _ => {}
    }
    let documents = documents(bytes)?;
    if let Some(other) = recognise(&documents[0]).filter(|other| *other != import.tool) {
        return Err(ImportError::at(
            "",
            format!(
                "this file was written by {}, not {}",
                other.word(),
                import.tool.word()
            ),
            format!("write `tool: {}`", other.word()),
        ));
    }
    if import.tool == Tool::Aiperf {
        return aiperf::read(&documents);
    }
    let is_one = matches!(import.tool, Tool::Guidellm | Tool::GenaiPerf);
    if is_one && documents.len() > 1 {
        return Err(ImportError::at(
            "",
            format!(
                "the file holds {} reports one after the other",
                documents.len()
            ),
            format!("{} writes one a file: divide the file", import.tool.title()),
        ));
    }
    if import.tool == Tool::Guidellm {
        return guidellm::read(&At::root(&documents[0], "$"), import.entry);
    }
    if import.tool == Tool::GenaiPerf {
        return genai_perf::read(&At::root(&documents[0], "$"), import.entry);
    }
    let one = choose(&documents, import.entry)?;
    match import.tool {
        Tool::Vllm => vllm::read(&one),
        Tool::Sglang => sglang::read(&one),
        Tool::Guidellm
        | Tool::Aiperf
        | Tool::GenaiPerf
        | Tool::Csv
        | Tool::Parquet
        | Tool::Json
        | Tool::Benchtrail => unreachable!("read above"),
    }
}

/// Returns the requested result from a file to which a tool appended several.
fn choose(documents: &[Json], entry: Option<u32>) -> Result<At<'_>, ImportError> {
    let path = |i: usize| {
        if documents.len() == 1 {
            "$".to_owned()
        } else {
            format!("result {} $", i + 1)
        }
    };
    let index = index(documents.len(), entry)?;
    Ok(At::root(&documents[index], path(index)))
}

/// Returns the index of the requested entry.
pub(crate) fn index(held: usize, entry: Option<u32>) -> Result<usize, ImportError> {
    match entry.map(|e| e as usize) {
        Some(entry) if entry >= 1 && entry <= held => Ok(entry - 1),
        Some(entry) => Err(ImportError::at(
            "",
            format!("the file has no result {entry}; it has {held}"),
            "correct `entry`; it starts at 1",
        )),
        None if held == 1 => Ok(0),
        None => Err(ImportError::at(
            "",
            format!("the file holds {held} results"),
            "choose one with `entry:`, starting at 1; with an axis, write `entry: ${axis}`",
        )),
    }
}

/// Identifies the tool by keys that no other tool writes.
pub(crate) fn recognise(document: &Json) -> Option<Tool> {
    let has = |keys: &[&str]| keys.iter().all(|key| document.get(key).is_some());
    if has(&["endpoint_type", "num_prompts"]) || has(&["model_id", "tokenizer_id", "num_prompts"]) {
        Some(Tool::Vllm)
    } else if has(&["backend", "random_range_ratio", "completed"]) {
        Some(Tool::Sglang)
    } else if has(&["benchmarks"]) {
        Some(Tool::Guidellm)
    } else if has(&["metadata", "metrics"]) || has(&["aiperf_version"]) {
        Some(Tool::Aiperf)
    } else if has(&["service_kind", "experiments"]) || has(&["input_config", "request_latency"]) {
        Some(Tool::GenaiPerf)
    } else {
        None
    }
}

/// Checks that the user's version and that of the file agree.
fn check_version(import: &Import, mut imported: Imported) -> Result<Imported, ImportError> {
    match (&import.version, &imported.facts.tool_version) {
        (Some(declared), Some(actual)) if declared != actual => Err(ImportError::at(
            "",
            format!(
                "this file was written by {} {actual}, not {declared}",
                import.tool.word()
            ),
            "correct `version`, or remove it; the file states it",
        )),
        (Some(declared), None) => {
            imported.facts.tool_version = Some(declared.clone());
            Ok(imported)
        }
        _ => Ok(imported),
    }
}

fn media(tool: Tool) -> Media {
    match tool {
        Tool::Vllm | Tool::Guidellm | Tool::GenaiPerf => Media::Json,
        Tool::Sglang | Tool::Aiperf | Tool::Csv | Tool::Json => Media::Text,
        Tool::Parquet | Tool::Benchtrail => Media::Parquet,
    }
}
