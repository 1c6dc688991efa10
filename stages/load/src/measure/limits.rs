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

/// The starting points of the time limits.
pub(super) struct Watch {
    sent: u64,
    /// The last sign of life.
    pub(super) last: u64,
    /// Whether a byte of the body has arrived.
    pub(super) body: bool,
}

impl Watch {
    /// Starts at the first byte of a request, in ns since the start of the cell.
    pub(super) fn from(sent: u64) -> Self {
        Self {
            sent,
            last: sent,
            body: false,
        }
    }

    fn nearest(&self, limits: &Limits) -> (u64, &'static str) {
        let after = |from: u64, limit: Duration| {
            from.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
        };
        let total = (after(self.sent, limits.total), "total");
        let silence = if self.body {
            (after(self.last, limits.inter_token), "inter-token")
        } else {
            (after(self.sent, limits.first_token), "first-token")
        };
        let cancel = limits.cancel.map(|limit| (after(self.sent, limit), CANCEL));
        [Some(silence), cancel]
            .into_iter()
            .flatten()
            .fold(
                total,
                |nearest, other| if other.0 < nearest.0 { other } else { nearest },
            )
    }

    /// Returns the end if a limit has passed or everything must stop.
    pub(super) fn passed(&self, shared: &Shared, limits: &Limits) -> Option<End> {
        if let Some(stop) = shared.stopped() {
            return Some(End::Stopped(stop));
        }
        let (at, which) = self.nearest(limits);
        (shared.epoch.now() >= at).then(|| match limits.cancel {
            Some(after) if which == CANCEL => End::GivenUp(after),
            _ => End::Timeout(which),
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
