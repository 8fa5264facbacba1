//! Which of a conversation's text is learned.
//!
//! A template that marks what is generated says it itself. Of any other, the text `F` of the whole conversation is compared
//! with two more: with the prompt for the answer, which `F` begins with up to where the answer starts; and with the text
//! of the same conversation in which the answer is one character that occurs nowhere, which differs from `F` exactly in the
//! answer. So it does not matter what a template does to earlier answers, to reasoning or to tools. The token that ends an
//! answer belongs to it: whoever is to answer has to learn to stop.

use super::super::config::{Answers, ChatConfig};
use super::conversation::{Conversation, Role};
use super::template::{BEGIN, END, Template, said};
use crate::base::hash::fnv1a;
use crate::diag::Diagnostic;
use minijinja::Value;
use std::ops::Range;
use std::path::Path;

/// The keys of a message that hold what it says.
const SAID: [&str; 5] = ["content", "tool_calls", "reasoning_content", "reasoning", "thinking"];

/// A template, and what is learned of its texts.
pub struct Chat {
    template: Template,
    config: ChatConfig,
    /// Tokens with a meaning of their own, the longest first.
    special: Vec<String>,
}

/// A conversation as text.
#[derive(Debug, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    /// The bytes of it that are learned, in order.
    pub learned: Vec<Range<usize>>,
}

impl Chat {
    /// Reads the template, and tries it on a question and an answer: neither nothing nor everything may be learned of them.
    pub fn open(config: &ChatConfig, folder: &Path, mut special: Vec<String>) -> Result<Chat, Diagnostic> {
        let template = Template::open(config.template.as_deref(), folder, config.date.as_deref())?;
        special.sort_by_key(|token| std::cmp::Reverse(token.len()));
        let answers =
            ChatConfig { assistant: Answers::All, system: false, user: false, tool: false, ..config.clone() };
        let mut chat = Chat { template, config: answers, special };
        let message = |role: &str, content: &str| Value::from_pairs([("role", role), ("content", content)]);
        let (question, answer) = ("What is it?", "An answer.");
        let probe = Conversation {
            messages: vec![message("user", question), message("assistant", answer)],
            roles: vec![Role::User, Role::Assistant],
            tools: Value::from(()),
        };
        if let Err(error) = chat.template.render(&probe.messages, &probe.tools, false) {
            return Err(chat.template.refuse(&error));
        }
        let learned = chat.render(&probe).is_ok_and(|Rendered { text, learned }| {
            let learned: String = learned.into_iter().map(|span| &text[span]).collect();
            learned.contains(answer) && !learned.contains(question)
        });
        if !learned {
            let message = "the chat template does not let the answer be told from the question";
            return Err(Diagnostic::error("step::data::template", message)
                .help("mark answers in it with `{% generation %}` … `{% endgeneration %}`"));
        }
        chat.config = config.clone();
        Ok(chat)
    }

    /// Of the template and of what is learned, wherever the template lies.
    pub fn hash(&self) -> u64 {
        let ChatConfig { template: _, date, assistant, system, user, tool } = &self.config;
        fnv1a(&format!("{:?}", (self.template.hash, date, assistant, system, user, tool)))
    }

    /// The text of a conversation and what is learned of it.
    ///
    /// # Errors
    /// What the template says, or that an answer is not found in its text.
    pub fn render(&self, conversation: &Conversation) -> Result<Rendered, String> {
        let Conversation { messages, roles, tools } = conversation;
        let text = self.template.render(messages, tools, false).map_err(|error| said(&error))?;
        let (text, marks) = if self.template.marked { unmarked(&text) } else { (text, Vec::new()) };
        let answers: Vec<Range<usize>> = if self.template.marked {
            marks
        } else {
            let mut answers = (0..roles.len()).filter(|&at| roles[at] == Role::Assistant);
            let hidden = |at| format!("the chat template hides where message {} begins or ends", at + 1);
            let span = |at| self.answer(conversation, &text, at).ok_or_else(|| hidden(at));
            match self.config.assistant {
                Answers::All => answers.map(span).collect::<Result<_, _>>()?,
                Answers::Last => answers.next_back().map(span).transpose()?.into_iter().collect(),
                Answers::None => Vec::new(),
            }
        };
        let skip = match self.config.assistant {
            Answers::All => 0,
            Answers::Last => answers.len().saturating_sub(1),
            Answers::None => answers.len(),
        };
        let mut learned: Vec<_> = answers.into_iter().skip(skip).collect();
        for (at, role) in roles.iter().enumerate() {
            let wanted = match role {
                Role::System => self.config.system,
                Role::User => self.config.user,
                Role::Tool => self.config.tool,
                Role::Assistant => false,
            };
            if wanted {
                learned.extend(self.without(conversation, &text, at));
            }
        }
        learned.sort_unstable_by_key(|span| span.start);
        Ok(Rendered { text, learned })
    }

    /// The bytes of answer `at`, with the token that ends it.
    fn answer(&self, conversation: &Conversation, text: &str, at: usize) -> Option<Range<usize>> {
        let Conversation { messages, tools, .. } = conversation;
        let render = |messages: &[Value], prompt| self.template.render(messages, tools, prompt).ok();
        let prompt = render(&messages[..at], true).filter(|prompt| text.starts_with(prompt.as_str()));
        let changed = self.without(conversation, text, at);
        let start = match (&prompt, &changed) {
            (Some(prompt), _) => prompt.len(),
            (None, Some(span)) => span.start,
            (None, None) => return None,
        };
        let end = match changed {
            Some(span) => span.end,
            // A template that refuses the changed conversation may show the answer as the end of a shorter one.
            None => render(&messages[..=at], false)
                .filter(|shown| text.starts_with(shown.as_str()))?
                .trim_end()
                .len(),
        };
        let ends = self.special.iter().find(|token| text[end..].starts_with(token.as_str()));
        (start < end).then(|| start..end + ends.map_or(0, |token| token.len()))
    }

    /// The bytes that change when message `at` says something else.
    fn without(&self, conversation: &Conversation, text: &str, at: usize) -> Option<Range<usize>> {
        let Conversation { messages, tools, .. } = conversation;
        let kept = messages[at].try_iter().ok()?.filter_map(|key| {
            let name = key.as_str()?.to_owned();
            let value = messages[at].get_item(&key).ok()?;
            (!SAID.contains(&name.as_str())).then_some((name, value))
        });
        let other = Value::from_pairs(kept.chain([("content".to_owned(), Value::from("\u{fdd2}"))]));
        let mut changed = messages.clone();
        changed[at] = other;
        let changed = self.template.render(&changed, tools, false).ok()?;
        let changed = if self.template.marked { unmarked(&changed).0 } else { changed };
        if !changed.contains('\u{fdd2}') {
            return None;
        }
        let same = text.bytes().zip(changed.bytes()).take_while(|(a, b)| a == b).count();
        let same_end = text.bytes().rev().zip(changed.bytes().rev()).take_while(|(a, b)| a == b).count();
        let start = (0..=same).rev().find(|&at| text.is_char_boundary(at))?;
        let end = (text.len() - same_end..=text.len()).find(|&at| text.is_char_boundary(at))?;
        (start <= end).then_some(start..end)
    }
}

/// A text without its marks, and the bytes that stood between them.
fn unmarked(text: &str) -> (String, Vec<Range<usize>>) {
    let (mut out, mut spans, mut start) = (String::with_capacity(text.len()), Vec::new(), None);
    for character in text.chars() {
        match character {
            BEGIN => start = Some(out.len()),
            END => spans.extend(start.take().map(|start| start..out.len())),
            other => out.push(other),
        }
    }
    (out, spans)
}
