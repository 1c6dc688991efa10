//! Ctrl-C and SIGTERM.

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
