//! The rule that assigns each request to a generator.
//!
//! The rule needs no communication while the load runs:
//!
//! - A unit is an independent request, or a session with all its turns.
//! - Open arrivals: unit *i* goes to generator *i* mod *n*. Each unit keeps its time in the one schedule.
//! - Closed loops: client *c* runs on generator *c* mod *n*, and unit *i* goes to the generator of client *i* mod
//!   *clients*. Generators that run more clients therefore get more units, in proportion.
//! - Warm-up requests: as above if the load is a closed loop. Otherwise all of them go to the first generator, where one client
//!   sends them one after the other.

use contract::Phase;

use crate::arrival::Arrival;
use crate::prompts::PromptSet;

/// The rule for one load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deal {
    generators: usize,
    /// Clients of a closed loop.
    clients: Option<usize>,
    warmup: usize,
    /// The first measured request of each session; `None` if requests are independent.
    sessions: Option<Vec<usize>>,
}

impl Deal {
    /// Deals the requests of a load to at least one generator.
    pub(crate) fn new(generators: u32, arrival: &Arrival, prompts: &PromptSet) -> Self {
        let sessions = prompts.sessions();
        Self {
            generators: generators.max(1) as usize,
            clients: arrival.clients().map(|clients| clients.max(1) as usize),
            warmup: prompts.count(Phase::Warmup),
            sessions: sessions.map(|all| all.iter().map(|session| session.start).collect()),
        }
    }

    /// Returns the generator of a measured unit.
    pub(crate) fn of_unit(&self, unit: usize) -> usize {
        match self.clients {
            Some(clients) => unit % clients % self.generators,
            None => unit % self.generators,
        }
    }

    /// Returns the generator of a warm-up request.
    pub(crate) fn of_warmup(&self, request: usize) -> usize {
        match self.clients {
            Some(_) => self.of_unit(request),
            None => 0,
        }
    }

    /// Returns the generator of a request; requests are numbered from the first of warm-up.
    pub(crate) fn of(&self, request: usize) -> usize {
        match (request.checked_sub(self.warmup), &self.sessions) {
            (None, _) => self.of_warmup(request),
            (Some(measured), None) => self.of_unit(measured),
            (Some(measured), Some(starts)) => {
                let session = starts.partition_point(|start| *start <= measured);
                self.of_unit(session.saturating_sub(1))
            }
        }
    }

    /// Returns how many of this number of requests each generator gets.
    pub(crate) fn counts(&self, requests: usize) -> Vec<u64> {
        let mut counts = vec![0; self.generators];
        (0..requests).for_each(|request| counts[self.of(request)] += 1);
        counts
    }

    /// Returns how many clients of a closed loop run on a generator.
    pub(crate) fn clients(&self, generator: usize) -> Option<u32> {
        let own = (generator..self.clients?).step_by(self.generators).count();
        u32::try_from(own).ok()
    }
}

/// Returns the number of a client among all of them, by its number among those of its generator.
pub(super) fn client(generator: u32, generators: u32, own: i64) -> i64 {
    own * i64::from(generators) + i64::from(generator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn deal(
        generators: usize,
        clients: Option<usize>,
        warmup: usize,
        sessions: Option<Vec<usize>>,
    ) -> Deal {
        Deal {
            generators,
            clients,
            warmup,
            sessions,
        }
    }

    proptest! {
        #[test]
        fn every_generator_has_its_fair_share_of_clients_and_of_their_requests(
            clients in 1_usize..200,
            generators in 1_usize..16,
            rounds in 1_usize..20,
        ) {
            prop_assume!(clients >= generators);
            let deal = deal(generators, Some(clients), 0, None);
            let own: Vec<u32> = (0..generators).map(|g| deal.clients(g).unwrap()).collect();
            prop_assert_eq!(own.iter().sum::<u32>() as usize, clients);
            prop_assert!(own.iter().max().unwrap() - own.iter().min().unwrap() <= 1);
            let mut units = vec![0; generators];
            (0..clients * rounds).for_each(|unit| units[deal.of_unit(unit)] += 1);
            for (units, clients) in units.iter().zip(&own) {
                prop_assert_eq!(*units, *clients as usize * rounds);
            }
            let mut all: Vec<i64> = (0..generators)
                .flat_map(|g| (0..own[g]).map(move |c| client(g as u32, generators as u32, i64::from(c))))
                .collect();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..clients as i64));
        }

        #[test]
        fn open_arrivals_go_round_and_sessions_stay_whole(
            turns in proptest::collection::vec(1_usize..6, 1..60),
            generators in 1_usize..9,
            warmup in 0_usize..7,
        ) {
            let mut starts = Vec::new();
            let mut requests = 0;
            for turns in &turns {
                starts.push(requests);
                requests += turns;
            }
            let deal = deal(generators, None, warmup, Some(starts.clone()));
            for (session, (start, turns)) in starts.iter().zip(&turns).enumerate() {
                for turn in 0..*turns {
                    prop_assert_eq!(deal.of(warmup + start + turn), session % generators);
                }
            }
            prop_assert!((0..warmup).all(|request| deal.of(request) == 0));
        }
    }

    #[test]
    fn one_generator_gets_everything() {
        for clients in [None, Some(3)] {
            let deal = deal(1, clients, 2, None);
            assert!((0..20).all(|request| deal.of(request) == 0));
        }
        assert_eq!(deal(1, Some(3), 0, None).clients(0), Some(3));
        assert_eq!(deal(4, None, 0, None).clients(0), None);
    }
}
