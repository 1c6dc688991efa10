//! The explorer: a study in a browser. It only reads, and never measures or changes anything.
//!
//! [`Site`] answers one question about a store with one [`Reply`], without a network. [`Server`] puts a site on a
//! socket behind a `Guard`. [`export`](crate::export()) writes the replies that a page needs to one HTML file, which
//! opens without a server. docs/explore.md describes the page, and `api/openapi.json` the API.

mod about;
mod activity;
mod assets;
mod catalogue;
mod cell;
mod commits;
mod contrast;
mod error;
mod export;
mod facets;
mod figure_names;
mod gates;
mod guard;
mod history;
mod imported;
mod latency;
mod live;
mod moving;
mod paging;
mod parameters;
mod reads;
mod reply;
mod report;
mod request;
mod rows;
mod seats;
mod server;
mod site;
mod sketch;
mod study;
mod table;
mod trail;
mod turns;

pub use catalogue::{Catalogue, CatalogueError};
pub use commits::{Commit, GitError, lock_at};
pub use export::{Chunks, Exported, Step, export};
pub use figure_names::figure_remedy;
pub(crate) use guard::Refused;
pub use guard::token;
pub use history::{Followed, History, Judged, Point, Series, history};
pub use live::{STOP, STOP_TOKEN};
pub use reply::{Freshness, Reply};
pub use request::Ask;
pub use server::{ServeError, Server};
pub use site::{FindLocks, Site};
pub use table::csv;
