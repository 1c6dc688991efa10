//! Which models a server offers.

use serde_json::Value;

use crate::api_key::ApiKey;
use crate::drive::resolve;
use crate::get::{GetError, get};
use crate::wire::Address;

/// The models of a server cannot be told.
#[derive(Debug)]
pub enum ModelsError {
    /// The URL is none, or its host has no address: the user's mistake.
    Url(String),
    /// Nothing takes connections there.
    Unreachable(std::io::Error),
    /// The server answers with something else than a list of models.
    Answer(String),
}

impl std::fmt::Display for ModelsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(message) => f.write_str(message),
            Self::Unreachable(error) => write!(f, "no connection: {error}"),
            Self::Answer(message) => write!(f, "/v1/models: {message}"),
        }
    }
}

impl std::error::Error for ModelsError {}

/// Returns the names of the models a server lists under `/v1/models`, in its order; at least one.
///
/// # Errors
/// If the server is not there or lists none.
pub fn list_models(base_url: &str, api_key: Option<&ApiKey>) -> Result<Vec<String>, ModelsError> {
    let address = Address::parse(base_url).map_err(ModelsError::Url)?;
    let addresses = resolve(&address).map_err(|e| ModelsError::Url(e.0))?;
    let mask = |text: String| api_key.map_or_else(|| text.clone(), |key| key.mask(&text));
    let (status, body) =
        get(&address, &addresses, "/v1/models", "application/json", api_key).map_err(|e| match e {
            GetError::Connect(error) => ModelsError::Unreachable(error),
            GetError::Answer(message) => ModelsError::Answer(mask(message)),
        })?;
    if status != 200 {
        let text = mask(String::from_utf8_lossy(&body).trim().to_owned());
        let start: String = text.chars().take(200).collect();
        return Err(ModelsError::Answer(format!("HTTP {status} {start}").trim_end().to_owned()));
    }
    let names = names(&body);
    if names.is_empty() { Err(ModelsError::Answer("no models in the answer".to_owned())) } else { Ok(names) }
}

fn names(body: &[u8]) -> Vec<String> {
    let listed = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let models = listed["data"].as_array().cloned().unwrap_or_default();
    models.iter().filter_map(|model| Some(model["id"].as_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_in_the_order_of_the_server() {
        assert_eq!(names(br#"{"object":"list","data":[{"id":"b"},{"name":"x"},{"id":"a"}]}"#), ["b", "a"]);
        assert!(names(b"<html>").is_empty());
    }
}
