//! Parquet.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use artifacts::Table;

use crate::field::{Field, Unreadable};
use crate::sheet::{Places, Sheet, check_fields};

/// Reads a whole Parquet file. Values other than numbers, text and truth values are
/// [`Field::Other`].
pub(crate) fn read(bytes: &[u8]) -> Result<Sheet, Unreadable> {
    let table = Table::from_parquet(bytes.to_vec()).map_err(|e| {
        let hint = "write a Parquet file without compression, or with snappy";
        Unreadable::new(e.to_string(), hint)
    })?;
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
        _ => vec![Field::Other("a type that is neither a number nor text"); array.len()],
    }
}
