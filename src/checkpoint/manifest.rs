//! What a checkpoint says of itself: `manifest.ron`, a line with the checksum of the rest, then RON.

use crate::data;
use crate::diag::Diagnostic;
use crate::model::{Aside, Parameter};
use crate::plan::{self, Contents, Mesh, Placement, Plan};
use crate::recipe::{Data, Model, Train, Weights};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// The version of the form; a checkpoint of another version is refused.
pub const VERSION: u32 = 2;

/// The name of the file.
pub(super) const NAME: &str = "manifest.ron";

/// What the first line says before the checksum; a comment to RON.
const HEAD: &str = "// stepc checkpoint, checksum ";

/// Where a run stands in its data: sequences are numbered through, the same for any number of ranks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Position {
    /// Sequences that have been trained on, which is the number of the next one.
    pub sequences: u64,
    /// Where the next one begins in the files.
    pub data: Option<data::Position>,
}

/// A file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub name: String,
    pub bytes: u64,
    /// XXH3 of all bytes, 64 bits in hexadecimal.
    pub xxh3: String,
}

/// All that is known of a checkpoint without opening another file of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    /// The version of the program that wrote it.
    pub program: String,
    pub contents: Contents,
    pub recipe: String,
    pub profile: Option<String>,
    /// XXH3 of the plan's text.
    pub plan: String,
    /// Steps that have been applied.
    pub step: u64,
    pub position: Position,
    /// By these two a rank's parts follow from its number.
    pub mesh: Mesh,
    pub placement: Placement,
    pub params: Vec<Parameter>,
    pub aside: Aside,
    /// The recipe as far as it says what is computed; the optimizer's settings are in `train`.
    pub model: Model,
    pub data: Data,
    pub train: Train,
    pub weights: Weights,
    /// XXH3 of the tokenizer's file.
    pub tokenizer: String,
    /// A file for each rank, in order.
    pub files: Vec<Facts>,
}

impl Manifest {
    /// What all checkpoints of a run have in common.
    ///
    /// # Errors
    /// A plan that cannot be written.
    pub fn of(plan: &Plan, tokenizer: String) -> Result<Manifest, Diagnostic> {
        let weights = match &plan.weights {
            Weights::Folder(path) => Weights::Folder(absolute(path)),
            Weights::Scratch => Weights::Scratch,
        };
        let mut data = plan.data.clone();
        data.tokenizer = absolute(&data.tokenizer);
        data.sources.values_mut().for_each(|source| source.path = absolute(&source.path));
        Ok(Manifest {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            contents: Contents::State,
            recipe: plan.recipe.clone(),
            profile: plan.profile.clone(),
            plan: fingerprint(plan::write(plan)?.as_bytes()),
            step: 0,
            position: Position::default(),
            mesh: plan.mesh,
            placement: plan.placement.clone(),
            params: plan.params.clone(),
            aside: plan.aside.clone(),
            model: plan.model.clone(),
            data,
            train: plan.train.clone(),
            weights,
            tokenizer,
            files: Vec::new(),
        })
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Writes the manifest into `folder` and waits until it is on disk.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let pretty = ron::ser::PrettyConfig::new().depth_limit(3).indentor("  ").struct_names(false);
        let body = ron::ser::to_string_pretty(self, pretty).map_err(io::Error::other)?;
        let mut file = File::create(folder.join(NAME))?;
        file.write_all(format!("{HEAD}{}\n{body}\n", fingerprint(body.as_bytes())).as_bytes())?;
        file.sync_all()
    }

    /// Reads the manifest of the checkpoint in `folder`.
    ///
    /// # Errors
    /// A folder without one, one that is not as it was written, one of another version.
    pub fn read(folder: &Path) -> Result<Manifest, Diagnostic> {
        let path = folder.join(NAME);
        let damaged = |what: String| {
            Diagnostic::error("step::checkpoint::manifest", format!("{} {what}", path.display()))
                .help("take another checkpoint: `--resume PATH`; this one cannot be trusted")
        };
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => no_checkpoint(folder),
            _ => damaged(format!("cannot be read: {error}")),
        })?;
        let whole = text.strip_prefix(HEAD).and_then(|rest| rest.split_once('\n'));
        let (checksum, body) = whole.ok_or_else(|| damaged("is no manifest of a checkpoint".into()))?;
        let body = body.trim_end();
        if checksum != fingerprint(body.as_bytes()) {
            return Err(damaged("is not as it was written: its checksum differs".into()));
        }
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let unreadable = |error: ron::error::SpannedError| damaged(format!("cannot be read: {error}"));
        let Versioned { version } = ron::from_str(body).map_err(unreadable)?;
        if version != VERSION {
            let message =
                format!("{} is of version {version}, this program reads version {VERSION}", folder.display());
            return Err(Diagnostic::error("step::checkpoint::version", message).help(
                "go on with the program that wrote it, or export its weights with that program and begin from them",
            ));
        }
        ron::from_str(body).map_err(unreadable)
    }
}

/// XXH3 of some bytes, as it stands in a manifest.
pub fn fingerprint(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

/// The same path wherever a run is started.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn no_checkpoint(folder: &Path) -> Diagnostic {
    let what = if folder.is_dir() { format!("holds no `{NAME}`") } else { "does not exist".into() };
    let message = format!("{} is no checkpoint: it {what}", folder.display());
    Diagnostic::error("step::checkpoint::none", message)
        .help("name a folder such as `output/run/step-000200`, or a run's folder that holds some")
}
