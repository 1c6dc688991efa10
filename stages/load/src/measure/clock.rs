//! The cell's clock, and a timer finer than the runtime's millisecond.

use std::io;
use std::time::Instant;

/// The start of a cell; stamps count from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    start: Instant,
    monotonic_ns: u64,
}

/// Returns an instant, and the same moment on the kernel's monotonic clock, which all processes of a machine share: ns
/// since boot. The error is below a microsecond unless this thread was interrupted ten times in a row.
pub(crate) fn instant_and_monotonic() -> (Instant, u64) {
    let monotonic = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let take = || {
        let before = monotonic();
        let at = Instant::now();
        (monotonic() - before, before, at)
    };
    let mut best = take();
    for _ in 0..10 {
        if best.0 <= 1_000 {
            break;
        }
        let next = take();
        if next.0 < best.0 {
            best = next;
        }
    }
    (best.2, best.1 + best.0 / 2)
}

impl Epoch {
    /// Starts the clock.
    pub(crate) fn start() -> Self {
        let (start, monotonic_ns) = instant_and_monotonic();
        Self {
            start,
            monotonic_ns,
        }
    }

    /// Takes over a clock that began at this time of the kernel's monotonic clock, ns since boot. Off by less than a
    /// microsecond, as [`instant_and_monotonic`].
    pub(crate) fn began_at(monotonic_ns: u64) -> Self {
        let (now, now_ns) = instant_and_monotonic();
        let ago = std::time::Duration::from_nanos(now_ns.saturating_sub(monotonic_ns));
        Self {
            start: now.checked_sub(ago).unwrap_or(now),
            monotonic_ns,
        }
    }

    /// Returns the nanoseconds since the start.
    pub(crate) fn now(self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the start on the kernel's monotonic clock, ns since boot.
    pub(crate) fn monotonic_ns(self) -> u64 {
        self.monotonic_ns
    }

    /// Returns the instant of a stamp.
    pub(crate) fn instant(self, at_ns: u64) -> Instant {
        self.start + std::time::Duration::from_nanos(at_ns)
    }
}

/// Waits for stamps with the kernel's high-resolution timer. The runtime's timers tick in milliseconds, which would
/// bunch arrivals above a few hundred per second.
#[cfg(target_os = "linux")]
pub(crate) struct Timer {
    descriptor: tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Timer {
    /// Makes a timer; needs a running runtime.
    #[expect(
        deprecated,
        reason = "deprecated for types that may swap their descriptor while registered; an OwnedFd never does, \
                  and its replacement needs an unsafe block"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            descriptor: tokio::io::unix::AsyncFd::new(descriptor)?,
        })
    }

    /// Waits until the stamp has passed.
    pub(crate) async fn until(&self, epoch: Epoch, at_ns: u64) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        loop {
            let left = at_ns.saturating_sub(epoch.now());
            if left == 0 {
                return Ok(());
            }
            let zero = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let value = Timespec {
                tv_sec: (left / 1_000_000_000) as i64,
                tv_nsec: (left % 1_000_000_000) as _,
            };
            let once = Itimerspec {
                it_interval: zero,
                it_value: value,
            };
            timerfd_settime(self.descriptor.get_ref(), TimerfdTimerFlags::empty(), &once)?;
            let mut ready = self.descriptor.readable().await?;
            let mut expirations = [0_u8; 8];
            match rustix::io::read(self.descriptor.get_ref(), &mut expirations) {
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => {}
                Err(e) => return Err(e.into()),
            }
            ready.clear_ready();
        }
    }
}

/// Waits for stamps with the runtime's timers.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Timer;

#[cfg(not(target_os = "linux"))]
impl Timer {
    /// Makes a timer.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits until the stamp has passed.
    pub(crate) async fn until(&self, epoch: Epoch, at_ns: u64) -> io::Result<()> {
        tokio::time::sleep_until(epoch.instant(at_ns).into()).await;
        Ok(())
    }
}
