//! The report stage from outside: synthetic tables in a store, templates in a library.

mod figures;
mod fixture;
mod rendering;
mod statements;
mod typed_numbers;
