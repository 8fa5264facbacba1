//! The file of one rank: the parts it writes, one behind the other, under the names of their parameters.

use super::manifest::Facts;
use crate::base::DType;
use crate::model::Parameter;
use crate::plan::{Role, Slice, View};
use crate::weights::{Output, header};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// Elements that are handed on at a time.
const CHUNK: u64 = 1 << 18;

/// Hands over the elements of a part of a rank's memory.
pub(super) type Source<'a> = dyn FnMut(View, &mut [f32]) + 'a;

/// The name of a rank's file.
pub(super) fn file_name(rank: u64) -> String {
    format!("rank-{rank:05}.safetensors")
}

/// The name of a tensor in a rank's file: `m/model.layers.0.self_attn.q_proj.weight`.
pub(super) fn tensor_name(role: Role, parameter: &str) -> String {
    format!("{}/{parameter}", role.word())
}

/// Writes the file of a rank into `folder` and waits until it is on disk.
pub(super) fn write(
    folder: &Path,
    rank: u64,
    slices: &[Slice],
    params: &[Parameter],
    source: &mut Source,
) -> io::Result<Facts> {
    let outputs = slices.iter().map(|slice| Output {
        name: tensor_name(slice.role, &params[slice.param.0 as usize].label()),
        dtype: DType::F32,
        shape: vec![slice.len()],
    });
    let header = header(&outputs.collect::<Vec<_>>()).map_err(io::Error::other)?;
    let name = file_name(rank);
    let mut file = Hashed { file: File::create(folder.join(&name))?, hash: Xxh3::new(), bytes: 0 };
    file.write(&header)?;
    let mut chunk = vec![0.0; CHUNK as usize];
    for slice in slices {
        for start in (0..slice.len()).step_by(CHUNK as usize) {
            let elements = CHUNK.min(slice.len() - start);
            let chunk = &mut chunk[..elements as usize];
            let view = slice.view;
            source(View { offset: view.offset + start, cols: elements, ..view }, chunk);
            file.write(bytemuck::cast_slice(chunk))?;
        }
    }
    file.file.sync_all()?;
    Ok(Facts { name, bytes: file.bytes, xxh3: format!("{:016x}", file.hash.digest()) })
}

/// A file, and the checksum and number of the bytes written to it.
struct Hashed {
    file: File,
    hash: Xxh3,
    bytes: u64,
}

impl Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}
