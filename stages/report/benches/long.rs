//! The cost of a long report: rendering, number check, trace and page. Target: 100 pages with 5,000 traced numbers in
//! at most 500 ms, and a cost linear in the length of the report.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

mod study;

use std::time::Instant;

use artifacts::Store;
use report::Data;
use study::{Long, NUMBERS};

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("a store");
    println!(
        "{:>8} {:>6} {:>9} {:>10} {:>9} {:>9} {:>7}",
        "numbers", "pages", "stage ms", "render ms", "md KiB", "html KiB", "ratio"
    );
    let mut before: Option<f64> = None;
    for pages in [25, 50, 100, 200] {
        let long = Long::new(&store, pages);
        let parameters = serde_json::from_value(long.parameters.clone()).expect("parameters");
        let mut stage = f64::INFINITY;
        let mut render = f64::INFINITY;
        let (mut markdown, mut html) = (0, 0);
        // The least of five runs, since other work on the machine only adds time.
        for _ in 0..5 {
            let start = Instant::now();
            let done = long.render(&store, folder.path());
            stage = stage.min(start.elapsed().as_secs_f64() * 1e3);
            assert!(!done.outputs.is_empty());
            let start = Instant::now();
            let data = std::sync::Arc::new(Data::new(&long.inputs, Some(&long.study)));
            let report = report::render(&parameters, &data, &store).expect("a report");
            render = render.min(start.elapsed().as_secs_f64() * 1e3);
            assert_eq!(report.trace.rows(), pages * NUMBERS);
            (markdown, html) = (report.markdown.len() / 1024, report.html.len() / 1024);
        }
        let ratio = before.map_or_else(String::new, |b| format!("{:.2}", stage / b));
        println!(
            "{:>8} {pages:>6} {stage:>9.1} {render:>10.1} {markdown:>9} {html:>9} {ratio:>7}",
            pages * NUMBERS
        );
        before = Some(stage);
    }
}
