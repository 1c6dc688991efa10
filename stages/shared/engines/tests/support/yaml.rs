//! YAML to JSON for tests of definitions: plain mappings, sequences and scalars.

use pipeline::Json;
use saphyr_parser::{Event, Parser, ScalarStyle};

/// Reads one YAML document.
pub(crate) fn read(text: &str) -> Json {
    let events = Parser::new_from_str(text).map(|e| e.expect("valid YAML").0);
    let mut events = events.filter(|e| {
        !matches!(
            e,
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd
        )
    });
    value(&mut events).expect("a document")
}

fn value<'a>(events: &mut impl Iterator<Item = Event<'a>>) -> Option<Json> {
    match events.next()? {
        Event::Scalar(text, style, ..) => Some(scalar(&text, style)),
        Event::SequenceStart(..) => {
            Some(Json::Array(std::iter::from_fn(|| value(events)).collect()))
        }
        Event::MappingStart(..) => {
            let mut map = serde_json::Map::new();
            while let Some(key) = value(events) {
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                map.insert(key, value(events).expect("a key has a value"));
            }
            Some(Json::Object(map))
        }
        Event::SequenceEnd | Event::MappingEnd => None,
        other => panic!("unexpected in a definition: {other:?}"),
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Json {
    if style != ScalarStyle::Plain {
        return Json::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" => Json::Null,
        "true" => Json::Bool(true),
        "false" => Json::Bool(false),
        _ => serde_json::from_str(text)
            .ok()
            .filter(Json::is_number)
            .unwrap_or_else(|| Json::String(text.to_owned())),
    }
}
