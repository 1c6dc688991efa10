//! A damaged Parquet file over which the reader panics is an error of that file: nothing else reaches the terminal.

use std::panic::{catch_unwind, set_hook};
use std::sync::Mutex;

use artifacts::{Column, Table};

/// The messages of all panics.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_reader_that_panics_over_a_file_prints_nothing_and_any_other_panic_is_printed() {
    // The first hook: whatever is installed later sees a panic before it does.
    set_hook(Box::new(|panic| {
        MESSAGES.lock().expect("a list").push(panic.to_string());
    }));
    let rows = 0..200_i64;
    let table = Table::new(vec![Column::float(
        "seconds",
        rows.map(|i| (i % 7 != 0).then_some(i as f64)),
    )]);
    let sound = table.and_then(|t| t.to_parquet()).expect("a table");
    let mut panicked = 0;
    for at in 4..sound.len() {
        for bit in 0..8 {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            let read = Table::from_parquet(bytes).map_err(|e| e.to_string());
            panicked += usize::from(read.is_err_and(|e| e.contains("contradict each other")));
        }
    }
    assert!(panicked > 0, "no file made the reader panic");
    let messages = MESSAGES.lock().expect("a list").clone();
    assert!(messages.is_empty(), "{panicked} files: {messages:?}");
    assert!(catch_unwind(|| panic!("a fault of ours")).is_err());
    let messages = MESSAGES.lock().expect("a list").clone();
    assert!(
        messages.len() == 1 && messages[0].contains("a fault of ours"),
        "{messages:?}"
    );
}
