//! Which server a request goes to, if several are loaded: each in its turn.

use contract::Phase;

use crate::peer::Peer;
use crate::prompts::PromptSet;

/// The servers of a load, with the rule that gives each request one of them.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    peers: Vec<Peer>,
    rota: Rota,
}

/// Which of several servers each request goes to.
///
/// Warm-up requests, measured requests and sessions are each counted from 0, and the one numbered i goes to
/// server i mod n. All turns of a session go to one server, which may have the turns before in its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rota {
    servers: usize,
    warmup: usize,
    /// Where each session begins among the measured requests; `None` if each stands alone.
    sessions: Option<Vec<usize>>,
}

impl Rota {
    pub(crate) fn new(servers: usize, prompts: &PromptSet) -> Self {
        // One server needs no list of its sessions.
        let sessions = prompts.sessions().filter(|_| servers > 1);
        Self {
            servers,
            warmup: prompts.count(Phase::Warmup),
            sessions: sessions.map(|all| all.iter().map(|session| session.start).collect()),
        }
    }

    /// Returns the place of the server that a request goes to, from 0; requests are numbered from the first
    /// of warm-up.
    pub(crate) fn of(&self, request: usize) -> usize {
        if self.servers <= 1 {
            return 0;
        }
        let unit = match (request.checked_sub(self.warmup), &self.sessions) {
            (None, _) => request,
            (Some(measured), None) => measured,
            (Some(measured), Some(starts)) => starts
                .partition_point(|start| *start <= measured)
                .saturating_sub(1),
        };
        unit % self.servers
    }
}

impl Servers {
    /// Takes at least one server.
    pub(crate) fn new(peers: Vec<Peer>, prompts: &PromptSet) -> Self {
        let rota = Rota::new(peers.len(), prompts);
        Self { peers, rota }
    }

    pub(crate) fn count(&self) -> usize {
        self.peers.len()
    }

    /// Returns the server at a place.
    pub(crate) fn at(&self, server: usize) -> &Peer {
        &self.peers[server]
    }

    /// Returns the first server, which is asked what all of them would answer alike.
    pub(crate) fn first(&self) -> &Peer {
        &self.peers[0]
    }

    /// Returns the place of the server that a request goes to.
    pub(crate) fn of(&self, request: usize) -> usize {
        self.rota.of(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rota(servers: usize, sessions: Option<Vec<usize>>) -> Rota {
        Rota {
            servers,
            warmup: 3,
            sessions,
        }
    }

    #[test]
    fn warm_up_and_measured_requests_each_begin_with_the_first_server() {
        let places = |servers| {
            (0..9)
                .map(|i| rota(servers, None).of(i))
                .collect::<Vec<_>>()
        };
        assert_eq!(places(2), [0, 1, 0, 0, 1, 0, 1, 0, 1]);
        assert_eq!(places(1), [0; 9]);
    }

    #[test]
    fn the_turns_of_a_session_stay_with_the_server_of_its_first() {
        // Sessions of 2, 2 and 4 turns: counting requests instead would send them all to one server.
        let rota = rota(2, Some(vec![0, 2, 4]));
        let places: Vec<usize> = (3..11).map(|i| rota.of(i)).collect();
        assert_eq!(places, [0, 0, 1, 1, 0, 0, 0, 0]);
    }
}
