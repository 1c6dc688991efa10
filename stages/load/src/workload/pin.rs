//! Puts the digest of each file beside its name: the content decides, not the name.

use artifacts::Digest;

use super::definition::{Source, Workload};
use super::tokenizer::Tokenizer;
use crate::trace::read_trace;

/// Pins every file of a workload; a file that holds a schema is read into the definition.
///
/// # Errors
/// One sentence that names the file, if it cannot be read or is not the one declared.
pub(crate) fn pin(workload: &mut Workload) -> Result<(), String> {
    pin_source(&mut workload.prompts)?;
    if let Some(source) = workload.sessions.as_mut().and_then(|s| s.follow_up.as_mut()) {
        pin_source(source)?;
    }
    if let Some(Tokenizer::File(tokenizer)) = &mut workload.tokenizer {
        pin_file("tokenizer", &tokenizer.file, &mut tokenizer.digest)?;
    }
    if let Some(structured) = &mut workload.structured
        && let Some(file) = &structured.file
    {
        let bytes = std::fs::read(file).map_err(|e| format!("schema {file}: {e}"))?;
        let schema = serde_json::from_slice(&bytes).map_err(|e| format!("schema {file}: {e}"))?;
        structured.schema = Some(schema);
        structured.file = None;
    }
    Ok(())
}

/// Returns what a pinned workload asks for: neither how it is described nor where its files lie.
pub(crate) fn content(workload: &Workload) -> serde_json::Value {
    let mut content = workload.clone();
    content.description = None;
    forget_places(&mut content.prompts);
    if let Some(source) = content.sessions.as_mut().and_then(|s| s.follow_up.as_mut()) {
        forget_places(source);
    }
    if let Some(Tokenizer::File(tokenizer)) = &mut content.tokenizer {
        tokenizer.file.clear();
    }
    serde_json::to_value(&content).expect("a workload always serializes")
}

fn forget_places(source: &mut Source) {
    match source {
        Source::Pack(pack) => pack.file = None,
        Source::Corpus(corpus) => corpus.file.clear(),
        Source::Dataset(dataset) => dataset.file.clear(),
        Source::Mixture(parts) => parts.iter_mut().for_each(|part| forget_places(&mut part.prompts)),
        Source::Trace(trace) => trace.file.clear(),
        Source::Words(_) | Source::SharedPrefix(_) => {}
    }
}

fn pin_source(source: &mut Source) -> Result<(), String> {
    match source {
        Source::Pack(pack) => match &pack.file {
            Some(file) => pin_file("prompt pack", file, &mut pack.digest),
            None => Ok(()),
        },
        Source::Corpus(corpus) => pin_file("corpus", &corpus.file, &mut corpus.digest),
        Source::Dataset(dataset) => pin_file("dataset", &dataset.file, &mut dataset.digest),
        Source::Mixture(parts) => parts.iter_mut().try_for_each(|part| pin_source(&mut part.prompts)),
        Source::Trace(trace) => {
            trace.digest = Some(read_trace(&trace.file, trace.digest.as_deref())?.1);
            Ok(())
        }
        Source::Words(_) | Source::SharedPrefix(_) => Ok(()),
    }
}

fn pin_file(what: &str, file: &str, digest: &mut Option<String>) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{what} {file}: {e}"))?;
    let found = Digest::of(&bytes).to_string();
    if digest.as_ref().is_some_and(|digest| *digest != found) {
        return Err(format!("{what} {file} has the digest {found}, not the one declared"));
    }
    *digest = Some(found);
    Ok(())
}
