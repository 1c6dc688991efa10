//! Experiments that extend another: `extends: FILE` merges this file over that one.
//!
//! Mappings merge key by key, and everything else is replaced. The exception is overrides: those of the extending file
//! are appended, because each of them is a separate change.

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
    let mut above = root;
    while let Some(extends) = above.get(EXTENDS) {
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
        });
        above = over(&below, &above);
    }
    Some((above, read))
}

/// Merges one experiment over another.
fn over(below: &Node, above: &Node) -> Node {
    let without = |node: &Node| {
        let kept = node.entries().iter().filter(|(key, _)| key.text != EXTENDS);
        Node {
            span: node.span,
            value: Value::Map(kept.cloned().collect()),
        }
    };
    let mut merged = merge(below, &without(above));
    let both = |key: &str| Some((below.get(key)?.items(), above.get(key)?.items()));
    if let (Some((first, then)), Value::Map(entries)) = (both("overrides"), &mut merged.value)
        && let Some((_, overrides)) = entries.iter_mut().find(|(key, _)| key.text == "overrides")
        && matches!(overrides.value, Value::List(_))
    {
        overrides.value = Value::List(first.iter().chain(then).cloned().collect());
    }
    merged
}
