//! Units in settings.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// A unit. YAML reads an unquoted `1`, the unit of counts and shares, as a number. This number stands for the text.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum UnitText {
    /// Any unit.
    Text(String),
    /// The unit `1`.
    One(u8),
}

impl UnitText {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::One(one) => one.to_string(),
        }
    }
}

impl JsonSchema for UnitText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "UnitText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "integer"], "minimum": 1, "maximum": 1})
    }
}

/// Reads units by the names of their columns, for `deserialize_with`.
///
/// # Errors
/// If a unit is neither a text nor a small number.
pub fn units<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let units = BTreeMap::<String, UnitText>::deserialize(from)?;
    let texts = units.into_iter().map(|(name, unit)| (name, unit.text()));
    Ok(texts.collect())
}

/// Reads the unit of a column, for `deserialize_with`.
///
/// # Errors
/// If it is neither a text nor a small number.
pub fn unit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Some(UnitText::deserialize(from)?.text()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Settings;

    #[derive(Debug, Deserialize, JsonSchema)]
    struct Columns {
        #[serde(default, deserialize_with = "units")]
        #[schemars(with = "BTreeMap<String, UnitText>")]
        units: BTreeMap<String, String>,
    }

    fn read(units: &serde_json::Value) -> Result<BTreeMap<String, String>, Vec<String>> {
        let settings = Settings {
            values: json!({"units": units}).as_object().unwrap().clone(),
            route: &[],
            what: "table `made`".to_owned(),
        };
        let columns = settings.read::<Columns>();
        columns
            .map(|columns| columns.units)
            .map_err(|problems| problems.into_iter().map(|p| p.message).collect())
    }

    #[test]
    fn the_unit_1_needs_no_quotes() {
        let plain = read(&json!({"share": 1, "wait": "ms"})).unwrap();
        assert_eq!(plain, read(&json!({"share": "1", "wait": "ms"})).unwrap());
        assert_eq!(plain["share"], "1");
        for other in [json!(2), json!(0), json!(1.5), json!(true)] {
            assert!(read(&json!({"share": other})).is_err(), "{other}");
        }
    }
}
