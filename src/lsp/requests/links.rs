//! Files that a file names: what it uses, and the paths in its fields.

use super::{Answer, View};
use crate::base::host::normal;
use crate::base::{Host, Span};
use crate::lsp::uri;
use crate::lsp::walk::{Part, parts};
use crate::recipe::library;
use crate::recipe::schema::Type;
use crate::syntax::tree::{Expr, ExprKind};
use lsp_types::*;
use std::path::Path;

pub fn links(view: &View, _: DocumentLinkParams) -> Answer<Option<Vec<DocumentLink>>> {
    let mut found = Vec::new();
    if let Some(tree) = view.tree() {
        parts(tree, &mut |part| match part {
            Part::Use { path, span } => found.extend(used(view, path, span)),
            Part::Attr { value, field: Some(field), .. } if takes_path(&field.ty) => {
                found.extend(file(view, value));
            }
            _ => {}
        });
    }
    Ok(Some(found))
}

fn used(view: &View, path: &str, span: Span) -> Option<DocumentLink> {
    let quote = view.project.sources.slice(span).find('"')? as u32;
    let beside = normal(&view.folder().join(path));
    let target = if view.host().exists(&beside) {
        view.snapshot.uri(&beside)
    } else {
        view.snapshot.library(library::file(path)?.0)
    };
    Some(link(view, Span { start: span.start + quote, ..span }, target))
}

fn file(view: &View, value: &Expr) -> Option<DocumentLink> {
    let ExprKind::Str(path) = &value.kind else { return None };
    let path = normal(&view.folder().join(Path::new(path)));
    path.is_file().then(|| link(view, value.span, uri::from_path(&path)))
}

fn link(view: &View, span: Span, target: Uri) -> DocumentLink {
    // The quotes are no part of it.
    let inner = Span { start: span.start + 1, end: span.end.saturating_sub(1).max(span.start + 1), ..span };
    DocumentLink { range: view.range(inner), target: Some(target), tooltip: None, data: None }
}

fn takes_path(ty: &Type) -> bool {
    match ty {
        Type::Path | Type::WordOrPath(_) => true,
        Type::Optional(inner) => takes_path(inner),
        _ => false,
    }
}
