//! The models that a server offers.

use std::path::Path;

use net::{ApiKey, Ask, HttpError, TlsError};
use serde_json::Value;

use crate::get::LIMIT;
use crate::peer::{Peer, PeerError};
use crate::wire::AddressError;

/// Why the models of a server are unknown.
#[derive(Debug)]
pub enum ModelsError {
    /// The URL is invalid: the user's mistake.
    Url(AddressError),
    /// The URL's host has no address.
    Host(String),
    /// No certificate can be trusted.
    Tls(TlsError),
    /// No server takes connections there.
    Unreachable(String),
    /// The server answers with a status other than 200, and this text.
    Status(u16, String),
    /// The server's answer is not a list of models.
    Answer(String),
}

impl std::fmt::Display for ModelsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(error) => write!(f, "{error}"),
            Self::Host(message) => f.write_str(message),
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

/// Returns the names of the models that a server lists under `/v1/models`, in its order; at least one. With `ca_file`,
/// a PEM file, only its certificates are trusted for an `https://` server.
///
/// # Errors
/// If the server cannot be reached or lists none.
pub fn list_models(
    base_url: &str,
    ca_file: Option<&Path>,
    api_key: Option<&ApiKey>,
) -> Result<Vec<String>, ModelsError> {
    let peer = Peer::find(base_url, ca_file).map_err(|e| match e {
        PeerError::Url(error) => ModelsError::Url(error),
        PeerError::Host(message) => ModelsError::Host(message),
        PeerError::Tls(error) => ModelsError::Tls(error),
    })?;
    let site = peer.site(api_key).map_err(|_| {
        ModelsError::Url(AddressError::NoHost {
            url: base_url.to_owned(),
        })
    })?;
    let ask = Ask::get("/v1/models").accept("application/json");
    let answer = site.ask(&ask, LIMIT).map_err(|e| match e {
        HttpError::Connect(error) => ModelsError::Unreachable(error),
        HttpError::Tls(error) => ModelsError::Tls(error),
        other => ModelsError::Answer(other.to_string()),
    })?;
    if answer.status != 200 {
        return Err(ModelsError::Status(answer.status, answer.start()));
    }
    let names = names(&answer.body, api_key);
    if names.is_empty() {
        Err(ModelsError::Answer("no models in the answer".to_owned()))
    } else {
        Ok(names)
    }
}

/// The longest id of a model that is believed, in bytes. It goes into every request, and into files and messages.
const LONGEST_ID: usize = 1024;

/// Returns the ids in a list of models. An id with the API key in it is left out, because ids are stored and shown.
fn names(body: &[u8], api_key: Option<&ApiKey>) -> Vec<String> {
    let listed = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let models = listed["data"].as_array().cloned().unwrap_or_default();
    models
        .iter()
        .filter_map(|model| Some(model["id"].as_str()?.to_owned()))
        .filter(|id| !id.trim().is_empty() && id.len() <= LONGEST_ID)
        .filter(|id| api_key.is_none_or(|key| key.position_in(id).is_none()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_in_the_order_of_the_server() {
        assert_eq!(
            names(
                br#"{"object":"list","data":[{"id":"b"},{"name":"x"},{"id":"a"}]}"#,
                None
            ),
            ["b", "a"]
        );
        assert!(names(b"<html>", None).is_empty());
    }

    #[test]
    fn what_cannot_be_an_id_is_left_out() {
        let long = "m".repeat(LONGEST_ID);
        let listing = serde_json::json!({"data": [
            {"id": ""}, {"id": " "}, {"id": format!("{long}m")}, {"id": long}, {"id": 7},
        ]});
        assert_eq!(names(listing.to_string().as_bytes(), None), [long]);
    }

    #[test]
    fn an_id_with_the_key_in_it_is_left_out() {
        let key = ApiKey::new("sk-a/b-secret").unwrap();
        let listing =
            r#"{"data": [{"id": "m"}, {"id": "m-sk-a/b-secret"}, {"id": "sk-a%2Fb-secret"}]}"#;
        assert_eq!(names(listing.as_bytes(), Some(&key)), ["m"]);
    }
}
