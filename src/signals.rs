//! Ctrl-C and SIGTERM, and the signal of a limit on file sizes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::exit::Stop;

/// The first Ctrl-C or SIGTERM ends the run cleanly; a second one ends the process.
pub(crate) fn listen_for_signals(cancelled: &Arc<AtomicBool>) -> Result<(), Stop> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(cancelled))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(cancelled)))
            .map_err(|e| Stop::machine(format!("cannot listen for signals: {e}")))?;
    }
    Ok(())
}

/// Makes a write beyond the limit on file sizes (`ulimit -f`) fail, so that the command can say why. By default, the
/// kernel ends the process without a word.
pub(crate) fn survive_the_limit_on_file_sizes() -> Result<(), Stop> {
    // A handler, unlike an ignored signal, ends with this program: what it starts keeps the default.
    signal_hook::flag::register(
        signal_hook::consts::SIGXFSZ,
        Arc::new(AtomicBool::new(false)),
    )
    .map(|_| ())
    .map_err(|e| Stop::machine(format!("cannot listen for signals: {e}")))
}
