//! Access control: the host and the origin that a request names, and the token.

use std::net::{IpAddr, SocketAddr};

/// Decides who may use a server.
///
/// A page of another site can make a browser send requests to this server. It cannot choose the header `Host`, unless
/// its own name resolves to this machine, and it cannot hide `Origin` or `Sec-Fetch-Site`. Therefore all three must be
/// ours.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    address: SocketAddr,
    token: Option<String>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It names another host, or no host.
    Host,
    /// It comes from a page with another origin.
    Origin,
    /// It lacks the token.
    Token,
}

/// The headers of a request that identify the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asker<'a> {
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    pub(crate) site: Option<&'a str>,
    pub(crate) authorization: Option<&'a str>,
}

impl Refused {
    /// Returns the HTTP status and the message.
    pub(crate) fn words(self) -> (u16, &'static str) {
        match self {
            Self::Host => (
                403,
                "this host name is not the explorer's; open the address it printed",
            ),
            Self::Origin => (
                403,
                "a page of another origin must not send requests to the explorer",
            ),
            Self::Token => (
                401,
                "this address needs the token; open the whole address that the explorer printed",
            ),
        }
    }
}

impl Guard {
    /// Creates the guard of a server at this address. Without a token, the server may only use a loopback address.
    pub(crate) fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { address, token }
    }

    /// Checks host and origin.
    pub(crate) fn check(&self, asker: &Asker<'_>) -> Result<(), Refused> {
        let host = asker.host.filter(|host| self.is_ours(host));
        let host = host.ok_or(Refused::Host)?;
        let same = |origin: &str| origin.strip_prefix("http://") == Some(host);
        if asker.origin.is_some_and(|origin| !same(origin)) {
            return Err(Refused::Origin);
        }
        // A link on another page may open ours, but a script on another page may not read from it.
        match asker.site {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) => Err(Refused::Origin),
        }
    }

    /// Checks the token, if one is needed.
    pub(crate) fn check_token(&self, asker: &Asker<'_>) -> Result<(), Refused> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let given = asker.authorization.and_then(|a| a.strip_prefix("Bearer "));
        match given.is_some_and(|given| same_bytes(given.as_bytes(), token.as_bytes())) {
            true => Ok(()),
            false => Err(Refused::Token),
        }
    }

    /// Whether a value of `Host` refers to this server.
    fn is_ours(&self, host: &str) -> bool {
        let port = format!(":{}", self.address.port());
        let Some(name) = host.strip_suffix(&port) else {
            return self.address.port() == 80 && self.is_name(host);
        };
        self.is_name(name)
    }

    fn is_name(&self, name: &str) -> bool {
        let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
        let address: Option<IpAddr> = bare.unwrap_or(name).parse().ok();
        match address {
            // The name of another site can resolve to this machine only by a trick, but a number is not a name.
            Some(address) if self.address.ip().is_unspecified() => !address.is_unspecified(),
            Some(address) => address == self.address.ip(),
            None => name == "localhost" && self.address.ip().is_loopback(),
        }
    }
}

/// Creates a token: 128 random bits as 32 hexadecimal digits.
///
/// # Errors
/// If the system cannot supply random bits.
pub fn token() -> Result<String, getrandom::Error> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)?;
    Ok(artifacts::hex(&bits))
}

/// Compares texts in constant time, so that the time does not reveal where they differ.
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    let differ = |(x, y): (&u8, &u8)| x ^ y;
    a.len() == b.len() && a.iter().zip(b).map(differ).fold(0, |all, d| all | d) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(address: &str, token: Option<&str>) -> Guard {
        Guard::new(address.parse().unwrap(), token.map(str::to_owned))
    }

    fn of_host(host: &str) -> Asker<'_> {
        Asker {
            host: Some(host),
            ..Asker::default()
        }
    }

    #[test]
    fn a_name_that_resolves_to_us_by_a_trick_is_refused() {
        let guard = guard("127.0.0.1:7311", None);
        for host in ["127.0.0.1:7311", "localhost:7311"] {
            assert_eq!(guard.check(&of_host(host)), Ok(()), "{host}");
        }
        for host in [
            "evil.example:7311",
            "127.0.0.1",
            "127.0.0.1:7312",
            "127.0.0.2:7311",
            "localhost.evil.example:7311",
            "localhost",
            "",
        ] {
            assert_eq!(guard.check(&of_host(host)), Err(Refused::Host), "{host}");
        }
        assert_eq!(guard.check(&Asker::default()), Err(Refused::Host));
    }

    #[test]
    fn a_page_of_another_origin_may_not_ask() {
        let guard = guard("127.0.0.1:7311", None);
        let from = |origin, site| Asker {
            origin,
            site,
            ..of_host("127.0.0.1:7311")
        };
        let ours = Some("http://127.0.0.1:7311");
        assert_eq!(guard.check(&from(ours, Some("same-origin"))), Ok(()));
        assert_eq!(guard.check(&from(None, Some("none"))), Ok(()));
        for origin in ["http://evil.example", "null", "https://127.0.0.1:7311"] {
            let asked = guard.check(&from(Some(origin), None));
            assert_eq!(asked, Err(Refused::Origin), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            let asked = guard.check(&from(None, Some(site)));
            assert_eq!(asked, Err(Refused::Origin), "{site}");
        }
    }

    #[test]
    fn where_there_is_a_token_only_that_token_opens() {
        let guard = guard("0.0.0.0:7311", Some("secret"));
        let with = |authorization| Asker {
            authorization,
            ..of_host("192.0.2.7:7311")
        };
        assert_eq!(guard.check(&with(None)), Ok(()));
        assert_eq!(
            guard.check(&of_host("name.example:7311")),
            Err(Refused::Host)
        );
        assert_eq!(guard.check_token(&with(Some("Bearer secret"))), Ok(()));
        for wrong in [None, Some("Bearer secreT"), Some("secret"), Some("Bearer ")] {
            assert_eq!(guard.check_token(&with(wrong)), Err(Refused::Token));
        }
    }
}
