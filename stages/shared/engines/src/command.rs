//! The launch command: an engine, its resolved settings and a few paths become arguments.

use std::collections::BTreeMap;

use pipeline::Json;

use crate::engine::Engine;

/// What the placeholders of a launch stand for.
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
    /// `{packages}`: the folder of the unpacked packages.
    pub packages: String,
}

impl Paths {
    /// Returns the paths under which a placeholder stands for itself, except the model's name:
    /// what a descriptor may hold, since it is the same on every machine.
    pub fn placeholders(model_name: &str) -> Self {
        let own = |name: &str| format!("{{{name}}}");
        Self {
            model: own("model"),
            model_name: model_name.to_owned(),
            host: own("host"),
            port: own("port"),
            packages: own("packages"),
        }
    }

    fn fill(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        // One pass: what is filled in is never searched for placeholders itself.
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
            "packages" => Some(&self.packages),
            _ => None,
        }
    }
}

/// What to pass to the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The arguments after the program.
    pub arguments: Vec<String>,
    /// The environment variables set for it.
    pub environment: BTreeMap<String, String>,
}

/// Returns the arguments and environment of a launch: the fixed arguments, then the flags of
/// the settings in the order of their names.
pub fn render(engine: &Engine, resolved: &BTreeMap<String, Json>, paths: &Paths) -> Rendered {
    let fixed = engine.launch.arguments.iter().map(|a| paths.fill(a));
    // A setting's value is never searched for placeholders.
    let flags = engine
        .settings
        .iter()
        .flat_map(|(name, setting)| match resolved.get(name) {
            Some(value) => setting.arguments(value),
            None => Vec::new(),
        });
    let environment = engine
        .launch
        .environment
        .iter()
        .map(|(name, value)| (name.clone(), paths.fill(value)))
        .collect();
    Rendered {
        arguments: fixed.chain(flags).collect(),
        environment,
    }
}

/// Returns the same with the placeholders left standing: what a descriptor holds.
pub fn template(engine: &Engine, resolved: &BTreeMap<String, Json>, model_name: &str) -> Rendered {
    render(engine, resolved, &Paths::placeholders(model_name))
}
