//! The live thing that a resource cell owns.

use super::output::Output;
use super::settings::Json;
use super::status::Failure;

/// The live thing a resource cell owns: a prepared environment, a running server.
pub trait Lease: Send {
    /// Returns what the cells that use it need to reach it: URL, paths, pid. Never keyed.
    fn live(&self) -> &Json;
    /// Tells whether it is still alive.
    ///
    /// # Errors
    /// If it died, with its last log lines as evidence.
    fn check(&mut self) -> Result<(), Failure>;
    /// Tells whether it was alive to the end of a cell that used it.
    ///
    /// # Errors
    /// If it died, with its last log lines as evidence.
    fn check_after_use(&mut self) -> Result<(), Failure> {
        self.check()
    }
    /// Returns a watch over what may end while a cell uses it, if there is something to watch.
    /// Without one, the executor looks before and after each cell.
    fn watch(&self) -> Option<Watch> {
        None
    }
    /// Stops it with everything it started, and returns what it leaves behind (logs).
    fn release(self: Box<Self>) -> Vec<Output>;
}

/// Tells whether what a cell uses is still there, from any thread and at little cost: a cell under
/// way asks often. The failure says why it is gone.
pub type Watch = std::sync::Arc<dyn Fn() -> Result<(), Failure> + Send + Sync>;

/// The lease of something that does not run: it cannot die, and nothing stops it. A prepared
/// environment, for instance.
#[derive(Debug)]
pub struct Inert {
    /// What the cells that use it need to reach it. Never keyed.
    pub live: Json,
}

impl Lease for Inert {
    fn live(&self) -> &Json {
        &self.live
    }

    fn check(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn release(self: Box<Self>) -> Vec<Output> {
        Vec::new()
    }
}
