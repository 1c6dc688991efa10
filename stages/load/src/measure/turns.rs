//! The schedule of requests, without sockets and clocks: a client that takes one session after another, the dispatcher
//! of open arrivals, and the turns of a session with think times between them. A single request is a session of one
//! turn.

use std::io;

use super::ahead::Planned;

/// The environment of clients, dispatcher and sessions. The measuring thread is one implementation; tests have another
/// with its own clock.
pub(super) trait World {
    /// Returns whether everything must stop.
    fn stopped(&self) -> bool;
    /// Returns the time after which nothing is begun.
    fn ends_ns(&self) -> u64 {
        u64::MAX
    }
    /// Returns the next free session, after waiting until its first request is rendered; `due_ns` is when that must be
    /// sent.
    async fn take(&self, due_ns: u64) -> Option<Planned>;
    /// Waits until a stamp has passed, or everything must stop. Any number of tasks may wait.
    async fn until(&self, at_ns: u64);
    /// Like [`World::until`], but more precise. Only the dispatcher uses it.
    async fn until_due(&self, at_ns: u64) -> io::Result<()>;
    /// Performs a request. With `goes_on`, another turn follows, and is then requested. Returns `None` if the request was
    /// not begun, because everything must stop or the time is over.
    async fn perform(
        &self,
        request: usize,
        client: Option<u32>,
        scheduled_ns: u64,
        bytes: Vec<u8>,
        goes_on: bool,
    ) -> Option<Performed>;
    /// Counts a request that was due and is not sent because the time is over. It leaves no row.
    fn leave(&self);
    /// Counts turns that are never due, because the time is over before that. They are not planned.
    fn not_due(&self, turns: usize);
    /// Records a request that is not sent because its session cannot go on.
    fn give_up(&self, request: usize, client: Option<u32>, at_ns: u64);
}

/// A performed request.
pub(super) struct Performed {
    pub(super) done_ns: u64,
    /// The next turn; `None` if none was requested, or none can be made.
    pub(super) next: Option<Turn>,
}

/// A turn that follows another.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Head and body.
    pub(crate) bytes: Vec<u8>,
    /// How long the user thinks after the previous answer.
    pub(crate) think_ns: u64,
}

impl std::fmt::Debug for Turn {
    /// Omits the bytes, because a head may contain an API key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Turn({} bytes after {} ns)",
            self.bytes.len(),
            self.think_ns
        )
    }
}

/// Begins a session at each offset from `from_ns`, whatever happens to earlier ones.
///
/// # Errors
/// If waiting for the clock fails.
pub(super) async fn dispatch<W: World>(
    world: &W,
    offsets: &[u64],
    from_ns: u64,
    mut begin: impl FnMut(Planned, u64),
) -> io::Result<()> {
    for offset in offsets {
        let scheduled_ns = from_ns.saturating_add(*offset);
        // Taken before its due time, because an unrendered session may be rendered by then.
        let Some(planned) = world.take(scheduled_ns).await else {
            break;
        };
        world.until_due(scheduled_ns).await?;
        if world.stopped() {
            break;
        }
        begin(planned, scheduled_ns);
    }
    Ok(())
}

/// Sends one session after another until none is left. Each is due `between_ns` after the previous one was done.
pub(super) async fn client<W: World>(
    world: &W,
    client: u32,
    mut scheduled_ns: u64,
    between_ns: u64,
) {
    while !world.stopped() {
        let Some(planned) = world.take(scheduled_ns).await else {
            return;
        };
        let done_ns = session(world, planned, Some(client), scheduled_ns).await;
        scheduled_ns = done_ns.saturating_add(between_ns);
        if scheduled_ns >= world.ends_ns() {
            return;
        }
        if between_ns > 0 {
            world.until(scheduled_ns).await;
        }
    }
}

/// Sends the turns of a session. Each is due when the previous turn is done and its user has thought. A turn that is due
/// after the time of the load is not sent. Returns when the last one was done.
pub(super) async fn session<W: World>(
    world: &W,
    planned: Planned,
    client: Option<u32>,
    scheduled_ns: u64,
) -> u64 {
    let Planned { requests, bytes } = planned;
    let mut turn = Some(Turn { bytes, think_ns: 0 });
    let mut done_ns = scheduled_ns;
    for request in requests.clone() {
        let Some(Turn { bytes, think_ns }) = turn.take() else {
            world.give_up(request, client, done_ns);
            continue;
        };
        let due_ns = done_ns.saturating_add(think_ns);
        if request != requests.start {
            if due_ns >= world.ends_ns() {
                if !world.stopped() {
                    world.not_due(requests.end - request);
                }
                return done_ns;
            }
            world.until(due_ns).await;
            if world.stopped() {
                return done_ns;
            }
        }
        let goes_on = request + 1 < requests.end;
        let performed = world.perform(request, client, due_ns, bytes, goes_on);
        let Some(performed) = performed.await else {
            if !world.stopped() {
                world.leave();
                world.not_due(requests.end - request - 1);
            }
            return done_ns;
        };
        done_ns = performed.done_ns;
        turn = performed.next;
    }
    done_ns
}

#[cfg(test)]
mod tests;
