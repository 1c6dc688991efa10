//! A server's state in JSON: llama.cpp's slots, SGLang's server info.

use std::collections::BTreeMap;
use std::path::Path;

use artifacts::TableError;
use artifacts::json::Distinct;
use contract::{ServerInfoChange, SlotSample};
use serde_json::Value;

use super::companion::{Companion, Sampled};
use crate::get::Endpoint;
use crate::sheet::Sheet;

/// The most slots of one answer.
const MOST_SLOTS: usize = 65_536;

/// Parses an answer.
fn document(body: &str) -> Result<Value, String> {
    match serde_json::from_str(body) {
        Ok(Distinct(value)) => Ok(value),
        // A key that is there twice leaves open which value the server means.
        Err(error) if error.is_data() => Err(error.to_string()),
        Err(error) => Err(format!("no JSON: {error}")),
    }
}

/// Parses the answer of `/slots`.
fn slots(body: &str, at_ns: i64) -> Result<Vec<SlotSample>, String> {
    let document = document(body)?;
    let list = document
        .as_array()
        .ok_or("the answer is not a list of slots")?;
    if list.len() > MOST_SLOTS {
        let count = list.len();
        return Err(format!(
            "the answer has {count} slots; the limit is {MOST_SLOTS}"
        ));
    }
    let rows = list.iter().enumerate().map(|(i, slot)| {
        // An object in older builds, a list with one object in newer ones.
        let next = &slot["next_token"];
        let next = if next.is_array() { &next[0] } else { next };
        let counted = |value: &Value| value.as_i64().filter(|n| *n >= 0);
        SlotSample {
            at_ns,
            slot: slot["id"].as_i64().unwrap_or(i as i64),
            processing: slot["is_processing"].as_bool(),
            task: counted(&slot["id_task"]),
            context_tokens: counted(&slot["n_ctx"]),
            prompt_tokens: counted(&slot["n_prompt_tokens"]),
            decoded_tokens: counted(&next["n_decoded"]),
            remaining_tokens: counted(&next["n_remain"]),
        }
    });
    Ok(rows.collect())
}

/// llama.cpp's slots as a companion.
pub(crate) struct Slots {
    endpoint: Endpoint,
    sheet: Sheet<SlotSample>,
}

impl Slots {
    /// Starts `slots`.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub(crate) fn new(
        folder: &Path,
        endpoint: Endpoint,
        interval_ms: &str,
    ) -> Result<Self, TableError> {
        let sheet = Sheet::create(folder, &[("interval_ms", interval_ms)])?;
        Ok(Self { endpoint, sheet })
    }
}

impl Companion for Slots {
    fn name(&self) -> &'static str {
        "slots"
    }

    fn sample(&mut self, at_ns: i64) -> Result<(), String> {
        self.sheet.room()?;
        for row in slots(&self.endpoint.text("application/json")?, at_ns)? {
            self.sheet.push(row).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Sampled {
        Sampled::of(self.sheet)
    }
}

/// The most numbers that are followed in one document, and the longest name of one, in bytes. A long key above many
/// numbers would be repeated in the name of each.
const FOLLOWED: usize = 4096;
const LONGEST_NAME: usize = 1024;

/// Collects the numbers of a document in the order of its keys, up to one more than are followed.
fn numbers(value: &Value, at: &mut String, values: &mut BTreeMap<String, f64>) {
    if at.len() > LONGEST_NAME || values.len() > FOLLOWED {
        return;
    }
    let mut below = |key: &str, value: &Value| {
        let length = at.len();
        at.push('/');
        at.push_str(&key.replace('~', "~0").replace('/', "~1"));
        numbers(value, at, values);
        at.truncate(length);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(i, value)| below(&i.to_string(), value)),
        Value::Bool(flag) => {
            values.insert(at.clone(), f64::from(u8::from(*flag)));
        }
        Value::Number(number) => {
            values.extend(
                number
                    .as_f64()
                    .filter(|v| v.is_finite())
                    .map(|v| (at.clone(), v)),
            );
        }
        Value::Null | Value::String(_) => {}
    }
}

/// SGLang's server info as a companion.
pub(crate) struct ServerInfo {
    endpoint: Endpoint,
    before: BTreeMap<String, f64>,
    sheet: Sheet<ServerInfoChange>,
}

impl ServerInfo {
    /// Starts `server_info`.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub(crate) fn new(
        folder: &Path,
        endpoint: Endpoint,
        interval_ms: &str,
    ) -> Result<Self, TableError> {
        let sheet = Sheet::create(folder, &[("interval_ms", interval_ms)])?;
        Ok(Self {
            endpoint,
            before: BTreeMap::new(),
            sheet,
        })
    }
}

/// Returns the new and changed numbers of a document, and remembers them. Also returns whether some are left out, because too
/// many different ones have been there.
fn changes(
    body: &str,
    at_ns: i64,
    before: &mut BTreeMap<String, f64>,
) -> Result<(Vec<ServerInfoChange>, bool), String> {
    let document = document(body)?;
    let mut values = BTreeMap::new();
    numbers(&document, &mut String::new(), &mut values);
    if values.len() > FOLLOWED {
        return Err(format!(
            "the answer has more than {FOLLOWED} numbers, so that none is followed"
        ));
    }
    let (mut rows, mut left_out) = (Vec::new(), false);
    for (name, value) in values {
        if before.len() == FOLLOWED && !before.contains_key(&name) {
            left_out = true;
        } else if before.get(&name) != Some(&value) {
            before.insert(name.clone(), value);
            rows.push(ServerInfoChange { at_ns, name, value });
        }
    }
    Ok((rows, left_out))
}

impl Companion for ServerInfo {
    fn name(&self) -> &'static str {
        "server_info"
    }

    fn sample(&mut self, at_ns: i64) -> Result<(), String> {
        self.sheet.room()?;
        let body = self.endpoint.text("application/json")?;
        let (rows, left_out) = changes(&body, at_ns, &mut self.before)?;
        for row in rows {
            self.sheet.push(row).map_err(|e| e.to_string())?;
        }
        match left_out {
            true => Err(format!(
                "the answers had more than {FOLLOWED} different numbers, so new ones are left out"
            )),
            false => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Sampled {
        Sampled::of(self.sheet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_both_builds_are_read() {
        let body = r#"[
            {"id":0,"n_ctx":2048,"is_processing":true,"id_task":17,"n_prompt_tokens":33,
             "next_token":[{"has_next_token":true,"n_remain":50,"n_decoded":14}]},
            {"id":1,"n_ctx":2048,"is_processing":false,"id_task":-1,
             "next_token":{"has_next_token":false,"n_remain":-1,"n_decoded":0}}]"#;
        let rows = slots(body, 5).unwrap();
        let busy = SlotSample {
            at_ns: 5,
            slot: 0,
            processing: Some(true),
            task: Some(17),
            context_tokens: Some(2048),
            prompt_tokens: Some(33),
            decoded_tokens: Some(14),
            remaining_tokens: Some(50),
        };
        assert_eq!(rows[0], busy);
        assert_eq!(
            (rows[1].processing, rows[1].task, rows[1].remaining_tokens),
            (Some(false), None, None)
        );
        assert!(slots(r#"{"error":{"code":501}}"#, 0).is_err() && slots("<html>", 0).is_err());
    }

    #[test]
    fn more_slots_than_any_server_has_are_refused() {
        let body = format!("[{}0]", "0,".repeat(MOST_SLOTS));
        assert!(slots(&body, 0).unwrap_err().contains("65537 slots"));
    }

    #[test]
    fn a_document_of_millions_of_numbers_or_of_a_key_of_megabytes_takes_no_more_memory_than_its_text()
     {
        let changes = |body: String| changes(&body, 0, &mut BTreeMap::new());
        let many = changes(format!("[{}0]", "0,".repeat(FOLLOWED)));
        assert!(many.unwrap_err().contains("more than 4096 numbers"));
        // The names of these numbers would take a terabyte.
        let key = "k".repeat(1 << 20);
        let long = changes(format!(r#"{{"{key}":[{}0],"a":1}}"#, "0,".repeat(1 << 20)));
        let names: Vec<String> = long.unwrap().0.into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["/a"]);
    }

    #[test]
    fn numbers_beyond_those_that_are_followed_are_left_out_with_a_word() {
        let mut before = BTreeMap::new();
        let body = |from: usize, to: usize| {
            let entries: Vec<String> = (from..to).map(|i| format!("\"n{i}\":1")).collect();
            format!("{{{}}}", entries.join(","))
        };
        let first = changes(&body(0, FOLLOWED), 1, &mut before).unwrap();
        assert_eq!((first.0.len(), first.1), (FOLLOWED, false));
        let others = changes(&body(FOLLOWED - 1, FOLLOWED + 1), 2, &mut before).unwrap();
        assert_eq!(others, (Vec::new(), true));
    }

    #[test]
    fn only_what_changed_in_a_document_is_a_row() {
        let body = |throughput: f64| {
            format!(
                r#"{{"tp_size":1,"disable_radix_cache":false,"model_path":"m",
                    "internal_states":[{{"last_gen_throughput":{throughput},"memory_usage":{{"weight":2.5}}}}]}}"#
            )
        };
        let mut before = BTreeMap::new();
        let (first, left_out) = changes(&body(100.0), 1, &mut before).unwrap();
        assert!(!left_out);
        let seen: Vec<(&str, f64)> = first.iter().map(|r| (r.name.as_str(), r.value)).collect();
        assert_eq!(
            seen,
            [
                ("/disable_radix_cache", 0.0),
                ("/internal_states/0/last_gen_throughput", 100.0),
                ("/internal_states/0/memory_usage/weight", 2.5),
                ("/tp_size", 1.0),
            ]
        );
        assert!(changes(&body(100.0), 2, &mut before).unwrap().0.is_empty());
        let name = "/internal_states/0/last_gen_throughput".to_owned();
        assert_eq!(
            changes(&body(120.5), 3, &mut before).unwrap().0,
            [ServerInfoChange {
                at_ns: 3,
                name,
                value: 120.5
            }]
        );
    }
}
