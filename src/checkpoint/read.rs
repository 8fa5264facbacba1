//! Reads a checkpoint by any layout: the elements of a parameter, wherever the ranks that wrote it have put them.

use super::export::Elements;
use super::home;
use super::manifest::{Facts, Manifest};
use super::shard::{file_name, tensor_name};
use crate::diag::Diagnostic;
use crate::model::{ParamId, Parameter};
use crate::plan::{Contents, Role};
use crate::weights::Folder;
use rayon::prelude::*;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are read at a time to check a file.
const CHUNK: usize = 1 << 20;

/// A complete checkpoint whose files are as they were written.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
    by_name: HashMap<String, ParamId>,
    /// Where the elements of each parameter are, in order.
    parts: Vec<Vec<Part>>,
    /// The files of the ranks, opened when they are needed.
    files: Vec<OnceLock<Folder>>,
}

/// Elements of a parameter and the rank that has written them.
#[derive(Debug)]
struct Part {
    elements: Range<u64>,
    rank: u64,
}

impl Checkpoint {
    /// Opens the checkpoint at `path`, or the newest one where `path` is the folder of a run, and holds every file against its
    /// checksum.
    ///
    /// # Errors
    /// No checkpoint, one of another version, a file that is missing, cut off or changed.
    pub fn open(path: &Path) -> Result<Checkpoint, Diagnostic> {
        let path = home::newest(path).map_or_else(|| path.to_owned(), |newest| newest.path);
        let manifest = Manifest::read(&path)?;
        let damaged = |what: String| {
            Diagnostic::error("step::checkpoint::damaged", format!("{}: {what}", path.display()))
                .help(others(&path))
        };
        let ranks = manifest.mesh.devices;
        let listed = manifest.files.iter().map(|file| file.name.as_str());
        if !listed.eq((0..ranks).map(file_name)) {
            return Err(damaged(format!("its manifest does not list one file for each of {ranks} ranks")));
        }
        manifest.files.par_iter().try_for_each(|file| verify(&path, file)).map_err(damaged)?;
        let by_name = manifest.params.iter().map(Parameter::label).zip((0..).map(ParamId)).collect();
        let parts = parts(&manifest);
        let files = (0..ranks).map(|_| OnceLock::new()).collect();
        Ok(Checkpoint { path, manifest, by_name, parts, files })
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads `elements` of what is kept for the flattened parameter into `out`, and says how many bytes that took.
    ///
    /// # Errors
    /// Elements that it does not hold; a failed read.
    pub fn read(
        &self,
        role: Role,
        parameter: &Parameter,
        elements: Range<u64>,
        out: &mut [f32],
    ) -> Result<u64, Diagnostic> {
        let label = parameter.label();
        let param = self.by_name.get(&label).copied();
        let parts = param.map_or(&[][..], |param| &self.parts[param.0 as usize]);
        let name = tensor_name(role, &label);
        let mut bytes = 0;
        let first = parts.partition_point(|part| part.elements.end <= elements.start);
        let mut at = elements.start;
        for part in &parts[first..] {
            if at == elements.end || part.elements.start > at {
                break;
            }
            let end = part.elements.end.min(elements.end);
            let out = &mut out[(at - elements.start) as usize..(end - elements.start) as usize];
            let within = at - part.elements.start..end - part.elements.start;
            bytes += self.file(part.rank)?.read_elements(&name, within, out)?;
            at = end;
        }
        if at == elements.end {
            return Ok(bytes);
        }
        let message = format!("{} does not hold element {at} of `{name}`", self.path.display());
        Err(Diagnostic::error("step::checkpoint::damaged", message).help(others(&self.path)))
    }

    fn file(&self, rank: u64) -> Result<&Folder, Diagnostic> {
        let slot = &self.files[rank as usize];
        match slot.get() {
            Some(folder) => Ok(folder),
            None => {
                let opened = Folder::open(&self.path.join(file_name(rank)))?;
                Ok(slot.get_or_init(|| opened))
            }
        }
    }
}

impl Elements for Checkpoint {
    fn holds(&self, param: ParamId) -> bool {
        self.parts.get(param.0 as usize).is_some_and(|parts| !parts.is_empty())
    }

    fn elements(&self, param: ParamId, elements: Range<u64>, out: &mut [f32]) -> Result<(), Diagnostic> {
        self.read(Role::Parameter, &self.manifest.params[param.0 as usize], elements, out).map(|_| ())
    }
}

/// Which rank has written which elements of every parameter: arithmetic on the mesh and the placement.
fn parts(manifest: &Manifest) -> Vec<Vec<Part>> {
    let mut parts: Vec<Vec<Part>> = manifest.params.iter().map(|_| Vec::new()).collect();
    for unit in &manifest.placement.units {
        for rank in 0..manifest.mesh.devices {
            for piece in unit.saved_pieces(&manifest.mesh, rank) {
                parts[piece.param.0 as usize].push(Part { elements: piece.elements, rank });
            }
        }
    }
    for param in &manifest.placement.frozen {
        let elements = 0..manifest.params[param.0 as usize].elements();
        parts[param.0 as usize].push(Part { elements, rank: 0 });
    }
    parts.iter_mut().for_each(|parts| parts.sort_unstable_by_key(|part| part.elements.start));
    parts
}

/// Whether a file is as it was written.
fn verify(folder: &Path, facts: &Facts) -> Result<(), String> {
    let Facts { name, bytes, xxh3 } = facts;
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("`{name}` is missing"),
        _ => format!("`{name}` cannot be read: {error}"),
    };
    let mut file = File::open(folder.join(name)).map_err(failed)?;
    let found = file.metadata().map_err(failed)?.len();
    if found != *bytes {
        return Err(format!("`{name}` has {found} bytes, {bytes} were written"));
    }
    let (mut hash, mut chunk) = (Xxh3::new(), vec![0; CHUNK]);
    loop {
        match file.read(&mut chunk).map_err(failed)? {
            0 => break,
            read => hash.update(&chunk[..read]),
        }
    }
    match format!("{:016x}", hash.digest()) == *xxh3 {
        true => Ok(()),
        false => Err(format!("`{name}` is not as it was written: its checksum differs")),
    }
}

/// What to do instead of reading the checkpoint at `path`.
fn others(path: &Path) -> String {
    let beside = path.parent().map(home::list).unwrap_or_default();
    let other = beside.iter().rfind(|listed| listed.contents == Contents::State && listed.path != path);
    match other {
        Some(other) => {
            format!("it cannot be trusted; go on from another one: `--resume {}`", other.path.display())
        }
        None => "it cannot be trusted, and there is no other one beside it".to_owned(),
    }
}
