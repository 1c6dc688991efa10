//! The address of the server, which other tools give in parts.

use super::Given;
use crate::other_words::api;

/// The host at which all tools look for a server.
const USUAL_HOST: &str = "127.0.0.1";

/// Options whose value is the URL of the server, where it is a URL.
pub(super) const OF_A_URL: [&str; 5] = ["--url", "--base-url", "--target", "--host", "-u"];

/// The address of the server, with the options that gave it.
#[derive(Default)]
pub(super) struct Address {
    pub(super) urls: Vec<String>,
    host: Option<String>,
    port: Option<String>,
    pub(super) differences: Vec<(String, String)>,
}

impl Address {
    pub(super) fn new(urls: Vec<String>) -> Self {
        Self {
            urls,
            ..Self::default()
        }
    }

    /// Takes an option that is part of the address.
    pub(super) fn takes(&mut self, one: &Given) -> bool {
        let value = one.values.first().cloned();
        let is_url = value.as_ref().is_some_and(|value| is_address(value));
        match one.option.as_str() {
            "--host" if !is_url => self.host = value,
            "--port" => self.port = value,
            option if is_url && OF_A_URL.contains(&option) => {
                self.urls.extend(one.values.iter().cloned());
                return true;
            }
            _ => return false,
        }
        self.differences
            .push((one.word(), "the address is one URL".to_owned()));
        true
    }

    /// Returns the API whose path the URL has, unless it is the default.
    pub(super) fn api(&self) -> Option<&'static str> {
        let path = |url: &str| Some(url.split_once("://")?.1.split_once('/')?.1.to_owned());
        let path = self.urls.iter().find_map(|url| path(url))?;
        let path = path.trim_end_matches('/');
        let api = api(path).filter(|_| !path.is_empty())?;
        (api != "openai-completions").then_some(api)
    }

    pub(super) fn is_given(&self) -> bool {
        !self.urls.is_empty() || self.host.is_some() || self.port.is_some()
    }

    /// Returns the servers, without endpoints; the port is the one at which the tool looks by default.
    pub(super) fn url(&self, port: &str) -> Vec<String> {
        if !self.urls.is_empty() {
            return self.urls.iter().map(|url| base(url)).collect();
        }
        let host = self.host.as_deref().unwrap_or(USUAL_HOST);
        let host = if host == "0.0.0.0" { USUAL_HOST } else { host };
        let host = match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        let port = self.port.as_deref().unwrap_or(port);
        vec![format!("http://{host}:{port}")]
    }
}

/// Returns whether a value begins with the scheme of a URL, or is a host with its port.
pub(super) fn is_address(value: &str) -> bool {
    let has_port = || {
        let (host, port) = value.rsplit_once(':')?;
        let is_host = |c: char| c.is_alphanumeric() || "-._[]:".contains(c);
        let is_whole = !host.contains(':') || host.ends_with(']');
        Some(host.chars().all(is_host) && is_whole && port.parse::<u16>().is_ok())
    };
    has_scheme(value) || has_port() == Some(true)
}

/// Returns whether a word begins with the scheme of a URL.
pub(super) fn has_scheme(word: &str) -> bool {
    let is_scheme = |scheme: &str| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_alphanumeric() || c == '+')
    };
    word.split_once("://")
        .is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// Returns a URL without the path of an API.
fn base(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let url = match url.contains("://") {
        true => url.to_owned(),
        false => format!("http://{url}"),
    };
    match url.find("/v1").filter(|at| *at > 8) {
        Some(at) => url[..at].to_owned(),
        None => url,
    }
}
