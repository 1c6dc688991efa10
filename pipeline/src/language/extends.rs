//! Experiments that extend another: `extends: FILE` merges this file over that one.
//!
//! Mappings merge key by key, `null` removes what the extended file has, and everything else is replaced. There are two
//! exceptions. Overrides of the extending file are appended, because each of them is a separate change. Inside a
//! definition or a claim, `null` is a value.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use artifacts::Digest;

use super::diagnostics::{Mistake, Sink};
use super::disk::UNREADABLE;
use super::files::Files;
use super::library::merge;
use super::parse;
use super::tree::{Node, Value};
use crate::sources::NamedFile;
use crate::stage::Step;

/// The key that names the file to extend.
const EXTENDS: &str = "extends";

/// Returns an experiment with the extended files merged in, and the files read for it; `None` if a file is wrong, which
/// is reported.
pub(super) fn extended(
    root: Node,
    file: &Path,
    files: &dyn Files,
    sink: &Sink,
) -> Option<(Node, Vec<NamedFile>)> {
    let folder = file.parent().map(Path::to_owned).unwrap_or_default();
    let mut read = Vec::new();
    let mut seen = BTreeSet::from([file.to_owned()]);
    // This file, the one that it extends, and so on.
    let mut chain = vec![root];
    while let Some(extends) = chain.last().and_then(|file| file.get(EXTENDS)) {
        let route = [Step::Key(EXTENDS.to_owned())];
        let wrong = |message: String, hint: &str| {
            sink.add(Mistake::new(extends.span, &route, message).hint(hint));
            None
        };
        let Some(name) = extends.text() else {
            let message = format!(
                "expected the path of an experiment, found {}",
                extends.describe()
            );
            return wrong(
                message,
                "name a file from the folder of this one, such as `grid.yaml`",
            );
        };
        let path: PathBuf = folder.join(name);
        if !seen.insert(path.clone()) {
            let message = format!("`{name}` extends itself");
            return wrong(message, "remove `extends` from one of the files");
        }
        let text = match files.read(&path) {
            Ok(Some(text)) => text,
            Ok(None) => {
                let message = format!("there is no experiment `{}` to extend", path.display());
                return wrong(
                    message,
                    "paths begin at the folder of the experiment that is run",
                );
            }
            Err(error) => return wrong(format!("{}: {error}", path.display()), UNREADABLE),
        };
        let source = sink.add_source(&path, &text);
        let below = match parse::parse(&text, source) {
            Ok(below) => below,
            Err(mistakes) => {
                mistakes.into_iter().for_each(|m| sink.add(m));
                return None;
            }
        };
        read.push(NamedFile {
            path,
            name: name.to_owned(),
            digest: Digest::of(text.as_bytes()),
            stamp: None,
            sent: None,
        });
        chain.push(below);
    }
    let mut files = chain.iter().rev();
    let last = files.next().expect("the chain begins with this file");
    let whole = files.fold(last.clone(), |below, above| over(&below, &alone(above)));
    Some((whole, read))
}

/// The sections that hold definitions or claims.
const DEFINITIONS: [&str; 7] = [
    "claims",
    "engines",
    "hardware",
    "hosts",
    "models",
    "simulated-servers",
    "workloads",
];

/// Merges one experiment over another.
fn over(below: &Node, above: &Node) -> Node {
    let mut merged = merged(below, above, None);
    let both = |key: &str| Some((below.get(key)?.items(), above.get(key)?.items()));
    if let (Some((first, then)), Value::Map(entries)) = (both("overrides"), &mut merged.value)
        && let Some((_, overrides)) = entries.iter_mut().find(|(key, _)| key.text == "overrides")
        && matches!(overrides.value, Value::List(_))
    {
        overrides.value = Value::List(first.iter().chain(then).cloned().collect());
    }
    merged
}

/// Merges mappings key by key. In so many levels of mappings, or in all of them, `null` removes what is below.
fn merged(below: &Node, above: &Node, levels: Option<usize>) -> Node {
    let (Value::Map(first), Value::Map(then)) = (&below.value, &above.value) else {
        return above.clone();
    };
    if levels == Some(0) {
        return merge(below, above);
    }
    let mut entries = first.clone();
    for (key, node) in then {
        match entries.iter().position(|(k, _)| k.text == key.text) {
            Some(at) if matches!(node.value, Value::Null) => {
                entries.remove(at);
            }
            Some(at) => {
                let deeper = match levels {
                    None if DEFINITIONS.contains(&key.text.as_str()) => Some(1),
                    levels => levels.map(|levels| levels - 1),
                };
                entries[at] = (key.clone(), merged(&entries[at].1, node, deeper));
            }
            None => entries.push((key.clone(), node.clone())),
        }
    }
    Node {
        span: above.span,
        value: Value::Map(entries),
    }
}

/// Returns an experiment without the name of the file that it extends.
fn alone(node: &Node) -> Node {
    let kept = node.entries().iter().filter(|(key, _)| key.text != EXTENDS);
    Node {
        span: node.span,
        value: Value::Map(kept.cloned().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_inside_a_definition_stays_and_null_for_a_definition_removes_it() {
        let parsed = |text| parse::parse(text, 0).unwrap();
        let below = parsed("engines: {a: {health: /h, port: 1}, b: {}}\nclaims: {c: {says: x}}\n");
        let above = parsed("engines: {a: {health: null}, b: null}\nclaims: {c: {says: null}}\n");
        let whole = over(&below, &above);
        let engines = whole.get("engines").unwrap();
        let a = engines.get("a").unwrap();
        assert!(matches!(a.get("health").unwrap().value, Value::Null));
        assert!(a.get("port").is_some() && engines.get("b").is_none());
        let claim = whole.get("claims").unwrap().get("c").unwrap();
        assert!(claim.get("says").is_some());
    }
}
