//! Named definitions, looked up in layers: the experiment's own sections, folders next to the experiment file and next
//! to its folder, the user's folders, and the definitions that ship with the program.
//!
//! A collection with a registered schema contains YAML definitions (`engines/NAME.yaml`), which may use `extends:
//! OTHER`. Any other collection contains texts under their full file names (templates).

mod extend;
mod mistakes;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use artifacts::{Digest, FileDigest, Scalar};

use super::axes::{Axes, AxisDraft};
use super::check::Checker;
use super::diagnostics::{Mistake, Sink, Span};
use super::disk::UNREADABLE;
use super::files::Files;
use super::parse;
use super::tree::{Node, Value};
use crate::design::BLOCK;
use crate::sources::{NamedFile, NamedFiles};
use crate::stage::{Json, Library, Registry, StageKind, Step};
use crate::suggest::remedy;

use extend::extend;
pub(crate) use extend::merge;

pub(crate) struct Layers<'a> {
    root: &'a Node,
    /// Definitions in `root` that are unreadable because of a mistake elsewhere, as (collection, name).
    hidden: BTreeSet<(String, String)>,
    folders: Vec<PathBuf>,
    registry: &'a Registry,
    schemas: BTreeMap<&'static str, Json>,
    files: &'a dyn Files,
    sink: &'a Sink,
    /// Parsed definitions by layer, collection and name.
    parsed: RefCell<BTreeMap<(usize, String, String), Option<Node>>>,
    looked_up: RefCell<BTreeMap<(String, String), Found>>,
    touched_broken: Cell<bool>,
    /// The first name used for each content, by collection and canonical text.
    claims: RefCell<BTreeMap<(String, String), String>>,
    /// The files read so far: definitions, and files that settings name.
    sources: RefCell<BTreeMap<(PathBuf, String, Digest), NamedFile>>,
    /// Answers to questions about files.
    answers: RefCell<BTreeMap<String, Json>>,
    /// The axes, with their labels and fields.
    axes: RefCell<Vec<Labelled>>,
}

/// The name of an axis, and its labels with their fields.
type Labelled = (String, Vec<(Scalar, Json)>);

#[derive(Clone)]
enum Found {
    Definition(Json),
    Missing,
    /// The definition exists, but it, or a value in it, is wrong; the mistake has been reported.
    Broken,
}

impl<'a> Layers<'a> {
    pub(crate) fn new(
        root: &'a Node,
        hidden: BTreeSet<(String, String)>,
        file: &Path,
        user_folders: &[PathBuf],
        registry: &'a Registry,
        files: &'a dyn Files,
        sink: &'a Sink,
    ) -> Self {
        let beside = file.parent().map(Path::to_owned).unwrap_or_default();
        let above = match beside.parent() {
            Some(above) => above.to_owned(),
            None => PathBuf::from(".."),
        };
        let mut folders = vec![beside, above];
        folders.extend(user_folders.iter().cloned());
        Self {
            hidden,
            ..Self::in_folders(root, folders, registry, files, sink)
        }
    }

    /// Returns the kinds of stages.
    pub(crate) fn kinds(&self) -> &'a [Box<dyn StageKind>] {
        &self.registry.kinds
    }

    /// Returns the names of the collections that an experiment may contain.
    pub(crate) fn collections(&self) -> Vec<&'a str> {
        let collections = self.registry.collections.iter();
        collections.map(|(name, _)| *name).collect()
    }

    /// Makes a library over the sections of `root` and these folders, in this order.
    pub(crate) fn in_folders(
        root: &'a Node,
        folders: Vec<PathBuf>,
        registry: &'a Registry,
        files: &'a dyn Files,
        sink: &'a Sink,
    ) -> Self {
        let schemas = registry
            .collections
            .iter()
            .map(|(name, s)| (*name, s.clone().to_value()))
            .collect();
        Self {
            root,
            hidden: BTreeSet::new(),
            folders,
            registry,
            schemas,
            files,
            sink,
            parsed: RefCell::default(),
            looked_up: RefCell::default(),
            touched_broken: Cell::new(false),
            claims: RefCell::default(),
            sources: RefCell::default(),
            answers: RefCell::default(),
            axes: RefCell::default(),
        }
    }

    /// Checks every definition in the experiment's own sections, used or not.
    pub(crate) fn check_sections(&self) {
        for collection in self.schemas.keys() {
            let Some((key, section)) = self.root.entry(collection) else {
                continue;
            };
            if !matches!(section.value, Value::Map(_)) {
                let route = [Step::Key((*collection).to_owned())];
                let message = format!("expected a mapping, found {}", section.describe());
                let hint = format!("write definitions as `{collection}: {{name: {{…}}}}`");
                self.sink
                    .add(Mistake::new(key.span, &route, message).hint(hint));
                continue;
            }
            for (name, _) in section.entries() {
                self.lookup(collection, &name.text);
            }
        }
    }

    /// Records the labels of the axes, as settings see them.
    pub(crate) fn tell_axes(&self, axes: &Axes) {
        let labelled = |axis: &AxisDraft| {
            let labels = (0..axis.labels.len()).map(|at| {
                let seen = u16::try_from(at).map_or(at, |label| axis.seen(label));
                let fields = axis.fields.get(seen).cloned().unwrap_or_default();
                (axis.labels[at].clone(), fields)
            });
            (axis.name.clone(), labels.collect())
        };
        *self.axes.borrow_mut() = axes.iter().map(labelled).collect();
    }

    /// Tells kinds that there is an axis of blocks, although it could not be read.
    pub(crate) fn tell_blocks(&self) {
        let mut axes = self.axes.borrow_mut();
        if axes.iter().all(|(name, _)| name != BLOCK) {
            axes.push((BLOCK.to_owned(), Vec::new()));
        }
    }

    /// Returns the files read so far.
    pub(crate) fn sources(&self) -> Vec<NamedFile> {
        self.sources.borrow().values().cloned().collect()
    }

    /// Returns whether a wrong definition was looked up since the last call.
    pub(crate) fn take_broken(&self) -> bool {
        self.touched_broken.replace(false)
    }

    fn lookup(&self, collection: &str, name: &str) -> Found {
        let key = (collection.to_owned(), name.to_owned());
        if let Some(cached) = self.looked_up.borrow().get(&key) {
            return cached.clone();
        }
        let definition = if self.schemas.contains_key(collection) {
            self.definition(collection, name)
        } else {
            self.raw(collection, name)
        };
        self.looked_up.borrow_mut().insert(key, definition.clone());
        definition
    }

    fn definition(&self, collection: &str, name: &str) -> Found {
        let before = self.sink.count();
        let Some((layer, node)) = self.first(collection, name, 0) else {
            return if self.sink.count() > before {
                Found::Broken
            } else {
                Found::Missing
            };
        };
        let route = [Step::Key(collection.to_owned()), Step::Key(name.to_owned())];
        let merged = self.extended(collection, name, layer, &node, &mut BTreeSet::new());
        if let Some(merged) = &merged {
            let schema = &self.schemas[collection];
            let checker = Checker {
                other_keys: &["extends".to_owned()],
                ..Checker::of(schema)
            };
            checker
                .check(schema, merged, &route)
                .into_iter()
                .for_each(|m| self.sink.add(m));
            super::secrets::check(merged, &route, &[], self.sink);
        }
        match merged {
            Some(merged) if self.sink.count() == before => Found::Definition(merged.json()),
            _ => Found::Broken,
        }
    }

    /// Returns a definition with the definitions it extends merged in; `None` if any of them is wrong.
    fn extended(
        &self,
        collection: &str,
        name: &str,
        layer: usize,
        node: &Node,
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Option<Node> {
        if layer == 0
            && self
                .hidden
                .contains(&(collection.to_owned(), name.to_owned()))
        {
            return None;
        }
        let route = [
            Step::Key(collection.to_owned()),
            Step::Key(name.to_owned()),
            Step::Key("extends".into()),
        ];
        let Some(extends) = node.get("extends") else {
            return Some(node.clone());
        };
        let wrong = |message: String, hint: String| {
            self.sink
                .add(Mistake::new(extends.span, &route, message).hint(hint));
            None
        };
        let Some(base) = extends.text() else {
            return wrong(
                format!(
                    "expected the name of a definition, found {}",
                    extends.describe()
                ),
                format!("name one of the {collection}"),
            );
        };
        if !seen.insert((layer, name.to_owned())) {
            let names: Vec<&str> = seen.iter().map(|(_, name)| name.as_str()).collect();
            return wrong(
                format!(
                    "`{name}` extends itself, through {}",
                    crate::suggest::list(names)
                ),
                "remove `extends` from one of them".to_owned(),
            );
        }
        let before = self.sink.count();
        let from = if base == name { layer + 1 } else { 0 };
        let Some((base_layer, base_node)) = self.first(collection, base, from) else {
            if self.sink.count() > before {
                return None;
            }
            let names = self.names(collection);
            let names = names.iter().map(String::as_str).filter(|n| *n != name);
            let hint = remedy(base, collection, names);
            return wrong(
                format!("there is no `{base}` among the {collection} to extend"),
                hint,
            );
        };
        let base_node = self.extended(collection, base, base_layer, &base_node, seen)?;
        let own = Value::Map(
            node.entries()
                .iter()
                .filter(|(k, _)| k.text != "extends")
                .cloned()
                .collect(),
        );
        let own = Node {
            span: node.span,
            value: own,
        };
        let schema = self.schemas.get(collection);
        Some(match schema {
            Some(schema) => extend(schema, &base_node, &own),
            None => merge(&base_node, &own),
        })
    }

    /// Returns a definition from the first layer that has it, starting at a given layer.
    fn first(&self, collection: &str, name: &str, from: usize) -> Option<(usize, Node)> {
        (from..self.folders.len() + 2)
            .find_map(|layer| Some((layer, self.parsed(layer, collection, name)?)))
    }

    fn parsed(&self, layer: usize, collection: &str, name: &str) -> Option<Node> {
        if layer == 0 {
            return self.root.get(collection)?.get(name).cloned();
        }
        let key = (layer, collection.to_owned(), name.to_owned());
        if let Some(node) = self.parsed.borrow().get(&key) {
            return node.clone();
        }
        let node = self
            .text(layer, collection, name, ".yaml")
            .and_then(|(path, text)| {
                let source = self.sink.add_source(&path, &text);
                match parse::parse(&text, source) {
                    Ok(node) => Some(node),
                    Err(mistakes) => {
                        mistakes.into_iter().for_each(|m| self.sink.add(m));
                        None
                    }
                }
            });
        self.parsed.borrow_mut().insert(key, node.clone());
        node
    }

    fn raw(&self, collection: &str, name: &str) -> Found {
        let before = self.sink.count();
        let text =
            (1..self.folders.len() + 2).find_map(|layer| self.text(layer, collection, name, ""));
        match text {
            _ if self.sink.count() > before => Found::Broken,
            Some((_, text)) => Found::Definition(Json::String(text)),
            None => Found::Missing,
        }
    }

    fn text(
        &self,
        layer: usize,
        collection: &str,
        name: &str,
        suffix: &str,
    ) -> Option<(PathBuf, String)> {
        // A name may point into a subfolder of the collection (`partials/limits.md`), never out of it.
        let stays_inside = |part: &str| !part.is_empty() && !part.starts_with('.');
        if name.contains('\\') || !name.split('/').all(stays_inside) {
            return None;
        }
        if let Some(folder) = self.folders.get(layer - 1) {
            let file = format!("{collection}/{name}{suffix}");
            let path = folder.join(&file);
            return match self.files.read(&path) {
                Ok(Some(text)) => {
                    let digest = Digest::of(text.as_bytes());
                    self.reads(&NamedFile {
                        path: path.clone(),
                        name: file,
                        digest,
                        stamp: None,
                        sent: None,
                    });
                    Some((path, text))
                }
                Ok(None) => {
                    if suffix == ".yaml" {
                        self.refuse_other_ending(&path);
                    }
                    None
                }
                Err(error) => {
                    self.refuse(&path, error.to_string(), UNREADABLE);
                    None
                }
            };
        }
        let fits = |s: &&crate::stage::Shipped| s.collection == collection && s.name == name;
        let shipped = self.registry.shipped.iter().find(fits)?;
        Some((
            PathBuf::from(format!("<shipped>/{collection}/{name}{suffix}")),
            shipped.text.to_owned(),
        ))
    }

    /// Reports a definition whose file ends with `.yml`. Otherwise, a definition of the same name in a later layer, such as
    /// a shipped engine, would be measured in its place without a word.
    fn refuse_other_ending(&self, path: &Path) {
        let other = path.with_extension("yml");
        let name = path.file_name().unwrap_or_default().display();
        if !matches!(self.files.read(&other), Ok(None)) {
            let message = "the names of definitions end with `.yaml`, so this file is not read";
            self.refuse(
                &other,
                message.to_owned(),
                &format!("rename it to `{name}`"),
            );
        }
    }

    /// Reports that a file as a whole is wrong.
    fn refuse(&self, path: &Path, message: String, hint: &str) {
        let source = self.sink.add_source(path, "");
        let span = Span {
            source,
            ..Span::default()
        };
        self.sink.add(Mistake::new(span, &[], message).hint(hint));
    }
}

impl Library for Layers<'_> {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        match self.lookup(collection, name) {
            Found::Definition(json) => Some(json),
            Found::Missing => None,
            Found::Broken => {
                self.touched_broken.set(true);
                None
            }
        }
    }

    fn names(&self, collection: &str) -> Vec<String> {
        let suffix = if self.schemas.contains_key(collection) {
            ".yaml"
        } else {
            ""
        };
        let mut names: BTreeSet<String> = BTreeSet::new();
        let own = self
            .root
            .get(collection)
            .map(Node::entries)
            .unwrap_or_default();
        names.extend(own.iter().map(|(key, _)| key.text.clone()));
        for folder in &self.folders {
            let files = self.files.list(&folder.join(collection));
            names.extend(
                files
                    .iter()
                    .filter_map(|f| f.strip_suffix(suffix))
                    .map(str::to_owned),
            );
        }
        let shipped = self
            .registry
            .shipped
            .iter()
            .filter(|s| s.collection == collection);
        names.extend(shipped.map(|s| s.name.to_owned()));
        names.into_iter().collect()
    }

    fn claim(&self, collection: &str, name: &str, content: &Json) -> Option<String> {
        let mut content = content.clone();
        content.sort_all_objects();
        let mut claims = self.claims.borrow_mut();
        let key = (collection.to_owned(), content.to_string());
        let first = claims.entry(key).or_insert_with(|| name.to_owned());
        (first.as_str() != name).then(|| first.clone())
    }

    fn texts(&self) -> Vec<(&'static str, String)> {
        let text = |key| Some((key, self.root.get(key)?.text()?.to_owned()));
        ["title", "question"].into_iter().filter_map(text).collect()
    }

    fn axes(&self) -> Vec<String> {
        let axes = self.axes.borrow();
        axes.iter().map(|(name, _)| name.clone()).collect()
    }

    fn labels(&self, axis: &str) -> Option<Vec<(Scalar, Json)>> {
        let axes = self.axes.borrow();
        let entry = axes.iter().find(|(name, _)| name == axis)?;
        Some(entry.1.clone())
    }

    fn path(&self, file: &str) -> PathBuf {
        let beside = self.folders.first();
        beside.map_or_else(|| PathBuf::from(file), |folder| folder.join(file))
    }

    fn reads(&self, source: &NamedFile) {
        let key = (source.path.clone(), source.name.clone(), source.digest);
        let mut sources = self.sources.borrow_mut();
        let kept = sources.entry(key).or_insert_with(|| source.clone());
        kept.stamp = kept.stamp.or(source.stamp);
        kept.sent = kept.sent.take().or_else(|| source.sent.clone());
    }

    fn digest(&self, path: &Path) -> io::Result<FileDigest> {
        self.files.digest(path)
    }

    fn once(&self, question: &str, answer: &mut dyn FnMut() -> Json) -> Json {
        if let Some(answer) = self.answers.borrow().get(question) {
            return answer.clone();
        }
        let answer = answer();
        let mut answers = self.answers.borrow_mut();
        answers.insert(question.to_owned(), answer.clone());
        answer
    }

    fn files(&self) -> NamedFiles {
        let folder = self.folders.first().map_or(Path::new(""), PathBuf::as_path);
        NamedFiles::new(self.sources(), folder, None)
    }
}
