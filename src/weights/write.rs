//! Writes a safetensors file tensor by tensor. The file appears under its name only when it is complete and
//! on disk.

use super::header::Encoding;
use crate::base::DType;
use crate::diag::Diagnostic;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Elements that are narrowed at a time.
const BUFFER: usize = 8 << 10;

/// A tensor to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub name: String,
    /// F32, bf16 or f16.
    pub dtype: DType,
    pub shape: Vec<u64>,
}

impl Output {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// Takes the elements of one tensor.
pub struct TensorWriter<'a> {
    file: &'a mut BufWriter<File>,
    dtype: DType,
    left: u64,
}

impl TensorWriter<'_> {
    /// Appends elements, rounded to the type of the tensor (to nearest, ties to even).
    ///
    /// # Errors
    /// A failed write; more elements than the tensor has.
    pub fn write(&mut self, values: &[f32]) -> io::Result<()> {
        self.left = self
            .left
            .checked_sub(values.len() as u64)
            .ok_or_else(|| io::Error::other("more elements than the shape holds"))?;
        match self.dtype {
            DType::Bf16 => narrow::<bf16>(self.file, values),
            DType::F16 => narrow::<f16>(self.file, values),
            _ => self.file.write_all(bytemuck::cast_slice(values)),
        }
    }
}

fn narrow<H: bytemuck::Pod>(file: &mut BufWriter<File>, values: &[f32]) -> io::Result<()>
where
    [H]: HalfFloatSliceExt,
{
    let mut buffer = [H::zeroed(); BUFFER];
    for values in values.chunks(BUFFER) {
        let halves = &mut buffer[..values.len()];
        halves.convert_from_f32_slice(values);
        file.write_all(bytemuck::cast_slice(halves))?;
    }
    Ok(())
}

/// Writes `tensors` to `path`. `fill` is called once for each, in order, and hands all its elements to the
/// writer.
///
/// # Errors
/// A tensor listed twice or of an integer type, a `fill` that gives too few or too many elements, a failed
/// write. Nothing is left behind then.
pub fn write(
    path: &Path,
    tensors: &[Output],
    mut fill: impl FnMut(&Output, &mut TensorWriter<'_>) -> io::Result<()>,
) -> Result<(), Diagnostic> {
    let refuse = |what: String| {
        Diagnostic::error("step::weights::write", format!("cannot write {}: {what}", path.display()))
    };
    let header = header(tensors).map_err(refuse)?;
    let unfinished = Unfinished::beside(path);
    let failed = |error: io::Error| {
        refuse(error.to_string()).help("the folder must exist, be writable and have room for the file")
    };
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&unfinished.path).map_err(failed)?);
    file.write_all(&header).map_err(failed)?;
    for tensor in tensors {
        let mut writer = TensorWriter { file: &mut file, dtype: tensor.dtype, left: tensor.elements() };
        let filled = fill(tensor, &mut writer).map(|()| writer.left);
        match filled {
            Ok(0) => {}
            Ok(left) => return Err(refuse(format!("tensor `{}` lacks {left} elements", tensor.name))),
            Err(error) => return Err(refuse(format!("tensor `{}`: {error}", tensor.name))),
        }
    }
    let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    unfinished.finish(path).map_err(failed)
}

/// What stands before the data of a file: the length and the JSON of the header, padded so that the data begins at a
/// multiple of 8.
///
/// # Errors
/// A tensor listed twice or of an integer type.
pub fn header(tensors: &[Output]) -> Result<Vec<u8>, String> {
    let mut listed = BTreeMap::new();
    let mut at = 0;
    for tensor in tensors {
        if tensor.dtype == DType::I32 {
            return Err(format!(
                "tensor `{}` is of type {}, only floats are written",
                tensor.name, tensor.dtype
            ));
        }
        let end = at + tensor.elements() * tensor.dtype.size();
        let word = Encoding::Known(tensor.dtype).word();
        let value = serde_json::json!({ "dtype": word, "shape": tensor.shape, "data_offsets": [at, end] });
        if listed.insert(tensor.name.as_str(), value).is_some() {
            return Err(format!("tensor `{}` is listed twice", tensor.name));
        }
        at = end;
    }
    listed.insert("__metadata__", serde_json::json!({ "format": "pt" }));
    let mut json = serde_json::to_vec(&listed).map_err(|error| error.to_string())?;
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.append(&mut json);
    Ok(header)
}

/// A file under a temporary name, removed unless it is finished.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    fn beside(path: &Path) -> Self {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.unfinished", std::process::id()));
        Unfinished { path: path.with_file_name(name) }
    }

    /// Gives the file its name and makes that durable.
    fn finish(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish` there is nothing under this name; while failing, the first error is the one to
        // report.
        let _ = fs::remove_file(&self.path);
    }
}
