//! `load --save-result`: writes the run as a result file of another tool.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use contract::compat::Tool;
use load::{LoadFiles, LoadSpec, ResultFacts, Slo, Target, result_file, stamp};

use super::load_compat::{bounds_of, rows_of};
use crate::args::LoadArgs;
use crate::exit::Stop;
use crate::project::shown;
use crate::terminal::complain;

/// Returns whether a file is requested.
fn is_asked(arguments: &LoadArgs) -> bool {
    arguments.save_result || arguments.result_filename.is_some()
}

fn layout(arguments: &LoadArgs) -> Tool {
    Tool::from_word(&arguments.result_format).expect("the parser admits only words of tools")
}

/// Checks before the measurement whether the file can be written.
pub(super) fn check(arguments: &LoadArgs, several: bool) -> Result<(), Stop> {
    if !is_asked(arguments) {
        return Ok(());
    }
    let tool = layout(arguments);
    if let Some(folder) = &arguments.result_dir {
        fs::create_dir_all(folder).map_err(|e| Stop::refused_at(folder.display(), &e))?;
    }
    must_be_writable(arguments)?;
    let Some(file) = &arguments.result_filename else {
        return Ok(());
    };
    // SGLang appends a line for each result.
    if tool == Tool::Sglang {
        return Ok(());
    }
    let path = in_folder(arguments, file);
    if several {
        return Err(Stop::usage(format!(
            "one file cannot hold several levels in the layout of {}",
            tool.word()
        ))
        .hint(
            "name a folder with --result-dir instead of the file, or use --result-format sglang",
        ));
    }
    match path.exists() {
        true => Err(Stop::usage(format!("{} already exists", path.display()))
            .hint("choose another file with --result-filename")),
        false => Ok(()),
    }
}

/// Makes a file in the folder of the results and removes it again: the load would be lost otherwise.
fn must_be_writable(arguments: &LoadArgs) -> Result<(), Stop> {
    let file = arguments.result_filename.as_deref();
    let path = in_folder(arguments, file.unwrap_or(Path::new("results")));
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let refused = |e: std::io::Error| {
        let what = format!("the results cannot be saved in {}", shown(folder));
        Stop::refused_at(what, &e).hint("name another folder with --result-dir")
    };
    tempfile::tempfile_in(folder).map(drop).map_err(refused)
}

fn in_folder(arguments: &LoadArgs, file: &Path) -> PathBuf {
    match &arguments.result_dir {
        Some(folder) => folder.join(file),
        None => file.to_owned(),
    }
}

/// Writes the requested file, if any.
pub(super) fn save(
    arguments: &LoadArgs,
    target: &Target,
    spec: &LoadSpec,
    result: &LoadFiles,
    slo: &Slo,
) -> Result<(), Stop> {
    if !is_asked(arguments) {
        return Ok(());
    }
    let tool = layout(arguments);
    let facts = ResultFacts {
        api: target.api.word().to_owned(),
        model: target.model.clone(),
        clients: spec.arrival.clients(),
        max_in_flight: spec.extent.max_in_flight,
        rate: spec.arrival.rate(),
        burstiness: arguments.burstiness.unwrap_or(1.0),
        planned: result.cell.expected_requests,
        started_unix_ns: result.cell.started_unix_ns,
    };
    let cell = rows_of(result)?;
    let text = result_file(tool, &facts, &contract::timings(&cell), &bounds_of(slo));
    let name = match &arguments.result_filename {
        Some(file) => file.clone(),
        None => default_name(tool, &facts),
    };
    let path = in_folder(arguments, &name);
    let wrong = |e: std::io::Error| Stop::refused_at(path.display(), &e);
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(wrong)?;
    file.write_all(text.as_bytes()).map_err(wrong)?;
    if !arguments.quiet {
        complain(&format!("{}: as {} writes it", path.display(), tool.word()));
    }
    Ok(())
}

/// Returns a file name as vLLM forms it: format, level, model and time.
fn default_name(tool: Tool, facts: &ResultFacts) -> PathBuf {
    let level = match (facts.clients, facts.rate) {
        (Some(clients), _) => format!("concurrency{clients}"),
        (None, Some(rate)) => format!("{rate}qps"),
        (None, None) => "infqps".to_owned(),
    };
    let model = facts.model.rsplit('/').next().unwrap_or_default();
    let extension = if tool == Tool::Vllm { "json" } else { "jsonl" };
    let time = stamp(facts.started_unix_ns);
    format!("{}-{level}-{model}-{time}.{extension}", tool.word()).into()
}
