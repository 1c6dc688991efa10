//! Builds the launch command: turns an engine, its resolved settings and a few paths into
//! arguments.

use std::collections::BTreeMap;

use pipeline::Json;

use crate::engine::Engine;
use crate::settings::SettingType;

/// The values of the placeholders of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    /// `{model}`: the path or id of the weights.
    pub model: String,
    /// `{model-name}`: the name the model is served under.
    pub model_name: String,
    /// `{host}`: the address to listen on.
    pub host: String,
    /// `{port}`: the port to listen on.
    pub port: String,
    /// `{side-port}`: a second port, for programs that listen on two.
    pub side_port: String,
    /// `{packages}`: the folder of the unpacked packages.
    pub packages: String,
    /// `{revision}`: the revision of weights that the engine resolves itself, if it is pinned.
    pub revision: Option<String>,
    /// `{draft}`: the path or id of the draft model's weights, if any.
    pub draft: Option<String>,
}

/// The placeholders of arguments and environment.
pub(crate) const PLACEHOLDERS: [&str; 6] = [
    "model",
    "model-name",
    "host",
    "port",
    "side-port",
    "packages",
];
/// The placeholder that the arguments of settings and of peers may hold too.
pub(crate) const SIDE_PORT: &str = "{side-port}";

/// Returns the placeholder names in a text: braces around words of lower-case letters and hyphens.
/// JSON in braces does not match.
pub(crate) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once('}')?;
        let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        (plain && !name.is_empty()).then_some(name)
    })
}

impl Paths {
    /// Returns paths in which every placeholder stands for itself, except the model's name. A
    /// descriptor may hold these, because they are the same on every machine.
    pub fn placeholders(model_name: &str, revision: Option<&str>) -> Self {
        let own = |name: &str| format!("{{{name}}}");
        Self {
            model: own("model"),
            model_name: model_name.to_owned(),
            host: own("host"),
            port: own("port"),
            side_port: own("side-port"),
            packages: own("packages"),
            revision: revision.map(str::to_owned),
            draft: None,
        }
    }

    /// Adds a draft model whose placeholder stands for itself.
    #[must_use]
    pub fn drafting(self, drafts: Drafts) -> Self {
        Self {
            draft: (drafts == Drafts::Yes).then(|| "{draft}".to_owned()),
            ..self
        }
    }

    fn fill(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        // One pass: inserted values are not searched for placeholders.
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            out.push_str(before);
            let value = from
                .find('}')
                .and_then(|close| Some((self.value(&from[1..close])?, close)));
            match value {
                Some((value, close)) => {
                    out.push_str(value);
                    rest = &from[close + 1..];
                }
                None => {
                    out.push('{');
                    rest = &from[1..];
                }
            }
        }
        out.push_str(rest);
        out
    }

    fn value(&self, name: &str) -> Option<&str> {
        match name {
            "model" => Some(&self.model),
            "model-name" => Some(&self.model_name),
            "host" => Some(&self.host),
            "port" => Some(&self.port),
            "side-port" => Some(&self.side_port),
            "packages" => Some(&self.packages),
            "revision" => self.revision.as_deref(),
            "draft" => self.draft.as_deref(),
            _ => None,
        }
    }
}

/// What the program receives.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The arguments after the program.
    pub arguments: Vec<String>,
    /// The environment variables set for it.
    pub environment: BTreeMap<String, String>,
}

/// Whether an engine has a draft model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drafts {
    /// The provision stage names one.
    Yes,
    /// The provision stage names none.
    No,
}

/// Returns the arguments and environment of a launch: the fixed arguments, then the flags of the
/// settings in the order of their names, with lists last. If both the launch and a setting set a
/// variable, the setting wins.
pub fn render(engine: &Engine, resolved: &BTreeMap<String, Json>, paths: &Paths) -> Rendered {
    let pinned = paths.revision.iter();
    let pinned = pinned.flat_map(|_| &engine.launch.revision_arguments);
    let drafts = paths.draft.iter();
    let drafts = drafts.flat_map(|_| &engine.launch.draft_arguments);
    let fixed = engine.launch.arguments.iter().chain(pinned).chain(drafts);
    let fixed = fixed.map(|a| paths.fill(a));
    // The values of settings are never searched for placeholders.
    let given = || {
        engine
            .settings
            .iter()
            .filter_map(|(name, setting)| Some((setting, resolved.get(name)?)))
    };
    let (lists, flags): (Vec<_>, Vec<_>) =
        given().partition(|(setting, _)| setting.kind == SettingType::List);
    let flags = flags
        .into_iter()
        .chain(lists)
        .flat_map(|(setting, value)| setting.arguments(value, &paths.side_port));
    let variables = given().flat_map(|(setting, value)| setting.variables(value, &paths.side_port));
    let environment = engine
        .launch
        .environment
        .iter()
        .map(|(name, value)| (name.clone(), paths.fill(value)))
        .chain(variables)
        .collect();
    Rendered {
        arguments: fixed.chain(flags).collect(),
        environment,
    }
}

/// Returns whether an engine with these settings listens on a second port.
pub fn uses_side_port(engine: &Engine, resolved: &BTreeMap<String, Json>) -> bool {
    let command = template(engine, resolved, "", None, Drafts::No);
    let mut texts = command.arguments.iter().chain(command.environment.values());
    texts.any(|text| text.contains(SIDE_PORT))
}

/// Returns the same with the placeholders kept, as a descriptor holds it.
pub fn template(
    engine: &Engine,
    resolved: &BTreeMap<String, Json>,
    model_name: &str,
    revision: Option<&str>,
    drafts: Drafts,
) -> Rendered {
    let paths = Paths::placeholders(model_name, revision).drafting(drafts);
    render(engine, resolved, &paths)
}
