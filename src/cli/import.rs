//! `stepc import`

use super::args::ImportHf;
use super::exit::Failure;
use super::new::{exists, ident, write};
use super::session::Session;
use crate::base::SourceMap;
use crate::base::host::{MemoryHost, OsHost};
use crate::diag::{Diagnostic, Sink};
use crate::import;
use crate::model::{Counts, Model};
use crate::recipe::draft::Draft;
use crate::recipe::{self, Request};
use crate::report::count;
use std::path::{Path, PathBuf};

/// Writes the model of a Hugging Face folder as a file of the language.
pub fn hf(session: &mut Session, args: &ImportHf) -> Result<(), Failure> {
    let folder = &args.folder;
    if !folder.is_dir() {
        let message = format!("{} is not a folder", folder.display());
        let problem = Diagnostic::error("step::import::no_config", message);
        return Err(problem.help("give a Hugging Face folder, as it was downloaded").into());
    }
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let name = ident(&whole.file_name().unwrap_or_default().to_string_lossy());
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.step")));
    if output.exists() {
        return Err(exists(&output).into());
    }
    let imported = import::hf(&OsHost, folder, &name).map_err(Failure::Input)?;
    let config = folder.join("config.json");
    let text = format!("// The model that {} describes.\n\n{}", config.display(), imported.item);
    let counts = checked(&name, &output, imported.item).map_err(|(found, sources)| {
        session.sources = sources;
        Failure::Input(found)
    })?;
    write(&output, &text)?;
    for (_, tensors, what) in imported.left_out {
        session.print(&format!("left out: `{tensors}`, {what}\n"));
    }
    session.print(&format!(
        "{}: {}, {} parameters, {} active for a token, {} tensors\n",
        output.display(),
        imported.model_type,
        count(counts.total as f64),
        count(counts.active as f64),
        counts.tensors,
    ));
    Ok(())
}

/// The size of the model, once it has passed the checks of a recipe.
fn checked(name: &str, output: &Path, item: String) -> Result<Counts, (Vec<Diagnostic>, SourceMap)> {
    let draft = Draft::with("sketch", String::new(), name, item);
    let host = MemoryHost::over(OsHost).with(output, draft.sketch());
    let request = Request { path: output.to_owned(), ..Request::default() };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let loaded = recipe::load(&host, &request, &mut sources, &mut sink);
    match loaded.and_then(|loaded| loaded.resolve(None, &mut sink)) {
        Some(resolved) if !sink.has_errors() => {
            let dtype = resolved.recipe.parallel.precision.params;
            Ok(Model::build(&resolved.recipe.model, dtype).counts())
        }
        _ => Err((sink.finish(), sources)),
    }
}
