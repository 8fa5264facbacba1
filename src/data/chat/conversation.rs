//! Records to messages.
//!
//! OpenAI's `messages` of `role` and `content`, ShareGPT's `conversations` of `from` and `value`, Alpaca's `instruction`,
//! `input` and `output`, and `prompt` with `completion`. The two kinds of messages may stand in either list.

use super::super::columns::CONVERSATIONS;
use minijinja::Value;
use minijinja::value::ValueKind;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    fn of(name: &str) -> Role {
        match name {
            "assistant" | "gpt" | "model" | "chatgpt" | "bot" | "function_call" => Role::Assistant,
            "system" | "developer" => Role::System,
            "tool" | "ipython" | "function" | "observation" | "function_response" => Role::Tool,
            _ => Role::User,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// Messages as a template takes them.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub messages: Vec<Value>,
    pub roles: Vec<Role>,
    pub tools: Value,
}

impl Conversation {
    /// Takes the conversation out of a record, from the field `column` if that is given.
    ///
    /// # Errors
    /// What is wrong with the record, in words.
    pub fn of(record: &Value, column: Option<&str>) -> Result<Conversation, String> {
        let field = |name: &str| record.get_attr(name).ok().filter(|v| !v.is_undefined() && !v.is_none());
        let mut found = Conversation { messages: Vec::new(), roles: Vec::new(), tools: Value::from(()) };
        if let Some(system) = field("system").filter(|text| text.as_str() != Some("")) {
            found.push(Role::System, text("system", &system)?);
        }
        let shape = CONVERSATIONS.iter().find(|(must, _)| must.iter().all(|name| field(name).is_some()));
        match (column, shape.map(|(must, _)| must[0])) {
            (Some(column), _) => {
                let list = field(column).ok_or_else(|| format!("no field `{column}`"))?;
                found.list(column, &list)?;
            }
            (None, Some(column @ ("messages" | "conversations"))) => {
                found.list(column, &field(column).unwrap_or_default())?;
            }
            (None, Some("instruction")) => {
                for pair in field("history").iter().flat_map(Value::try_iter).flatten() {
                    let turn = |at| {
                        pair.get_item_by_index(at).map_err(|_| "`history` is no list of pairs".to_owned())
                    };
                    found.push(Role::User, text("history", &turn(0)?)?);
                    found.push(Role::Assistant, text("history", &turn(1)?)?);
                }
                let mut question = text("instruction", &field("instruction").unwrap_or_default())?;
                if let Some(input) = field("input").filter(|input| input.as_str() != Some("")) {
                    question = format!("{question}\n{}", text("input", &input)?);
                }
                found.push(Role::User, question);
                found.push(Role::Assistant, text("output", &field("output").unwrap_or_default())?);
            }
            (None, Some(prompt)) => {
                for (name, role) in [(prompt, Role::User), ("completion", Role::Assistant)] {
                    let part = field(name).unwrap_or_default();
                    match part.as_str() {
                        Some(text) => found.push(role, text.to_owned()),
                        None => found.list(name, &part)?,
                    }
                }
            }
            (None, None) => return Err("no conversation".to_owned()),
        }
        if let Some(tools) = field("tools") {
            found.tools = match tools.as_str() {
                None => tools,
                Some(json) if json.trim().is_empty() => Value::from(()),
                Some(json) => {
                    serde_json::from_str(json).map_err(|error| format!("`tools` is not JSON: {error}"))?
                }
            };
        }
        Ok(found)
    }

    fn push(&mut self, role: Role, content: String) {
        self.roles.push(role);
        self.messages.push(Value::from_pairs([("role", role.name().to_owned()), ("content", content)]));
    }

    /// Appends a list of messages.
    fn list(&mut self, field: &str, list: &Value) -> Result<(), String> {
        if list.kind() != ValueKind::Seq {
            return Err(format!("`{field}` is {}, not a list of messages", kind(list)));
        }
        for (number, message) in list.try_iter().into_iter().flatten().enumerate() {
            let at = || format!("message {} of `{field}`", number + 1);
            let get = |name: &str| message.get_attr(name).ok().filter(|v| !v.is_undefined() && !v.is_none());
            if let Some(role) = get("role") {
                let name = role.as_str().ok_or_else(|| format!("the role in {} is {}", at(), kind(&role)))?;
                let content = get("content");
                match content.as_ref().map(Value::kind) {
                    Some(ValueKind::String | ValueKind::Seq) => {}
                    None if get("tool_calls").is_some() => {}
                    None => return Err(format!("{} has no `content`", at())),
                    Some(_) => {
                        return Err(format!(
                            "the content of {} is {}",
                            at(),
                            kind(&content.unwrap_or_default())
                        ));
                    }
                }
                self.roles.push(Role::of(name));
                self.messages.push(message);
            } else if let (Some(from), Some(value)) = (get("from"), get("value")) {
                let name = from.as_str().ok_or_else(|| format!("`from` in {} is {}", at(), kind(&from)))?;
                let role = Role::of(name);
                self.push(role, text("value", &value)?);
            } else {
                return Err(format!("{} has neither `role` and `content` nor `from` and `value`", at()));
            }
        }
        Ok(())
    }
}

fn text(field: &str, value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("`{field}` is {}, not text", kind(value)))
}

/// The kind of a value, as one says it.
fn kind(value: &Value) -> String {
    match value.kind() {
        ValueKind::Seq => "a list".into(),
        ValueKind::Map => "an object".into(),
        ValueKind::None | ValueKind::Undefined => "null".into(),
        other => format!("a {other}"),
    }
}
