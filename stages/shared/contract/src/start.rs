//! How long servers took from their start until they were ready.

use serde::{Deserialize, Serialize};

crate::words! {
    /// What showed that a server is ready.
    #[derive(Default)]
    pub enum ReadyProof: "proof that a server is ready" {
        /// It generated a token.
        #[default]
        Token = "token",
        /// Its list of models names the model.
        Models = "models",
        /// Its health check answers.
        Health = "health",
        /// The worker of an in-process engine says that it loaded the model.
        Worker = "worker",
    }
}

crate::table! {
    /// The start of one server behind a load, in the order of the group's members; the cells that were measured on one
    /// launch repeat its row. A server that was already running has none. Times count from the command that starts the
    /// server, and are as coarse as the questions to it, 25 ms.
    #[derive(Default, Serialize, Deserialize)]
    pub struct ServerStart = "server_starts" {
        /// the member of a group of servers, as in `members`; null if the server is alone
        member: Option<String>,
        /// wall-clock time of its start, since 1970: it tells launches apart
        started_unix_ns: i64 ["ns"],
        /// until its health check answered, which most engines do once the model is loaded; null without a health check
        healthy_s: Option<f64> ["s"],
        /// until its list of models named the model; null if the list was not asked for
        listed_s: Option<f64> ["s"],
        /// until it was ready: until it had generated one token, unless `proof` says otherwise
        ready_s: f64 ["s"],
        /// what showed that it was ready
        proof: ReadyProof,
    }
}
