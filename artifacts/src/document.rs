//! Documents: JSON artifacts, and the values in them that a report can name.

use serde_json::Value as Json;

use crate::Scalar;

/// Returns the value of a document at a path of keys and indices joined by full stops (`settings.workloads.0.name`). A
/// key may contain full stops if no shorter key matches.
pub fn at_path<'a>(document: &'a Json, path: &str) -> Option<&'a Json> {
    if path.is_empty() {
        return Some(document);
    }
    path.match_indices('.')
        .map(|(i, _)| i)
        .chain([path.len()])
        .find_map(|end| {
            let child = match document {
                Json::Object(map) => map.get(&path[..end]),
                Json::Array(items) => path[..end].parse::<usize>().ok().and_then(|i| items.get(i)),
                _ => None,
            };
            at_path(child?, path.get(end + 1..).unwrap_or(""))
        })
}

impl Scalar {
    /// Returns a JSON value as a scalar; `None` for arrays and objects.
    pub fn from_json(value: &Json) -> Option<Self> {
        Some(match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(value) => match value.as_i64() {
                Some(int) => Self::Int(int),
                None => Self::Float(value.as_f64()?),
            },
            Json::String(text) => Self::Text(text.clone()),
            Json::Array(_) | Json::Object(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_through_keys_indices_and_keys_with_full_stops() {
        let document = json!({"a": {"b.c": [10, {"d": "x"}]}, "a.b": 1});
        assert_eq!(at_path(&document, "a.b.c.0"), Some(&json!(10)));
        assert_eq!(at_path(&document, "a.b.c.1.d"), Some(&json!("x")));
        assert_eq!(at_path(&document, "a.b"), Some(&json!(1)));
        assert_eq!(at_path(&document, ""), Some(&document));
        assert_eq!(
            (at_path(&document, "a.c"), at_path(&document, "a.b.c.2")),
            (None, None)
        );
    }

    #[test]
    fn only_single_values_are_scalars() {
        assert_eq!(Scalar::from_json(&json!(7)), Some(Scalar::Int(7)));
        assert_eq!(Scalar::from_json(&json!(7.5)), Some(Scalar::Float(7.5)));
        assert_eq!(Scalar::from_json(&json!(null)), Some(Scalar::Null));
        assert_eq!(Scalar::from_json(&json!([1])), None);
    }
}
