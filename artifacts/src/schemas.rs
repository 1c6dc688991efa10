//! Shares schemas in memory between tables of one kind. A study has thousands of small tables with the same columns,
//! whose names, units and meanings are larger than their values.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, Weak};

use arrow_schema::{Schema, SchemaRef};

use crate::lock;

/// The most schemas to remember. A program has a few dozen; foreign files may have any number.
const MOST: usize = 1024;

type Known = HashMap<u64, Weak<Schema>>;

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Returns an equal schema that is already in use, or this one.
pub(crate) fn shared(schema: SchemaRef) -> SchemaRef {
    let mut hasher = DefaultHasher::new();
    for field in schema.fields() {
        field.name().hash(&mut hasher);
    }
    let mut guard = lock(&KNOWN);
    let schemas = guard.get_or_insert_default();
    let entry = hasher.finish();
    match schemas.get(&entry).and_then(Weak::upgrade) {
        Some(same) if same == schema => return same,
        Some(_) => return schema,
        None => {}
    }
    if schemas.len() >= MOST {
        schemas.retain(|_, schema| schema.strong_count() > 0);
    }
    if schemas.len() < MOST {
        schemas.insert(entry, Arc::downgrade(&schema));
    }
    schema
}

#[cfg(test)]
mod tests {
    use crate::{Column, Table};

    #[test]
    fn tables_that_are_read_share_a_schema_if_it_is_the_same_to_the_unit() {
        let table = |unit: &str, value: f64| {
            let column = Column::float("schemas_test", [Some(value)]).unit(unit);
            let bytes = Table::new(vec![column]).unwrap().to_parquet().unwrap();
            Table::from_parquet(bytes).unwrap()
        };
        let (one, two, other) = (table("ms", 1.0), table("ms", 2.0), table("s", 1.0));
        let schema = |table: &Table| table.batch().schema();
        assert!(std::sync::Arc::ptr_eq(&schema(&one), &schema(&two)));
        assert_eq!(other.unit("schemas_test").as_deref(), Some("s"));
        assert_eq!(two.unit("schemas_test").as_deref(), Some("ms"));
    }
}
