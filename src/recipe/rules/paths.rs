//! Files and folders that a recipe names and that are not there.
//!
//! Asked only of the machine that runs the recipe: elsewhere nothing can be known of them.

use crate::base::Host;
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::model::Weights;
use crate::recipe::schema::recipe::Recipe;
use std::path::{Component, Path, PathBuf};

/// Warns of every file or folder of `recipe` that `host` does not have, once each, however many fields need it.
pub fn check(host: &dyn Host, recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let mut named: Vec<(String, &Path)> = Vec::new();
    if let Weights::Folder(folder) = &recipe.model.weights {
        named.push(("model.weights".into(), folder));
    }
    named.push(("data.tokenizer".into(), &recipe.data.tokenizer));
    if let Some(template) = &recipe.data.chat.template {
        named.push(("data.chat.template".into(), template));
    }
    for (name, source) in &recipe.data.sources {
        named.push((format!("data.source {name}.path"), &source.path));
    }
    let mut absent: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for (field, path) in named {
        let fixed = before_wildcard(path);
        if host.exists(&fixed) {
            continue;
        }
        let missing = first_missing(host, &fixed);
        match absent.iter_mut().find(|(other, _)| *other == missing) {
            Some((_, fields)) => fields.push(field),
            None => absent.push((missing, vec![field])),
        }
    }
    for (missing, fields) in absent {
        let message = format!("there is no `{}`", missing.display());
        let mut problem = Diagnostic::warning("step::recipe::path", message)
            .label(origins.nearest(&fields[0]), "does not exist on this machine");
        for field in &fields[1..] {
            let place =
                origins.nearest(field).filter(|place| problem.labels.iter().all(|l| l.span != *place));
            problem = problem.label(place, "needs it too");
        }
        let folder = missing.parent().filter(|folder| !folder.as_os_str().is_empty());
        let listed = host.list(folder.unwrap_or(Path::new(".")));
        let name = missing.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        sink.push(match nearest(&name, listed.iter().map(String::as_str)) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help("a path is relative to the file that writes it"),
        });
    }
}

/// The part of a path in front of the first `*`, `?` or `[`, whole components only.
fn before_wildcard(path: &Path) -> PathBuf {
    let wild = |part: &Component| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    path.components().take_while(|part| !wild(part)).collect()
}

/// The shortest part of `path` that is not there.
fn first_missing(host: &dyn Host, path: &Path) -> PathBuf {
    let mut parts: Vec<&Path> = path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
    parts.reverse();
    parts.into_iter().find(|part| !host.exists(part)).unwrap_or(path).to_owned()
}
