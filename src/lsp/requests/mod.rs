//! What editors ask for. A request is a pure function of what is known of a file; this table says which.

mod actions;
mod commands;
mod completion;
mod definition;
mod folding;
mod formatting;
mod hints;
mod hover;
mod lens;
mod links;
mod rename;
mod signature;
mod symbols;
mod tokens;

pub use commands::COMMANDS;
pub use tokens::{Sent, legend};

use super::glance::Glance;
use super::guard;
use super::snapshot::Snapshot;
use super::view::View;
use lsp_server::{ErrorCode, ResponseError};
use lsp_types::*;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// A result, or why there is none.
pub type Answer<T> = Result<T, Refusal>;

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// What was asked for cannot be done; the editor shows why.
    Failed(String),
    /// The text is no longer the one that was asked about.
    Modified,
}

/// Answers a request from `snapshot`.
pub fn answer(snapshot: &Arc<Snapshot>, method: &str, params: Value) -> Result<Value, ResponseError> {
    macro_rules! table {
        ($($request:ty => $handler:expr),* $(,)?) => {
            match LspRequestMethod::from(method) {
                ExecuteCommandRequest::METHOD => {
                    about_all::<ExecuteCommandRequest>(params, |params| commands::execute(snapshot, params))
                }
                TextDocumentContentRequest::METHOD => {
                    about_all::<TextDocumentContentRequest>(params, commands::content)
                }
                WorkspaceSymbolRequest::METHOD => {
                    about_all::<WorkspaceSymbolRequest>(params, |params| symbols::workspace(snapshot, params))
                }
                CompletionRequest::METHOD => {
                    glancing::<CompletionRequest>(snapshot, params, completion::completion)
                }
                SignatureHelpRequest::METHOD => {
                    glancing::<SignatureHelpRequest>(snapshot, params, signature::signature)
                }
                $(<$request as Request>::METHOD => about::<$request>(snapshot, params, $handler),)*
                _ => Err(refused(ErrorCode::MethodNotFound, format!("`{method}` is not served"))),
            }
        };
    }
    let work = || {
        table! {
            CodeActionRequest => actions::actions,
            CodeLensRequest => lens::lenses,
            DocumentFormattingRequest => formatting::whole,
            DocumentLinkRequest => links::links,
            DocumentRangeFormattingRequest => formatting::lines,
            DocumentSymbolRequest => symbols::outline,
            FoldingRangeRequest => folding::folding,
            SelectionRangeRequest => folding::selection,
            SemanticTokensDeltaRequest => tokens::delta,
            SemanticTokensRangeRequest => tokens::lines,
            SemanticTokensRequest => tokens::full,
            HoverRequest => hover::hover,
            DocumentHighlightRequest => definition::highlights,
            DefinitionRequest => definition::definition,
            ReferencesRequest => definition::references,
            PrepareRenameRequest => rename::prepare,
            RenameRequest => rename::rename,
            InlayHintRequest => hints::hints,
        }
    };
    guard::catch(work).unwrap_or_else(|panic| {
        eprintln!("stepc lsp: {method}: {panic}");
        Err(refused(ErrorCode::InternalError, format!("`{method}` failed, please report it: {panic}")))
    })
}

/// Answers a request about an open file.
fn about<R: Request>(
    snapshot: &Arc<Snapshot>,
    params: Value,
    handler: impl FnOnce(&View, R::Params) -> Answer<R::Result>,
) -> Result<Value, ResponseError> {
    of_file::<R, View>(snapshot, params, |path| snapshot.view(path), handler)
}

/// Answers one that comes between two keystrokes.
fn glancing<R: Request>(
    snapshot: &Arc<Snapshot>,
    params: Value,
    handler: impl FnOnce(&Glance, R::Params) -> Answer<R::Result>,
) -> Result<Value, ResponseError> {
    of_file::<R, Glance>(snapshot, params, |path| snapshot.glance(path), handler)
}

fn of_file<R: Request, V>(
    snapshot: &Arc<Snapshot>,
    params: Value,
    known: impl FnOnce(&Path) -> Option<V>,
    handler: impl FnOnce(&V, R::Params) -> Answer<R::Result>,
) -> Result<Value, ResponseError> {
    let named = params.pointer("/textDocument/uri").and_then(Value::as_str).map(|uri| Uri(uri.to_owned()));
    let params = read::<R>(params)?;
    let named = named.unwrap_or_else(|| Uri(String::new()));
    let open = snapshot.path(&named).filter(|path| snapshot.host.open.contains_key(path));
    let path = open.ok_or_else(|| refused(ErrorCode::InvalidParams, format!("`{named}` is not open")))?;
    let view = known(&path);
    let view = view.ok_or_else(|| refused(ErrorCode::InternalError, format!("`{named}` cannot be read")))?;
    written(handler(&view, params))
}

/// Answers a request that is about no single file.
fn about_all<R: Request>(
    params: Value,
    handler: impl FnOnce(R::Params) -> Answer<R::Result>,
) -> Result<Value, ResponseError> {
    read::<R>(params).and_then(|params| written(handler(params)))
}

fn read<R: Request>(params: Value) -> Result<R::Params, ResponseError> {
    serde_json::from_value(params).map_err(|error| refused(ErrorCode::InvalidParams, error.to_string()))
}

fn written<T: serde::Serialize>(answer: Answer<T>) -> Result<Value, ResponseError> {
    match answer {
        Ok(result) => {
            serde_json::to_value(result).map_err(|error| refused(ErrorCode::InternalError, error.to_string()))
        }
        Err(Refusal::Failed(reason)) => Err(refused(ErrorCode::RequestFailed, reason)),
        Err(Refusal::Modified) => Err(refused(ErrorCode::ContentModified, "the text has changed".to_owned())),
    }
}

/// An error as the protocol writes it.
pub fn refused(code: ErrorCode, message: String) -> ResponseError {
    ResponseError { code: code as i32, message, data: None }
}
