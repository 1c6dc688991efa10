//! Queries to the server under load: metrics, the list of models, tokens.

use std::time::Duration;

use net::{ApiKey, Ask, Site, SiteError};

use crate::peer::Peer;

/// The time limit for one answer.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

impl Peer {
    /// Returns the server for queries beside the load, with the addresses already found and the same trust as the load.
    ///
    /// # Errors
    /// If `reqwest` cannot parse the URL.
    pub(crate) fn site(&self, api_key: Option<&ApiKey>) -> Result<Site, SiteError> {
        let address = &self.address;
        let scheme = address.scheme.word();
        let url = format!("{scheme}://{address}{}", address.prefix);
        Site::new(&url, self.tls.as_ref(), &self.addresses, api_key.cloned())
    }
}

/// A path of a server that is queried repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) site: Site,
    pub(crate) path: String,
}

impl Endpoint {
    /// Gets the path's text; an API key in it is masked.
    ///
    /// # Errors
    /// If there is no answer with status 200; one sentence.
    pub(crate) fn text(&self, accept: &str) -> Result<String, String> {
        let answer = self
            .site
            .ask(&Ask::get(&self.path).accept(accept), LIMIT)
            .map_err(|e| format!("asking {}: {e}", self.path))?;
        if answer.status == 200 {
            Ok(answer.text())
        } else {
            Err(format!("asking {}: HTTP {}", self.path, answer.status))
        }
    }
}
