//! How a cell is written: `ladder[workload=short-decode,rep=1]`, one spelling per cell.

use artifacts::Scalar;

use crate::stage::Coordinates;

/// Returns coordinates as files and messages write them: `axis=label,axis=label`, nothing for
/// a stage without axes. Labels of different types never look alike: text that could be taken
/// for something else (`"1"`, `"true"`, `"a,b"`) is quoted as in JSON.
pub fn coordinates_text(coordinates: &Coordinates) -> String {
    let mut text = String::new();
    for (axis, label) in &coordinates.0 {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(axis);
        text.push('=');
        push_label(&mut text, label);
    }
    text
}

/// Returns a cell as files and messages write it: the stage, and the coordinates if it has any.
pub fn cell_text(stage: &str, coordinates: &str) -> String {
    if coordinates.is_empty() {
        stage.to_owned()
    } else {
        format!("{stage}[{coordinates}]")
    }
}

/// Appends a label in its one spelling.
pub(crate) fn push_label(text: &mut String, label: &Scalar) {
    use std::fmt::Write as _;
    let written = match label {
        Scalar::Text(value) if is_plain(value) => {
            text.push_str(value);
            Ok(())
        }
        Scalar::Text(value) => {
            write!(text, "{}", serde_json::Value::String(value.clone()))
        }
        Scalar::Float(value) => write!(text, "{value:?}"),
        other => write!(text, "{other}"),
    };
    written.expect("writing to a string never fails");
}

/// Whether text needs no quotes: starts with a letter, goes on with harmless characters, and
/// is no word with a meaning of its own.
fn is_plain(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:+@".contains(c))
        && !matches!(text, "null" | "true" | "false" | "inf" | "NaN")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_different_types_never_look_alike() {
        let labels = [
            Scalar::Int(1),
            Scalar::Float(1.0),
            Scalar::Text("1".into()),
            Scalar::Text("true".into()),
            Scalar::Bool(true),
            Scalar::Null,
            Scalar::Text("null".into()),
            Scalar::Text("a,b".into()),
            Scalar::Text("short-decode".into()),
        ];
        let texts: Vec<String> = labels
            .iter()
            .map(|l| coordinates_text(&Coordinates(vec![("x".into(), l.clone())])))
            .collect();
        assert_eq!(
            texts,
            [
                "x=1",
                "x=1.0",
                "x=\"1\"",
                "x=\"true\"",
                "x=true",
                "x=null",
                "x=\"null\"",
                "x=\"a,b\"",
                "x=short-decode"
            ]
        );
    }
}
