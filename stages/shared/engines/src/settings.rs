//! Typed settings: what an experiment may set for an engine, and how a setting becomes flags.

use std::collections::BTreeMap;

use pipeline::suggest::remedy;
use pipeline::{Json, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::SIDE_PORT;

/// One setting of an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Setting {
    /// The type of its value.
    #[serde(rename = "type")]
    pub kind: SettingType,
    /// The default value; `null` omits the flag, so that the engine's own default applies.
    #[serde(default)]
    pub default: Json,
    /// The smallest number allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The largest number allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// The texts allowed; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The arguments for the setting; `{}` is replaced by the value. Not for booleans. All arguments and variables of a
    /// setting may contain `{side-port}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Environment variables to set; `{}` is replaced by the value, which is 1 or 0 for a boolean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The arguments a boolean becomes when true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when_true: Vec<String>,
    /// The arguments a boolean becomes when false.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when_false: Vec<String>,
    /// The purpose of the setting, for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Where a real engine ran with this setting, and with which values; `null` if nobody recorded such a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_on: Option<String>,
}

/// The type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingType {
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A text.
    Text,
    /// A list of texts, each a separate argument. They follow all other arguments.
    List,
}

impl SettingType {
    fn phrase(self) -> &'static str {
        match self {
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "`true` or `false`",
            Self::Text => "a text",
            Self::List => "a list of texts",
        }
    }

    fn accepts(self, value: &Json) -> bool {
        match self {
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Text => value.is_string(),
            Self::List => value
                .as_array()
                .is_some_and(|items| items.iter().all(Json::is_string)),
        }
    }
}

impl Setting {
    /// Returns what to write in place of a value that [`Setting::check`] refuses, and what the setting is for.
    pub fn remedy(&self, name: &str, value: &Json) -> Option<String> {
        let meant = match self.kind {
            SettingType::Integer => pipeline::language::number_meant(value, false),
            SettingType::Number => pipeline::language::number_meant(value, true),
            SettingType::Boolean => value.as_str().and_then(pipeline::language::truth_meant),
            _ => None,
        };
        let help = self.help.as_ref().map(|help| format!("`{name}`: {help}"));
        match (meant, help) {
            (Some(meant), Some(help)) => Some(format!("{meant}. {help}")),
            (meant, help) => meant.or(help),
        }
    }

    /// Checks a value.
    ///
    /// # Errors
    /// A phrase that follows the setting's name: `must be at least 1, got 0`.
    pub fn check(&self, value: &Json) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        if !self.kind.accepts(value) {
            return Err(format!("must be {}, got {value}", self.kind.phrase()));
        }
        if let Some(number) = value.as_f64() {
            if let Some(min) = self.min.filter(|min| number < *min) {
                return Err(format!("must be at least {min}, got {value}"));
            }
            if let Some(max) = self.max.filter(|max| number > *max) {
                return Err(format!("must be at most {max}, got {value}"));
            }
        }
        if let Some(text) = value.as_str()
            && !self.choices.is_empty()
            && !self.choices.iter().any(|c| c == text)
        {
            return Err(format!(
                "must be one of {}, got `{text}`",
                self.choices.join(", ")
            ));
        }
        Ok(())
    }

    /// Returns the arguments for a (checked) value; none for `null`.
    pub fn arguments(&self, value: &Json, side_port: &str) -> Vec<String> {
        // The value comes last, so that nothing in it is replaced.
        let fill = |forms: &[String], value: &str| -> Vec<String> {
            let with_port = forms.iter().map(|form| form.replace(SIDE_PORT, side_port));
            with_port.map(|form| form.replace("{}", value)).collect()
        };
        match value {
            Json::Null => Vec::new(),
            Json::Bool(true) => fill(&self.when_true, "{}"),
            Json::Bool(false) => fill(&self.when_false, "{}"),
            Json::String(text) => fill(&self.flags, text),
            Json::Array(items) => items
                .iter()
                .filter_map(Json::as_str)
                .map(str::to_owned)
                .collect(),
            other => fill(&self.flags, &other.to_string()),
        }
    }

    /// Returns the environment variables for a (checked) value; none for `null`.
    pub fn variables(&self, value: &Json, side_port: &str) -> BTreeMap<String, String> {
        let text = match value {
            Json::Null => return BTreeMap::new(),
            Json::Bool(is) => u8::from(*is).to_string(),
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        let fill = |(name, form): (&String, &String)| {
            let form = form.replace(SIDE_PORT, side_port);
            (name.clone(), form.replace("{}", &text))
        };
        self.environment.iter().map(fill).collect()
    }
}

/// Finds the setting behind an option of the engine's own command line, such as `--ctx-size` for `ctx_size`.
fn setting_of_option<'a>(settings: &'a BTreeMap<String, Setting>, option: &str) -> Option<&'a str> {
    let fold = |text: &str| {
        let word = text.split(['=', ' ']).next().unwrap_or(text);
        word.trim_start_matches('-')
            .replace('_', "-")
            .to_lowercase()
    };
    let option = fold(option);
    let becomes = |setting: &Setting| {
        let arguments = [&setting.flags, &setting.when_true, &setting.when_false];
        let mut options = arguments
            .into_iter()
            .flatten()
            .filter(|a| a.starts_with('-'));
        options.any(|argument| fold(argument) == option)
    };
    let setting = settings.iter().find(|(_, setting)| becomes(setting));
    setting.map(|(name, _)| name.as_str())
}

/// Names of settings and options that have one purpose in different engines. What they count may differ: the context of
/// llama.cpp is that of all slots together.
const ONE_PURPOSE: &[&[&str]] = &[
    &[
        "context",
        "context-length",
        "max-model-len",
        "session-len",
        "context-size",
        "ctx-size",
        "n-ctx",
        "num-ctx",
        "max-seq-len",
        "max-length",
    ],
    &[
        "parallel",
        "max-num-seqs",
        "max-running-requests",
        "max-batch-size",
        "max-concurrent-requests",
        "n-parallel",
        "num-parallel",
    ],
    &[
        "gpu-memory-utilization",
        "mem-fraction-static",
        "cuda-memory-fraction",
        "cache-max-entry-count",
    ],
    &[
        "prefix-caching",
        "radix-cache",
        "prompt-cache",
        "enable-prefix-caching",
        "disable-radix-cache",
        "cache-prompt",
    ],
    &[
        "tensor-parallel-size",
        "tp",
        "tp-size",
        "tensor-parallel",
        "num-shard",
    ],
    &["pipeline-parallel-size", "pp", "pp-size"],
    &["data-parallel-size", "dp", "dp-size"],
    &["threads", "n-threads", "num-threads", "cpu-threads"],
    &["dtype", "torch-dtype", "data-type"],
    &["quantization", "quantize"],
    &["flash-attention", "flash-attn"],
    &["kv-cache-dtype", "cache-type-k"],
    &["seed", "random-seed"],
];

/// Returns the value of a boolean setting that an option with the value `true` stands for, as `no-prefix-caching: true` does.
fn meant_by_option(setting: &Setting, option: &str, value: &Json) -> Option<bool> {
    let is_option = |form: &String| form.trim_start_matches('-') == option.trim_start_matches('-');
    match value {
        Json::Bool(true) if setting.when_false.iter().any(is_option) => Some(false),
        Json::Bool(true) if setting.when_true.iter().any(is_option) => Some(true),
        _ => None,
    }
}

/// Returns whether a name that is not a setting still leads to one: as an option of the engine, or as the name that another
/// engine has for its purpose.
pub fn stands_for_setting(settings: &BTreeMap<String, Setting>, name: &str) -> bool {
    setting_of_option(settings, name).is_some() || setting_like(settings, name).is_some()
}

/// Finds the setting with the purpose that a name has in another engine, and what it is for.
fn setting_like<'a>(
    settings: &'a BTreeMap<String, Setting>,
    name: &str,
) -> Option<(&'a str, Option<&'a str>)> {
    let folded = name.trim_start_matches('-').replace('_', "-");
    let folded = folded.to_lowercase();
    let group = ONE_PURPOSE
        .iter()
        .find(|group| group.contains(&folded.as_str()))?;
    let ours = group.iter().find_map(|name| settings.get_key_value(*name));
    ours.map(|(name, setting)| (name.as_str(), setting.help.as_deref()))
}

/// Returns what to write instead of a name that is not a setting but leads to one: an option of the engine, or the name that
/// another engine has for its purpose.
pub fn setting_meant(
    settings: &BTreeMap<String, Setting>,
    name: &str,
    value: &Json,
) -> Option<String> {
    if let Some(ours) = setting_of_option(settings, name) {
        let meant = meant_by_option(&settings[ours], name, value);
        let meant = meant.map_or_else(|| ours.to_owned(), |value| format!("{ours}: {value}"));
        return Some(format!(
            "write `{meant}`: that is the setting for the engine's option `{name}`"
        ));
    }
    setting_like(settings, name).map(|(ours, help)| match help {
        Some(help) => format!("write `{ours}`: {help}"),
        None => format!("write `{ours}`, which has the same purpose"),
    })
}

/// Checks all settings and returns each with its given value or its default.
///
/// # Errors
/// Every unknown name and invalid value, each with a route that begins with the setting's name.
pub fn resolve(
    settings: &BTreeMap<String, Setting>,
    given: &serde_json::Map<String, Json>,
) -> Result<BTreeMap<String, Json>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut resolved: BTreeMap<String, Json> = settings
        .iter()
        .map(|(name, setting)| (name.clone(), setting.default.clone()))
        .collect();
    for (name, value) in given {
        let Some(setting) = settings.get(name) else {
            let problem = Problem::at_key(&[name], format!("the engine has no setting `{name}`"));
            let hint = setting_meant(settings, name, value)
                .unwrap_or_else(|| remedy(name, "settings", settings.keys().map(String::as_str)));
            problems.push(problem.hint(hint));
            continue;
        };
        if let Err(phrase) = setting.check(value) {
            let problem = Problem::at(&[name], format!("the setting `{name}` {phrase}"));
            problems.push(match setting.remedy(name, value) {
                Some(hint) => problem.hint(hint),
                None => problem,
            });
        } else if !value.is_null() {
            resolved.insert(name.clone(), value.clone());
        }
    }
    if problems.is_empty() {
        Ok(resolved)
    } else {
        Err(problems)
    }
}
