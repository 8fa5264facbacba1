//! Parquet: the footer says where the rows are, and only the needed columns are read.

use super::columns::Needed;
use super::record::{At, Content, Document, Place};
use crate::diag::Diagnostic;
use minijinja::Value;
use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, reader::RowIter};
use parquet::schema::types::Type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the needed columns that a unit has at most; a larger row group is several units.
const UNIT: u64 = 64 << 20;

/// A file whose footer has been checked.
pub(super) struct Parquet {
    path: Arc<Path>,
    needed: Needed,
    /// Row group, first row and rows of each unit.
    units: Vec<(usize, u64, u64)>,
}

impl Parquet {
    /// Reads the footer; a file without rows is of no units, whatever its columns.
    pub(super) fn open(path: &Arc<Path>, needed: &Needed) -> Result<Self, Diagnostic> {
        let reader = reader(path)?;
        let metadata = reader.metadata();
        let schema = metadata.file_metadata().schema_descr();
        let mut units = Vec::new();
        if metadata.file_metadata().num_rows() > 0 {
            let fields = fields(schema.root_schema(), needed, path)?;
            if !needed.chat {
                text_column(&reader, &fields, path, needed)?;
            }
            for (group, row_group) in metadata.row_groups().iter().enumerate() {
                let (mut first, rows) = (0, row_group.num_rows().max(0) as u64);
                let columns = row_group.columns().iter();
                let taken =
                    columns.filter(|c| fields.iter().any(|f| c.column_path().parts().first() == Some(f)));
                let bytes: u64 = taken.map(|column| column.uncompressed_size().max(0) as u64).sum();
                let step = rows.div_ceil(bytes.div_ceil(UNIT).max(1)).max(1);
                while first < rows {
                    units.push((group, first, step.min(rows - first)));
                    first += step;
                }
            }
        }
        Ok(Parquet { path: path.clone(), needed: needed.clone(), units })
    }

    pub(super) fn units(&self) -> u64 {
        self.units.len() as u64
    }

    /// All documents of a unit.
    pub(super) fn read(&self, unit: u64) -> Result<Vec<Document>, Diagnostic> {
        let (group, first, rows) = self.units[unit as usize];
        let reader = reader(&self.path)?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let fields = fields(schema.root_schema(), &self.needed, &self.path)?;
        let (skip, take) = (first as usize, rows as usize);
        let contents = if self.needed.chat {
            objects(&reader, group, skip, take, &fields).map_err(|error| damaged(&self.path, &error))?
        } else {
            let column = text_column(&reader, &fields, &self.path, &self.needed)?;
            texts(&reader, group, column, skip, take).map_err(|error| damaged(&self.path, &error))?
        };
        let documents = contents.into_iter().zip(first..).map(|(content, row)| Document {
            place: Place { path: self.path.clone(), at: At::Row { group: group as u64, row } },
            content,
        });
        Ok(documents.collect())
    }
}

fn reader(path: &Path) -> Result<SerializedFileReader<File>, Diagnostic> {
    let file = File::open(path).map_err(|error| super::record::unreadable(path, &error))?;
    SerializedFileReader::new(file).map_err(|error| damaged(path, &error))
}

fn damaged(path: &Path, error: &ParquetError) -> Diagnostic {
    Diagnostic::error("step::data::parquet", format!("cannot read {}: {error}", path.display()))
        .help("the file is damaged, not complete, or compressed with something other than snappy or zstd")
}

/// The needed ones of the top-level fields.
fn fields(root: &Type, needed: &Needed, path: &Path) -> Result<Vec<String>, Diagnostic> {
    let present: Vec<&str> = root.get_fields().iter().map(|field| field.name()).collect();
    let found = needed.of(&present).ok_or_else(|| needed.missing(&path.display().to_string(), &present))?;
    Ok(found.into_iter().map(str::to_owned).collect())
}

/// The number of the leaf column that holds the text.
fn text_column(
    reader: &SerializedFileReader<File>,
    fields: &[String],
    path: &Path,
    needed: &Needed,
) -> Result<usize, Diagnostic> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let name = &fields[0];
    let leaf = schema.columns().iter().position(|column| column.path().parts() == std::slice::from_ref(name));
    let text = leaf.filter(|&leaf| {
        let column = schema.column(leaf);
        column.physical_type() == Physical::BYTE_ARRAY && column.max_rep_level() == 0
    });
    text.ok_or_else(|| {
        let ty = leaf.map_or("a group".to_owned(), |leaf| schema.column(leaf).physical_type().to_string());
        needed.wrong_type(&path.display().to_string(), name, &ty)
    })
}

/// Rows of a text column; a null is an empty document.
fn texts(
    reader: &SerializedFileReader<File>,
    group: usize,
    column: usize,
    skip: usize,
    take: usize,
) -> Result<Vec<Content>, ParquetError> {
    let reader: ColumnReader = reader.get_row_group(group)?.get_column_reader(column)?;
    let mut reader = get_typed_column_reader::<ByteArrayType>(reader);
    reader.skip_records(skip)?;
    let (mut levels, mut values) = (Vec::new(), Vec::<ByteArray>::new());
    let (records, _, _) = reader.read_records(take, Some(&mut levels), None, &mut values)?;
    let mut values = values.into_iter();
    let highest = levels.iter().copied().max().unwrap_or(0);
    let text = |row: usize| match levels.get(row).is_none_or(|&level| level == highest && highest > 0) {
        true => values.next().map_or_else(Vec::new, |value| value.data().to_vec()),
        false => Vec::new(),
    };
    Ok((0..records).map(text).map(Content::Text).collect())
}

/// Rows of several columns, nested as they may be.
fn objects(
    reader: &SerializedFileReader<File>,
    group: usize,
    skip: usize,
    take: usize,
    fields: &[String],
) -> Result<Vec<Content>, ParquetError> {
    let root = reader.metadata().file_metadata().schema_descr().root_schema();
    let kept = root.get_fields().iter().filter(|field| fields.iter().any(|name| name == field.name()));
    let projection = Type::group_type_builder(root.name()).with_fields(kept.cloned().collect()).build()?;
    let group = reader.get_row_group(group)?;
    let rows = RowIter::from_row_group(Some(projection), &*group)?;
    let object = |row: parquet::record::Row| {
        Content::Row(Value::from_pairs(
            row.get_column_iter().map(|(name, field)| (name.clone(), value(field))),
        ))
    };
    rows.skip(skip).take(take).map(|row| row.map(object)).collect()
}

/// A field as a template sees it. What is null is left out: columns cannot tell it from what is absent.
fn value(field: &Field) -> Value {
    match field {
        Field::Bool(value) => Value::from(*value),
        Field::Byte(value) => Value::from(*value),
        Field::Short(value) => Value::from(*value),
        Field::Int(value) => Value::from(*value),
        Field::Long(value) => Value::from(*value),
        Field::UByte(value) => Value::from(*value),
        Field::UShort(value) => Value::from(*value),
        Field::UInt(value) => Value::from(*value),
        Field::ULong(value) => Value::from(*value),
        Field::Float(value) => Value::from(*value),
        Field::Double(value) => Value::from(*value),
        Field::Str(text) => Value::from(text.as_str()),
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes.data()).into_owned().into(),
        Field::Group(row) => {
            let fields = row.get_column_iter().filter(|(_, field)| !matches!(field, Field::Null));
            Value::from_pairs(fields.map(|(name, field)| (name.clone(), value(field))))
        }
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::MapInternal(map) => {
            Value::from_pairs(map.entries().iter().map(|(key, field)| (value(key), value(field))))
        }
        Field::Null => Value::from(()),
        other => Value::from(other.to_string()),
    }
}
