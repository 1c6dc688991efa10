//! Parquet.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Decimal128Array};
use arrow_schema::DataType;
use artifacts::Table;

use crate::field::{Field, Unreadable};
use crate::sheet::{Places, Sheet, check_fields};

/// The first and the last bytes of a Parquet file.
const MARK: &[u8] = b"PAR1";

/// Describes why the reader refuses a file.
fn unreadable(message: &str) -> Unreadable {
    // The words of the Parquet reader; the feature has the name of the compression or of the package for it.
    if message.contains("CRC checksum mismatch") {
        return Unreadable::new(
            "a page of the file does not match its checksum",
            "a byte of the file has changed since it was written: copy it again from its origin",
        );
    }
    let Some((_, feature)) = message.split_once("Disabled feature at compile time: ") else {
        return Unreadable::new(message, "the file is damaged: copy or write it again");
    };
    let compression = match feature {
        "flate2" => "gzip",
        other => other,
    };
    Unreadable::new(
        format!("its columns are compressed with {compression}, which is not read here"),
        "write it without compression or with snappy, for example with `compression=\"snappy\"` in pandas or Polars",
    )
}

/// Reads a whole Parquet file. Values other than numbers, text and truth values are [`Field::Other`]. Values that are
/// written once, with a number for each row (categories), are read as if every row had its own.
pub(crate) fn read(bytes: &[u8]) -> Result<Sheet, Unreadable> {
    if !bytes.starts_with(MARK) {
        let hint = "give a Parquet file, or name the format that the file has";
        return Err(Unreadable::new("it is not a Parquet file", hint));
    }
    if bytes.len() < 2 * MARK.len() || !bytes.ends_with(MARK) {
        let hint = "copy it again; if a program is still writing it, let the program end";
        return Err(Unreadable::new("the Parquet file is cut off", hint));
    }
    let table = Table::from_parquet(bytes.to_vec()).map_err(|e| unreadable(&e.to_string()))?;
    let schema = table.batch().schema();
    let fields = schema.fields();
    check_fields(table.rows(), fields.len())?;
    let unit = |f: &arrow_schema::FieldRef| f.metadata().get("unit").cloned();
    Ok(Sheet {
        names: fields.iter().map(|f| f.name().clone()).collect(),
        units: fields.iter().map(unit).collect(),
        columns: table.batch().columns().iter().map(column).collect(),
        places: Places::Rows(table.rows()),
        remarks: Vec::new(),
    })
}

fn float(value: f64) -> Field {
    if value.is_finite() {
        Field::Float(value)
    } else {
        Field::Other("a number that is not finite")
    }
}

fn column(array: &ArrayRef) -> Vec<Field> {
    macro_rules! numbers {
        ($type:ty, $field:expr) => {
            array
                .as_primitive::<$type>()
                .iter()
                .map(|v| v.map_or(Field::Null, $field))
                .collect()
        };
    }
    macro_rules! texts {
        ($values:expr) => {
            $values
                .iter()
                .map(|v| v.map_or(Field::Null, |text| Field::Text(text.to_owned())))
                .collect()
        };
    }
    match array.data_type() {
        DataType::Int8 => numbers!(Int8Type, |v| Field::Int(v.into())),
        DataType::Int16 => numbers!(Int16Type, |v| Field::Int(v.into())),
        DataType::Int32 => numbers!(Int32Type, |v| Field::Int(v.into())),
        DataType::Int64 => numbers!(Int64Type, Field::Int),
        DataType::UInt8 => numbers!(UInt8Type, |v| Field::Int(v.into())),
        DataType::UInt16 => numbers!(UInt16Type, |v| Field::Int(v.into())),
        DataType::UInt32 => numbers!(UInt32Type, |v| Field::Int(v.into())),
        DataType::UInt64 => numbers!(UInt64Type, |v| {
            i64::try_from(v).map_or(Field::Other("a number above 2^63"), Field::Int)
        }),
        DataType::Float32 => numbers!(Float32Type, |v| float(v.into())),
        DataType::Float64 => numbers!(Float64Type, float),
        DataType::Boolean => {
            let values = array.as_boolean();
            let field = |v: Option<bool>| v.map_or(Field::Null, Field::Bool);
            values.iter().map(field).collect()
        }
        DataType::Utf8 => texts!(array.as_string::<i32>()),
        DataType::LargeUtf8 => texts!(array.as_string::<i64>()),
        DataType::Utf8View => texts!(array.as_string_view()),
        DataType::Null => vec![Field::Null; array.len()],
        DataType::Dictionary(..) => categories(array),
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>();
            (0..values.len()).map(|row| decimal(values, row)).collect()
        }
        other => {
            let field = Field::Other(described(other));
            let nulls = array.logical_nulls();
            let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let each = (0..array.len()).map(|row| match is_null(row) {
                true => Field::Null,
                false => field.clone(),
            });
            each.collect()
        }
    }
}

/// Reads values that are written once each, with a number for every row.
fn categories(array: &ArrayRef) -> Vec<Field> {
    let coded = array.as_any_dictionary();
    let values = column(coded.values());
    if values.is_empty() {
        return vec![Field::Null; array.len()];
    }
    let keys = coded.normalized_keys();
    let keys = keys.into_iter().enumerate();
    keys.map(|(row, key)| match array.is_null(row) {
        true => Field::Null,
        false => values[key].clone(),
    })
    .collect()
}

/// Reads a decimal number: the integer, or the double that is nearest to it.
fn decimal(values: &Decimal128Array, row: usize) -> Field {
    if values.is_null(row) {
        return Field::Null;
    }
    let text = values.value_as_string(row);
    match (text.parse(), text.parse()) {
        (Ok(value), _) => Field::Int(value),
        (Err(_), Ok(value)) => float(value),
        (Err(_), Err(_)) => Field::Other("a decimal number that no double holds"),
    }
}

/// Describes a type that is neither a number nor text, and how to make it one.
fn described(kind: &DataType) -> &'static str {
    match kind {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            "a date or a timestamp; write it as a number, such as seconds since the first request"
        }
        DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Interval(_) => "a time of day or a duration; write it as a number of one unit",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "bytes, not text; write it as text (UTF-8)",
        DataType::Float16
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal256(..) => {
            "a number of an unusual type; write it as a double or as an integer of 64 bits"
        }
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => "a list",
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => "an object",
        _ => "a type that is neither a number nor text",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::UInt8Type;
    use arrow_array::{BinaryArray, DictionaryArray, Int64Array, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn categories_are_read_as_the_values_that_they_stand_for() {
        let words: DictionaryArray<Int8Type> = [Some("ok"), None, Some("late"), Some("ok")]
            .into_iter()
            .collect();
        let text = |text: &str| Field::Text(text.to_owned());
        let read = column(&(Arc::new(words) as ArrayRef));
        assert_eq!(read, [text("ok"), Field::Null, text("late"), text("ok")]);
        let keys = arrow_array::UInt8Array::from(vec![Some(1), None, Some(0)]);
        let values = Arc::new(Int64Array::from(vec![7, 9]));
        let numbers: DictionaryArray<UInt8Type> = DictionaryArray::new(keys, values);
        let read = column(&(Arc::new(numbers) as ArrayRef));
        assert_eq!(read, [Field::Int(9), Field::Null, Field::Int(7)]);
        let nothing: DictionaryArray<Int8Type> = [None::<&str>, None].into_iter().collect();
        let read = column(&(Arc::new(nothing) as ArrayRef));
        assert_eq!(read, [Field::Null, Field::Null]);
    }

    /// One row, as pyarrow 26.0.1 writes it with a compression.
    const COMPRESSED: [(&str, &str); 2] = [
        (
            "zstd",
            "504152311504151015224c1502150012000028b52ffd200841000001000000000000001500151215242c1502151015061506\
             1c00000028b52ffd20094900000200000002010102001504192c35001806736368656d611502001504250218016100160219\
             1c191c26001c1504193500061019180161150c1602166416880126462608292c15041500150200150015101502003c290619\
             260002000000166416022608168801002820706172717565742d6370702d6172726f772076657273696f6e2032362e302e31\
             191c1c0000008600000050415231",
        ),
        (
            "gzip",
            "5041523115041510152e4c150215001200001f8b08000000000002036364800000f7df88a90800000015001512153a2c1502\
             1510150615061c0000001f8b0800000000000203636260606062646462000098007739090000001504192c35001806736368\
             656d6115020015042502180161001602191c191c26001c150419350006101918016115041602166416aa0126522608292c15\
             041500150200150015101502003c29061926000200000016641602260816aa01002820706172717565742d6370702d617272\
             6f772076657273696f6e2032362e302e31191c1c0000008600000050415231",
        ),
    ];

    /// The numbers 1 and 2 without compression, as pyarrow 26.0.1 writes them with `write_page_checksum=True`.
    const CHECKED: &str = "504152311500152c152c15edb4a89c031c15041500150615061c000000020000000401010000000000000002000000\
        000000001504192c35001806736368656d6115020015042502180161001604191c191c26001c1504192506001918016115001604165e165e2608\
        491c150015001502003c290619260004000000165e16042608165e002820706172717565742d6370702d6172726f772076657273696f6e2032362\
        e302e31191c1c0000007a00000050415231";

    #[test]
    fn a_changed_byte_is_noticed_if_the_file_has_checksums() {
        let byte = |at: usize| u8::from_str_radix(&CHECKED[at..at + 2], 16).unwrap();
        let mut bytes: Vec<u8> = (0..CHECKED.len()).step_by(2).map(byte).collect();
        let whole = read(&bytes).unwrap();
        assert_eq!(whole.columns, [[Field::Int(1), Field::Int(2)]]);
        let one = bytes
            .windows(8)
            .position(|part| part == 1_i64.to_le_bytes());
        bytes[one.unwrap()] ^= 2;
        let error = read(&bytes).unwrap_err();
        assert_eq!(
            error.message,
            "a page of the file does not match its checksum"
        );
        assert!(error.hint.contains("copy it again"), "{}", error.hint);
    }

    #[test]
    fn a_compression_that_is_not_read_is_named() {
        for (compression, digits) in COMPRESSED {
            let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
            let error = read(&bytes).unwrap_err();
            let message =
                format!("its columns are compressed with {compression}, which is not read here");
            assert_eq!(error.message, message);
            assert!(error.hint.contains("snappy"), "{}", error.hint);
        }
    }

    #[test]
    fn decimals_are_numbers_and_other_types_are_named_with_the_remedy() {
        let decimals = |scale| {
            let values = Decimal128Array::from(vec![Some(1_250), None, Some(-3_000)]);
            let values = values.with_precision_and_scale(38, scale).unwrap();
            column(&(Arc::new(values) as ArrayRef))
        };
        let whole = [Field::Int(1_250), Field::Null, Field::Int(-3_000)];
        assert_eq!(decimals(0), whole);
        let parts = [Field::Float(1.25), Field::Null, Field::Float(-3.0)];
        assert_eq!(decimals(3), parts);
        let others: [(ArrayRef, &str); 2] = [
            (
                Arc::new(TimestampNanosecondArray::from(vec![Some(5), None])),
                "timestamp",
            ),
            (
                Arc::new(BinaryArray::from(vec![Some(b"ok".as_slice()), None])),
                "bytes, not text",
            ),
        ];
        for (array, word) in others {
            let read = column(&array);
            assert!(
                matches!(read[0], Field::Other(what) if what.contains(word)),
                "{read:?}"
            );
            assert_eq!(read[1], Field::Null, "a null has no type");
        }
    }
}
