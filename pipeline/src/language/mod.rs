//! The experiment language: YAML text → spanned tree → checked → expanded [`Experiment`].
//!
//! All mistakes are reported at once, as [`Diagnostics`]. The core is pure: it reads files only through [`Files`]. The
//! schemas that check a file are also the source of the schema for editors.
//!
//! # Meaning, where it is not obvious
//!
//! - `${name}` is a parameter or the label on an axis of the stage's `over`; `${axis.field}` a field behind the label.
//!   A text that is exactly one placeholder takes the value with its type. `$${` is a literal `${`. Placeholders in
//!   definitions are not resolved.
//! - The labels of an axis in mapping form are sorted by name, because the keys of a mapping have
//!   no order. To choose one, write a list: `[batched: {slots: 8}, serial: {slots: 1}]`.
//! - A `where` has one label or a list of labels for each axis it names.
//! - An included cell may add a number to a numeric axis; products do not range over it.
//! - Settings reach [`canonical`](crate::StageKind::canonical) with sorted keys, and its result is sorted, so key order
//!   and formatting do not affect an action key. The exception is what a kind lists in
//!   [`ordered`](crate::StageKind::ordered): the tables and figures of a report.
//!
//! # The canonical form, [`Experiment::spec`]
//!
//! ```text
//! name, title, question, seed, profile      title, question and profile may be null
//! parameters:  {NAME: value}
//! axes:        {NAME: {labels: [{label, fields?}], declared: count without included labels}}
//! stages:      {NAME: {kind, description, needs: [stage], over: [axis], replicate: [axis],
//!                      exclusive: [name], settings: {…} (parameters put in, `${axis}` left),
//!                      timeout_s, retries, cells: planned count,
//!                      excluded: [{coordinates: {axis: label}, reason}],
//!                      noted: [{coordinates, note}] (included or overridden cells)}}
//! overrides:   [{where, set, reason}]
//! design:      {blocks, unit, order, control: {axis, label, as} or null, warm_up_s, cool_down_s,
//!              quiet: {load, wait_s, otherwise}, noise, launches: [coordinates],
//!              degrees_of_freedom, sequence: [[launch] for each block]}; absent without a design
//! ```
//!
//! [`Experiment`]: crate::Experiment
//! [`Experiment::spec`]: crate::Experiment::spec

mod axes;
mod axis_forms;
mod beside_mistakes;
mod check;
mod compile;
mod declared_axes;
mod definitions;
mod design;
mod design_file;
pub(crate) mod diagnostics;
mod disk;
mod expand;
mod extends;
mod files;
mod grammar;
mod hidden;
mod inclusions;
mod interpolate;
mod launches;
mod library;
mod looks;
mod names;
mod needs;
mod not_yaml;
mod other_kinds;
mod parameters;
mod parse;
mod placeholders;
mod renamed;
mod respelt;
mod rules;
mod same;
mod secrets;
mod sections;
pub mod settings;
mod shared;
mod spec;
mod stages;
mod torn;
mod tree;
mod unknown_names;
mod unused;
mod variant;

pub use axes::label_like;
pub use check::{mistakes_in, number_meant, remedy_for_other_word, truth_meant};
pub use compile::{Options, load_text, with_own_definitions};
pub use diagnostics::{Diagnostic, Diagnostics, Place};
pub(crate) use disk::place_in;
pub use disk::{Disk, instead_of, load};
pub use files::{FileError, Files, NoFiles};
pub use grammar::experiment_schema;
pub use hidden::names_a_secret;
use names::check_name;
pub use names::{is_name, name_remedy};
pub use parse::json_of;
pub use secrets::has_known_key;
