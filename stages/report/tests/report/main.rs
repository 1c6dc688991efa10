//! The report stage tested from outside: synthetic tables in a store, templates in a library.

mod claims;
mod environment;
mod figures;
mod fixture;
mod footnotes;
mod generic;
mod hostile;
mod html;
mod notes;
mod pivot;
mod ratios;
mod rendering;
mod statements;
mod summary;
mod templates;
mod typed_numbers;
mod typed_words;
