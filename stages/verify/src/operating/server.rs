//! A server with slots, simulated event by event, for measuring simulated studies.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use statistics::box_muller;

/// Random numbers from a seed.
pub(super) struct Draws(ChaCha20Rng);

impl Draws {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut key = [0_u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&stream.to_le_bytes());
        Self(ChaCha20Rng::from_seed(key))
    }

    /// Returns a number in (0, 1].
    pub(super) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Returns a standard normal number.
    pub(super) fn normal(&mut self) -> f64 {
        box_muller(self.uniform(), self.uniform())
    }

    /// Returns a lognormal factor with median 1.
    pub(super) fn factor(&mut self, deviation: f64) -> f64 {
        (deviation * self.normal()).exp()
    }
}

/// A server that processes several requests at once. Each is slower the more there are.
#[derive(Clone, Copy)]
pub(super) struct Server {
    pub(super) slots: usize,
    /// The share by which each further request slows down all of them.
    pub(super) crowding: f64,
    /// Whether it computes the prompts of all new requests in one batch, while nothing else moves.
    pub(super) batches: bool,
}

impl Server {
    /// Returns the slowdown with this many requests in slots.
    fn slowdown(self, busy: usize) -> f64 {
        1.0 + self.crowding * (busy.max(1) - 1) as f64
    }

    /// Returns the requests per second that keep all slots busy, for a mean service time of
    /// `service_ms`.
    pub(super) fn capacity(self, service_ms: f64) -> f64 {
        self.slots as f64 * 1e3 / (service_ms * self.slowdown(self.slots))
    }
}

/// When requests are sent.
pub(super) enum Senders {
    /// This many clients, each of which sends its next request when its last one is done.
    Closed(usize),
    /// At the given times, ms.
    Open(Vec<f64>),
}

/// The time that a request takes on an idle server, ms.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) prefill: f64,
    pub(super) decode: f64,
}

/// The times of a request, ms since the start of the cell.
#[derive(Clone, Copy, Default)]
pub(super) struct Flight {
    pub(super) client: Option<i64>,
    pub(super) sent: f64,
    pub(super) first: f64,
    pub(super) last: f64,
}

/// What a server did.
pub(super) struct Served {
    /// The times of each request.
    pub(super) flights: Vec<Flight>,
    /// When decoding stopped for a batch of prompts, and for how long, ms.
    pub(super) pauses: Vec<(f64, f64)>,
}

impl Served {
    /// Moves everything to a later time, ms.
    pub(super) fn move_by(&mut self, later: f64) {
        for flight in &mut self.flights {
            flight.sent += later;
            flight.first += later;
            flight.last += later;
        }
        for (at, _) in &mut self.pauses {
            *at += later;
        }
    }
}

struct Active {
    request: usize,
    prefill: f64,
    decode: f64,
}

/// The client's time between an answer and its next request, ms.
const CLIENT: f64 = 0.1;

/// Serves requests in order of arrival. From `stall.0` on, the server does nothing for `stall.1`
/// ms.
pub(super) fn serve(
    server: Server,
    senders: &Senders,
    work: &[Work],
    stall: Option<(f64, f64)>,
) -> Served {
    let mut flights = vec![Flight::default(); work.len()];
    let mut pauses = Vec::new();
    let mut waiting: Vec<(f64, usize)> = Vec::new();
    let mut next = 0;
    match senders {
        Senders::Closed(clients) => {
            for client in 0..(*clients).min(work.len()) {
                flights[next].client = Some(client as i64);
                waiting.push((CLIENT, next));
                next += 1;
            }
        }
        Senders::Open(times) => {
            waiting = times.iter().copied().zip(0..).collect();
            next = work.len();
        }
    }
    let (mut now, mut active): (f64, Vec<Active>) = (0.0, Vec::new());
    loop {
        // Requests enter free slots in sending order.
        waiting.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        while active.len() < server.slots && waiting.first().is_some_and(|w| w.0 <= now) {
            let (sent, request) = waiting.remove(0);
            flights[request].sent = sent;
            let Work { prefill, decode } = work[request];
            active.push(Active {
                request,
                prefill,
                decode,
            });
        }
        let batch: f64 = active.iter().map(|a| a.prefill).sum();
        if server.batches && batch > 0.0 {
            let stalled = stall.filter(|(at, _)| (now..now + batch).contains(at));
            let long = batch + stalled.map_or(0.0, |(_, long)| long);
            pauses.push((now, long));
            now += long;
            for a in active.iter_mut().filter(|a| a.prefill > 0.0) {
                a.prefill = 0.0;
                flights[a.request].first = now;
            }
            continue;
        }
        let slowdown = server.slowdown(active.len());
        let step = active
            .iter()
            .map(|a| if a.prefill > 0.0 { a.prefill } else { a.decode })
            .fold(f64::INFINITY, f64::min)
            * slowdown;
        let arrival = waiting.first().map_or(f64::INFINITY, |w| w.0);
        let arrival = if active.len() < server.slots {
            arrival
        } else {
            f64::INFINITY
        };
        let until = (now + step).min(arrival);
        if until.is_infinite() {
            return Served { flights, pauses };
        }
        let done = ((until - now) / slowdown).max(0.0);
        for a in &mut active {
            if a.prefill > 0.0 {
                a.prefill -= done;
                if a.prefill <= 1e-9 {
                    a.prefill = 0.0;
                    flights[a.request].first = until;
                }
            } else {
                a.decode -= done;
            }
        }
        now = until;
        if let Some((_, long)) = stall.filter(|(at, _)| now >= *at && now - done * slowdown < *at) {
            // Nothing moves during the stall; pending ends move back.
            now += long;
            for a in active.iter().filter(|a| a.prefill == 0.0) {
                let first = &mut flights[a.request].first;
                if *first == until {
                    *first = now;
                }
            }
        }
        for a in active.extract_if(.., |a| a.prefill == 0.0 && a.decode <= 1e-9) {
            flights[a.request].last = now;
            if let (Some(client), true) = (flights[a.request].client, next < work.len()) {
                flights[next].client = Some(client);
                waiting.push((now + CLIENT, next));
                next += 1;
            }
        }
    }
}
