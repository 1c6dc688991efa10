//! The report stage from outside: synthetic tables in a store, templates in a library.

mod fixture;
mod mutations;
mod rendering;
