//! Whether the servers of a group reach each other, and at which address.

use contract::LiveEnvironment;
use engines::Peer;
use pipeline::Failure;
use places::Containment;

use crate::elsewhere::Elsewhere;

/// Where the members of a role run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Home {
    /// The other host; `None` for this machine.
    host: Option<String>,
    /// Whether a container with its own network holds them.
    own_network: bool,
}

impl Home {
    /// Returns where servers of an environment run.
    ///
    /// # Errors
    /// If the environment is unreadable.
    pub(crate) fn of(live: &LiveEnvironment) -> Result<Self, Failure> {
        let containment =
            Containment::of(&live.container).map_err(|e| Failure::failed(e.to_string()))?;
        Ok(Self {
            host: Elsewhere::of(live)?.map(|there| there.name().to_owned()),
            own_network: containment.is_some_and(|c| c.has_own_network()),
        })
    }

    fn words(&self) -> String {
        self.host
            .as_ref()
            .map_or("this machine".to_owned(), |host| format!("`{host}`"))
    }

    /// Checks that servers here, of the role `name`, reach the servers of another role.
    ///
    /// # Errors
    /// If they do not.
    pub(crate) fn reaches(
        &self,
        name: &str,
        (peer, its): (&str, &Self),
        by_side_port: bool,
    ) -> Result<(), Failure> {
        let together = "set `place` to the same host in the provision stages of both roles";
        let container = "set `network: host` in `environment.container` of its provision stage";
        let (reason, hint) = if self.own_network {
            let reason = format!(
                "the role `{name}` runs in a container with its own network, and does not reach `{peer}` from there"
            );
            (reason, container.to_owned())
        } else if self.host.is_some() && self.host != its.host {
            let reason = format!(
                "the role `{name}` runs on {}, and does not reach `{peer}` on {} from there",
                self.words(),
                its.words()
            );
            let hint = format!("{together}, or start `{name}` on this machine, which reaches all");
            (reason, hint)
        } else if by_side_port && self.host != its.host {
            let reason = format!(
                "the role `{name}` uses the second port of `{peer}`, which only {} itself reaches",
                its.words()
            );
            (reason, together.to_owned())
        } else if by_side_port && its.own_network {
            let reason = format!(
                "the role `{name}` uses the second port of `{peer}`, which runs in a container that publishes only its first"
            );
            (reason, container.to_owned())
        } else {
            return Ok(());
        };
        Err(Failure::failed(reason).hint(hint))
    }
}

/// How the other servers of a group address a server.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// From this machine.
    pub(crate) here: Peer,
    /// From the host that it runs on.
    pub(crate) at_home: Peer,
    pub(crate) home: Home,
}

impl Addresses {
    /// Returns the address for servers at a place.
    pub(crate) fn seen_from(&self, home: &Home) -> &Peer {
        match home.host == self.home.host {
            true => &self.at_home,
            false => &self.here,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_reaches_its_own_host_and_this_machine_reaches_all() {
        let at = |host: Option<&str>| Home {
            host: host.map(str::to_owned),
            own_network: false,
        };
        let (here, a, b) = (at(None), at(Some("a")), at(Some("b")));
        let contained = |home: &Home| Home {
            own_network: true,
            ..home.clone()
        };
        let reaches = |from: &Home, to: &Home, by_side_port: bool| {
            from.reaches("router", ("worker", to), by_side_port).is_ok()
        };
        for home in [&here, &a] {
            assert!(reaches(home, home, false) && reaches(home, home, true));
            // The first port of a container is published on its host; from inside, the host is not there.
            assert!(reaches(home, &contained(home), false));
            assert!(!reaches(home, &contained(home), true));
            assert!(!reaches(&contained(home), home, false));
        }
        assert!(reaches(&here, &a, false) && !reaches(&here, &a, true));
        assert!(!reaches(&a, &here, false) && !reaches(&a, &b, false));
    }
}
