//! Determines from an engine's definition and settings whether a server keeps the prefixes of earlier prompts.
//!
//! The definition keeps this apart from what is executed, so it is not part of any measurement's key. The stage
//! receives it during planning, by the names of the engines behind it.

use std::collections::{BTreeMap, BTreeSet};

use contract::{AS_DECLARED, PromptCache};
use pipeline::{Json, Library, Needed};
use serde::{Deserialize, Serialize};

use crate::comparability::is_running_already;

/// The prompt caches of a study's engines, by the names of their definitions.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct PromptCaches(BTreeMap<String, PromptCache>);

impl PromptCaches {
    /// Reads the definitions of the engines that the stages behind a verify stage name.
    pub(crate) fn of(behind: &[Needed<'_>], library: &dyn Library) -> Self {
        let provisions = behind.iter().filter(|needed| needed.kind == "provision");
        let engines = provisions.filter_map(|needed| needed.parameters["engines"].as_array());
        let names = engines
            .flatten()
            .filter_map(|engine| engine["name"].as_str());
        let names: BTreeSet<&str> = names.collect();
        let cache = |name: &str| {
            let mut definition = library.find("engines", name)?;
            serde_json::from_value(definition.get_mut("prompt-cache")?.take()).ok()
        };
        Self(
            names
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), cache(name)?)))
                .collect(),
        )
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the evidence that the cache of a server is off; `None` if it may be on. For a group, every role needs
    /// evidence.
    pub(crate) fn off(&self, descriptor: &Json) -> Option<String> {
        let mut all = vec![descriptor];
        let roles = descriptor["roles"].as_object();
        all.extend(roles.into_iter().flatten().map(|(_, role)| &role["server"]));
        let how: Option<BTreeSet<String>> = all.into_iter().map(|one| self.off_of(one)).collect();
        Some(how?.into_iter().collect::<Vec<_>>().join(" and "))
    }

    fn off_of(&self, server: &Json) -> Option<String> {
        let cache = self.0.get(server["engine"]["name"].as_str()?)?;
        let running = is_running_already(server);
        let settings = &server[if running {
            "declared_settings"
        } else {
            "settings"
        }];
        let name = cache.setting.as_deref();
        // For a running server, an undeclared setting does not have the default here.
        if running && settings[name?].is_null() {
            return None;
        }
        if !cache.is_off(|name| settings.get(name)) {
            return None;
        }
        let mark = if running { AS_DECLARED } else { "" };
        Some(match name {
            Some(name) if !settings[name].is_null() => {
                format!("`{name}` is {}{mark}", settings[name])
            }
            _ => "the engine keeps none".to_owned(),
        })
    }
}
