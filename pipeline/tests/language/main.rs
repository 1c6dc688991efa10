//! The experiment language from outside: what a text expands to, and the texts of its mistakes.

mod design;
mod errors;
mod expansion;
mod kinds;
mod library;
mod mutations;
mod properties;
mod schema;
