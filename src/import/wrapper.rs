//! Models of several kinds of input, whose `config.json` holds that of a text model: the text model is taken, and what is left
//! out of the rest is said by name.

use super::keys::Keys;
use super::page::Page;
use serde_json::{Map, Value};

/// The configurations of one `model_type` around those of a family.
#[derive(Debug)]
pub struct Wrapper {
    pub model_type: &'static str,
    /// The key of the text model's configuration, and its family.
    pub key: &'static str,
    pub family: &'static str,
    /// What Python code takes where that configuration is silent.
    defaults: &'static [(&'static str, u64)],
    /// What the names of the text model's tensors begin with.
    pub prefix: &'static str,
    /// Keys about other inputs.
    others: &'static [&'static str],
    /// What is left out: a word for it, its tensors, and what it is.
    pub left_out: &'static [(&'static str, &'static str, &'static str)],
}

/// All of them.
pub const WRAPPERS: &[Wrapper] = &[Wrapper {
    model_type: "gemma3",
    key: "text_config",
    family: "gemma3_text",
    defaults: &[
        ("vocab_size", 262_208),
        ("hidden_size", 2304),
        ("intermediate_size", 9216),
        ("num_hidden_layers", 26),
        ("num_attention_heads", 8),
        ("num_key_value_heads", 4),
        ("head_dim", 256),
    ],
    prefix: "language_model.",
    others: &[
        "vision_config",
        "boi_token_index",
        "eoi_token_index",
        "image_token_index",
        "mm_tokens_per_image",
        "initializer_range",
    ],
    left_out: &[
        ("vision", "vision_tower.*", "the vision tower: training is on text"),
        ("projector", "multi_modal_projector.*", "the projection of images: training is on text"),
    ],
}];

impl Wrapper {
    /// The configuration of the text model; what is wrong around it is collected in `keys`.
    pub fn text(&self, keys: &mut Keys<'_>) -> Option<Map<String, Value>> {
        for key in self.others {
            keys.get(key);
        }
        keys.only("tie_word_embeddings", &["true"], "a head of its own here");
        let found = keys.get(self.key);
        let Some(text) = found.and_then(Value::as_object) else {
            keys.wrong(self.key, found, "an object");
            return None;
        };
        keys.leftovers();
        let said = text.iter().filter(|(_, value)| !value.is_null());
        let said = said.map(|(key, value)| (key.clone(), value.clone()));
        let defaults = self.defaults.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value)));
        keys.problems.is_empty().then(|| defaults.chain(said).collect())
    }

    /// Names the tensors of the text model, and those that are left alone.
    pub fn describe(&self, page: &mut Page) {
        for (field, name) in [
            ("embed", "model.embed_tokens.weight"),
            ("norm", "model.norm.weight"),
            ("head", "lm_head.weight"),
            ("layer", "model.layers.{i}"),
        ] {
            page.set(&format!("names.{field}"), format!("\"{}{name}\"", self.prefix));
        }
        for (word, tensors, reason) in self.left_out {
            let ignored = format!("{{ tensors = \"{tensors}\", reason = \"{reason}\" }}");
            page.set(&format!("names.ignore.{word}"), ignored);
        }
    }
}
