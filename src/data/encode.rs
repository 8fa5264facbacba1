//! Documents to tokens: what the threads in the background do.

use super::chat::{Chat, Conversation};
use super::columns::Needed;
use super::record::{Loaded, Piece, Place};
use super::tokenizer::Tokenizer;
use crate::diag::Diagnostic;
use minijinja::Value;

/// What documents of a source become tokens with.
pub(super) struct Encoder {
    pub tokenizer: Tokenizer,
    pub chat: Option<Chat>,
    /// What each source takes out of its records.
    pub needed: Vec<Needed>,
}

/// A document as tokens.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub ids: Vec<u32>,
    /// The token where it is to be learned, -1 elsewhere.
    pub targets: Vec<i32>,
    /// Lone surrogates that became U+FFFD.
    pub replaced: u64,
}

impl Encoder {
    /// The tokens of a piece of source `source`; none of an empty document.
    ///
    /// # Errors
    /// What makes the document unusable, with its place.
    pub(super) fn encode(&self, source: usize, piece: &Piece) -> Result<Tokens, Diagnostic> {
        let (place, needed) = (&piece.place, &self.needed[source]);
        match (&piece.content, &self.chat) {
            (Loaded::Text(bytes), None) => self.text(utf8(place, bytes, 0)?, place),
            (Loaded::Json(bytes), None) => {
                let Some((record, replaced)) = parse::<serde_json::Value>(place, bytes)? else {
                    return Ok(Tokens::default());
                };
                let tokens = self.text(field(place, &record, needed)?, place)?;
                Ok(Tokens { replaced, ..tokens })
            }
            (Loaded::Json(bytes), Some(chat)) => {
                let Some((record, replaced)) = parse::<Value>(place, bytes)? else {
                    return Ok(Tokens::default());
                };
                Ok(Tokens { replaced, ..self.conversation(chat, place, &record, needed)? })
            }
            (Loaded::Row(record), Some(chat)) => self.conversation(chat, place, record, needed),
            (Loaded::Text(_), Some(_)) => Err(Diagnostic::error(
                "step::data::conversation",
                format!("{}: plain text, where fine-tuning needs conversations", place.show(&[])),
            )
            .help("name files of conversations, or write `stage = pretrain`")),
            (Loaded::Row(_), None) => Err(needed.missing(&place.show(&[]), &[])),
        }
    }

    fn text(&self, text: &str, place: &Place) -> Result<Tokens, Diagnostic> {
        let ids = self.tokenizer.encode(text).map_err(|what| untokenised(place, &what))?;
        let targets = ids.iter().map(|&id| id as i32).collect();
        Ok(Tokens { ids, targets, replaced: 0 })
    }

    fn conversation(
        &self,
        chat: &Chat,
        place: &Place,
        record: &Value,
        needed: &Needed,
    ) -> Result<Tokens, Diagnostic> {
        let keys: Vec<String> = record.try_iter().into_iter().flatten().map(|key| key.to_string()).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        if needed.of(&keys).is_none() {
            return Err(needed.missing(&place.show(&[]), &keys));
        }
        let refuse = |what: String| {
            Diagnostic::error("step::data::conversation", format!("{}: {what}", place.show(&[]))).help(
                "a conversation is a list of messages, each with `role` and `content`, or `from` and `value`",
            )
        };
        let conversation = Conversation::of(record, needed.column.as_deref()).map_err(refuse)?;
        if conversation.messages.is_empty() {
            return Ok(Tokens::default());
        }
        let rendered =
            chat.render(&conversation).map_err(|what| refuse(format!("the chat template says: {what}")))?;
        let encoded = self.tokenizer.encode_spans(&rendered.text, &rendered.learned);
        let (ids, mask) = encoded.map_err(|what| untokenised(place, &what))?;
        let targets =
            ids.iter().zip(mask).map(|(&id, learned)| if learned { id as i32 } else { -1 }).collect();
        Ok(Tokens { ids, targets, replaced: 0 })
    }
}

fn untokenised(place: &Place, what: &str) -> Diagnostic {
    Diagnostic::error("step::data::tokens", format!("{}: {what}", place.show(&[])))
        .help("take the tokenizer of the model, and a `vocab` that holds all of its tokens")
}

/// `bytes`, which begin `skipped` bytes into the document, as text.
fn utf8<'b>(place: &Place, bytes: &'b [u8], skipped: usize) -> Result<&'b str, Diagnostic> {
    std::str::from_utf8(&bytes[skipped..]).map_err(|error| {
        let at = skipped + error.valid_up_to();
        let what = match error.error_len() {
            Some(_) => format!("byte 0x{:02x} is not valid UTF-8", bytes[at]),
            None => "the text ends in the middle of a character".to_owned(),
        };
        Diagnostic::error("step::data::utf8", format!("{}: {what}", place.show(&bytes[..at])))
            .help("convert the file, for instance with `iconv -t utf-8`, or leave such documents out: `invalid = skip`")
    })
}

/// A record, and how many lone surrogates have been replaced in it; `None` where there is only white space.
fn parse<T: serde::de::DeserializeOwned>(
    place: &Place,
    bytes: &[u8],
) -> Result<Option<(T, u64)>, Diagnostic> {
    let mark = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let text = utf8(place, bytes, mark)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let error = match serde_json::from_str(text) {
        Ok(record) => return Ok(Some((record, 0))),
        Err(error) => error,
    };
    let (mended, replaced) = without_lone_surrogates(text);
    if let (1.., Ok(record)) = (replaced, serde_json::from_str(&mended)) {
        return Ok(Some((record, replaced)));
    }
    let lines = text.split_inclusive('\n').take(error.line() - 1).map(str::len).sum::<usize>();
    let at = (mark + lines + error.column().saturating_sub(1)).min(bytes.len());
    // The position is given by path already: keep only what is wrong.
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    Err(Diagnostic::error("step::data::json", format!("{}: not JSON: {what}", place.show(&bytes[..at])))
        .help("a jsonl file holds one JSON object a line; leave damaged ones out with `invalid = skip`"))
}

/// JSON in which every `\ud800` to `\udfff` that is no half of a pair is `\ufffd`, and how many those are.
fn without_lone_surrogates(text: &str) -> (String, u64) {
    let code = |at: usize| {
        let digits = text.get(at + 2..at + 6).filter(|_| text[at..].starts_with("\\u"))?;
        u32::from_str_radix(digits, 16).ok()
    };
    let (mut out, mut from, mut replaced) = (String::with_capacity(text.len()), 0, 0);
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        at += match code(at) {
            Some(0xd800..0xdc00) if code(at + 6).is_some_and(|low| (0xdc00..0xe000).contains(&low)) => 12,
            Some(0xd800..0xe000) => {
                out.push_str(&text[from..at]);
                out.push_str("\\ufffd");
                replaced += 1;
                from = at + 6;
                6
            }
            Some(_) => 6,
            None => 2,
        };
        if at >= bytes.len() {
            break;
        }
    }
    out.push_str(&text[from..]);
    (out, replaced)
}

/// The text of a record.
fn field<'r>(place: &Place, record: &'r serde_json::Value, needed: &Needed) -> Result<&'r str, Diagnostic> {
    let name = needed.text();
    match record.get(name) {
        Some(serde_json::Value::String(text)) => Ok(text),
        Some(other) => {
            let kind = match other {
                serde_json::Value::Null => "null",
                serde_json::Value::Bool(_) => "a truth value",
                serde_json::Value::Number(_) => "a number",
                serde_json::Value::Array(_) => "a list",
                _ => "an object",
            };
            let message = format!("{}: field `{name}` is not a string but {kind}", place.show(&[]));
            Err(Diagnostic::error("step::data::column", message)
                .help("set `column` to the field that holds the text, or leave such records out with `invalid = skip`"))
        }
        None => {
            let keys: Vec<&str> =
                record.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            Err(needed.missing(&place.show(&[]), &keys))
        }
    }
}
