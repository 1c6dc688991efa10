//! A damaged Parquet file over which the reader panics is an error of that file: nothing else reaches the terminal.

use std::panic::{catch_unwind, set_hook};
use std::sync::Mutex;

use artifacts::{Column, Table};

/// Everything that a panic told.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_reader_that_stumbles_over_a_file_prints_nothing_and_any_other_panic_is_told() {
    // The first hook: whatever is installed later sees a panic before it does.
    set_hook(Box::new(|panic| {
        TOLD.lock().expect("a list").push(panic.to_string());
    }));
    let rows = 0..200_i64;
    let table = Table::new(vec![Column::float(
        "seconds",
        rows.map(|i| (i % 7 != 0).then_some(i as f64)),
    )]);
    let sound = table.and_then(|t| t.to_parquet()).expect("a table");
    let mut stumbled = 0;
    for at in 4..sound.len() {
        for bit in 0..8 {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            let read = Table::from_parquet(bytes).map_err(|e| e.to_string());
            stumbled += usize::from(read.is_err_and(|e| e.contains("contradict each other")));
        }
    }
    assert!(stumbled > 0, "no file made the reader panic");
    let told = TOLD.lock().expect("a list").clone();
    assert!(told.is_empty(), "{stumbled} files: {told:?}");
    assert!(catch_unwind(|| panic!("a fault of ours")).is_err());
    let told = TOLD.lock().expect("a list").clone();
    assert!(
        told.len() == 1 && told[0].contains("a fault of ours"),
        "{told:?}"
    );
}
