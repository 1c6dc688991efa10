//! Who sends what when, apart from sockets and clocks: a client that takes one session after
//! another, the dispatcher of open arrivals, and the turns of a session with the time to think
//! between them. A request that stands alone is a session of one turn.

use std::io;

use super::ahead::Planned;

/// What clients, dispatcher and sessions need of the world. The measuring thread is one; tests
/// have another with a clock of their own.
pub(super) trait World {
    /// Returns whether everything is to stop.
    fn stopped(&self) -> bool;
    /// Returns when nothing more is begun.
    fn ends_ns(&self) -> u64 {
        u64::MAX
    }
    /// Returns the next session that nobody has taken yet, waiting until its first request is
    /// rendered; `due_ns` is when that is to be sent.
    async fn take(&self, due_ns: u64) -> Option<Planned>;
    /// Waits until a stamp has passed, or everything is to stop; any number may wait.
    async fn until(&self, at_ns: u64);
    /// Waits as [`World::until`], more precisely; only the dispatcher does.
    async fn until_due(&self, at_ns: u64) -> io::Result<()>;
    /// Carries out a request. `goes_on` says that a turn follows, which is then asked for.
    async fn perform(
        &self,
        request: usize,
        client: Option<u32>,
        scheduled_ns: u64,
        bytes: Vec<u8>,
        goes_on: bool,
    ) -> Performed;
    /// Records a request that is not sent because the session cannot go on.
    fn give_up(&self, request: usize, client: Option<u32>, at_ns: u64);
}

/// A request that was carried out.
pub(super) struct Performed {
    pub(super) done_ns: u64,
    /// The next turn; `None` if none was asked for, or none can be made.
    pub(super) next: Option<Turn>,
}

/// A turn that follows another.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Head and body.
    pub(crate) bytes: Vec<u8>,
    /// How long the user thinks before sending it, after the answer to the turn before.
    pub(crate) think_ns: u64,
}

impl std::fmt::Debug for Turn {
    /// Writes no bytes: a head may hold an API key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Turn({} bytes after {} ns)",
            self.bytes.len(),
            self.think_ns
        )
    }
}

/// Begins a session at each offset from `from_ns`, whatever becomes of those before.
///
/// # Errors
/// If the clock cannot be waited for.
pub(super) async fn dispatch<W: World>(
    world: &W,
    offsets: &[u64],
    from_ns: u64,
    mut begin: impl FnMut(Planned, u64),
) -> io::Result<()> {
    for offset in offsets {
        let scheduled_ns = from_ns.saturating_add(*offset);
        // Taken before it is due: what is not rendered yet may still be by then.
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

/// Sends one session after another until there is none left: the next is due `between_ns` after
/// the last was done.
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

/// Sends the turns of a session: each is due when the one before was done and its user has
/// thought. Returns when the last was done.
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
            world.until(due_ns).await;
            if world.stopped() {
                return done_ns;
            }
        }
        let goes_on = request + 1 < requests.end;
        let performed = world.perform(request, client, due_ns, bytes, goes_on).await;
        done_ns = performed.done_ns;
        turn = performed.next;
    }
    done_ns
}

#[cfg(test)]
mod tests;
