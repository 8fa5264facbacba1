//! Reads elements of tensors as f32: only the bytes asked for, through a buffer of fixed size.

use super::folder::Folder;
use super::header::Encoding;
use crate::base::DType;
use crate::diag::Diagnostic;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

/// Elements of two bytes that are converted at a time.
const BUFFER: usize = 32 << 10;

// The format is little-endian and numbers are read in place.
const _: () = assert!(cfg!(target_endian = "little"), "safetensors are read on little-endian machines only");

impl Folder {
    /// Reads `elements` of the flattened tensor `name` into `out`, converted from f32, bf16 or f16.
    ///
    /// # Errors
    /// An unknown tensor, a range beyond it or not as long as `out`, another element type, a failed read.
    pub fn read_elements(&self, name: &str, elements: Range<u64>, out: &mut [f32]) -> Result<(), Diagnostic> {
        let refuse =
            |what: String| Diagnostic::error("step::weights::read", format!("tensor `{name}`: {what}"));
        let tensor = self.tensor(name).ok_or_else(|| refuse("not in the checkpoint".into()))?;
        let held = tensor.shape.iter().product::<u64>();
        if elements.end > held || elements.end.checked_sub(elements.start) != Some(out.len() as u64) {
            let (Range { start, end }, len) = (elements, out.len());
            return Err(refuse(format!("elements {start}..{end} of {held} are read into a buffer of {len}")));
        }
        let (path, file) = &self.files[tensor.file];
        let size = tensor.encoding.size();
        let offset = tensor.range.start + elements.start * size;
        let read = match tensor.encoding {
            Encoding::Known(DType::F32) => file.read_exact_at(bytemuck::cast_slice_mut(out), offset),
            Encoding::Known(DType::Bf16) => read_halves::<bf16>(file, offset, out),
            Encoding::Known(DType::F16) => read_halves::<f16>(file, offset, out),
            other => {
                return Err(refuse(format!("elements of type {} are not read", other.word()))
                    .help("convert the checkpoint to f32, bf16 or f16"));
            }
        };
        read.map_err(|error| {
            refuse(format!("cannot read {} bytes of {}: {error}", out.len() as u64 * size, path.display()))
                .help("the checkpoint must stay unchanged while it is read")
        })?;
        self.bytes_read.fetch_add(out.len() as u64 * size, Relaxed);
        Ok(())
    }

    /// Bytes of tensor data read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Relaxed)
    }
}

/// Reads two-byte floats at `offset` and widens them.
fn read_halves<H: bytemuck::Pod>(file: &File, mut offset: u64, out: &mut [f32]) -> io::Result<()>
where
    [H]: HalfFloatSliceExt,
{
    let mut buffer = [H::zeroed(); BUFFER];
    for out in out.chunks_mut(BUFFER) {
        let halves = &mut buffer[..out.len()];
        file.read_exact_at(bytemuck::cast_slice_mut(halves), offset)?;
        halves.convert_to_f32_slice(out);
        offset += 2 * out.len() as u64;
    }
    Ok(())
}
