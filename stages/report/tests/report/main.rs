//! The report stage from outside: synthetic tables in a store, templates in a library.

mod figures;
mod fixture;
mod mutations;
mod rendering;
mod typed_numbers;
