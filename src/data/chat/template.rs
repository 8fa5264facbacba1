//! The Jinja template of a tokenizer, as `transformers` runs it.

use super::json::tojson;
use crate::base::hash::fnv1a;
use crate::diag::Diagnostic;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value, escape_formatter};
use std::fs;
use std::path::{Path, PathBuf};

/// Characters that Unicode keeps out of texts: what a template marks as generated stands between them.
pub const BEGIN: char = '\u{fdd0}';
pub const END: char = '\u{fdd1}';

/// Tokens that templates call by name.
const TOKENS: [&str; 4] = ["bos_token", "eos_token", "pad_token", "unk_token"];

/// A template that has been read and parsed.
pub struct Template {
    environment: Environment<'static>,
    tokens: Vec<(&'static str, Value)>,
    /// Of its text.
    pub hash: u64,
    /// Whether it marks what is generated.
    pub marked: bool,
    /// Where it was found.
    path: PathBuf,
}

impl Template {
    /// Reads the template `file`, or the one of the tokenizer in `folder`.
    pub fn open(file: Option<&Path>, folder: &Path, date: Option<&str>) -> Result<Template, Diagnostic> {
        let config = parsed(&folder.join("tokenizer_config.json"));
        let (path, source) = match file {
            Some(file) => {
                let text = fs::read_to_string(file).map_err(|error| {
                    Diagnostic::error("step::data::template", format!("cannot read {}: {error}", file.display()))
                        .help("`template` names a file with a Jinja chat template")
                })?;
                (file.to_owned(), text)
            }
            None => own(folder, &config).ok_or_else(|| {
                let message = format!("the tokenizer in {} has no chat template", folder.display());
                Diagnostic::error("step::data::template", message).help(
                    "it would stand in `chat_template.jinja` or in `tokenizer_config.json`: take the tokenizer of the chat \
                     model, or name a file with `chat { template = \"…\" }`",
                )
            })?,
        };
        let hash = fnv1a(&source);
        let (source, marked) = with_marks(&source);
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.unwrap_or_default());
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(|out, state, value| match value.to_string().as_str() {
            "true" if value.kind() == minijinja::value::ValueKind::Bool => Ok(out.write_str("True")?),
            "false" if value.kind() == minijinja::value::ValueKind::Bool => Ok(out.write_str("False")?),
            _ if value.is_none() => Ok(out.write_str("None")?),
            _ => escape_formatter(out, state, value),
        });
        environment.add_filter("tojson", tojson);
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        if let Some(date) = date {
            let date = Date::parse(date).ok_or_else(|| {
                Diagnostic::error("step::data::template", format!("`date` is \"{date}\", which is no day"))
                    .help("write a day as `date = \"2026-01-31\"`")
            })?;
            environment.add_function("strftime_now", move |format: String| date.format(&format));
        }
        let map = parsed(&folder.join("special_tokens_map.json"));
        let tokens = TOKENS.map(|name| {
            let of = |config: &serde_json::Value| {
                let token = &config[name];
                token.as_str().or_else(|| token["content"].as_str()).map(Value::from)
            };
            (name, of(&config).or_else(|| of(&map)).unwrap_or_default())
        });
        let mut template = Template { environment, tokens: tokens.into(), hash, marked, path };
        let added = template.environment.add_template_owned("chat", source);
        match added {
            Ok(()) => Ok(template),
            Err(error) => Err(template.refuse(&error)),
        }
    }

    /// The text of messages.
    pub fn render(&self, messages: &[Value], tools: &Value, prompt: bool) -> Result<String, Error> {
        let context = [
            ("messages", Value::from(messages.to_vec())),
            ("tools", tools.clone()),
            ("documents", Value::from(())),
            ("add_generation_prompt", Value::from(prompt)),
        ];
        let tokens = self.tokens.iter().filter(|(_, token)| !token.is_undefined()).cloned();
        self.environment.get_template("chat")?.render(Value::from_pairs(context.into_iter().chain(tokens)))
    }

    /// The template cannot be parsed, or fails on every conversation.
    pub fn refuse(&self, error: &Error) -> Diagnostic {
        let line = error.line().map_or_else(String::new, |line| format!(":{line}"));
        let message = format!("the chat template {}{line}: {}", self.path.display(), said(error));
        let help = match said(error).contains("strftime_now") {
            true => {
                "it asks for today's date, which would differ from run to run: set `chat { date = \"2026-01-31\" }`"
            }
            false => "name another one with `chat { template = \"…\" }`",
        };
        Diagnostic::error("step::data::template", message).help(help)
    }
}

/// What an error says, in short.
pub fn said(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

fn parsed(path: &Path) -> serde_json::Value {
    fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// The template beside a tokenizer, and where it stands.
fn own(folder: &Path, config: &serde_json::Value) -> Option<(PathBuf, String)> {
    let file = folder.join("chat_template.jinja");
    if let Ok(text) = fs::read_to_string(&file) {
        return Some((file, text));
    }
    let of = |config: &serde_json::Value| {
        let template = &config["chat_template"];
        let named = |name: &str| template.as_array()?.iter().find(|entry| entry["name"] == name);
        template.as_str().or_else(|| named("default")?["template"].as_str()).map(str::to_owned)
    };
    let file = folder.join("chat_template.json");
    of(&parsed(&file)).map(|text| (file, text)).or_else(|| {
        let path = folder.join("tokenizer_config.json");
        of(config).map(|text| (path, text))
    })
}

/// Puts the marks in place of `{% generation %}` and `{% endgeneration %}`, which are no tags of Jinja itself, so that
/// white space around them goes as it would around tags; and whether there are any.
fn with_marks(source: &str) -> (String, bool) {
    let (mut out, mut rest, mut marked) = (String::with_capacity(source.len()), source, false);
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let (before, tag) = (&rest[..start], &rest[start + 2..start + length]);
        let left = if tag.starts_with(['-', '+']) { &tag[..1] } else { "" };
        let right = if tag.len() > 1 && tag.ends_with(['-', '+']) { &tag[tag.len() - 1..] } else { "" };
        out += before;
        match tag[left.len()..tag.len() - right.len()].trim() {
            "generation" => {
                marked = true;
                out += &format!("{{%{left} if true %}}{BEGIN}{{% endif {right}%}}");
            }
            "endgeneration" => out += &format!("{{%{left} if true %}}{END}{{% endif {right}%}}"),
            _ => out += &rest[start..start + length + 2],
        }
        rest = &rest[start + length + 2..];
    }
    (out + rest, marked)
}

/// A day of the calendar.
#[derive(Clone, Copy)]
struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// Reads `2026-01-31`.
    fn parse(text: &str) -> Option<Date> {
        let mut parts = text.splitn(3, '-');
        let year = parts.next()?.parse().ok()?;
        let month = parts.next()?.parse().ok().filter(|month| (1..=12).contains(month))?;
        let day = parts.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
        Some(Date { year, month, day })
    }

    /// As C's `strftime`, of the parts of a date; midnight where a time is asked for.
    fn format(self, format: &str) -> String {
        const MONTHS: [&str; 12] = [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ];
        let month = MONTHS[usize::from(self.month) - 1];
        let mut out = String::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            match (character, if character == '%' { characters.next() } else { None }) {
                ('%', Some('Y')) => out += &self.year.to_string(),
                ('%', Some('y')) => out += &format!("{:02}", self.year % 100),
                ('%', Some('m')) => out += &format!("{:02}", self.month),
                ('%', Some('d')) => out += &format!("{:02}", self.day),
                ('%', Some('B')) => out += month,
                ('%', Some('b' | 'h')) => out += &month[..3],
                ('%', Some('H' | 'M' | 'S')) => out += "00",
                ('%', Some(other)) => out.push(other),
                (character, _) => out.push(character),
            }
        }
        out
    }
}
