//! What a running server may hold, and what its settings promise.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A limit of the running server, such as the context one request may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limit {
    /// The path of the JSON document that contains it, for example `/props`.
    pub path: String,
    /// Where in the document it is: a JSON pointer, for example `/total_slots`.
    pub pointer: String,
    /// The setting that declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// The setting by which the declared value is divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divided_by: Option<String>,
    /// A boolean setting. If it is true, the declared value is not divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undivided_with: Option<String>,
    /// The server rounds the declared value, after its division, up to a multiple of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<NonZeroU64>,
}

impl Limit {
    /// Returns the limit that the settings promise, where `setting` returns the value of a setting by its name. Returns
    /// `None` if the settings do not imply a limit.
    pub fn promised<'a>(&self, setting: impl Fn(&str) -> Option<&'a Json>) -> Option<u64> {
        let declared = setting(self.setting.as_deref()?)?.as_u64()?;
        let share = declared.checked_div(self.divisor(setting)?)?;
        share.checked_next_multiple_of(self.multiple_of.map_or(1, NonZeroU64::get))
    }

    /// Returns the number by which the declared value is divided: 1 if it is not divided.
    pub fn divisor<'a>(&self, setting: impl Fn(&str) -> Option<&'a Json>) -> Option<u64> {
        let whole = self.undivided_with.as_deref().and_then(&setting);
        match &self.divided_by {
            Some(name) if whole.and_then(Json::as_bool) != Some(true) => setting(name)?.as_u64(),
            _ => Some(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_divided_and_rounded_as_the_server_does_it() {
        let limit: Limit = serde_json::from_value(json!({
            "path": "/props", "pointer": "/n_ctx", "setting": "context", "divided-by": "parallel",
            "undivided-with": "shared", "multiple-of": 256,
        }))
        .unwrap();
        let promised = |context: u64, parallel: u64, shared: bool| {
            let settings = json!({"context": context, "parallel": parallel, "shared": shared});
            limit.promised(|name| settings.get(name))
        };
        assert_eq!(promised(512, 4, false), Some(256));
        assert_eq!(promised(2048, 4, false), Some(512));
        assert_eq!(promised(2048, 4, true), Some(2048));
        assert_eq!(promised(2048, 0, false), None);
        assert_eq!(promised(u64::MAX, 1, true), None);
        assert_eq!(limit.promised(|_| None), None);
    }
}
