//! dev
use std::path::Path;
#[test]
fn show() {
    let Some(report) = std::env::var_os("REPORT") else { return };
    let text = std::fs::read_to_string(&report).unwrap();
    let (data, unread) = std::env::var_os("DATA").map(|d| foreign::read_folder(Path::new(&d)).unwrap()).unwrap_or_default();
    if std::env::var_os("TABLES").is_some() {
        for t in &foreign::Report::parse(&text).tables {
            println!("T {} {:?} rows {} rec {} | {:?}", t.line, t.columns, t.rows.len(), t.recovered, t.rows.first().map(|r| r.cells.iter().map(|c| c.text.clone()).collect::<Vec<_>>()));
        }
    }
    println!("{}", foreign::audit("r", &text, &data, unread));
}
