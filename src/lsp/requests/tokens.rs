//! What every word means, as colours.

use super::{Answer, View};
use crate::base::Span;
use crate::lsp::walk::{Part, operands, parts};
use crate::lsp::{Encoding, Lines};
use crate::recipe::schema::{FieldSchema, Title, Type};
use crate::syntax::tree::{Expr, ExprKind, Ident, Item, Let, Stmt};
use lsp_types::*;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The kinds of words, in the order of the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A kind of block.
    Keyword,
    /// The name of an item or a block, where it is written or referred to.
    Class,
    Property,
    EnumMember,
    Variable,
    Parameter,
    Function,
    Number,
    String,
}

const TYPES: [&str; 9] =
    ["keyword", "class", "property", "enumMember", "variable", "parameter", "function", "number", "string"];

const MODIFIERS: [&str; 3] = ["declaration", "readonly", "defaultLibrary"];
const DECLARATION: u32 = 1;
const READONLY: u32 = 2;
const LIBRARY: u32 = 4;

/// The words that the numbers of tokens stand for.
pub fn legend() -> SemanticTokensLegend {
    SemanticTokensLegend {
        token_types: TYPES.map(str::to_owned).to_vec(),
        token_modifiers: MODIFIERS.map(str::to_owned).to_vec(),
    }
}

/// The tokens of a file at one version.
type Tokens = Arc<Vec<SemanticToken>>;

/// The tokens that were sent last, of every file.
#[derive(Default)]
pub struct Sent {
    files: Mutex<HashMap<PathBuf, (u64, Tokens)>>,
}

impl Sent {
    /// Keeps the tokens of a file. Gives their number, and the tokens before if those have the number `previous`.
    fn replace(&self, view: &View, tokens: &Tokens, previous: Option<&str>) -> (String, Option<Tokens>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let before = files.remove(&view.path);
        let number = before.as_ref().map_or(0, |(number, _)| number + 1);
        files.insert(view.path.clone(), (number, Arc::clone(tokens)));
        let before = before.filter(|(number, _)| Some(number.to_string().as_str()) == previous);
        (number.to_string(), before.map(|(_, tokens)| tokens))
    }
}

/// All tokens of a file.
pub fn full(view: &View, _: SemanticTokensParams) -> Answer<Option<SemanticTokens>> {
    let tokens = Arc::new(tokens(view, None));
    let (number, _) = view.snapshot.sent.replace(view, &tokens, None);
    Ok(Some(SemanticTokens { result_id: Some(number), data: tokens.to_vec() }))
}

/// The tokens of some lines.
pub fn lines(view: &View, params: SemanticTokensRangeParams) -> Answer<Option<SemanticTokens>> {
    let range = [params.range.start, params.range.end].map(|position| view.offset(position) as u32);
    Ok(Some(SemanticTokens { result_id: None, data: tokens(view, Some(range)) }))
}

/// What has changed since the tokens of a number; all of them where that number is not known.
pub fn delta(view: &View, params: SemanticTokensDeltaParams) -> Answer<Option<SemanticTokensDeltaResponse>> {
    let tokens = Arc::new(tokens(view, None));
    let (number, before) = view.snapshot.sent.replace(view, &tokens, Some(&params.previous_result_id));
    let result_id = Some(number);
    Ok(Some(match before {
        None => SemanticTokens { result_id, data: tokens.to_vec() }.into(),
        Some(before) => SemanticTokensDelta { result_id, edits: difference(&before, &tokens) }.into(),
    }))
}

/// One edit from the first token that differs to the last. Positions are relative, so that what follows it is the same.
fn difference(old: &[SemanticToken], new: &[SemanticToken]) -> Vec<SemanticTokensEdit> {
    /// Numbers of a token.
    const NUMBERS: usize = 5;
    let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let tails = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = tails.take_while(|(old, new)| old == new).count();
    let (gone, come) = (old.len() - head - tail, &new[head..new.len() - tail]);
    if gone == 0 && come.is_empty() {
        return Vec::new();
    }
    let numbers = come.iter().flat_map(|token| {
        [token.delta_line, token.delta_start, token.length, token.token_type, token.token_modifiers_bitset]
    });
    vec![SemanticTokensEdit {
        start: (head * NUMBERS) as u32,
        delete_count: (gone * NUMBERS) as u32,
        data: Some(numbers.collect()),
    }]
}

/// The tokens of a file, of the bytes from `range[0]` to `range[1]` if given.
fn tokens(view: &View, range: Option<[u32; 2]>) -> Vec<SemanticToken> {
    let Some(tree) = view.tree() else { return Vec::new() };
    let mut words = Words { found: Vec::new(), names: names(view), layer: None };
    parts(tree, &mut |part| words.part(part));
    let mut found = words.found;
    found.retain(|(span, ..)| range.is_none_or(|[start, end]| span.start < end && start < span.end));
    found.sort_by_key(|(span, ..)| (span.start, span.end));
    found.dedup_by_key(|(span, ..)| span.start);
    encoded(&found, view.text(), view.lines(), view.encoding())
}

/// The tokens as distances from one to the next.
fn encoded(found: &[(Span, Kind, u32)], text: &str, lines: &Lines, encoding: Encoding) -> Vec<SemanticToken> {
    let mut last = Position::default();
    let tokens = found.iter().filter_map(|(span, kind, modifiers)| {
        let word = text.get(span.range())?;
        let place = lines.position(text, span.start as usize, encoding);
        let token = SemanticToken {
            delta_line: place.line - last.line,
            delta_start: if place.line == last.line {
                place.character - last.character
            } else {
                place.character
            },
            length: encoding.columns(word),
            token_type: *kind as u32,
            token_modifiers_bitset: *modifiers,
        };
        last = place;
        Some(token)
    });
    tokens.collect()
}

/// Every name that some `let` of the project has.
fn names(view: &View) -> HashSet<&str> {
    let files = view.project.parsed.iter().flat_map(|parsed| &parsed.files);
    let mut found = HashSet::new();
    for item in files.flat_map(|file| &file.tree.items) {
        match item {
            Item::Let(item) => {
                found.insert(item.name.text.as_str());
            }
            Item::Block(block) => names_in(block.stmts(), &mut found),
            Item::Use { .. } => {}
        }
    }
    found
}

fn names_in<'t>(stmts: &'t [Stmt], found: &mut HashSet<&'t str>) {
    for stmt in stmts {
        match stmt {
            Stmt::Let(Let { name, .. }) => {
                found.insert(&name.text);
            }
            Stmt::Block(block) => names_in(block.stmts(), found),
            Stmt::If { then, otherwise, .. } => {
                names_in(then, found);
                names_in(otherwise, found);
            }
            Stmt::Attr { .. } | Stmt::Require { .. } => {}
        }
    }
}

struct Words<'t> {
    found: Vec<(Span, Kind, u32)>,
    names: HashSet<&'t str>,
    /// The variable of `layer i { … }` and where that block ends.
    layer: Option<(&'t str, u32)>,
}

impl<'t> Words<'t> {
    fn push(&mut self, word: &Ident, kind: Kind, modifiers: u32) {
        self.found.push((word.span, kind, modifiers));
    }

    fn part(&mut self, part: Part<'t>) {
        if self.layer.is_some_and(|(_, end)| part.span().start >= end) {
            self.layer = None;
        }
        match part {
            Part::Use { .. } => {}
            Part::Block { block, schema } => {
                self.push(&block.kind, Kind::Keyword, 0);
                let is_layer = block.kind.text == "layer";
                if let Some(name) = &block.name {
                    // `scaling none`, `optimizer adamw`: a word of the language.
                    let is_word = block.body.is_none()
                        || schema.is_some_and(|schema| matches!(schema.title, Title::Word(_)));
                    match (is_layer, is_word) {
                        (true, _) => self.push(name, Kind::Parameter, DECLARATION),
                        (_, true) => self.push(name, Kind::EnumMember, 0),
                        _ => self.push(name, Kind::Class, DECLARATION),
                    }
                }
                block.base.iter().for_each(|base| self.push(base, Kind::Class, 0));
                block.target.iter().for_each(|target| self.push(target, Kind::EnumMember, 0));
                if is_layer {
                    self.layer = block.name.as_ref().map(|name| (name.text.as_str(), block.span.end));
                }
            }
            Part::Attr { key, value, field } => {
                self.push(key, Kind::Property, 0);
                self.expr(value, field);
            }
            Part::Let(Let { name, value }) => {
                self.push(name, Kind::Variable, DECLARATION | READONLY);
                self.expr(value, None);
            }
            Part::Require { cond, .. } | Part::If { cond, .. } => self.expr(cond, None),
        }
    }

    fn expr(&mut self, expr: &'t Expr, field: Option<&'static FieldSchema>) {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Unit { .. } => {
                self.found.push((expr.span, Kind::Number, 0));
            }
            ExprKind::Str(_) => self.found.push((expr.span, Kind::String, 0)),
            ExprKind::Bool(_) => self.found.push((expr.span, Kind::Keyword, 0)),
            ExprKind::Path(path) => self.path(path, field),
            ExprKind::Call { function, .. } => self.push(function, Kind::Function, LIBRARY),
            _ => {}
        }
        operands(expr).into_iter().for_each(|operand| self.expr(operand, field));
    }

    fn path(&mut self, path: &'t [Ident], field: Option<&'static FieldSchema>) {
        let Some((first, rest)) = path.split_first() else { return };
        let word = first.text.as_str();
        let refers = field.is_some_and(|field| is_reference(&field.ty));
        let kind = match rest {
            _ if self.layer.is_some_and(|(variable, _)| variable == word) => Kind::Parameter,
            _ if self.names.contains(word) => Kind::Variable,
            [] if refers => Kind::Class,
            [] if field.is_some_and(|field| field.ty.takes_word(word)) => Kind::EnumMember,
            [] => Kind::Property,
            _ => Kind::Keyword,
        };
        self.push(first, kind, 0);
        rest.iter().for_each(|step| self.push(step, Kind::Property, 0));
    }
}

fn is_reference(ty: &Type) -> bool {
    match ty {
        Type::Optional(inner) => is_reference(inner),
        ty => ty.is_reference(),
    }
}
