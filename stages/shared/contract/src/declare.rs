//! Tables declared once: the declaration of a row yields its type, its writer, its reader, the
//! empty shape, and its documentation.

use std::collections::BTreeSet;
use std::fmt;

use arrow_array::{BooleanArray, Float64Array, Int64Array, StringArray};
use artifacts::{Column, ColumnData, InPlace, Table, TableError};
use serde::Serialize;

/// The type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnType {
    /// 64-bit integers.
    Int,
    /// Doubles.
    Float,
    /// UTF-8 text.
    Text,
    /// Truth values.
    Bool,
}

impl ColumnType {
    /// Returns the word for the type.
    pub fn word(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Float => "float",
            Self::Text => "text",
            Self::Bool => "bool",
        }
    }

    fn empty(self) -> ColumnData {
        self.nulls(0)
    }

    fn nulls(self, rows: usize) -> ColumnData {
        match self {
            Self::Int => ColumnData::Int(vec![None; rows]),
            Self::Float => ColumnData::Float(vec![None; rows]),
            Self::Text => ColumnData::Text(vec![None; rows]),
            Self::Bool => ColumnData::Bool(vec![None; rows]),
        }
    }
}

impl From<&ColumnData> for ColumnType {
    fn from(data: &ColumnData) -> Self {
        match data {
            ColumnData::Int(_) => Self::Int,
            ColumnData::Float(_) => Self::Float,
            ColumnData::Text(_) => Self::Text,
            ColumnData::Bool(_) => Self::Bool,
        }
    }
}

/// The declaration of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnSpec {
    /// The name.
    pub name: &'static str,
    /// The type of its values.
    #[serde(rename = "type")]
    pub holds: ColumnType,
    /// The unit, where one makes sense.
    pub unit: Option<&'static str>,
    /// Whether a value may be null.
    pub nullable: bool,
    /// The words it may hold, if it holds words from a list.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub words: &'static [&'static str],
    meaning: &'static str,
}

impl ColumnSpec {
    /// Declares a column. White space around the meaning is trimmed.
    #[doc(hidden)]
    pub const fn new<V: Value>(
        name: &'static str,
        unit: Option<&'static str>,
        meaning: &'static str,
    ) -> Self {
        Self {
            name,
            holds: V::TYPE,
            unit,
            nullable: V::NULLABLE,
            words: V::WORDS,
            meaning: meaning.trim_ascii(),
        }
    }

    /// Returns what the column means and what null means in it.
    pub fn meaning(&self) -> &'static str {
        self.meaning
    }

    /// Returns the column with these values, its unit and its meaning.
    #[doc(hidden)]
    pub fn column(&self, data: ColumnData) -> Column {
        Column {
            unit: self.unit.map(str::to_owned),
            ..Column::new(self.name, data).describe(self.meaning)
        }
    }
}

/// The declaration of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TableSpec {
    /// The name of the output.
    pub name: &'static str,
    row: &'static str,
    /// The columns, in order.
    pub columns: &'static [ColumnSpec],
}

impl TableSpec {
    /// Declares a table. White space around the sentence about its rows is trimmed.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        row: &'static str,
        columns: &'static [ColumnSpec],
    ) -> Self {
        Self {
            name,
            row: row.trim_ascii(),
            columns,
        }
    }

    /// Returns what a row stands for and how rows are ordered.
    pub fn row(&self) -> &'static str {
        self.row
    }

    /// Returns the columns without rows.
    pub fn empty_columns(&self) -> Vec<Column> {
        let empty = |spec: &ColumnSpec| spec.column(spec.holds.empty());
        self.columns.iter().map(empty).collect()
    }

    /// Returns a table with every declared column. Columns that the table lacks are null
    /// throughout. Columns that are not declared follow.
    ///
    /// # Errors
    /// If a column's type differs from the declared one.
    pub fn view(&self, table: &Table) -> Result<Table, TableError> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for spec in self.columns {
            let column = if table.has(spec.name) {
                table.column(spec.name)?
            } else {
                spec.column(spec.holds.nulls(table.rows()))
            };
            let holds = ColumnType::from(&column.data);
            if holds != spec.holds {
                let (name, holds, declared) = (spec.name, holds.word(), spec.holds.word());
                let what = format!("column `{name}` holds {holds}, declared is {declared}");
                return Err(TableError::new(what));
            }
            columns.push(column);
        }
        for name in table.names() {
            if self.columns.iter().all(|spec| spec.name != name) {
                columns.push(table.column(&name)?);
            }
        }
        Table::new(columns)
    }

    /// Returns every difference between a table and its declaration: names, order, types, units,
    /// meanings, nulls and words.
    pub fn differences(&self, table: &Table) -> Vec<String> {
        let declared: Vec<&str> = self.columns.iter().map(|c| c.name).collect();
        if table.names() != declared {
            let names: BTreeSet<String> = table.names().into_iter().collect();
            let missing = declared.iter().filter(|name| !names.contains(**name));
            let extra = names.iter().filter(|n| !declared.contains(&n.as_str()));
            return vec![format!(
                "`{}` has other columns than declared: missing {:?}, not declared {:?}",
                self.name,
                missing.collect::<Vec<_>>(),
                extra.collect::<Vec<_>>()
            )];
        }
        let all = self.columns.iter().flat_map(|spec| {
            let Ok(column) = table.column(spec.name) else {
                return vec![format!("`{}` cannot be read", spec.name)];
            };
            spec.differences(&column)
        });
        all.map(|what| format!("`{}`: {what}", self.name)).collect()
    }
}

impl ColumnSpec {
    fn differences(&self, column: &Column) -> Vec<String> {
        let mut all = Vec::new();
        let mut differs = |what: &str, there: &dyn fmt::Debug, declared: &dyn fmt::Debug| {
            all.push(format!(
                "`{}` has {what} {there:?}, declared is {declared:?}",
                self.name
            ));
        };
        let holds = ColumnType::from(&column.data);
        if holds != self.holds {
            differs("the type", &holds, &self.holds);
        }
        if column.unit.as_deref() != self.unit {
            differs("the unit", &column.unit, &self.unit);
        }
        if column.description.as_deref() != Some(self.meaning) {
            differs("the meaning", &column.description, &self.meaning);
        }
        let nulls = match &column.data {
            ColumnData::Int(values) => values.contains(&None),
            ColumnData::Float(values) => values.contains(&None),
            ColumnData::Text(values) => values.contains(&None),
            ColumnData::Bool(values) => values.contains(&None),
        };
        if nulls && !self.nullable {
            differs("nulls", &nulls, &self.nullable);
        }
        if let ColumnData::Text(values) = &column.data
            && !self.words.is_empty()
        {
            let strange = values.iter().flatten();
            for word in strange.filter(|w| !self.words.contains(&w.as_str())) {
                differs("the word", word, &self.words);
            }
        }
        all
    }
}

/// A row of a declared table.
pub trait Row: Sized {
    /// The declaration.
    const TABLE: TableSpec;

    /// Returns the columns of these rows.
    fn columns(rows: &[Self]) -> Vec<Column>;

    /// Reads the rows of a table. Columns that may be null may also be missing. Columns that are
    /// not declared are ignored.
    ///
    /// # Errors
    /// If a column is missing, holds another type or an unknown word, or is null where null is not
    /// allowed.
    fn read(table: &Table) -> Result<Vec<Self>, TableError>;

    /// Returns these rows as a table.
    ///
    /// # Errors
    /// Never for a table declared with at least one column and with distinct names.
    fn table(rows: &[Self]) -> Result<Table, TableError> {
        Table::new(Self::columns(rows))
    }
}

/// The type of a column: one of the four basic types, or an enumeration of words.
pub trait Plain: Sized {
    /// The type of the column.
    const TYPE: ColumnType;
    /// The words, if the type is an enumeration.
    const WORDS: &'static [&'static str] = &[];
    /// A column opened for reading.
    type Column<'a>;

    /// Opens a column for reading.
    ///
    /// # Errors
    /// If the column holds another type.
    fn open<'a>(table: &'a Table, name: &str) -> Result<Self::Column<'a>, TableError>;

    /// Reads the value of a row. Returns `None` for null.
    ///
    /// # Errors
    /// If the value is an unknown word.
    fn get(column: &Self::Column<'_>, row: usize) -> Result<Option<Self>, UnknownWord>;

    /// Collects values into a column.
    fn collect<'a>(values: impl Iterator<Item = Option<&'a Self>>) -> ColumnData
    where
        Self: 'a;
}

macro_rules! plain {
    ($type:ty, $array:ty, $variant:ident, $open:ident, $own:expr) => {
        impl Plain for $type {
            const TYPE: ColumnType = ColumnType::$variant;
            type Column<'a> = InPlace<'a, $array>;

            fn open<'a>(table: &'a Table, name: &str) -> Result<Self::Column<'a>, TableError> {
                table.$open(name)
            }

            fn get(column: &Self::Column<'_>, row: usize) -> Result<Option<Self>, UnknownWord> {
                Ok(column.get(row).map($own))
            }

            fn collect<'a>(values: impl Iterator<Item = Option<&'a Self>>) -> ColumnData {
                ColumnData::$variant(values.map(|value| value.cloned()).collect())
            }
        }
    };
}

plain!(i64, Int64Array, Int, ints, |value| value);
plain!(f64, Float64Array, Float, floats, |value| value);
plain!(bool, BooleanArray, Bool, booleans, |value| value);
plain!(String, StringArray, Text, texts, str::to_owned);

/// One word of a list, as the enumerations in columns are.
pub trait Word: Copy + PartialEq + 'static {
    /// What the word names, for messages.
    const WHAT: &'static str;
    /// Every value, in the order of declaration.
    const ALL: &'static [Self];
    /// Every word, in the same order.
    const EACH: &'static [&'static str];

    /// Returns the word.
    fn word(self) -> &'static str;

    /// Reads a word.
    ///
    /// # Errors
    /// If the text is not one of the words.
    fn parse(text: &str) -> Result<Self, UnknownWord> {
        let position = Self::EACH.iter().position(|word| *word == text);
        position
            .map(|i| Self::ALL[i])
            .ok_or_else(|| UnknownWord::new::<Self>(text))
    }
}

/// A word that is not in its enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    word: String,
    what: &'static str,
    words: &'static [&'static str],
}

impl UnknownWord {
    fn new<W: Word>(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            what: W::WHAT,
            words: W::EACH,
        }
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a known {}; known are {}",
            self.word,
            self.what,
            self.words.join(", ")
        )
    }
}

impl std::error::Error for UnknownWord {}

impl<W: Word> Plain for W {
    const TYPE: ColumnType = ColumnType::Text;
    const WORDS: &'static [&'static str] = W::EACH;
    type Column<'a> = InPlace<'a, StringArray>;

    fn open<'a>(table: &'a Table, name: &str) -> Result<Self::Column<'a>, TableError> {
        table.texts(name)
    }

    fn get(column: &Self::Column<'_>, row: usize) -> Result<Option<Self>, UnknownWord> {
        column.get(row).map(W::parse).transpose()
    }

    fn collect<'a>(values: impl Iterator<Item = Option<&'a Self>>) -> ColumnData {
        ColumnData::Text(values.map(|v| v.map(|v| v.word().to_owned())).collect())
    }
}

/// The type of a row's field: a plain type, or an option of one where null is allowed.
pub trait Value: Sized {
    /// The type of the column.
    const TYPE: ColumnType;
    /// Whether a value may be null.
    const NULLABLE: bool;
    /// The words, if the type is an enumeration.
    const WORDS: &'static [&'static str];
    /// A column opened for reading.
    type Column<'a>;

    /// Opens a column for reading.
    ///
    /// # Errors
    /// If the column is missing although it may not be, or holds another type.
    fn open<'a>(table: &'a Table, name: &str) -> Result<Self::Column<'a>, TableError>;

    /// Reads the value of a row.
    ///
    /// # Errors
    /// If the value is null where null is not allowed, or is an unknown word.
    fn get(column: &Self::Column<'_>, name: &str, row: usize) -> Result<Self, TableError>;

    /// Collects values into a column.
    fn collect<'a>(values: impl Iterator<Item = &'a Self>) -> ColumnData
    where
        Self: 'a;
}

fn at(name: &str, row: usize, what: &dyn fmt::Display) -> TableError {
    TableError::new(format!("column `{name}`, row {}: {what}", row + 1))
}

impl<P: Plain> Value for P {
    const TYPE: ColumnType = P::TYPE;
    const NULLABLE: bool = false;
    const WORDS: &'static [&'static str] = P::WORDS;
    type Column<'a> = P::Column<'a>;

    fn open<'a>(table: &'a Table, name: &str) -> Result<Self::Column<'a>, TableError> {
        if !table.has(name) {
            return Err(TableError::no_column(name, &table.names()));
        }
        P::open(table, name)
    }

    fn get(column: &Self::Column<'_>, name: &str, row: usize) -> Result<Self, TableError> {
        let value = P::get(column, row).map_err(|e| at(name, row, &e))?;
        value.ok_or_else(|| at(name, row, &"the value is null, and may not be"))
    }

    fn collect<'a>(values: impl Iterator<Item = &'a Self>) -> ColumnData
    where
        Self: 'a,
    {
        P::collect(values.map(Some))
    }
}

impl<P: Plain> Value for Option<P> {
    const TYPE: ColumnType = P::TYPE;
    const NULLABLE: bool = true;
    const WORDS: &'static [&'static str] = P::WORDS;
    type Column<'a> = P::Column<'a>;

    fn open<'a>(table: &'a Table, name: &str) -> Result<Self::Column<'a>, TableError> {
        P::open(table, name)
    }

    fn get(column: &Self::Column<'_>, name: &str, row: usize) -> Result<Self, TableError> {
        P::get(column, row).map_err(|e| at(name, row, &e))
    }

    fn collect<'a>(values: impl Iterator<Item = &'a Self>) -> ColumnData
    where
        Self: 'a,
    {
        P::collect(values.map(Option::as_ref))
    }
}

/// Declares an enumeration of words: the type, and its spelling in tables and settings.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $what:literal {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+
        }

        impl $crate::Word for $name {
            const WHAT: &'static str = $what;
            const ALL: &'static [Self] = &[$(Self::$variant),+];
            const EACH: &'static [&'static str] = &[$($word),+];

            fn word(self) -> &'static str {
                Self::EACH[self as usize]
            }
        }

        impl $name {
            /// Returns the word used in tables and settings.
            pub fn word(self) -> &'static str {
                $crate::Word::word(self)
            }
        }
    };
}

/// Declares a table: the type of its rows with their columns. The comment on a field is the meaning
/// of its column, and the comment on the type says what a row stands for. A unit follows the type
/// of the field in brackets.
#[macro_export]
macro_rules! table {
    (
        $(#[doc = $row:literal])+
        $(#[derive($($derived:path),* $(,)?)])?
        pub struct $name:ident = $table:literal {
            $($(#[doc = $meaning:literal])+ $field:ident: $type:ty $([$unit:literal])?,)+
        }
    ) => {
        $(#[doc = $row])+
        #[derive(Clone, Debug, PartialEq $(, $($derived),*)?)]
        pub struct $name {
            $($(#[doc = $meaning])+ pub $field: $type,)+
        }

        impl $crate::Row for $name {
            const TABLE: $crate::TableSpec = $crate::TableSpec::new(
                $table,
                concat!($($row),+),
                &[$($crate::ColumnSpec::new::<$type>(
                    stringify!($field),
                    $crate::table!(@unit $($unit)?),
                    concat!($($meaning),+),
                )),+],
            );

            fn columns(rows: &[Self]) -> Vec<artifacts::Column> {
                let mut specs = <Self as $crate::Row>::TABLE.columns.iter();
                vec![$({
                    let spec = specs.next().expect("a declaration for each field");
                    // One type for all fields of a type, so that `collect` is compiled once for them.
                    let get: fn(&Self) -> &$type = |row| &row.$field;
                    spec.column(<$type as $crate::Value>::collect(rows.iter().map(get)))
                }),+]
            }

            fn read(table: &artifacts::Table) -> Result<Vec<Self>, artifacts::TableError> {
                $(let $field = <$type as $crate::Value>::open(table, stringify!($field))?;)+
                (0..table.rows())
                    .map(|row| {
                        Ok(Self {
                            $($field: <$type as $crate::Value>::get(&$field, stringify!($field), row)?,)+
                        })
                    })
                    .collect()
            }
        }
    };
    (@unit) => { None };
    (@unit $unit:literal) => { Some($unit) };
}
