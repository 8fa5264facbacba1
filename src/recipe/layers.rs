//! `layer i { … }`: which blocks each layer is made of, and what it overrides in them.
//!
//! Statements apply in their order, so the last assignment and the last override hold. A layer is read anew only where its
//! overrides differ from those of a layer before it, or depend on the layer's number; most of a model is read once.

use super::declare::{Block, Member};
use super::eval::{Chain, Evaluator, Frame};
use super::merge::overlay;
use super::node::{Node, Scope, Script};
use super::origins::Via;
use super::reader::{Reader, read};
use super::schema::model::{Attention, Ffn, Layer, Mlp, Moe};
use super::schema::{BlockSchema, Doc, Facts, FieldSchema, Title, Type};
use super::value::Value;
use crate::base::Span;
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;
use crate::syntax::tree::{Block as Tree, Expr, ExprKind, Ident, Stmt};
use std::collections::HashMap;
use std::rc::Rc;

const ATTENTION: &[&str] = &["attention"];
const FFN: &[&str] = &["mlp", "moe"];
/// Layers that may be wrong before the others are not looked at.
const WRONG: i32 = 100;

/// What `layer i { … }` may set, besides overriding blocks of the model.
pub const LAYER: BlockSchema = BlockSchema {
    kind: "layer",
    title: Title::Name,
    doc: Doc(&[
        " One layer, evaluated for each number `i` from 0 up to `layers`; may use `if` and override blocks.",
    ]),
    fields: &[
        reference("attention", ATTENTION, Doc(&[" The attention block of this layer."])),
        reference("ffn", FFN, Doc(&[" The `mlp` or `moe` block of this layer."])),
    ],
};

const fn reference(key: &'static str, kinds: &'static [&'static str], doc: Doc) -> FieldSchema {
    FieldSchema { key, ty: Type::Reference(kinds), facts: Facts::NONE, default: None, read_only: false, doc }
}

/// The layers of a model, from its `layer` block.
pub struct Layers;

impl Member for Layers {
    type Out = Vec<Layer>;
    const TYPE: Type = Type::Layers;

    fn read(at: &mut Reader<'_, '_, '_>, field: &'static FieldSchema) -> Option<Vec<Layer>> {
        let model = at.at;
        let node = model.node.blocks.iter().find(|block| block.kind == field.key)?;
        let script = node.script.as_ref()?;
        let Some(variable) = node.name else {
            let message = "`layer` does not name its variable";
            let problem =
                Diagnostic::error("step::recipe::nameless", message).label(node.place(), "needs a name");
            at.eval.sink.push(problem.help("write `layer i { … }`"));
            return None;
        };
        let layers = model.schema.field("layers")?;
        let Value::Int(count) = at.eval.field(model, layers, None).ok()? else { return None };
        let mut reading = Reading::new(&mut *at.eval, model, variable);
        let mut wrong = 0;
        let mut blocks = Vec::new();
        for layer in 0..count {
            match reading.layer(node, script, layer) {
                Some(block) => blocks.push(block),
                // What is wrong with one layer is wrong with most.
                None if wrong == WRONG => break,
                None => wrong += 1,
            }
        }
        (wrong == 0).then_some(blocks)
    }
}

/// The `attention` block called `name`, or a report that there is none.
pub fn attention_block<'c, 't>(
    eval: &mut Evaluator<'_, 't>,
    model: &Chain<'c, 't>,
    name: &str,
    place: Option<Span>,
) -> Option<&'c Node<'t>> {
    block_called(eval, model, ATTENTION, name, place)
}

/// The `mlp` or `moe` block called `name`, or a report that there is none.
pub fn ffn_block<'c, 't>(
    eval: &mut Evaluator<'_, 't>,
    model: &Chain<'c, 't>,
    name: &str,
    place: Option<Span>,
) -> Option<&'c Node<'t>> {
    block_called(eval, model, FFN, name, place)
}

fn block_called<'c, 't>(
    eval: &mut Evaluator<'_, 't>,
    model: &Chain<'c, 't>,
    kinds: &[&str],
    name: &str,
    place: Option<Span>,
) -> Option<&'c Node<'t>> {
    let blocks = || model.node.blocks.iter().filter(|block| kinds.contains(&block.kind) && !block.is_none());
    let found = blocks().find(|block| block.name_text() == Some(name));
    if found.is_none() {
        let message = format!("the model has no {} block called `{name}`", kinds.join(" or "));
        let problem = Diagnostic::error("step::model::unknown_block", message).label(place, "unknown");
        let known: Vec<_> = blocks().filter_map(Node::name_text).collect();
        eval.sink.push(match nearest(name, known.iter().copied()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None if known.is_empty() => problem.help(format!("write `{} {name} {{ … }}`", kinds[0])),
            None => problem.help(format!("known: {}", known.join(", "))),
        });
    }
    found
}

/// A block and the overrides that apply to it, by address: what the result of reading it depends on.
type Key = (usize, Vec<usize>);

/// The reading of all layers of one model.
pub struct Reading<'r, 'e, 't> {
    pub eval: &'r mut Evaluator<'e, 't>,
    model: &'r Chain<'r, 't>,
    variable: &'t Ident,
    attention: HashMap<Key, Option<Attention>>,
    ffn: HashMap<Key, Option<Ffn>>,
}

/// What one layer says of itself.
#[derive(Default)]
pub struct Said<'t> {
    attention: Option<(&'t Expr, String)>,
    ffn: Option<(&'t Expr, String)>,
    overrides: Vec<(&'t Tree, Rc<Scope<'t>>)>,
}

impl Said<'_> {
    /// Whether the layer is made of the block of this kind and name.
    pub fn names(&self, kind: &str, name: &str) -> bool {
        let said = if ATTENTION.contains(&kind) { &self.attention } else { &self.ffn };
        said.as_ref().is_some_and(|(_, said)| said == name)
    }
}

impl<'r, 'e, 't> Reading<'r, 'e, 't> {
    /// Nothing read yet of `model`, whose layers are numbered by `variable`.
    pub fn new(eval: &'r mut Evaluator<'e, 't>, model: &'r Chain<'r, 't>, variable: &'t Ident) -> Self {
        Reading { eval, model, variable, attention: HashMap::new(), ffn: HashMap::new() }
    }

    fn layer(&mut self, node: &Node<'t>, script: &Script<'t>, layer: i64) -> Option<Layer> {
        let index = Some((self.variable.text.as_str(), layer));
        let at = Chain { node, schema: &LAYER, outer: Some(self.model), index };
        let mut said = Said::default();
        self.listen(script.body, &script.scope, &at, &mut said)?;
        let (Some((attention_expr, attention)), Some((ffn_expr, ffn))) = (&said.attention, &said.ffn) else {
            let missing = if said.attention.is_none() { ("attention", "full") } else { ("ffn", "dense") };
            let message = format!("layer {layer} has no `{}`", missing.0);
            let problem =
                Diagnostic::error("step::recipe::missing", message).label(node.place(), "incomplete");
            self.eval
                .sink
                .push(problem.help(format!("write `{} = {}`, the name of a block", missing.0, missing.1)));
            return None;
        };
        let attention_node =
            attention_block(self.eval, self.model, attention, Some(place_of(attention_expr, attention)));
        let ffn_node = ffn_block(self.eval, self.model, ffn, Some(place_of(ffn_expr, ffn)));
        let (attention_node, ffn_node) = (attention_node?, ffn_node?);

        let (key, fixed) = self.key(attention_node, &said);
        let attention_value = match self.attention.get(&key).filter(|_| fixed) {
            Some(known) => known.clone(),
            None => {
                let read = self.read_overridden::<Attention>(attention_node, &said, &at, script.via);
                self.attention.insert(key, read.clone());
                read
            }
        };
        let (key, fixed) = self.key(ffn_node, &said);
        let ffn_value = match self.ffn.get(&key).filter(|_| fixed) {
            Some(known) => known.clone(),
            None => {
                let read = match ffn_node.kind {
                    "moe" => self.read_overridden::<Moe>(ffn_node, &said, &at, script.via).map(Ffn::Moe),
                    _ => self.read_overridden::<Mlp>(ffn_node, &said, &at, script.via).map(Ffn::Dense),
                };
                self.ffn.insert(key, read.clone());
                read
            }
        };
        Some(Layer {
            attention_name: attention.clone(),
            attention: attention_value?,
            ffn_name: ffn.clone(),
            ffn: ffn_value?,
        })
    }

    /// Follows the statements of a layer.
    pub fn listen(
        &mut self,
        stmts: &'t [Stmt],
        scope: &Rc<Scope<'t>>,
        at: &Chain<'_, 't>,
        said: &mut Said<'t>,
    ) -> Option<()> {
        let frame = Frame { at, scope };
        for stmt in stmts {
            match stmt {
                Stmt::Attr { key, value } => {
                    let Some(field) = LAYER.field(&key.text) else {
                        let message = format!("`layer` has no field `{}`", key.text);
                        let problem = Diagnostic::error("step::recipe::unknown_key", message);
                        let help =
                            "a layer sets `attention` and `ffn`; override blocks by name: `sparse { … }`";
                        self.eval.sink.push(problem.label(key.span, "unknown field").help(help));
                        return None;
                    };
                    let given = self.eval.eval(value, frame, Some(&field.ty)).ok()?;
                    let Value::Word(word) = self.eval.check(given, value, field, frame).ok()? else {
                        return None;
                    };
                    let slot = if field.key == "ffn" { &mut said.ffn } else { &mut said.attention };
                    *slot = Some((value, word));
                }
                Stmt::Block(block) => {
                    self.target(block)?;
                    said.overrides.push((block, Rc::clone(scope)));
                }
                Stmt::If { cond, then, otherwise, .. } => {
                    let branch = if self.eval.truth(cond, frame).ok()? { then } else { otherwise };
                    self.listen(branch, &Scope::inside(branch, scope), at, said)?;
                }
                Stmt::Require { cond, message, .. } => {
                    let text = message.as_ref().map(|(text, _)| text.as_str());
                    let problem = self.eval.require(cond, text, frame);
                    self.eval.sink.extend(problem);
                }
                Stmt::Let(_) => {}
            }
        }
        Some(())
    }

    /// The block of the model that an override means: by name alone, or by kind and name.
    fn target(&mut self, block: &Tree) -> Option<&'r Node<'t>> {
        let (kind, name) = match &block.name {
            Some(name) => (Some(block.kind.text.as_str()), name),
            None => (None, &block.kind),
        };
        let pool =
            || self.model.node.blocks.iter().filter(|b| ATTENTION.contains(&b.kind) || FFN.contains(&b.kind));
        let found =
            pool().find(|b| b.name_text() == Some(&name.text) && kind.is_none_or(|kind| kind == b.kind));
        if found.is_none() {
            let message = format!("the model has no block `{}` to override", name.text);
            let problem =
                Diagnostic::error("step::model::unknown_block", message).label(name.span, "unknown");
            let known: Vec<_> = pool().filter_map(Node::name_text).collect();
            let problem = match nearest(&name.text, known.iter().copied()) {
                Some(near) => problem.help(format!("did you mean `{near}`?")).fix(name.span, near),
                None => problem.help(format!("known: {}", known.join(", "))),
            };
            self.eval.sink.push(problem);
        }
        found
    }

    fn overrides<'s>(&self, node: &Node<'t>, said: &'s Said<'t>) -> Vec<&'s (&'t Tree, Rc<Scope<'t>>)> {
        let meant = |block: &Tree| match &block.name {
            Some(name) => block.kind.text == node.kind && Some(name.text.as_str()) == node.name_text(),
            None => Some(block.kind.text.as_str()) == node.name_text(),
        };
        said.overrides.iter().filter(|(block, _)| meant(block)).collect()
    }

    /// What reading `node` depends on, and whether that is all: an override may use the number of the layer.
    fn key(&self, node: &Node<'t>, said: &Said<'t>) -> (Key, bool) {
        let overrides = self.overrides(node, said);
        let variable = self.variable.text.as_str();
        let fixed = overrides.iter().all(|(block, scope)| {
            let in_let =
                scope.outward().flat_map(|scope| scope.lets.values()).any(|item| uses(&item.value, variable));
            !in_let && !block.stmts().iter().any(|stmt| mentions(stmt, variable))
        });
        let addresses = overrides.iter().map(|(block, _)| std::ptr::from_ref(*block) as usize).collect();
        ((std::ptr::from_ref(node) as usize, addresses), fixed)
    }

    fn read_overridden<B: Block>(
        &mut self,
        node: &Node<'t>,
        said: &Said<'t>,
        at: &Chain<'_, 't>,
        via: Via,
    ) -> Option<B> {
        match self.overridden(node, said, const { &B::SCHEMA }, via) {
            Some(merged) => read(self.eval, &merged, at),
            None => read(self.eval, node, self.model),
        }
    }

    /// The block with what the layer overrides in it, if it does.
    pub fn overridden(
        &mut self,
        node: &Node<'t>,
        said: &Said<'t>,
        schema: &BlockSchema,
        via: Via,
    ) -> Option<Node<'t>> {
        let overrides = self.overrides(node, said);
        if overrides.is_empty() {
            return None;
        }
        let mut merged = node.clone();
        for (block, scope) in overrides {
            let mut over = Node::build(block, scope, via, self.eval.sink);
            (over.kind, over.name) = (node.kind, node.name);
            overlay(&mut merged, over, Some(schema), self.eval.sink);
        }
        Some(merged)
    }
}

/// Where `expr` says `word`: the branch of an `if` that does, else all of it.
fn place_of(expr: &Expr, word: &str) -> Span {
    fn find(expr: &Expr, word: &str) -> Option<Span> {
        match &expr.kind {
            ExprKind::Path(path) if path.iter().all(|part| part.text == word) => Some(expr.span),
            ExprKind::If { then, otherwise, .. } => find(then, word).or_else(|| find(otherwise, word)),
            _ => None,
        }
    }
    find(expr, word).unwrap_or(expr.span)
}

/// Whether `name` begins a path in `stmt`.
fn mentions(stmt: &Stmt, name: &str) -> bool {
    let mut found = false;
    words_of_stmt(stmt, &mut |word| found |= word == name);
    found
}

/// Whether a path in `expr` begins with `name`.
fn uses(expr: &Expr, name: &str) -> bool {
    let mut found = false;
    words(expr, &mut |word| found |= word == name);
    found
}

/// Hands over what the paths in the expressions of `stmt` begin with.
pub fn words_of_stmt<'t>(stmt: &'t Stmt, visit: &mut dyn FnMut(&'t str)) {
    match stmt {
        Stmt::Attr { value, .. } => words(value, visit),
        Stmt::Let(item) => words(&item.value, visit),
        Stmt::Block(block) => block.stmts().iter().for_each(|stmt| words_of_stmt(stmt, visit)),
        Stmt::Require { cond, .. } => words(cond, visit),
        Stmt::If { cond, then, otherwise, .. } => {
            words(cond, visit);
            then.iter().chain(otherwise).for_each(|stmt| words_of_stmt(stmt, visit));
        }
    }
}

/// Hands over what the paths in `expr` begin with.
pub fn words<'t>(expr: &'t Expr, visit: &mut dyn FnMut(&'t str)) {
    match &expr.kind {
        ExprKind::Path(path) => path.first().into_iter().for_each(|first| visit(&first.text)),
        ExprKind::List(items) | ExprKind::Call { args: items, .. } => {
            items.iter().for_each(|item| words(item, visit));
        }
        ExprKind::Unary { operand, .. } => words(operand, visit),
        ExprKind::Index { list: left, index: right }
        | ExprKind::Binary { left, right, .. }
        | ExprKind::Range { start: left, end: right } => {
            words(left, visit);
            words(right, visit);
        }
        ExprKind::If { cond, then, otherwise } => {
            [cond, then, otherwise].into_iter().for_each(|part| words(part, visit));
        }
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Unit { .. }
        | ExprKind::Str(_)
        | ExprKind::Bool(_) => {}
    }
}
