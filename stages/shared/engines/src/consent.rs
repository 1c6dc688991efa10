//! What you consent to when you let an engine start: the parts of its definition that decide which
//! programs run with which arguments, and the free texts that an experiment adds.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::effect::{Consent, Effect, What};
use pipeline::sources::NamedFiles;
use pipeline::{Json, Library};
use serde_json::json;

use crate::command::{Drafts, template};
use crate::engine::{Engine, Program};
use crate::package::Package;
use crate::settings::{Setting, SettingType};
use crate::variables::set_for_version;

/// The settings of an engine by name, with their values.
type Settings = BTreeMap<String, Json>;

/// Returns whether a setting takes any text.
fn is_text(setting: &Setting) -> bool {
    setting.kind == SettingType::Text && setting.choices.is_empty()
}

impl Engine {
    /// Returns the parts of the definition that decide what is executed and where the key is sent.
    /// Left out are its title and version, its log patterns, and the bounds of its numbers.
    fn executed(&self) -> Json {
        let settings: BTreeMap<&String, Json> = self
            .settings
            .iter()
            .map(|(name, s)| {
                // A default that is a number, a switch or a choice is harmless.
                let default = is_text(s) || s.kind == SettingType::List;
                let parts = json!({
                    "type": s.kind, "choices": s.choices, "flags": s.flags, "environment": s.environment,
                    "when-true": s.when_true, "when-false": s.when_false,
                    "default": default.then_some(&s.default),
                });
                (name, parts)
            })
            .collect();
        let endpoints = match &self.launch.program {
            Program::Running(_) => json!(self.endpoints),
            _ => Json::Null,
        };
        json!({
            "launch": self.launch, "packages": self.packages, "settings": settings,
            "endpoints": endpoints,
        })
    }

    /// Returns what you consent to by letting this engine start with these settings; `None` for a
    /// running server that receives no key.
    pub fn consent(&self, settings: &Settings) -> Option<Consent> {
        if matches!(self.launch.program, Program::Running(_)) && self.launch.api_key_env.is_none() {
            return None;
        }
        let selected = |wanted: fn(&Setting) -> bool| -> Settings {
            let given = settings.iter().filter(|(name, value)| {
                let setting = self.settings.get(*name);
                setting.is_some_and(|s| wanted(s) && s.default != **value) && !value.is_null()
            });
            given.map(|(n, v)| (n.clone(), v.clone())).collect()
        };
        Some(Consent {
            definition: self.executed(),
            texts: selected(is_text),
            arguments: selected(|s| s.kind == SettingType::List),
        })
    }

    /// Returns the effect of starting it with these settings, or of connecting to a running one.
    pub fn start(
        &self,
        settings: &Settings,
        model_name: &str,
        revision: Option<&str>,
        drafts: Drafts,
    ) -> Effect {
        let program = match &self.launch.program {
            Program::Running(urls) => {
                return Effect {
                    what: What::Reach {
                        url: urls.all().join(" "),
                        key: self.launch.api_key_env.clone(),
                    },
                    consent: self.consent(settings),
                };
            }
            Program::Packaged(path) => vec![format!("{{packages}}/{path}")],
            Program::Python(_) | Program::Worker(_) | Program::WorkerFile(_) => {
                ["python3", "-I", "-B", "{launcher}"]
                    .map(str::to_owned)
                    .to_vec()
            }
            Program::Installed(name) => vec![name.clone()],
        };
        let rendered = template(self, settings, model_name, revision, drafts);
        let what = What::Start {
            purpose: self.title.clone(),
            program,
            arguments: rendered.arguments,
            environment: rendered.environment,
            inherits: self.launch.inherit.clone(),
            script: match &self.launch.program {
                Program::Python(text) | Program::Worker(text) => Some(text.clone()),
                _ => None,
            },
        };
        Effect {
            what,
            consent: self.consent(settings),
        }
    }

    /// Returns the effects of sending the contents of files to this engine, if it already runs: each prompt may carry a
    /// part of such a file. They need consent even if the engine's definition does not, because the experiment chooses
    /// the file.
    pub fn sends(&self, files: &NamedFiles) -> Vec<Effect> {
        let Program::Running(urls) = &self.launch.program else {
            return Vec::new();
        };
        let url = urls.all().join(" ");
        let effect = |file: &Path| {
            let file = file.to_string_lossy().into_owned();
            Effect {
                consent: Some(Consent {
                    definition: json!({"sends": file, "to": url}),
                    texts: BTreeMap::new(),
                    arguments: BTreeMap::new(),
                }),
                what: What::Send {
                    file,
                    url: url.clone(),
                },
            }
        };
        files.sent().into_iter().map(effect).collect()
    }

    /// Returns the effect of asking an installed program for its version.
    pub fn ask_version(&self) -> Option<Effect> {
        let Program::Installed(name) = &self.launch.program else {
            return None;
        };
        if self.launch.version_arguments.is_empty() {
            return None;
        }
        let what = What::Start {
            purpose: format!("{}: its version", self.title),
            program: vec![name.clone()],
            arguments: self.launch.version_arguments.clone(),
            environment: set_for_version(self, Some("{packages}")),
            inherits: self.launch.inherit.clone(),
            script: None,
        };
        Some(Effect {
            what,
            consent: self.consent(&Settings::new()),
        })
    }
}

impl Package {
    /// Returns the effect of fetching it. Its bytes are pinned and fetching runs none of its code;
    /// starting it needs its own consent.
    pub fn fetched(&self) -> Effect {
        let registry = json!(self.registry).as_str().unwrap_or_default().to_owned();
        let what = What::Fetch {
            registry,
            package: format!("{} {}", self.name, self.version),
            files: self.files.iter().map(|f| f.name.clone()).collect(),
            bytes: self.files.iter().map(|f| f.bytes).max().unwrap_or(0),
        };
        Effect {
            what,
            consent: None,
        }
    }
}

/// Returns the parts that decide what is executed, for each readable engine of a library.
pub fn executed_by(library: &dyn Library) -> Vec<Json> {
    let engines = Engine::all(library).into_iter();
    engines.map(|engine| engine.executed()).collect()
}

#[cfg(test)]
mod tests {
    use pipeline::sources::NamedFile;

    use super::*;

    fn engine(change: impl FnOnce(&mut Json)) -> Engine {
        let mut definition = json!({
            "title": "Shell", "version": "1",
            "launch": {
                "program": {"installed": "sh"}, "arguments": ["--port", "{port}"],
                "version-arguments": ["--version"],
            },
            "settings": {
                "threads": {"type": "integer", "default": 1, "flags": ["-t", "{}"]},
                "dtype": {"type": "text", "flags": ["-d", "{}"]},
                "cache": {"type": "text", "choices": ["on", "off"], "flags": ["-c", "{}"]},
                "extra": {"type": "list", "flags": []},
            },
        });
        change(&mut definition);
        Engine::from_json(&definition).unwrap()
    }

    fn settings(values: Json) -> Settings {
        serde_json::from_value(values).unwrap()
    }

    #[test]
    fn commands_change_the_consent_and_descriptions_do_not() {
        let consent = |e: &Engine| e.consent(&Settings::new()).unwrap().digest();
        let one = consent(&engine(|_| {}));
        type Change = fn(&mut Json);
        let changes: [Change; 3] = [
            |d| d["title"] = json!("Another title"),
            |d| d["version"] = json!("2"),
            |d| d["settings"]["threads"]["max"] = json!(64),
        ];
        for change in changes {
            assert_eq!(consent(&engine(change)), one);
        }
        let executed: [Change; 7] = [
            |d| d["settings"]["extra"]["default"] = json!(["--load", "evil"]),
            |d| d["launch"]["program"] = json!({"installed": "bash"}),
            |d| d["launch"]["arguments"] = json!(["{port}"]),
            |d| d["launch"]["environment"] = json!({"LD_PRELOAD": "/tmp/x.so"}),
            |d| d["launch"]["inherit"] = json!(["AWS_SECRET_ACCESS_KEY"]),
            |d| d["launch"]["version-arguments"] = json!(["-c", "exit"]),
            |d| d["settings"]["threads"]["flags"] = json!(["-c", "{}"]),
        ];
        for change in executed {
            assert_ne!(consent(&engine(change)), one);
        }
    }

    #[test]
    fn numbers_and_choices_ask_nothing_and_free_texts_and_arguments_do() {
        let engine = engine(|_| {});
        let consent = |values: Json| engine.consent(&settings(values)).unwrap();
        let plain = consent(json!({}));
        assert_eq!(consent(json!({"threads": 8, "cache": "off"})), plain);
        let text = consent(json!({"dtype": "$(evil)"}));
        assert_ne!(text.digest(), plain.digest());
        assert!(text.arguments.is_empty());
        let arguments = consent(json!({"extra": ["--load", "evil"]}));
        assert_ne!(arguments.digest(), plain.digest());
        assert_eq!(arguments.arguments.len(), 1);
    }

    #[test]
    fn files_that_are_sent_to_a_running_server_ask_each_and_others_do_not() {
        let file = |name: &str, sent: bool| NamedFile {
            path: name.into(),
            name: name.to_owned(),
            digest: artifacts::Digest::of(name.as_bytes()),
            stamp: None,
            sent: sent.then(|| format!("/home/{name}").into()),
        };
        let sources = [file("a", true), file("b", true), file("tokenizer", false)];
        let files = NamedFiles::new(sources, Path::new(""), None);
        let running = engine(|d| {
            d["launch"] = json!({"program": {"running": "http://127.0.0.1:1"}});
            d["settings"] = json!({});
        });
        let sends = running.sends(&files);
        let digests: Vec<_> = sends
            .iter()
            .map(|e| e.consent.as_ref().unwrap().digest())
            .collect();
        assert_eq!(digests.len(), 2);
        assert_ne!(digests[0], digests[1]);
        let what = What::Send {
            file: "/home/a".to_owned(),
            url: "http://127.0.0.1:1".to_owned(),
        };
        assert_eq!(sends[0].what, what);
        assert!(
            engine(|_| {}).sends(&files).is_empty(),
            "Benchtrail starts it on this machine"
        );
    }

    #[test]
    fn a_running_server_asks_only_where_a_key_is_sent() {
        let running = |key: Json| {
            engine(|d| {
                d["launch"] = json!({"program": {"running": "http://127.0.0.1:1"}});
                d["settings"] = json!({});
                if !key.is_null() {
                    d["launch"]["api-key-env"] = key;
                }
            })
        };
        assert!(running(Json::Null).consent(&Settings::new()).is_none());
        let one = running(json!("ONE")).consent(&Settings::new()).unwrap();
        let two = running(json!("TWO")).consent(&Settings::new()).unwrap();
        assert_ne!(one.digest(), two.digest());
    }
}
