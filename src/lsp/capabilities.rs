//! What the server says it can do.

use super::position::Encoding;
use super::requests::{COMMANDS, legend};
use super::uri;
use lsp_types::*;

/// The characters behind which an editor asks for completions by itself.
const TRIGGERS: [&str; 6] = [".", "=", " ", "\"", "/", ":"];

/// What is served, to a client that counts columns in `encoding`.
pub fn capabilities(encoding: Encoding) -> ServerCapabilities {
    ServerCapabilities {
        position_encoding: Some(encoding.kind()),
        text_document_sync: Some(TextDocumentSync::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::Incremental),
            ..TextDocumentSyncOptions::default()
        })),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(TRIGGERS.map(str::to_owned).to_vec()),
            ..CompletionOptions::default()
        }),
        signature_help_provider: Some(SignatureHelpOptions {
            trigger_characters: Some(vec!["(".to_owned(), ",".to_owned()]),
            ..SignatureHelpOptions::default()
        }),
        hover_provider: Some(true.into()),
        definition_provider: Some(true.into()),
        references_provider: Some(true.into()),
        document_highlight_provider: Some(true.into()),
        rename_provider: Some(RenameProvider::RenameOptions(RenameOptions {
            prepare_provider: Some(true),
            ..RenameOptions::default()
        })),
        document_symbol_provider: Some(true.into()),
        workspace_symbol_provider: Some(true.into()),
        code_action_provider: Some(CodeActionProvider::CodeActionOptions(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QuickFix, CodeActionKind::SourceFixAll]),
            ..CodeActionOptions::default()
        })),
        code_lens_provider: Some(CodeLensOptions::default()),
        document_link_provider: Some(DocumentLinkOptions::default()),
        document_formatting_provider: Some(true.into()),
        document_range_formatting_provider: Some(true.into()),
        folding_range_provider: Some(true.into()),
        selection_range_provider: Some(true.into()),
        semantic_tokens_provider: Some(SemanticTokensProvider::SemanticTokensOptions(
            SemanticTokensOptions {
                legend: legend(),
                range: Some(true.into()),
                full: Some(Full::SemanticTokensFullDelta(SemanticTokensFullDelta { delta: Some(true) })),
                ..SemanticTokensOptions::default()
            },
        )),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: COMMANDS.map(str::to_owned).to_vec(),
            ..ExecuteCommandOptions::default()
        }),
        inlay_hint_provider: Some(true.into()),
        workspace: Some(WorkspaceOptions {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                change_notifications: Some(true.into()),
            }),
            text_document_content: Some(TextDocumentContent::Options(TextDocumentContentOptions {
                schemes: vec![uri::LIBRARY.to_owned()],
            })),
            ..WorkspaceOptions::default()
        }),
        ..ServerCapabilities::default()
    }
}
