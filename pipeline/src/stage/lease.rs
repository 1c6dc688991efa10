//! The live thing owned by a resource cell.

use super::output::Output;
use super::settings::Json;
use super::status::Failure;

/// The live thing that a resource cell owns: a prepared environment, a running server.
pub trait Lease: Send {
    /// Returns what cells need to reach it: URL, paths, pid. Never in a key.
    fn live(&self) -> &Json;
    /// Checks that it is still alive.
    ///
    /// # Errors
    /// If it died, with its last log lines as evidence.
    fn check(&mut self) -> Result<(), Failure>;
    /// Checks that it was alive until the end of a cell that used it.
    ///
    /// # Errors
    /// If it died, with its last log lines as evidence.
    fn check_after_use(&mut self) -> Result<(), Failure> {
        self.check()
    }
    /// Returns a watch over what may end while a cell uses it, if anything can be watched. Without a watch, the
    /// executor checks before and after each cell.
    fn watch(&self) -> Option<Watch> {
        None
    }
    /// Stops it with everything it started, and returns what it leaves behind (for example logs).
    fn release(self: Box<Self>) -> Vec<Output>;
}

/// Checks, from any thread and cheaply, that a resource of a cell is still alive: a running cell calls it often. The
/// failure explains why the resource is gone.
pub type Watch = std::sync::Arc<dyn Fn() -> Result<(), Failure> + Send + Sync>;

/// The lease of something that does not run, such as a prepared environment: it cannot die and need not be stopped.
#[derive(Debug)]
pub struct Inert {
    /// What cells need to reach it. Never in a key.
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
