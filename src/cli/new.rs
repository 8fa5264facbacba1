//! `stepc new`

use super::args::NewArgs;
use super::exit::Failure;
use super::session::Session;
use crate::base::SourceMap;
use crate::base::host::{MemoryHost, OsHost};
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};
use crate::import;
use crate::plan::{self, Task};
use crate::recipe::draft::{Draft, LibraryModel, models};
use crate::recipe::{self, Loaded, Model, Request, Resolved};
use crate::report::{bytes, count};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Numbers of nodes that are tried, until a device has room for its part.
const NODES: &[u64] = &[1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128];

/// Writes a new recipe, or lists the models there are.
pub fn new(session: &mut Session, args: &NewArgs) -> Result<(), Failure> {
    let Some(name) = args.name.as_deref().filter(|_| !args.list) else {
        session.print(&list());
        return Ok(());
    };
    let (draft, output) = draft(name, args)?;
    if output.exists() {
        return Err(exists(&output).into());
    }
    let (text, plan) = sized(&draft, &output).map_err(|(found, sources)| {
        session.sources = sources;
        Failure::Input(found)
    })?;
    write(&output, &text)?;
    session.print(&format!(
        "{}: {} parameters on {} devices, {} of {} a device\n",
        output.display(),
        count(plan.counts.total as f64),
        plan.mesh.devices,
        bytes(plan.memory.peak),
        bytes(plan.cluster.device.memory),
    ));
    Ok(())
}

fn list() -> String {
    let models = models();
    let longest = models.iter().map(|model| model.name.len()).max().unwrap_or_default();
    models.iter().map(|model| format!("{:<longest$}  {}\n", model.name, model.about)).collect()
}

/// What to write and where to: from `--model`, a Hugging Face folder, or a model of the library, in this order.
fn draft(name: &str, args: &NewArgs) -> Result<(Draft, PathBuf), Failure> {
    let output = |name: &str| args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.step")));
    if let Some(model) = &args.model {
        let ident = ident(name);
        return Ok((Draft::of(&ident, library_model(model)?), output(&ident)));
    }
    let folder = Path::new(name);
    if folder.is_dir() {
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let ident = ident(&whole.file_name().unwrap_or_default().to_string_lossy());
        let output = output(&ident);
        return Ok((from_folder(&ident, folder, &whole, &output)?, output));
    }
    Ok((Draft::of(name, library_model(name)?), output(name)))
}

fn library_model(name: &str) -> Result<LibraryModel, Diagnostic> {
    let models = models();
    if let Some(found) = models.iter().find(|model| model.name == name) {
        return Ok(*found);
    }
    let message = format!("`{name}` is neither a model of the library nor a folder");
    let problem = Diagnostic::error("step::new::unknown_model", message);
    Err(match nearest(name, models.iter().map(|model| model.name)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("`stepc new --list` shows the models of the library"),
    })
}

fn from_folder(name: &str, folder: &Path, whole: &Path, output: &Path) -> Result<Draft, Failure> {
    let imported = import::hf(&OsHost, folder, name).map_err(Failure::Input)?;
    let about = format!("the model that {} describes", folder.join("config.json").display());
    let mut draft = Draft::with(name, about, name, imported.item);
    if imported.weights {
        // Paths are relative to the file that writes them.
        let beside = output.parent().is_none_or(|parent| parent.as_os_str().is_empty());
        let path = if beside { folder } else { whole };
        draft.weights = Some(path.display().to_string());
        draft.tokenizer = folder.join("tokenizer.json").exists();
    }
    Ok(draft)
}

/// A name of the language that is near to `text`.
pub(super) fn ident(text: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let ident: String = text.chars().map(letter).collect();
    let ident = ident.trim_matches('_');
    match ident.chars().next() {
        Some(first) if first.is_ascii_digit() => format!("recipe_{ident}"),
        Some(_) => ident.to_owned(),
        None => "recipe".to_owned(),
    }
}

/// The draft for the least number of nodes on which it fits, with its plan. A draft that does not pass its own check is
/// reported and not written.
fn sized(draft: &Draft, output: &Path) -> Result<(String, plan::Plan), (Vec<Diagnostic>, SourceMap)> {
    let mut read = Reading { output, sources: SourceMap::default(), sink: Sink::default() };
    let outcome = read.sketch(draft).and_then(|model| {
        let mut last = None;
        let devices = read.devices(draft, &model)?;
        for nodes in NODES {
            let text = draft.text(&model, *nodes, devices);
            let (loaded, resolved) = read.resolve(&text)?;
            let plan = plan::compile(&resolved.recipe, None, Task::Train);
            let fits = plan.memory.peak <= plan.cluster.device.memory;
            last = Some((loaded, text, plan));
            if fits {
                break;
            }
        }
        let (loaded, text, plan) = last?;
        // Warnings about what was tried on the way are of no use to anybody.
        read.sink = Sink::default();
        loaded.check_all(&mut read.sink);
        Some((text, plan))
    });
    match outcome {
        Some(done) if !read.sink.has_errors() => Ok(done),
        _ => Err((read.sink.finish(), read.sources)),
    }
}

/// Texts read as if they stood in the file that is to be written.
struct Reading<'o> {
    output: &'o Path,
    sources: SourceMap,
    sink: Sink,
}

impl Reading<'_> {
    fn resolve(&mut self, text: &str) -> Option<(Loaded, Resolved)> {
        let host = MemoryHost::over(OsHost).with(self.output, text);
        let request = Request { path: self.output.to_owned(), ..Request::default() };
        let loaded = recipe::load(&host, &request, &mut self.sources, &mut self.sink)?;
        let resolved = loaded.resolve(None, &mut self.sink)?;
        Some((loaded, resolved))
    }

    fn sketch(&mut self, draft: &Draft) -> Option<Model> {
        Some(self.resolve(&draft.sketch())?.1.recipe.model)
    }

    /// Devices in a node of the cluster that drafts are written for.
    fn devices(&mut self, draft: &Draft, model: &Model) -> Option<u64> {
        let (_, resolved) = self.resolve(&draft.text(model, 1, 1))?;
        Some(resolved.recipe.cluster.devices_per_node)
    }
}

/// A file is never overwritten.
pub(super) fn exists(path: &Path) -> Diagnostic {
    let message = format!("{} is there already", path.display());
    Diagnostic::error("step::output::exists", message).help("choose another file with `--output FILE`")
}

/// Creates the file; one that has come into being meanwhile stays as it is.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Diagnostic> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(path),
        _ => {
            let message = format!("cannot write {}: {error}", path.display());
            Diagnostic::error("step::output::unwritable", message)
                .help("choose another file with `--output FILE`")
        }
    })
}
