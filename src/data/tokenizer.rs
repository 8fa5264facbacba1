//! The Hugging Face tokenizer of a run: read from `tokenizer.json`, checked against the model's vocabulary.

use crate::base::hash::fnv1a;
use crate::diag::Diagnostic;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// End-of-text tokens by name, looked up in this order.
const END_OF_TEXT: [&str; 7] =
    ["<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>", "<|eos|>", "[EOS]"];

/// The file of a tokenizer that is named by itself or by its folder.
pub fn tokenizer_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() }
}

/// Text to token ids, and the id that ends a document.
pub(super) struct Tokenizer {
    inner: tokenizers::Tokenizer,
    path: PathBuf,
    eos: Option<u32>,
    vocab: usize,
    /// Of the file's content.
    pub hash: u64,
}

impl Tokenizer {
    /// Reads `path`, a file or a folder that holds `tokenizer.json`, for a model of `vocab` tokens.
    ///
    /// The end of text is `eos`, or the `eos_token` of the folder's `tokenizer_config.json`, or one of the
    /// usual names, or nothing.
    pub(super) fn open(path: &Path, vocab: usize, eos: Option<u32>) -> Result<Self, Diagnostic> {
        let file = tokenizer_file(path);
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
        let hash = fnv1a(&String::from_utf8_lossy(&bytes));
        Ok(Tokenizer { inner, path: file, eos, vocab, hash })
    }

    /// The folder that it lies in, with its configuration.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Tokens with a meaning of their own, such as the end of an answer.
    pub(super) fn special(&self) -> Vec<String> {
        let added = self.inner.get_added_tokens_decoder();
        added.into_values().filter(|token| token.special).map(|token| token.content).collect()
    }

    /// What is read where token `id` stands.
    pub(super) fn show(&self, ids: &[u32]) -> String {
        self.inner.decode(ids, false).unwrap_or_default()
    }

    /// The token that ends a document.
    pub(super) fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The tokens of `text`, without the special tokens a template would add.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| error.to_string())?;
        self.within(encoding.get_ids().to_vec())
    }

    /// The tokens of `text`, and which of them lie in the bytes `learned`, at least in part.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub(super) fn encode_spans(
        &self,
        text: &str,
        learned: &[Range<usize>],
    ) -> Result<(Vec<u32>, Vec<bool>), String> {
        let encoding = self.inner.encode(text, false).map_err(|error| error.to_string())?;
        let offsets = encoding.get_offsets();
        let mut mask = vec![false; offsets.len()];
        for span in learned {
            // From the first token with a byte of the span to the last: those between may have lost their bytes to trimming.
            let touches = |&(start, end): &(usize, usize)| start < span.end && end > span.start;
            if let (Some(first), Some(last)) =
                (offsets.iter().position(touches), offsets.iter().rposition(touches))
            {
                mask[first..=last].fill(true);
            }
        }
        Ok((self.within(encoding.get_ids().to_vec())?, mask))
    }

    /// Tokens that the model has an embedding for.
    fn within(&self, ids: Vec<u32>) -> Result<Vec<u32>, String> {
        match ids.iter().find(|&&id| id as usize >= self.vocab) {
            None => Ok(ids),
            Some(id) => Err(format!("token {id} is not below the model's `vocab` of {}", self.vocab)),
        }
    }
}

/// `eos_token` of the `tokenizer_config.json` in `folder`: a string, or an object with `content`.
fn configured_eos(folder: &Path) -> Option<String> {
    let bytes = fs::read(folder.join("tokenizer_config.json")).ok()?;
    let config: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let token = &config["eos_token"];
    token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned)
}
