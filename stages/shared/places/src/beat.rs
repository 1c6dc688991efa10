//! The pulse between two machines: the owner of the pipe beats, and the dependent process listens.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// The time between two beats.
pub const PULSE: Duration = Duration::from_secs(2);

/// After this long without a beat, the other side counts as gone. A cut link may seem open for hours.
pub const SILENCE: Duration = Duration::from_secs(20);

/// Writes a beat every `PULSE` until the pipe breaks or `stop` is dropped; then closes the pipe.
pub fn beat(mut pipe: impl Write + Send + 'static, stop: Receiver<()>) {
    let beating = move || {
        while pipe.write_all(b".").and_then(|()| pipe.flush()).is_ok() {
            if stop.recv_timeout(PULSE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    // Without the thread there are no beats, and the other side stops what it started.
    let _started = std::thread::Builder::new()
        .name("pulse".to_owned())
        .spawn(beating);
}

/// What a listener heard on the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing that shows the end of the other side.
    Nothing,
    /// The other side closed the pipe, or was silent for too long.
    Gone,
}

/// Listens for beats. The returned function waits for the given time, and returns what was heard.
pub fn listen(
    mut pipe: impl Read + Send + 'static,
    silence: Duration,
) -> impl FnMut(Duration) -> Heard {
    // The other side waits if it beats faster than somebody listens.
    let (sender, beats) = sync_channel(1);
    let listening = move || {
        let mut bytes = [0; 64];
        while pipe.read(&mut bytes).is_ok_and(|n| n > 0) && sender.send(()).is_ok() {}
    };
    let _started = std::thread::Builder::new()
        .name("listener".to_owned())
        .spawn(listening);
    let mut quiet_for = Duration::ZERO;
    move |wait| match beats.recv_timeout(wait) {
        Ok(()) => {
            quiet_for = Duration::ZERO;
            Heard::Nothing
        }
        Err(RecvTimeoutError::Timeout) => {
            quiet_for += wait;
            if quiet_for >= silence {
                Heard::Gone
            } else {
                Heard::Nothing
            }
        }
        Err(RecvTimeoutError::Disconnected) => Heard::Gone,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const STEP: Duration = Duration::from_millis(1);

    #[test]
    fn a_pipe_that_is_closed_is_heard() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (keep, stop) = channel();
        beat(writer, stop);
        let mut heard = listen(reader, Duration::from_secs(3600));
        assert_eq!(heard(STEP), Heard::Nothing);
        drop(keep);
        while heard(STEP) == Heard::Nothing {}
    }

    #[test]
    fn a_pipe_that_is_silent_for_too_long_is_heard_although_it_is_open() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let mut heard = listen(reader, STEP * 3);
        assert_eq!(heard(STEP), Heard::Nothing);
        assert_eq!(heard(STEP), Heard::Nothing);
        assert_eq!(heard(STEP), Heard::Gone);
    }
}
