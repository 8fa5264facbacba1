//! Reads elements of tensors as f32: only the bytes asked for, through buffers of fixed size.

use super::float8;
use super::folder::{Folder, TensorInfo};
use super::header::Encoding;
use crate::base::{DType, Line};
use crate::diag::Diagnostic;
use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are converted at a time: many a system call, few enough for the second cache.
pub(super) const BUFFER: usize = 256 << 10;
/// Lines of a transposed matrix that are read before they are written, so that a cache line is filled at once.
const TILE: usize = 16;

/// Elements that are compared at a time.
const COMPARED: u64 = 1 << 18;

// The format is little-endian and numbers are read in place.
const _: () = assert!(cfg!(target_endian = "little"), "safetensors are read on little-endian machines only");

/// Reads one tensor. Costs a look-up; several readers may work at once.
pub struct Reader<'a> {
    folder: &'a Folder,
    name: &'a str,
    pub(super) tensor: &'a TensorInfo,
    path: &'a Path,
    file: &'a File,
    /// Bytes as they lie in the file, where every element type is aligned.
    buffer: Vec<u64>,
    /// Lines of a tile, as they lie in the file.
    lines: Vec<f32>,
    scales: Scales,
    bytes: u64,
}

/// The scales of some rows of blocks of a tensor of 8-bit floats.
#[derive(Default)]
struct Scales {
    rows: Range<u64>,
    values: Vec<f32>,
}

impl Folder {
    /// Prepares to read the tensor `name`.
    ///
    /// # Errors
    /// An unknown tensor.
    pub fn reader<'a>(&'a self, name: &'a str) -> Result<Reader<'a>, Diagnostic> {
        let tensor = self.tensor(name).ok_or_else(|| refuse(name, "not in the checkpoint".into()))?;
        let (path, file) = &self.files[tensor.file];
        let (buffer, lines, scales) = Default::default();
        Ok(Reader { folder: self, name, tensor, path, file, buffer, lines, scales, bytes: 0 })
    }

    /// Reads `elements` of the flattened tensor `name` into `out`, and says how many bytes of the file that took.
    ///
    /// # Errors
    /// As [`Reader::read`]; a range not as long as `out`.
    pub fn read_elements(
        &self,
        name: &str,
        elements: Range<u64>,
        out: &mut [f32],
    ) -> Result<u64, Diagnostic> {
        let (Range { start, end }, len) = (elements, out.len());
        if end.checked_sub(start) != Some(len as u64) {
            return Err(refuse(name, format!("elements {start}..{end} are read into a buffer of {len}")));
        }
        let line = Line { count: len as u64, at: start, step: 1, first: 0, stride: 1 };
        self.reader(name)?.read(&[line], 0, out)
    }

    /// Whether two tensors hold the same numbers in the same shape.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn same(&self, a: &str, b: &str) -> Result<bool, Diagnostic> {
        let [first, second] = [self.reader(a)?, self.reader(b)?];
        if first.tensor.shape != second.tensor.shape {
            return Ok(false);
        }
        let all = first.tensor.shape.iter().product::<u64>();
        let starts = (0..all.div_ceil(COMPARED)).into_par_iter().map(|i| i * COMPARED);
        let same = starts.map(|start| {
            let range = start..all.min(start + COMPARED);
            let mut values = [(); 2].map(|()| vec![0.0; (range.end - range.start) as usize]);
            self.read_elements(a, range.clone(), &mut values[0])?;
            self.read_elements(b, range, &mut values[1])?;
            Ok(values[0] == values[1])
        });
        same.try_reduce(|| true, |a, b| Ok(a && b))
    }
}

fn refuse(name: &str, what: String) -> Diagnostic {
    Diagnostic::error("step::weights::read", format!("tensor `{name}`: {what}"))
}

impl Reader<'_> {
    /// Reads `lines` of the tensor to their places in `out`, whose first element is number `origin` of what they count.
    /// Says how many bytes of the file that took.
    ///
    /// # Errors
    /// A line beyond the tensor, an element type that is not read, a failed read.
    ///
    /// # Panics
    /// If a line leads outside of `out`.
    pub fn read(&mut self, lines: &[Line], origin: u64, out: &mut [f32]) -> Result<u64, Diagnostic> {
        let held = self.tensor.shape.iter().product::<u64>();
        let end = |line: &Line| (line.count - 1).checked_mul(line.step)?.checked_add(line.at);
        let lines_with_elements = lines.iter().filter(|line| line.count > 0);
        if let Some(line) =
            lines_with_elements.into_iter().find(|line| end(line).is_none_or(|end| end >= held))
        {
            let Line { count, at, step, .. } = line;
            return Err(refuse(self.name, format!("{count} elements from {at} on, {step} apart, of {held}")));
        }
        if self.tensor.encoding == Encoding::Mxfp4 {
            self.read_packed(lines, origin, out)?;
            return Ok(std::mem::take(&mut self.bytes));
        }
        // Neighbours in a transposed matrix go together.
        let beside = |a: &Line, b: &Line| {
            b.first == a.first + 1
                && (a.count, a.step, a.stride) == (b.count, b.step, b.stride)
                && a.stride > 1
        };
        for same in lines.chunk_by(beside) {
            let Line { count, step, stride, .. } = same[0];
            if step == 1 && stride == 1 {
                let start = (same[0].first - origin) as usize;
                self.span(same[0].at, &mut out[start..start + count as usize])?;
            } else if count > 0 {
                same.chunks(TILE).try_for_each(|tile| self.tile(tile, origin, out))?;
            }
        }
        Ok(std::mem::take(&mut self.bytes))
    }

    /// Reads lines of equal shape, the first elements of which follow one another in `out`.
    fn tile(&mut self, tile: &[Line], origin: u64, out: &mut [f32]) -> Result<(), Diagnostic> {
        let Line { count, step, stride, first, .. } = tile[0];
        let [count, step, stride, first] = [count, step, stride, first - origin].map(|n| n as usize);
        let span = (count - 1) * step + 1;
        let mut lines = std::mem::take(&mut self.lines);
        lines.resize(lines.len().max(span * tile.len()), 0.0);
        for (line, out) in tile.iter().zip(lines.chunks_exact_mut(span)) {
            self.span(line.at, out)?;
        }
        for i in 0..count {
            let out = &mut out[first + i * stride..][..tile.len()];
            for (k, out) in out.iter_mut().enumerate() {
                *out = lines[k * span + i * step];
            }
        }
        self.lines = lines;
        Ok(())
    }

    /// Reads elements that follow one another, from number `at` on.
    fn span(&mut self, at: u64, out: &mut [f32]) -> Result<(), Diagnostic> {
        let size = self.tensor.encoding.size();
        let mut offset = self.tensor.range.start + at * size;
        self.bytes += out.len() as u64 * size;
        if self.tensor.encoding == Encoding::Known(DType::F32) {
            let read = self.file.read_exact_at(bytemuck::cast_slice_mut(out), offset);
            return read.map_err(|error| failed(self.name, self.path, &error));
        }
        let mut at = at;
        for out in out.chunks_mut(BUFFER / size as usize) {
            let bytes = out.len() * size as usize;
            self.buffer.resize(self.buffer.len().max(bytes.div_ceil(8)), 0);
            let held = &mut bytemuck::cast_slice_mut(&mut self.buffer)[..bytes];
            self.file.read_exact_at(held, offset).map_err(|error| failed(self.name, self.path, &error))?;
            match self.tensor.encoding {
                Encoding::Known(DType::Bf16) => widen_bf16(held, out),
                Encoding::Known(DType::F16) => {
                    bytemuck::cast_slice::<u8, f16>(held).convert_to_f32_slice(out)
                }
                Encoding::Float8 => self.scaled(at, out)?,
                other => {
                    let what = format!("elements of type {} are not read", other.word());
                    return Err(refuse(self.name, what).help("convert the checkpoint to f32, bf16 or f16"));
                }
            }
            offset += bytes as u64;
            at += out.len() as u64;
        }
        Ok(())
    }

    /// Reads bytes of a tensor of 4-bit floats, from number `at` on.
    pub(super) fn read_blocks(&mut self, at: u64, out: &mut [u8]) -> Result<(), Diagnostic> {
        self.read_bytes(self.tensor, at, out)
    }

    /// Reads scales of a tensor of 4-bit floats, from number `at` on.
    pub(super) fn read_scales(&mut self, at: u64, out: &mut [u8]) -> Result<(), Diagnostic> {
        let scales =
            self.folder.scales.get(self.name).ok_or_else(|| refuse(self.name, "without scales".into()))?;
        self.read_bytes(scales, at, out)
    }

    fn read_bytes(&mut self, tensor: &TensorInfo, at: u64, out: &mut [u8]) -> Result<(), Diagnostic> {
        self.bytes += out.len() as u64;
        let (path, file) = &self.folder.files[tensor.file];
        file.read_exact_at(out, tensor.range.start + at).map_err(|error| failed(self.name, path, &error))
    }

    /// Decodes 8-bit floats from the buffer and multiplies each with the scale of its block.
    fn scaled(&mut self, at: u64, out: &mut [f32]) -> Result<(), Diagnostic> {
        let grid = float8::Grid::new(&self.tensor.shape);
        let wanted = grid.block_row(at)..grid.block_row(at + out.len() as u64 - 1) + 1;
        if wanted.start < self.scales.rows.start || wanted.end > self.scales.rows.end {
            let across = grid.blocks_across();
            self.scales.values.resize(((wanted.end - wanted.start) * across) as usize, 0.0);
            let name = float8::scale_name(self.name);
            let elements = wanted.start * across..wanted.end * across;
            self.bytes += self.folder.read_elements(&name, elements, &mut self.scales.values)?;
            self.scales.rows = wanted;
        }
        let bytes: &[u8] = bytemuck::cast_slice(&self.buffer);
        let first = self.scales.rows.start * grid.blocks_across();
        for (elements, block) in grid.blocks(at..at + out.len() as u64) {
            let scale = self.scales.values[(block - first) as usize];
            let range = (elements.start - at) as usize..(elements.end - at) as usize;
            for (x, byte) in out[range.clone()].iter_mut().zip(&bytes[range]) {
                *x = float8::decode(*byte) * scale;
            }
        }
        Ok(())
    }
}

fn failed(name: &str, path: &Path, error: &io::Error) -> Diagnostic {
    refuse(name, format!("cannot read {}: {error}", path.display()))
        .help("the checkpoint must stay unchanged while it is read")
}

/// A bf16 is the upper half of an f32: shifted, which vectorises, and not tested for NaN first.
fn widen_bf16(bytes: &[u8], out: &mut [f32]) {
    for (x, half) in out.iter_mut().zip(bytemuck::cast_slice::<u8, u16>(bytes)) {
        *x = f32::from_bits(u32::from(*half) << 16);
    }
}
