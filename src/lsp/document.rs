//! One open file, kept equal to the editor's.

use super::position::{Encoding, Lines};
use lsp_types::{TextDocumentContentChangeEvent, Uri};
use std::sync::Arc;

/// The text of an open file at one version.
#[derive(Debug, Clone)]
pub struct Document {
    /// As the client spells it.
    pub uri: Uri,
    pub version: i32,
    pub text: Arc<str>,
}

impl Document {
    /// The document after `changes`, each of which refers to the text after the one before it.
    pub fn edited(
        &self,
        version: i32,
        changes: Vec<TextDocumentContentChangeEvent>,
        encoding: Encoding,
    ) -> Self {
        let text = changes.into_iter().fold(None, |text: Option<String>, change| {
            Some(apply(text.as_deref().unwrap_or(&self.text), change, encoding))
        });
        let text = text.map_or_else(|| Arc::clone(&self.text), Arc::from);
        Document { uri: self.uri.clone(), version, text }
    }
}

fn apply(text: &str, change: TextDocumentContentChangeEvent, encoding: Encoding) -> String {
    match change {
        TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(whole) => whole.text,
        TextDocumentContentChangeEvent::TextDocumentContentChangePartial(part) => {
            let lines = Lines::new(text);
            let [start, end] =
                [part.range.start, part.range.end].map(|position| lines.offset(text, position, encoding));
            // A range that ends before it starts is read the other way round.
            let (start, end) = (start.min(end), start.max(end));
            [&text[..start], &part.text, &text[end..]].concat()
        }
    }
}
