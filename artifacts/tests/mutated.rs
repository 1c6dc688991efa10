//! Damaged and hostile Parquet files: an error or a table, never a panic and never memory without bound.
//! `PROPTEST_CASES=20000 cargo test -p artifacts --test mutated` tries more.

use artifacts::{Column, Table};
use proptest::prelude::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The address space limit of this process in bytes: far more than a table of a few rows needs, far less than a forged
/// length requests.
const MEMORY: u64 = 3 << 30;

/// Limits the memory of this process. An allocation beyond the limit fails, and with it the test.
fn bound_memory() {
    let limit = Rlimit {
        current: Some(MEMORY),
        maximum: getrlimit(Resource::As).maximum,
    };
    setrlimit(Resource::As, limit).expect("a lower limit can always be set");
}

fn sample() -> Vec<u8> {
    let rows = 500_i64;
    let table = Table::new(vec![
        Column::int("id", (0..rows).map(Some)),
        Column::float(
            "seconds",
            (0..rows).map(|i| (i % 7 != 0).then_some(i as f64 / 3.0)),
        ),
        Column::text(
            "engine",
            (0..rows).map(|i| Some(["a", "bb", "ccc"][i as usize % 3])),
        ),
        Column::boolean("ok", (0..rows).map(|i| Some(i % 2 == 0))),
    ]);
    table.and_then(|t| t.to_parquet()).expect("a table")
}

proptest! {
    #[test]
    fn a_mutated_file_is_an_error_or_a_table(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
        in_footer in any::<bool>(),
    ) {
        bound_memory();
        let mut bytes = sample();
        let length = bytes.len();
        // Half of the faults hit the footer, which contains lengths and offsets.
        let from = if in_footer { length - length / 4 } else { 0 };
        for (place, byte) in edits {
            bytes[from + place.index(length - from)] ^= byte | 1;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(length));
        }
        if let Ok(table) = Table::from_parquet(bytes) {
            prop_assert!(table.rows() <= 1 << 24);
        }
    }

    #[test]
    fn any_bytes_are_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        bound_memory();
        prop_assert!(Table::from_parquet(bytes.clone()).is_err());
        bytes.extend_from_slice(b"PAR1");
        prop_assert!(Table::from_parquet(bytes).is_err());
    }
}
