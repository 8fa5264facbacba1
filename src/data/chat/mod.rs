//! Conversations: records of the usual shapes, the Jinja template of the tokenizer, and which of the text is learned.

mod conversation;
mod json;
mod supervise;
mod template;

pub(super) use conversation::Conversation;
pub(super) use supervise::Chat;
