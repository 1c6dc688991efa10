//! The report stage from outside: synthetic tables in a store, templates in a library.

mod claims;
mod figures;
mod fixture;
mod generic;
mod html;
mod rendering;
mod statements;
mod typed_numbers;
mod typed_words;
