//! Replaces the name of each file by its digest, because the content matters and not the path.

use pipeline::sources::{self, NamedFile, Unusable, read};
use pipeline::stage::Library;

use super::definition::{PromptSource, Workload};
use super::tokenizer::Tokenizer;
use crate::trace::{PER_HASH_ID, Recorded, read_trace, rows_of};

/// Why a file cannot be used, with the keys of the workload that lead to it.
pub(crate) type Unpinned = (Vec<String>, Unusable);

/// Pins every file of a workload. A file with a schema is read into the definition.
///
/// # Errors
/// If a file cannot be read or does not match its declared digest.
pub(crate) fn pin(workload: &mut Workload, library: &dyn Library) -> Result<(), Unpinned> {
    let route =
        |keys: &[&str]| -> Vec<String> { keys.iter().map(|key| (*key).to_owned()).collect() };
    pin_source(&mut workload.prompts, library, route(&["prompts"]))?;
    if let Some(source) = workload
        .sessions
        .as_mut()
        .and_then(|s| s.follow_up.as_mut())
    {
        pin_source(source, library, route(&["sessions", "follow-up"]))?;
    }
    if let Some(Tokenizer::File(tokenizer)) = &mut workload.tokenizer {
        pin_file(
            "tokenizer",
            &mut tokenizer.file,
            &mut tokenizer.digest,
            library,
        )
        .map_err(|e| (route(&["tokenizer", "file"]), e))?;
    }
    if let Some(structured) = &mut workload.structured
        && let Some(file) = &structured.file
    {
        let at = |e: Unusable| (route(&["structured", "file"]), e);
        let (source, bytes) = read(library, file).map_err(|e| at(of("schema", e)))?;
        sources::sends(library, &source);
        let schema = serde_json::from_slice(&bytes).map_err(|e| {
            at(Unusable {
                message: format!("schema {}: {e}", source.path.display()),
                hint: "give a JSON file with a JSON Schema".to_owned(),
            })
        })?;
        structured.schema = Some(schema);
        structured.file = None;
    }
    Ok(())
}

/// Replaces the name of a file by its digest; returns the file, unless it is already pinned.
///
/// # Errors
/// If it cannot be read or does not match its declared digest.
fn pin_file(
    what: &str,
    file: &mut String,
    digest: &mut Option<String>,
    library: &dyn Library,
) -> Result<Option<NamedFile>, Unusable> {
    if file.is_empty() && digest.is_some() {
        // Already pinned.
        return Ok(None);
    }
    if file.is_empty() {
        return Err(no_file(what));
    }
    let source = sources::pin(library, file).map_err(|e| of(what, e))?;
    declared(what, &source, digest)?;
    file.clear();
    Ok(Some(source))
}

/// Pins a file as [`pin_file`] does, if requests carry its contents.
///
/// # Errors
/// Same as [`pin_file`].
fn pin_sent(
    what: &str,
    file: &mut String,
    digest: &mut Option<String>,
    library: &dyn Library,
) -> Result<(), Unusable> {
    if let Some(source) = pin_file(what, file, digest, library)? {
        sources::sends(library, &source);
    }
    Ok(())
}

fn no_file(what: &str) -> Unusable {
    Unusable {
        message: format!("the {what} names no file"),
        hint: "add `file:`, with a path relative to the experiment's folder".to_owned(),
    }
}

/// Sets a digest to that of a file, unless a different one is declared.
fn declared(what: &str, source: &NamedFile, digest: &mut Option<String>) -> Result<(), Unusable> {
    let actual = source.digest.to_string();
    if digest.as_ref().is_some_and(|digest| *digest != actual) {
        return Err(Unusable {
            message: format!(
                "{what} {} has the digest {actual}, not the one declared",
                source.path.display()
            ),
            hint: "correct `digest`, or restore the file".to_owned(),
        });
    }
    *digest = Some(actual);
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
    if file.is_empty() {
        return Err(no_file("trace"));
    }
    let (source, bytes) = read(library, file).map_err(|e| of("trace", e))?;
    declared("trace", &source, digest)?;
    file.clear();
    rows_of(&source.path.display().to_string(), bytes).map_err(wrong)
}

/// Pins the file of a source, and those of the parts of a mixture. `route` leads to the source.
fn pin_source(
    source: &mut PromptSource,
    library: &dyn Library,
    mut route: Vec<String>,
) -> Result<(), Unpinned> {
    let (form, pinned) = match source {
        PromptSource::Pack(pack) => match pack.file.take() {
            Some(mut file) => {
                let pinned = pin_sent("prompt pack", &mut file, &mut pack.digest, library);
                ("pack", pinned)
            }
            None => return Ok(()),
        },
        PromptSource::Corpus(corpus) => {
            let pinned = pin_sent("corpus", &mut corpus.file, &mut corpus.digest, library);
            ("corpus", pinned)
        }
        PromptSource::Dataset(dataset) => {
            let pinned = pin_sent("dataset", &mut dataset.file, &mut dataset.digest, library);
            ("dataset", pinned)
        }
        PromptSource::Mixture(parts) => {
            route.push("mixture".to_owned());
            return parts
                .iter_mut()
                .try_for_each(|part| pin_source(&mut part.prompts, library, route.clone()));
        }
        PromptSource::Trace(trace) => {
            // This also reports problems with its rows while planning.
            let rows = pin_trace(&mut trace.file, &mut trace.digest, library);
            // In the key only if there are ids, so that the keys of other traces stay the same.
            let pinned = rows.map(|rows| {
                if rows.iter().all(|row| row.hash_ids.is_empty()) {
                    trace.tokens_per_hash_id = None;
                } else {
                    trace.tokens_per_hash_id.get_or_insert(PER_HASH_ID);
                }
            });
            ("trace", pinned)
        }
        PromptSource::Words(_) | PromptSource::SharedPrefix(_) => return Ok(()),
    };
    route.extend([form.to_owned(), "file".to_owned()]);
    pinned.map_err(|e| (route, e))
}

fn of(what: &str, unusable: Unusable) -> Unusable {
    Unusable {
        message: format!("{what} {}", unusable.message),
        ..unusable
    }
}
