//! The Hugging Face tokenizer of a run: read from `tokenizer.json`, checked against the model's vocabulary.

use crate::diag::Diagnostic;
use std::fs;
use std::path::{Path, PathBuf};

/// End-of-text tokens by name, looked up in this order.
const END_OF_TEXT: [&str; 7] =
    ["<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>", "<|eos|>", "[EOS]"];

/// Text to token ids, and the id that ends a document.
pub(super) struct Tokenizer {
    inner: tokenizers::Tokenizer,
    path: PathBuf,
    eos: Option<u32>,
}

impl Tokenizer {
    /// Reads `path`, a file or a folder that holds `tokenizer.json`, for a model of `vocab` tokens.
    ///
    /// The end of text is `eos`, or the `eos_token` of the folder's `tokenizer_config.json`, or one of the
    /// usual names, or nothing.
    pub(super) fn open(path: &Path, vocab: usize, eos: Option<u32>) -> Result<Self, Diagnostic> {
        let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        let refuse = |what: String| {
            Diagnostic::error(
                "step::data::tokenizer",
                format!("cannot read the tokenizer {}: {what}", file.display()),
            )
            .help("`tokenizer` names a `tokenizer.json` of Hugging Face, or a folder that holds one")
        };
        let bytes = fs::read(&file).map_err(|error| refuse(error.to_string()))?;
        if bytes.starts_with(b"version https://git-lfs") {
            return Err(refuse("it is a Git LFS pointer, not the file".into())
                .help("run `git lfs pull` in its folder"));
        }
        let mut inner =
            tokenizers::Tokenizer::from_bytes(&bytes).map_err(|error| refuse(error.to_string()))?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| refuse(error.to_string()))?;

        let largest =
            inner.get_vocab(true).into_values().max().ok_or_else(|| refuse("it has no tokens".into()))?;
        let needed = largest as usize + 1;
        if needed > vocab {
            let message = format!("the tokenizer has {needed} token ids, the model only {vocab}");
            return Err(Diagnostic::error("step::data::vocab", message).help(format!(
                "set the model's `vocab` to {needed} or more, or use the model's own tokenizer"
            )));
        }
        let named = || {
            let configured = file.parent().and_then(configured_eos);
            configured.iter().map(String::as_str).chain(END_OF_TEXT).find_map(|name| inner.token_to_id(name))
        };
        let eos = eos.or_else(named);
        if let Some(id) = eos.filter(|&id| id as usize >= vocab) {
            let message = format!("the end-of-text token {id} is not below the model's `vocab` of {vocab}");
            return Err(Diagnostic::error("step::data::vocab", message).help("correct `eos` or `vocab`"));
        }
        Ok(Tokenizer { inner, path: file, eos })
    }

    /// The token that ends a document.
    pub(super) fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Appends the tokens of `text`, without the special tokens a template would add.
    pub(super) fn encode(&self, text: &str, tokens: &mut Vec<u32>) -> Result<(), Diagnostic> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| {
            let message = format!("the tokenizer {} fails on a document: {error}", self.path.display());
            Diagnostic::error("step::data::tokenizer", message)
        })?;
        tokens.extend_from_slice(encoding.get_ids());
        Ok(())
    }
}

/// `eos_token` of the `tokenizer_config.json` in `folder`: a string, or an object with `content`.
fn configured_eos(folder: &Path) -> Option<String> {
    let bytes = fs::read(folder.join("tokenizer_config.json")).ok()?;
    let config: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let token = &config["eos_token"];
    token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned)
}
