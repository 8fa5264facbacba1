//! Blocks on their way from the tree to values: what bases, profiles and `--set` merge.
//!
//! A [`Node`] borrows its expressions from the parsed files and keeps, for each field, the place that won and the places
//! it won over. Building one reports what is wrong with a single block: a key or a block written twice.

use super::origins::{Origin, Origins, Via};
use super::schema::{BlockSchema, Type};
use crate::base::Span;
use crate::diag::{Diagnostic, Sink};
use crate::syntax::tree::{Block, Expr, Ident, Let, Stmt};
use indexmap::IndexMap;
use std::rc::Rc;

/// The `let`s that an expression sees: those of its block, then of the blocks around, then of its file and what it uses.
#[derive(Debug, Default)]
pub struct Scope<'t> {
    /// By name; of several the first, the others have been reported.
    pub lets: IndexMap<&'t str, &'t Let>,
    pub outer: Option<Rc<Scope<'t>>>,
}

impl<'t> Scope<'t> {
    /// The scope of `stmts` inside `outer`.
    pub fn inside(stmts: &'t [Stmt], outer: &Rc<Scope<'t>>) -> Rc<Scope<'t>> {
        let lets = by_name(lets_of(stmts));
        if lets.is_empty() {
            Rc::clone(outer)
        } else {
            Rc::new(Scope { lets, outer: Some(Rc::clone(outer)) })
        }
    }

    /// The scope of a file.
    pub fn outermost(lets: impl Iterator<Item = &'t Let>) -> Rc<Scope<'t>> {
        Rc::new(Scope { lets: by_name(lets), outer: None })
    }

    /// The `let` called `name` and the scope that its value sees.
    pub fn find<'s>(self: &'s Rc<Self>, name: &str) -> Option<(&'t Let, &'s Rc<Scope<'t>>)> {
        let mut scope = self;
        loop {
            if let Some(item) = scope.lets.get(name) {
                return Some((*item, scope));
            }
            scope = scope.outer.as_ref()?;
        }
    }

    /// This scope and those around it, from the inside.
    pub fn outward(&self) -> impl Iterator<Item = &Scope<'t>> {
        std::iter::successors(Some(self), |scope| scope.outer.as_deref())
    }

    /// Every name in sight.
    pub fn names(&self) -> Vec<&'t str> {
        self.outward().flat_map(|scope| scope.lets.keys()).copied().collect()
    }
}

/// A value as written, and where.
#[derive(Debug, Clone)]
pub struct Field<'t> {
    pub value: &'t Expr,
    pub scope: Rc<Scope<'t>>,
    /// The place of the key that won, then of those it won over.
    pub chain: Vec<Origin>,
}

/// A `require` and what its condition sees.
#[derive(Debug, Clone)]
pub struct Require<'t> {
    pub cond: &'t Expr,
    pub message: Option<&'t str>,
    pub scope: Rc<Scope<'t>>,
}

/// The body of `layer i { … }`, kept as it is and evaluated once a layer.
#[derive(Debug, Clone)]
pub struct Script<'t> {
    pub body: &'t [Stmt],
    pub scope: Rc<Scope<'t>>,
    pub via: Via,
}

/// A block being merged.
#[derive(Debug, Clone, Default)]
pub struct Node<'t> {
    pub kind: &'t str,
    pub name: Option<&'t Ident>,
    /// The block beside it that it copies.
    pub base: Option<&'t Ident>,
    /// Braces were written.
    pub braced: bool,
    /// Heads of the blocks that it was made from, the winner first.
    pub heads: Vec<Origin>,
    pub fields: IndexMap<&'t str, Field<'t>>,
    pub blocks: Vec<Node<'t>>,
    pub requires: Vec<Require<'t>>,
    pub script: Option<Script<'t>>,
    /// What it should have copied is unknown, which has been reported: nothing in it is read.
    pub hollow: bool,
}

impl<'t> Node<'t> {
    /// A block that nobody wrote.
    pub fn absent(kind: &'t str) -> Self {
        Node { kind, braced: true, ..Node::default() }
    }

    /// Reads a block as written, in the order it is written.
    pub fn build(block: &'t Block, outer: &Rc<Scope<'t>>, via: Via, sink: &mut Sink) -> Self {
        let scope = Scope::inside(block.stmts(), outer);
        let mut node = Node {
            kind: &block.kind.text,
            name: block.name.as_ref(),
            base: block.base.as_ref(),
            braced: block.body.is_some(),
            heads: vec![Origin { span: block.head(), via }],
            ..Node::default()
        };
        if node.kind == "layer" {
            check_script(block.stmts(), sink);
            node.script = Some(Script { body: block.stmts(), scope, via });
            return node;
        }
        check_lets(lets_of(block.stmts()), sink);
        for stmt in block.stmts() {
            match stmt {
                Stmt::Attr { key, value } => node.add_field(key, value, &scope, via, sink),
                // Profiles are laid over the finished recipe, not part of it.
                Stmt::Block(inner) if inner.kind.text == "profile" && node.kind == "recipe" => {}
                Stmt::Block(inner) => {
                    let inner = Node::build(inner, &scope, via, sink);
                    let twin = node.blocks.iter().find(|other| other.same_head(&inner));
                    match twin {
                        Some(twin) => sink.push(twice(&inner.title(), inner.place(), twin.place())),
                        None => node.blocks.push(inner),
                    }
                }
                Stmt::Let(_) => {}
                Stmt::Require { cond, message, .. } => node.requires.push(Require {
                    cond,
                    message: message.as_ref().map(|(text, _)| text.as_str()),
                    scope: Rc::clone(&scope),
                }),
                Stmt::If { span, .. } => sink.push(
                    Diagnostic::error(
                        "step::recipe::stray_if",
                        "`if` around fields stands only in `layer i { … }`",
                    )
                    .label(*span, format!("inside `{}`", node.title()))
                    .help("choose a value instead: `key = if condition { a } else { b }`"),
                ),
            }
        }
        node
    }

    fn add_field(
        &mut self,
        key: &'t Ident,
        value: &'t Expr,
        scope: &Rc<Scope<'t>>,
        via: Via,
        sink: &mut Sink,
    ) {
        if let Some(first) = self.fields.get(key.text.as_str()) {
            let first = first.chain.first().map(|origin| origin.span);
            sink.push(twice(&key.text, Some(key.span), first));
            return;
        }
        let chain = vec![Origin { span: key.span.to(value.span), via }];
        self.fields.insert(&key.text, Field { value, scope: Rc::clone(scope), chain });
    }

    /// Kind and name are the same.
    pub fn same_head(&self, other: &Node<'_>) -> bool {
        self.kind == other.kind && self.name_text() == other.name_text()
    }

    /// The name behind the kind.
    pub fn name_text(&self) -> Option<&'t str> {
        self.name.map(|name| name.text.as_str())
    }

    /// `moe none`, `scaling none`: written to say that there is none.
    pub fn is_none(&self) -> bool {
        !self.braced && self.name_text() == Some("none")
    }

    /// Kind and name, as written.
    pub fn title(&self) -> String {
        match self.name_text() {
            Some(name) => format!("{} {name}", self.kind),
            None => self.kind.to_owned(),
        }
    }

    /// Where a label about the whole block points.
    pub fn place(&self) -> Option<Span> {
        self.heads.first().map(|origin| origin.span)
    }

    /// The places of everything in this block, which is called `path`.
    pub fn collect_origins(&self, path: &str, schema: &BlockSchema, origins: &mut Origins) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        origins.insert(path.to_owned(), self.heads.clone());
        for (key, field) in &self.fields {
            origins.insert(below(key), field.chain.clone());
        }
        for block in &self.blocks {
            let Some(field) = schema.field(block.kind) else { continue };
            let named = matches!(field.ty, Type::Named(_));
            let title = if named { block.title() } else { block.kind.to_owned() };
            if let Some(inner) = field.ty.body(block.name_text()) {
                block.collect_origins(&below(&title), inner, origins);
            }
        }
    }
}

fn lets_of(stmts: &[Stmt]) -> impl Iterator<Item = &Let> {
    stmts.iter().filter_map(|stmt| match stmt {
        Stmt::Let(item) => Some(item),
        _ => None,
    })
}

fn by_name<'t>(lets: impl Iterator<Item = &'t Let>) -> IndexMap<&'t str, &'t Let> {
    let mut named = IndexMap::new();
    for item in lets {
        named.entry(item.name.text.as_str()).or_insert(item);
    }
    named
}

/// Reports names that two `let`s of one block or file have.
pub fn check_lets<'t>(lets: impl Iterator<Item = &'t Let>, sink: &mut Sink) {
    let mut seen: IndexMap<&str, Span> = IndexMap::new();
    for Let { name, .. } in lets {
        match seen.get(name.text.as_str()) {
            Some(first) => sink.push(twice(&name.text, Some(name.span), Some(*first))),
            None => {
                seen.insert(&name.text, name.span);
            }
        }
    }
}

/// Reports keys written twice in the body of a `layer`, branch by branch.
fn check_script(stmts: &[Stmt], sink: &mut Sink) {
    check_lets(lets_of(stmts), sink);
    let mut seen: Vec<&Ident> = Vec::new();
    for stmt in stmts {
        match stmt {
            Stmt::Attr { key, .. } => match seen.iter().find(|other| other.text == key.text) {
                Some(first) => sink.push(twice(&key.text, Some(key.span), Some(first.span))),
                None => seen.push(key),
            },
            Stmt::If { then, otherwise, .. } => {
                check_script(then, sink);
                check_script(otherwise, sink);
            }
            _ => {}
        }
    }
}

/// The report of something written twice.
pub fn twice(what: &str, second: Option<Span>, first: Option<Span>) -> Diagnostic {
    Diagnostic::error("step::recipe::duplicate", format!("`{what}` is written twice"))
        .label(second, "the second time")
        .label(first, "the first time")
        .help("keep one of them")
}
