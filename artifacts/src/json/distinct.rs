//! JSON values whose objects have each key once. Of two values of one key, programs read the first or the last, so they
//! would read different numbers.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A value in which no object has a key twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distinct(pub Value);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Distinct(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                let key: String = key.chars().take(64).collect();
                return Err(A::Error::custom(format!(
                    "an object has the key {key:?} twice"
                )));
            }
            let Distinct(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_there_twice_is_an_error_and_anything_else_is_read_as_usual() {
        for text in [
            "null",
            "[true, -1, 18446744073709551615, 1.5e300, \"\\u00e9\", {}, []]",
            r#"{"a": {"b": 1}, "b": [{"a": 2}, {"a": 3}], "": null}"#,
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            let Distinct(ours) = serde_json::from_str(text).unwrap();
            assert_eq!(ours, plain);
            assert_eq!(ours.to_string(), plain.to_string());
        }
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"[{"b": {"a": 1, "x": 2, "\u0061": 3}}]"#,
        ] {
            let refused = serde_json::from_str::<Distinct>(text).unwrap_err();
            assert!(
                refused.to_string().contains("the key \"a\" twice"),
                "{refused}"
            );
        }
        let deep = "[".repeat(100_000);
        assert!(serde_json::from_str::<Distinct>(&deep).is_err());
    }
}
