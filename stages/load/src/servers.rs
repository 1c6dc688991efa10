//! The server of each request if several are loaded: one after the other in turn.

use std::sync::Arc;

use contract::Phase;

use crate::peer::Peer;
use crate::prompts::PromptSet;

/// The servers of a load, with the rule that gives each request one of them.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    peers: Vec<Peer>,
    rota: Rota,
}

/// The assignment of requests to several servers.
///
/// Warm-up requests, measured requests and sessions are each counted from 0, and number i goes to server i mod n. All
/// turns of a session go to the same server, whose cache may contain the turns before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rota {
    servers: usize,
    warmup: usize,
    /// The index of each session's first measured request; `None` without sessions.
    sessions: Option<Vec<usize>>,
    /// The server of each request, if they are a part of a larger load, in which they have other places.
    dealt: Option<Arc<[u32]>>,
}

impl Rota {
    pub(crate) fn new(servers: usize, prompts: &PromptSet) -> Self {
        // One server needs no list of sessions.
        let sessions = prompts.sessions().filter(|_| servers > 1);
        Self {
            servers,
            warmup: prompts.count(Phase::Warmup),
            sessions: sessions.map(|all| all.iter().map(|session| session.start).collect()),
            dealt: None,
        }
    }

    /// Returns the index of a request's server, from 0. Requests are numbered from the first warm-up request.
    pub(crate) fn of(&self, request: usize) -> usize {
        if self.servers <= 1 {
            return 0;
        }
        if let Some(dealt) = &self.dealt {
            return dealt.get(request).map_or(0, |server| *server as usize);
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
    /// Needs at least one server.
    pub(crate) fn new(peers: Vec<Peer>, prompts: &PromptSet) -> Self {
        let rota = Rota::new(peers.len(), prompts);
        Self { peers, rota }
    }

    /// Takes several servers, and which of them each request goes to.
    pub(crate) fn dealt(peers: Vec<Peer>, warmup: usize, dealt: Vec<u32>) -> Self {
        let rota = Rota {
            servers: peers.len(),
            warmup,
            sessions: None,
            dealt: Some(dealt.into()),
        };
        Self { peers, rota }
    }

    /// Returns the place of the server that a connection is opened to before anything is sent: the servers in turn, as
    /// the requests will go to them.
    pub(crate) fn of_connection(&self, number: usize) -> usize {
        match &self.rota.dealt {
            Some(_) => self.rota.of(self.rota.warmup + number),
            None => number % self.peers.len(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.peers.len()
    }

    /// Returns the server at an index.
    pub(crate) fn at(&self, server: usize) -> &Peer {
        &self.peers[server]
    }

    /// Returns the first server, which answers questions for all of them.
    pub(crate) fn first(&self) -> &Peer {
        &self.peers[0]
    }

    /// Returns the index of a request's server.
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
            dealt: None,
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
        // Sessions of 2, 2 and 4 turns. Counting requests instead would send them all to one server.
        let rota = rota(2, Some(vec![0, 2, 4]));
        let places: Vec<usize> = (3..11).map(|i| rota.of(i)).collect();
        assert_eq!(places, [0, 0, 1, 1, 0, 0, 0, 0]);
    }
}
