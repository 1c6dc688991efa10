//! The time limits of a request, and when the next one passes.

use std::time::Duration;

use tokio::time::Instant;

use super::attempt::End;
use super::shared::Shared;
use crate::settings::Timeouts;

/// The longest time between two checks of a waiting request for its limits and the stop signal.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// The time limits of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) first_token: Duration,
    pub(crate) inter_token: Duration,
    pub(crate) total: Duration,
    /// When the sender gives the request up, measured from its first byte.
    pub(crate) cancel: Option<Duration>,
}

impl Limits {
    /// Takes the limits of settings; nobody gives up.
    pub(crate) fn of(timeouts: &Timeouts) -> Self {
        Self {
            connect: timeouts.connect.duration(),
            first_token: timeouts.first_token.duration(),
            inter_token: timeouts.inter_token.duration(),
            total: timeouts.total.duration(),
            cancel: None,
        }
    }
}

/// The name of the limit that a request's sender sets.
const CANCEL: &str = "cancel";

/// The name of the limit on the wait for the first byte of a body.
const FIRST_TOKEN: &str = "first-token";

/// The starting points of the time limits.
pub(super) struct Watch {
    sent: u64,
    /// The last sign of life.
    pub(super) last: u64,
    /// Whether a byte of the body has arrived.
    pub(super) body: bool,
    /// When the first byte of the body is late.
    first_until: u64,
    /// The limit between bytes of the body, ns.
    inter_ns: u64,
    /// The bytes of all answers when the request was sent.
    taken: usize,
}

fn after(from: u64, limit: Duration) -> u64 {
    from.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
}

impl Watch {
    /// Starts at the first byte of a request, in ns since the start of the cell.
    pub(super) fn from(sent: u64, shared: &Shared, limits: &Limits) -> Self {
        Self {
            sent,
            last: sent,
            body: false,
            first_until: after(sent, limits.first_token),
            inter_ns: after(0, limits.inter_token),
            taken: shared.taken(),
        }
    }

    /// Returns when the silence has lasted too long.
    fn silent_until(&self) -> u64 {
        match self.body {
            true => self.last.saturating_add(self.inter_ns),
            false => self.first_until,
        }
    }

    /// Returns whether a read at this time came after its limit. The timer of that limit may fire later than the read:
    /// it is checked after the sockets, and it may have been set for another limit.
    pub(super) fn is_late(&self, at_ns: u64) -> bool {
        at_ns >= self.silent_until()
    }

    fn nearest(&self, limits: &Limits) -> (u64, &'static str) {
        let total = (after(self.sent, limits.total), "total");
        let which = if self.body {
            "inter-token"
        } else {
            FIRST_TOKEN
        };
        let silence = (self.silent_until(), which);
        let cancel = limits.cancel.map(|limit| (after(self.sent, limit), CANCEL));
        [Some(silence), cancel]
            .into_iter()
            .flatten()
            .fold(
                total,
                |nearest, other| if other.0 < nearest.0 { other } else { nearest },
            )
    }

    /// Returns the end if a limit has passed or everything must stop. Otherwise, a request that may still wait for the
    /// first byte of its body keeps the heartbeat from ending the run.
    pub(super) fn passed(&self, shared: &Shared, limits: &Limits) -> Option<End> {
        if let Some(stop) = shared.stopped() {
            return Some(End::Stopped(stop));
        }
        let (at, which) = self.nearest(limits);
        let now = shared.epoch.now();
        if now < at {
            if !self.body {
                shared.note_waiting(now);
            }
            return None;
        }
        Some(match limits.cancel {
            Some(limit) if which == CANCEL => End::GivenUp(limit),
            _ => {
                if which == FIRST_TOKEN {
                    shared.note_first_token_late(self.taken);
                }
                End::Timeout(which)
            }
        })
    }

    pub(super) fn next_look(&self, shared: &Shared, limits: &Limits) -> Instant {
        let (at, _) = self.nearest(limits);
        let look = Instant::now() + LOOK;
        let now = shared.epoch.now();
        if at.saturating_sub(now) < u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX) {
            Instant::from_std(shared.epoch.instant(at))
        } else {
            look
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(first_token_ms: u64, inter_token_ms: u64) -> Limits {
        let day = Duration::from_secs(86_400);
        Limits {
            connect: day,
            first_token: Duration::from_millis(first_token_ms),
            inter_token: Duration::from_millis(inter_token_ms),
            total: day,
            cancel: None,
        }
    }

    #[test]
    fn a_read_after_its_limit_is_late_whenever_the_timer_fires() {
        let mut watch = Watch::from(1_000, &Shared::start(), &limits(300, 100));
        assert!(!watch.is_late(1_000 + 299_999_999));
        assert!(watch.is_late(1_000 + 300_000_000));
        // The first byte of the body starts the clock of the limit between bytes.
        (watch.last, watch.body) = (250_000_000, true);
        assert!(!watch.is_late(349_999_999));
        assert!(watch.is_late(350_000_000));
    }

    #[test]
    fn a_wait_for_the_first_token_is_a_sign_of_life_until_one_was_in_vain() {
        let shared = Shared::start();
        let sign = || shared.last_sign.load(std::sync::atomic::Ordering::Relaxed);
        let patient = limits(3_600_000, 100);
        let waiting = Watch::from(0, &shared, &patient);
        assert_eq!(
            (waiting.passed(&shared, &patient), sign() > 0),
            (None, true)
        );

        let impatient = limits(0, 100);
        let late = Some(End::Timeout(FIRST_TOKEN));
        let in_vain = Watch::from(0, &shared, &impatient);
        assert_eq!(in_vain.passed(&shared, &impatient), late);
        let before = sign();
        assert_eq!(waiting.passed(&shared, &patient), None);
        assert_eq!(sign(), before, "no byte came for the whole limit");

        // A byte on any stream shows that the server lives.
        assert_eq!(super::super::shared::Reading::of(&shared).add(1), Ok(()));
        assert_eq!(waiting.passed(&shared, &patient), None);
        assert!(sign() > before);
    }
}
