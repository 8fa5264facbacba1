//! From a Hugging Face folder to the text of a model.

use super::families::FAMILIES;
use super::family::Reader;
use super::keys::Keys;
use super::page::Page;
use super::wrapper::WRAPPERS;
use crate::base::{Host, SourceMap};
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};
use crate::syntax::format::format;
use crate::weights::Folder;
use serde_json::{Map, Value};
use std::io::ErrorKind;
use std::path::Path;

const CONFIG: &str = "config.json";

/// A model item, laid out, and what it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// `model NAME { … }`
    pub item: String,
    /// The kind of model, as the configuration calls it.
    pub model_type: String,
    /// The folder holds the tensors too.
    pub weights: bool,
    /// Parts of it that the item leaves out: a word, the names of their tensors, and what they are.
    pub left_out: &'static [(&'static str, &'static str, &'static str)],
}

/// Describes the model of a Hugging Face folder, under a name. The headers of its checkpoint settle what the
/// configuration leaves open; where there are none, the configuration alone counts.
///
/// # Errors
/// A folder without a readable `config.json`, a checkpoint whose headers are damaged, and everything in the configuration that a
/// recipe cannot express, each by its key.
pub fn hf(host: &dyn Host, folder: &Path, name: &str) -> Result<Imported, Vec<Diagnostic>> {
    let file = folder.join(CONFIG);
    let object = object(host, &file)?;
    let kind = object.get("model_type").and_then(Value::as_str);
    let wrapper = WRAPPERS.iter().find(|wrapper| Some(wrapper.model_type) == kind);
    let wanted = wrapper.map(|wrapper| wrapper.family).or(kind);
    let Some(family) = FAMILIES.iter().find(|family| Some(family.model_type) == wanted) else {
        return Err(vec![unknown(&file, kind)]);
    };
    let mut keys = Keys::new(&file, &object);
    let text = match wrapper.map(|wrapper| wrapper.text(&mut keys)) {
        Some(None) => return Err(keys.problems),
        text => text.flatten(),
    };
    if let (Some(wrapper), Some(text)) = (wrapper, &text) {
        keys = Keys::under(&file, wrapper.key, text);
    }
    let checkpoint = checkpoint(folder)?;
    let mut reader = Reader { keys, page: Page::default() };
    let read = reader.read(family);
    if read.is_some() {
        // Otherwise what is left over may just not have been reached.
        reader.keys.leftovers();
    }
    if read.is_none() || !reader.keys.problems.is_empty() {
        return Err(reader.keys.problems);
    }
    if let Some(checkpoint) = &checkpoint {
        settle(&mut reader, checkpoint, wrapper.map_or("", |wrapper| wrapper.prefix));
    }
    wrapper.iter().for_each(|wrapper| wrapper.describe(&mut reader.page));
    let item = laid_out(&reader.page.item(name))?;
    Ok(Imported {
        item,
        model_type: family.model_type.to_owned(),
        weights: checkpoint.is_some(),
        left_out: wrapper.map_or(&[][..], |wrapper| wrapper.left_out),
    })
}

fn object(host: &dyn Host, file: &Path) -> Result<Map<String, Value>, Vec<Diagnostic>> {
    let shown = file.display();
    let text = host.read_text(file).map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_owned(),
            _ => error.to_string(),
        };
        let problem = Diagnostic::error("step::import::no_config", format!("cannot read {shown}: {reason}"));
        vec![problem.help(
            "give a Hugging Face folder as it was downloaded, with the `config.json` of its checkpoint",
        )]
    })?;
    let broken = |what: String, help: &str| {
        vec![Diagnostic::error("step::import::not_json", format!("{shown}: {what}")).help(help)]
    };
    if text.starts_with("version https://git-lfs") {
        let what = "a pointer of Git LFS, not the file itself".to_owned();
        return Err(broken(what, "fetch the files: `git lfs pull` in the folder"));
    }
    if text.trim_start().starts_with('<') {
        let what = "a web page, not a configuration".to_owned();
        return Err(broken(what, "download the file again, logged in where the model asks for it"));
    }
    let again = "download the file again: it is cut off or damaged";
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(broken("not a JSON object".to_owned(), again)),
        Err(error) => Err(broken(format!("not JSON: {error}"), again)),
    }
}

fn unknown(file: &Path, kind: Option<&str>) -> Diagnostic {
    let shown = file.display();
    let message = match kind {
        Some(kind) => format!("{shown}: `model_type` is `{kind}`, which is no known family"),
        None => format!("{shown}: `model_type` is missing"),
    };
    let problem = Diagnostic::error("step::import::family", message);
    let wrappers = || WRAPPERS.iter().map(|wrapper| wrapper.model_type);
    let known = || FAMILIES.iter().map(|family| family.model_type).chain(wrappers());
    match kind.and_then(|kind| nearest(kind, known())) {
        Some(near) => {
            problem.help(format!("`{near}` is known; where the two are alike, write its name there"))
        }
        None => {
            let known: Vec<_> = known().map(|known| format!("`{known}`")).collect();
            problem.help(format!(
                "known are {}; describe another one in a `model` of your own",
                known.join(", ")
            ))
        }
    }
}

/// The audited headers of the folder's checkpoint, where it has one.
fn checkpoint(folder: &Path) -> Result<Option<Folder>, Vec<Diagnostic>> {
    let holds = |file: &str| folder.join(file).exists();
    if !holds("model.safetensors") && !holds("model.safetensors.index.json") {
        return Ok(None);
    }
    Folder::open(folder).map(Some).map_err(|problem| vec![problem])
}

/// Lets the tensors decide what the configuration does not say.
fn settle(reader: &mut Reader<'_>, checkpoint: &Folder, prefix: &str) {
    if !reader.keys.holds("tie_word_embeddings") {
        let tied = checkpoint.tensor(&format!("{prefix}lm_head.weight")).is_none();
        reader.page.set("tie_embeddings", tied.to_string());
    }
}

/// The text in the one layout; a name that is not one of the language is reported.
fn laid_out(item: &str) -> Result<String, Vec<Diagnostic>> {
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let id = sources.add("model", item);
    format(id, item, &mut sink).ok_or_else(|| sink.finish())
}
