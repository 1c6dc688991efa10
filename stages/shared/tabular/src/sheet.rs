//! A file as named columns.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use crate::field::{Field, Unreadable};
use crate::{delimited, json, other_kind, parquet};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Commas, with a header line.
    Csv,
    /// Tabs, with a header line.
    Tsv,
    /// A list of objects, or one object per line.
    Json,
    /// Parquet.
    Parquet,
}

impl Format {
    /// Returns the format for a file's name.
    ///
    /// # Errors
    /// If the extension is unknown.
    pub fn of(name: &str) -> Result<Self, Unreadable> {
        let ending = Path::new(name).extension().and_then(|e| e.to_str());
        match ending.unwrap_or_default().to_ascii_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "tsv" => Ok(Self::Tsv),
            "json" | "jsonl" | "ndjson" => Ok(Self::Json),
            "parquet" => Ok(Self::Parquet),
            other => {
                let message = match other {
                    "" => "its name has no ending that shows its format".to_owned(),
                    other => format!("files that end in `.{other}` are not read as tables"),
                };
                let hint = "write `.csv`, `.tsv`, `.json`, `.jsonl` or `.parquet`";
                Err(Unreadable::new(message, hint))
            }
        }
    }
}

/// The places of the rows in their file.
#[derive(Clone, Debug, PartialEq)]
pub enum Places {
    /// The lines of each row, from 0, half-open.
    Lines(Vec<Range<usize>>),
    /// Consecutive rows, and their number.
    Rows(usize),
}

impl Places {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Lines(lines) => lines.len(),
            Self::Rows(rows) => *rows,
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the place of a row: lines of the file, or rows of a Parquet file, from 0, half-open.
    pub fn of(&self, row: usize) -> Range<usize> {
        match self {
            Self::Lines(lines) => lines[row].clone(),
            Self::Rows(_) => row..row + 1,
        }
    }

    /// Returns the place of a row for display, from 1: `line 4`, `row 4`.
    pub fn words(&self, row: usize) -> String {
        let word = match self {
            Self::Lines(_) => "line",
            Self::Rows(_) => "row",
        };
        format!("{word} {}", self.of(row).start + 1)
    }
}

/// A file as named columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// The names, in the order of the file.
    pub names: Vec<String>,
    /// The unit of each column, if the file states it.
    pub units: Vec<Option<String>>,
    /// The values of each column.
    pub columns: Vec<Vec<Field>>,
    /// The place of each row.
    pub places: Places,
    /// The remarks before the header line.
    pub remarks: Vec<String>,
}

impl Sheet {
    /// Returns the index of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.places.len()
    }
}

/// The most fields, rows times columns, of a sheet. A field takes 24 bytes, even if it is empty.
const MOST_FIELDS: usize = if cfg!(test) { 1 << 20 } else { 1 << 27 };

/// Refuses a sheet of this size, if it is too large.
pub(crate) fn check_fields(rows: usize, columns: usize) -> Result<(), Unreadable> {
    if rows.saturating_mul(columns) <= MOST_FIELDS {
        return Ok(());
    }
    let message = format!(
        "the table has at least {rows} rows of {columns} columns, more than {MOST_FIELDS} fields"
    );
    let hint = "leave out rows and columns that are not needed, or divide the file";
    Err(Unreadable::new(message, hint))
}

/// Reads a file. `below` names the path to the rows of a JSON document: keys joined by dots.
///
/// # Errors
/// If the file is truncated, two columns have the same name, or the content does not match the
/// format.
pub fn read(format: Format, bytes: &[u8], below: Option<&str>) -> Result<Sheet, Unreadable> {
    if let Some(kind) = other_kind(bytes) {
        return Err(Unreadable::new(kind.what, kind.remedy));
    }
    if format != Format::Parquet && bytes.starts_with(b"PAR1") {
        let hint = "give its name the ending `.parquet`";
        return Err(Unreadable::new("it is a Parquet table", hint));
    }
    let sheet = match format {
        Format::Csv => delimited::read(bytes, b',', csv::Trim::All),
        Format::Tsv => delimited::read(bytes, b'\t', csv::Trim::All),
        Format::Json => json::read(bytes, below),
        Format::Parquet => parquet::read(bytes),
    }?;
    distinct(sheet)
}

/// Reads texts from CSV. Unlike [`read`], it keeps spaces and line breaks at the ends of a field.
///
/// # Errors
/// As [`read`].
pub fn read_texts(bytes: &[u8]) -> Result<Sheet, Unreadable> {
    if let Some(kind) = other_kind(bytes) {
        return Err(Unreadable::new(kind.what, kind.remedy));
    }
    distinct(delimited::read(bytes, b',', csv::Trim::Headers)?)
}

/// Refuses a sheet with two columns of one name.
fn distinct(sheet: Sheet) -> Result<Sheet, Unreadable> {
    let mut names = BTreeSet::new();
    for name in &sheet.names {
        if !names.insert(name) {
            let message = format!("two columns are named `{name}`");
            return Err(Unreadable::new(message, "give every column its own name"));
        }
    }
    Ok(sheet)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headings_without_number_are_refused_before_they_are_read() {
        for (format, separator) in [(Format::Csv, ","), (Format::Tsv, "\t")] {
            let many = separator.repeat(MOST_FIELDS);
            for before in ["", "# remark\n\n", "a", "\"a\nb\""] {
                let text = format!("{before}{many}\n");
                let wrong = read(format, text.as_bytes(), None).unwrap_err();
                assert!(
                    wrong.message.contains("1048577 columns"),
                    "{}",
                    wrong.message
                );
            }
        }
    }

    #[test]
    fn an_object_that_has_a_key_twice_is_refused_with_its_place() {
        for text in [
            "{\"a\": 1}\n{\"a\": 1, \"b\": 2, \"a\": 3}\n",
            "[{\"a\": 1},\n {\"a\": {\"c\": 1, \"c\": 1}}]",
        ] {
            let wrong = read(Format::Json, text.as_bytes(), None).unwrap_err();
            assert!(
                wrong.message.contains("an object has the key"),
                "{}",
                wrong.message
            );
            assert_eq!(wrong.line, Some(2));
            assert!(wrong.hint.contains("remove one"), "{}", wrong.hint);
        }
    }

    #[test]
    fn separators_of_rows_and_within_quotes_are_no_headings() {
        // The separators of all rows together are more than the fields that a table may have, and no row is.
        let note = ",".repeat(MOST_FIELDS + 1);
        let text = format!("\"a \"\"b\"\"\",\"c,\nd\",e\n1,2,\"{note}\"\n");
        let sheet = read(Format::Csv, text.as_bytes(), None).unwrap();
        assert_eq!(sheet.names, ["a \"b\"", "c,\nd", "e"]);
        assert_eq!(sheet.rows(), 1);
    }

    #[test]
    fn names_of_very_many_columns_are_compared_in_one_pass() {
        let names: Vec<String> = (0..300_000).map(|n| format!("c{n}")).collect();
        let table =
            |names: &[String]| format!("{}\n{}\n", names.join(","), ",".repeat(names.len() - 1));
        let sheet = read(Format::Csv, table(&names).as_bytes(), None).unwrap();
        assert_eq!((sheet.rows(), sheet.names.len()), (1, names.len()));
        let mut twice = names;
        twice.push("c0".to_owned());
        let wrong = read(Format::Csv, table(&twice).as_bytes(), None).unwrap_err();
        assert_eq!(wrong.message, "two columns are named `c0`");
    }

    fn text(text: &str) -> Field {
        Field::Text(text.to_owned())
    }

    #[test]
    fn a_small_file_cannot_make_a_table_larger_than_the_memory() {
        // Each row has a column of its own: 15 KB are a million fields.
        let bytes: String = (0..1_100).map(|n| format!("{{\"k{n}\":1}}\n")).collect();
        let error = read(Format::Json, bytes.as_bytes(), None).unwrap_err();
        assert!(error.message.contains("fields"), "{error:?}");
        assert_eq!(error.line, Some(1_025), "{error:?}");
        // Wide lines of nothing.
        let heading: Vec<String> = (0..1_024).map(|n| format!("c{n}")).collect();
        let line = ",".repeat(1_023) + "\n";
        let file = |lines: usize| format!("{}\n{}", heading.join(","), line.repeat(lines));
        assert!(read(Format::Csv, file(1_024).as_bytes(), None).is_ok());
        let error = read(Format::Csv, file(1_025).as_bytes(), None).unwrap_err();
        assert!(error.message.contains("fields"), "{error:?}");
    }

    #[test]
    fn the_memory_of_json_is_estimated_without_the_signs_within_its_texts() {
        let memory = |text: &str| artifacts::json::memory(text.as_bytes());
        assert_eq!(memory(r#"{"a{,:[\"{": 1}"#), memory(r#"{"a": 1}"#));
        assert!(memory("[1, 2, 3]") > memory("[1]"));
        assert!(memory("[{}, {}]") > memory("[1, 2]"));
        assert_eq!(memory(r#""a text without an end, {{{{"#), 0);
    }

    #[test]
    fn rows_that_become_objects_are_counted_as_json_is() {
        assert!(json::check_objects(7_000_000, 1).is_ok());
        let error = json::check_objects(10_000_000, 1).unwrap_err();
        assert!(error.message.contains("the limit is 4096 MiB"), "{error:?}");
        assert!(json::check_objects(usize::MAX, usize::MAX).is_err());
    }

    #[test]
    fn remarks_empty_fields_and_lines_of_csv_are_known() {
        let bytes = b"# source: paper | section: 3\n# note: by hand\nname,n\n\"a,b\",1\n\"two\nlines\",\nlast,3\n";
        let sheet = read(Format::Csv, bytes, None).unwrap();
        assert_eq!(sheet.names, ["name", "n"]);
        assert_eq!(
            sheet.remarks,
            ["source: paper | section: 3", "note: by hand"]
        );
        assert_eq!(
            sheet.columns[0],
            [text("a,b"), text("two\nlines"), text("last")]
        );
        assert_eq!(sheet.columns[1], [text("1"), Field::Null, text("3")]);
        assert_eq!(sheet.places, Places::Lines(vec![3..4, 4..6, 6..7]));
        assert_eq!(sheet.places.words(2), "line 7");
    }

    #[test]
    fn lines_of_csv_count_ends_of_lines_of_windows_empty_lines_and_remarks() {
        let lines = "# remark\nname,n\n\n\na,1\n# remark\n\n\"b\nc\",2\nd,3\n";
        for bytes in [lines.to_owned(), lines.replace('\n', "\r\n")] {
            let sheet = read(Format::Csv, bytes.as_bytes(), None).unwrap();
            assert_eq!(
                sheet.places,
                Places::Lines(vec![4..5, 7..9, 9..10]),
                "{bytes:?}"
            );
            let short = bytes.replace("d,3", "d");
            let wrong = read(Format::Csv, short.as_bytes(), None).unwrap_err();
            assert_eq!(wrong.line, Some(10), "{bytes:?}");
        }
    }

    #[test]
    fn a_list_lines_and_a_list_below_keys_give_the_same_rows() {
        let list = "[\n {\"a\": 1, \"b\": null},\n {\"a\": 2.5,\n  \"c\": \"x\"}\n]\n";
        let lines = "{\"a\": 1, \"b\": null}\n\n{\"a\": 2.5, \"c\": \"x\"}\n";
        let below = "{\"meta\": {\"rows\": [0]},\n \"results\": {\"rows\": [{\"a\": 1, \"b\": null}, {\"a\": 2.5, \"c\": \"x\"}]}}";
        let sheet = |text: &str, below| read(Format::Json, text.as_bytes(), below).unwrap();
        let (list, lines, below) = (
            sheet(list, None),
            sheet(lines, None),
            sheet(below, Some("results.rows")),
        );
        assert_eq!(list.names, ["a", "b", "c"]);
        assert_eq!(list.columns[0], [Field::Int(1), Field::Float(2.5)]);
        assert_eq!(list.columns[2], [Field::Null, text("x")]);
        assert_eq!(
            (&list.columns, &list.columns),
            (&lines.columns, &below.columns)
        );
        assert_eq!(list.places, Places::Lines(vec![1..2, 2..4]));
        assert_eq!(lines.places, Places::Lines(vec![0..1, 2..3]));
    }

    #[test]
    fn mistakes_are_reported_with_their_places() {
        for (format, bytes, place, part) in [
            (
                Format::Csv,
                "a,b\n1,2\n3\n",
                "f:3: ",
                "1 field, but 2 headings",
            ),
            (Format::Csv, "", "f: ", "the file is empty"),
            (Format::Csv, "\n\n", "f: ", "the file is empty"),
            (Format::Csv, "# remark\n,\n", "f:2: ", "no heading"),
            (
                Format::Csv,
                "# remark\na;b\n1,5;2\n",
                "f:2: ",
                "separated by semicolons",
            ),
            (Format::Csv, "a\tb\n1\t2\n", "f:1: ", "separated by tabs"),
            (Format::Csv, "a|b\n1|2\n", "f:1: ", "separated by `|`"),
            (Format::Tsv, "a,b\n1,2\n", "f:1: ", "separated by commas"),
            (
                Format::Csv,
                "sep=,\na,b\n1,2\n",
                "f:1: ",
                "for a spreadsheet",
            ),
            (Format::Csv, "PAR1", "f: ", "a Parquet table"),
            (Format::Csv, "<!DOCTYPE html>\n", "f: ", "a web page"),
            (
                Format::Json,
                "version https://git-lfs.github.com/spec/v1\n",
                "f: ",
                "a pointer of Git LFS",
            ),
            (Format::Csv, "a,a\n1,2\n", "f: ", "two columns"),
            (
                Format::Json,
                "[{\"a\": 1},\n {\"a\" 2}]",
                "f:2:7: ",
                "expected `:`",
            ),
            (Format::Json, "[{\"a\": 1},", "f:1:11: ", "does not end"),
            (Format::Json, "{\"a\": 1}\n[2]\n", "f:2: ", "not an object"),
            (Format::Json, "hello", "f:1:1: ", "neither objects"),
            (Format::Json, "{\"a\": {}}\n{\"a\"", "f:2:1: ", "EOF"),
            (Format::Json, "{\"a\": 1}\n{\"a\": 2\n\n", "f:2:1: ", "EOF"),
            (
                Format::Csv,
                "a,b\n1,\"x\"\n2,\"y\n3,z\n",
                "f:3: ",
                "never closed",
            ),
            (Format::Parquet, "PAR1", "f: ", "cut off"),
            (Format::Parquet, "PAR1....PAR", "f: ", "cut off"),
            (
                Format::Parquet,
                "PAR1........PAR1",
                "f: ",
                "not a readable Parquet table",
            ),
            (Format::Parquet, "a,b\n", "f: ", "not a Parquet file"),
        ] {
            let error = read(format, bytes.as_bytes(), None).unwrap_err().of("f");
            assert!(
                error.starts_with(place) && error.contains(part),
                "{bytes}: {error}"
            );
        }
        for (bytes, part, remedy) in [
            (b"\x1f\x8b\x08".as_slice(), "gzip", "gunzip"),
            (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
            (b"PK\x03\x04", "spreadsheet", "as CSV"),
            (b"\xff\xfea\0,\0b\0", "UTF-16", "iconv"),
        ] {
            for format in [Format::Csv, Format::Json, Format::Parquet] {
                let error = read(format, bytes, None).unwrap_err();
                assert!(error.message.contains(part), "{error:?}");
                assert!(error.hint.contains(remedy), "{error:?}");
            }
        }
        // A separator in a heading alone is part of its name.
        let sheet = read(Format::Csv, b"a; b\n1\n", None).unwrap();
        assert_eq!(sheet.names, ["a; b"]);
        let error = read(Format::Json, b"{\"rows\": [], \"more\": 1}", Some("row")).unwrap_err();
        assert!(error.hint.contains("rows, more"), "{}", error.hint);
        assert!(
            Format::of("a.xlsx")
                .unwrap_err()
                .message
                .contains("`.xlsx`")
        );
        assert_eq!(Format::of("A.CSV"), Ok(Format::Csv));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), json in ".{0,200}") {
            for format in [Format::Csv, Format::Tsv, Format::Json, Format::Parquet] {
                let _ = read(format, &bytes, None);
                let _ = read(format, json.as_bytes(), Some("a.b"));
            }
        }

        #[test]
        fn a_cut_list_of_json_is_refused(n in 1usize..6, cut in 0usize..60) {
            let rows: Vec<String> = (0..n).map(|i| format!("{{\"a\": {i}}}")).collect();
            let text = format!("[{}]", rows.join(",\n"));
            if cut < text.len() {
                prop_assert!(read(Format::Json, &text.as_bytes()[..cut], None).is_err());
            }
        }
    }
}
