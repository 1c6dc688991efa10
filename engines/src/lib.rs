//! Engine and model definitions: data about serving engines, shipped and user-made.
