//! Which models a server offers.

use std::path::Path;

use serde_json::Value;
use tls::{ApiKey, TlsError};

use crate::get::{GetError, get};
use crate::peer::{Peer, PeerError};

/// The models of a server cannot be told.
#[derive(Debug)]
pub enum ModelsError {
    /// The URL is none: the user's mistake.
    Url(String),
    /// The URL's host has no address.
    Host(String),
    /// Nobody is there to trust.
    Tls(TlsError),
    /// Nothing takes connections there.
    Unreachable(std::io::Error),
    /// The server answers with another status than 200, and this text.
    Status(u16, String),
    /// The server answers with something else than a list of models.
    Answer(String),
}

impl std::fmt::Display for ModelsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(message) | Self::Host(message) => f.write_str(message),
            Self::Tls(error) => write!(f, "{error}"),
            Self::Unreachable(error) => write!(f, "no connection: {error}"),
            Self::Status(status, text) => {
                write!(
                    f,
                    "/v1/models: HTTP {status}{}{text}",
                    if text.is_empty() { "" } else { " " }
                )
            }
            Self::Answer(message) => write!(f, "/v1/models: {message}"),
        }
    }
}

impl std::error::Error for ModelsError {}

/// Returns the names of the models a server lists under `/v1/models`, in its order; at least one.
/// With `ca_file`, a PEM file, only its certificates are trusted of an `https://` server.
///
/// # Errors
/// If the server is not there or lists none.
pub fn list_models(
    base_url: &str,
    ca_file: Option<&Path>,
    api_key: Option<&ApiKey>,
) -> Result<Vec<String>, ModelsError> {
    let peer = Peer::find(base_url, ca_file).map_err(|e| match e {
        PeerError::Url(message) => ModelsError::Url(message),
        PeerError::Host(message) => ModelsError::Host(message),
        PeerError::Tls(error) => ModelsError::Tls(error),
    })?;
    let mask = |text: String| api_key.map_or_else(|| text.clone(), |key| key.mask(&text));
    let (status, body) =
        get(&peer, "/v1/models", "application/json", api_key).map_err(|e| match e {
            GetError::Connect(error) => ModelsError::Unreachable(error),
            GetError::Tls(error) => ModelsError::Tls(error),
            GetError::Answer(message) => ModelsError::Answer(mask(message)),
        })?;
    if status != 200 {
        let text = mask(String::from_utf8_lossy(&body).trim().to_owned());
        let start: String = text.chars().take(200).collect();
        return Err(ModelsError::Status(status, start));
    }
    let names = names(&body);
    if names.is_empty() {
        Err(ModelsError::Answer("no models in the answer".to_owned()))
    } else {
        Ok(names)
    }
}

fn names(body: &[u8]) -> Vec<String> {
    let listed = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let models = listed["data"].as_array().cloned().unwrap_or_default();
    models
        .iter()
        .filter_map(|model| Some(model["id"].as_str()?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_in_the_order_of_the_server() {
        assert_eq!(
            names(br#"{"object":"list","data":[{"id":"b"},{"name":"x"},{"id":"a"}]}"#),
            ["b", "a"]
        );
        assert!(names(b"<html>").is_empty());
    }
}
