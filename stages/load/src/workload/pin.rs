//! Replaces the name of each file by its digest, because the content matters and not the path.

use pipeline::sources::{self, Unusable, read};
use pipeline::stage::Library;

use super::definition::{PromptSource, Workload};
use super::tokenizer::Tokenizer;
use crate::trace::{PER_HASH_ID, Recorded, read_trace, rows_of};

/// Pins every file of a workload. A file with a schema is read into the definition.
///
/// # Errors
/// If a file cannot be read or does not match its declared digest.
pub(crate) fn pin(workload: &mut Workload, library: &dyn Library) -> Result<(), Unusable> {
    pin_source(&mut workload.prompts, library)?;
    if let Some(source) = workload
        .sessions
        .as_mut()
        .and_then(|s| s.follow_up.as_mut())
    {
        pin_source(source, library)?;
    }
    if let Some(Tokenizer::File(tokenizer)) = &mut workload.tokenizer {
        pin_file(
            "tokenizer",
            &mut tokenizer.file,
            &mut tokenizer.digest,
            library,
        )?;
    }
    if let Some(structured) = &mut workload.structured
        && let Some(file) = &structured.file
    {
        let (source, bytes) = read(library, file).map_err(|e| of("schema", e))?;
        let schema = serde_json::from_slice(&bytes).map_err(|e| Unusable {
            message: format!("schema {}: {e}", source.path.display()),
            hint: "give a JSON file with a JSON Schema".to_owned(),
        })?;
        structured.schema = Some(schema);
        structured.file = None;
    }
    Ok(())
}

/// Replaces the name of a file by its digest.
///
/// # Errors
/// If it cannot be read or does not match its declared digest.
fn pin_file(
    what: &str,
    file: &mut String,
    digest: &mut Option<String>,
    library: &dyn Library,
) -> Result<(), Unusable> {
    if file.is_empty() && digest.is_some() {
        // Already pinned.
        return Ok(());
    }
    let source = sources::pin(library, file).map_err(|e| of(what, e))?;
    declared(what, &source, digest)?;
    file.clear();
    Ok(())
}

/// Sets a digest to that of a file, unless a different one is declared.
fn declared(
    what: &str,
    source: &sources::NamedFile,
    digest: &mut Option<String>,
) -> Result<(), Unusable> {
    let found = source.digest.to_string();
    if digest.as_ref().is_some_and(|digest| *digest != found) {
        return Err(Unusable {
            message: format!(
                "{what} {} has the digest {found}, not the one declared",
                source.path.display()
            ),
            hint: "correct `digest`, or restore the file".to_owned(),
        });
    }
    *digest = Some(found);
    Ok(())
}

/// Replaces the name of a trace by its digest, and returns its rows.
///
/// # Errors
/// If it cannot be read, does not match its declared digest, or is not a trace.
pub(crate) fn pin_trace(
    file: &mut String,
    digest: &mut Option<String>,
    library: &dyn Library,
) -> Result<Vec<Recorded>, Unusable> {
    let wrong = |message: String| Unusable {
        message,
        hint: "correct the trace".to_owned(),
    };
    if file.is_empty() && digest.is_some() {
        // Already pinned.
        let read = read_trace(file, digest.as_deref(), &library.files());
        return Ok(read.map_err(wrong)?.0);
    }
    let (source, bytes) = read(library, file).map_err(|e| of("trace", e))?;
    declared("trace", &source, digest)?;
    file.clear();
    rows_of(&source.path.display().to_string(), bytes).map_err(wrong)
}

fn pin_source(source: &mut PromptSource, library: &dyn Library) -> Result<(), Unusable> {
    match source {
        PromptSource::Pack(pack) => match pack.file.take() {
            Some(mut file) => pin_file("prompt pack", &mut file, &mut pack.digest, library),
            None => Ok(()),
        },
        PromptSource::Corpus(corpus) => {
            pin_file("corpus", &mut corpus.file, &mut corpus.digest, library)
        }
        PromptSource::Dataset(dataset) => {
            pin_file("dataset", &mut dataset.file, &mut dataset.digest, library)
        }
        PromptSource::Mixture(parts) => parts
            .iter_mut()
            .try_for_each(|part| pin_source(&mut part.prompts, library)),
        PromptSource::Trace(trace) => {
            // This also reports problems with its rows while planning.
            let rows = pin_trace(&mut trace.file, &mut trace.digest, library)?;
            // In the key only if there are ids, so that the keys of other traces stay the same.
            if rows.iter().all(|row| row.hash_ids.is_empty()) {
                trace.tokens_per_hash_id = None;
            } else {
                trace.tokens_per_hash_id.get_or_insert(PER_HASH_ID);
            }
            Ok(())
        }
        PromptSource::Words(_) | PromptSource::SharedPrefix(_) => Ok(()),
    }
}

fn of(what: &str, unusable: Unusable) -> Unusable {
    Unusable {
        message: format!("{what} {}", unusable.message),
        ..unusable
    }
}
