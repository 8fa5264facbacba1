//! The outline of a file, and items of the workspace by name.

use super::{Answer, View};
use crate::lsp::Snapshot;
use crate::syntax::tree::{Block, Expr, Ident, Item, Let, Stmt};
use lsp_types::*;

/// Items, blocks, fields and names, one inside the other.
pub fn outline(view: &View, _: DocumentSymbolParams) -> Answer<Option<DocumentSymbolResponse>> {
    let items = view.tree().into_iter().flat_map(|tree| &tree.items);
    let symbols = items.filter_map(|item| match item {
        Item::Use { .. } => None,
        Item::Let(item) => Some(name(view, item)),
        Item::Block(block) => Some(self::block(view, block)),
    });
    Ok(Some(DocumentSymbolResponse::DocumentSymbolList(symbols.collect())))
}

/// The symbol of a block; a part of it that has none is passed over.
fn block(view: &View, block: &Block) -> DocumentSymbol {
    let mut inside = Vec::new();
    collect(view, block.stmts(), &mut inside);
    let base = block.base.as_ref().map(|base| format!(": {}", base.text));
    let target = block.target.as_ref().map(|target| format!("for {}", target.text));
    let detail: Vec<_> = base.into_iter().chain(target).collect();
    #[allow(deprecated)] // The struct has no other constructor.
    DocumentSymbol {
        name: match &block.name {
            Some(name) => format!("{} {}", block.kind.text, name.text),
            None => block.kind.text.clone(),
        },
        detail: Some(detail.join(" ")).filter(|detail| !detail.is_empty()),
        kind: kind(&block.kind.text),
        tags: None,
        deprecated: None,
        range: view.range(block.span),
        selection_range: view.range(block.head()),
        children: Some(inside),
    }
}

fn collect(view: &View, stmts: &[Stmt], found: &mut Vec<DocumentSymbol>) {
    for stmt in stmts {
        match stmt {
            Stmt::Attr { key, value } => found.push(value_of(view, key, value, SymbolKind::Property)),
            Stmt::Block(inner) => found.push(block(view, inner)),
            Stmt::Let(item) => found.push(name(view, item)),
            Stmt::Require { .. } => {}
            Stmt::If { then, otherwise, .. } => {
                collect(view, then, found);
                collect(view, otherwise, found);
            }
        }
    }
}

fn name(view: &View, item: &Let) -> DocumentSymbol {
    value_of(view, &item.name, &item.value, SymbolKind::Constant)
}

fn value_of(view: &View, key: &Ident, value: &Expr, kind: SymbolKind) -> DocumentSymbol {
    let text = view.project.sources.slice(value.span);
    #[allow(deprecated)]
    DocumentSymbol {
        name: key.text.clone(),
        detail: text.lines().next().map(str::to_owned),
        kind,
        tags: None,
        deprecated: None,
        range: view.range(key.span.to(value.span)),
        selection_range: view.range(key.span),
        children: None,
    }
}

fn kind(word: &str) -> SymbolKind {
    match word {
        "recipe" => SymbolKind::Module,
        "model" => SymbolKind::Class,
        "device" | "cluster" => SymbolKind::Struct,
        "profile" => SymbolKind::Interface,
        "layer" => SymbolKind::Function,
        _ => SymbolKind::Object,
    }
}

/// The items of all files whose names contain the letters asked for, in order.
pub fn workspace(
    snapshot: &Snapshot,
    params: WorkspaceSymbolParams,
) -> Answer<Option<WorkspaceSymbolResponse>> {
    let found = snapshot.index.items().filter(|(_, item)| has_letters(&item.name, &params.query));
    let symbols = found.map(|(path, item)| {
        let place = |column| Position { line: item.line, character: column };
        let range = Range { start: place(item.columns.start), end: place(item.columns.end) };
        WorkspaceSymbol {
            location: Location { uri: snapshot.uri(path), range }.into(),
            data: None,
            base_symbol_information: BaseSymbolInformation {
                name: item.name.clone(),
                kind: kind(item.kind),
                tags: None,
                container_name: Some(item.kind.to_owned()),
            },
        }
    });
    Ok(Some(WorkspaceSymbolResponse::WorkspaceSymbolList(symbols.collect())))
}

fn has_letters(name: &str, wanted: &str) -> bool {
    let mut letters = name.chars().flat_map(char::to_lowercase);
    wanted.chars().flat_map(char::to_lowercase).all(|wanted| letters.any(|letter| letter == wanted))
}
