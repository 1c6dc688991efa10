//! The experiment language from outside: what a text becomes, and what its mistakes read like.

mod design;
mod errors;
mod expansion;
mod kinds;
mod library;
mod mutations;
mod properties;
mod schema;
