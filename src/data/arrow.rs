//! Arrow IPC: files with a footer (Feather), and streams such as `datasets` saves.

use super::columns::Needed;
use super::record::{At, Content, Document, Place};
use crate::diag::Diagnostic;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::{FileReader, FileReaderBuilder, StreamReader};
use arrow_schema::{ArrowError, DataType, Schema};
use minijinja::Value;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// A file whose schema has been checked. A unit is a record batch; a stream, which has no table of them, is one unit.
pub(super) struct Arrow {
    path: Arc<Path>,
    needed: Needed,
    stream: bool,
    units: u64,
    columns: Vec<usize>,
}

impl Arrow {
    pub(super) fn open(path: &Arc<Path>, needed: &Needed, stream: bool) -> Result<Self, Diagnostic> {
        let (schema, units) = if stream {
            (self::stream(path, None)?.schema(), 1)
        } else {
            let reader = file(path, None)?;
            (reader.schema(), reader.num_batches() as u64)
        };
        let columns = if units == 0 { Vec::new() } else { columns(&schema, needed, path)? };
        Ok(Arrow { path: path.clone(), needed: needed.clone(), stream, units, columns })
    }

    pub(super) fn units(&self) -> u64 {
        self.units
    }

    pub(super) fn read(
        &self,
        unit: u64,
    ) -> Result<Box<dyn Iterator<Item = Result<Document, Diagnostic>> + Send>, Diagnostic> {
        let (path, chat) = (self.path.clone(), self.needed.chat);
        let fail = move |error: ArrowError| damaged(&path, &error);
        let path = self.path.clone();
        let documents = move |batch: RecordBatch, group: u64| {
            (0..batch.num_rows()).map(move |row| document(&batch, row, chat)).zip(0..).map({
                let path = path.clone();
                move |(content, row)| {
                    Ok(Document { place: Place { path: path.clone(), at: At::Row { group, row } }, content })
                }
            })
        };
        if self.stream {
            let batches = stream(&self.path, Some(self.columns.clone()))?;
            return Ok(Box::new(batches.zip(0..).flat_map(move |(batch, group)| match batch {
                Ok(batch) => Box::new(documents(batch, group)) as Box<dyn Iterator<Item = _> + Send>,
                Err(error) => Box::new(std::iter::once(Err(fail(error)))),
            })));
        }
        let mut reader = file(&self.path, Some(self.columns.clone()))?;
        reader.set_index(unit as usize).map_err(&fail)?;
        let batch = reader.next().transpose().map_err(&fail)?;
        Ok(Box::new(batch.into_iter().flat_map(move |batch| documents(batch, unit))))
    }
}

fn file(path: &Path, columns: Option<Vec<usize>>) -> Result<FileReader<BufReader<File>>, Diagnostic> {
    let file = File::open(path).map_err(|error| super::record::unreadable(path, &error))?;
    let mut builder = FileReaderBuilder::new();
    if let Some(columns) = columns {
        builder = builder.with_projection(columns);
    }
    builder.build(BufReader::new(file)).map_err(|error| damaged(path, &error))
}

fn stream(path: &Path, columns: Option<Vec<usize>>) -> Result<StreamReader<BufReader<File>>, Diagnostic> {
    let file = File::open(path).map_err(|error| super::record::unreadable(path, &error))?;
    StreamReader::try_new_buffered(file, columns).map_err(|error| damaged(path, &error))
}

fn damaged(path: &Path, error: &ArrowError) -> Diagnostic {
    Diagnostic::error("step::data::arrow", format!("cannot read {}: {error}", path.display()))
        .help("the file is damaged or not complete; write it again, or download it again")
}

/// The numbers of the needed columns, in the order of the file.
fn columns(schema: &Schema, needed: &Needed, path: &Path) -> Result<Vec<usize>, Diagnostic> {
    let place = path.display().to_string();
    let present: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let found = needed.of(&present).ok_or_else(|| needed.missing(&place, &present))?;
    if let (false, Some(field)) = (needed.chat, schema.fields().iter().find(|f| f.name() == found[0])) {
        let text = matches!(
            field.data_type(),
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
        );
        if !text {
            return Err(needed.wrong_type(&place, found[0], &field.data_type().to_string()));
        }
    }
    Ok((0..present.len()).filter(|&at| found.contains(&present[at])).collect())
}

/// A row of a batch that has the needed columns only.
fn document(batch: &RecordBatch, row: usize, chat: bool) -> Content {
    if !chat {
        let column = batch.column(0);
        let bytes: &[u8] = match column.data_type() {
            _ if column.is_null(row) => &[],
            DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes(),
            DataType::LargeUtf8 => column.as_string::<i64>().value(row).as_bytes(),
            DataType::Utf8View => column.as_string_view().value(row).as_bytes(),
            DataType::Binary => column.as_binary::<i32>().value(row),
            _ => column.as_binary::<i64>().value(row),
        };
        return Content::Text(bytes.to_vec());
    }
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(batch.columns());
    Content::Row(Value::from_pairs(fields.map(|(field, column)| (field.name().clone(), value(column, row)))))
}

/// A value as a template sees it. What is null in a struct is left out: columns cannot tell it from what is absent.
fn value(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::from(());
    }
    let list = |items: Arc<dyn Array>| (0..items.len()).map(|at| value(&items, at)).collect();
    macro_rules! number {
        ($type:ty) => {
            Value::from(array.as_primitive::<$type>().value(row))
        };
    }
    match array.data_type() {
        DataType::Boolean => Value::from(array.as_boolean().value(row)),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Utf8 => Value::from(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Value::from(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Value::from(array.as_string_view().value(row)),
        DataType::List(_) => list(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row)),
        DataType::Struct(_) => {
            let array = array.as_struct();
            let fields =
                array.fields().iter().zip(array.columns()).filter(|(_, column)| !column.is_null(row));
            Value::from_pairs(fields.map(|(field, column)| (field.name().clone(), value(column, row))))
        }
        _ => Value::from(()),
    }
}
