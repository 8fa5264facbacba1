//! Every name in a file and what it means: fields, blocks, items, `let`s, words, functions, units, paths.

use super::frames::{Frame, Names, is_item};
use crate::base::{FileId, Span};
use crate::recipe::functions::FUNCTIONS;
use crate::recipe::schema::{Doc, FieldSchema, Type};
use crate::recipe::{DeviceKind, SourceFile};
use crate::syntax::tree::{Block, Expr, ExprKind, Ident, Item, Let, Stmt};
use std::collections::HashMap;
use std::rc::Rc;

/// What a name means.
#[derive(Clone)]
pub enum About<'t> {
    /// The file of a `use`, or of a field that is a path.
    Path {
        text: &'t str,
        used: bool,
    },
    /// A top-level item, or the block of a recipe that is as good as one.
    Item {
        kind: &'t str,
        name: &'t str,
    },
    /// A block by its kind.
    Block(Rc<Frame<'t>>),
    /// A block by its name.
    Named(Rc<Frame<'t>>),
    Field(Rc<Frame<'t>>, &'static FieldSchema),
    Profile(&'t str),
    Let(&'t Let),
    /// The number of a layer.
    Variable(&'t Ident),
    /// A word that is a value, or says of which kind a block is.
    Word(&'static str, Doc),
    /// By its place in [`FUNCTIONS`].
    Function(usize),
    Unit(&'t str),
}

/// A name at a place.
#[derive(Clone)]
pub struct Mention<'t> {
    pub span: Span,
    pub about: About<'t>,
    /// Where it is declared, the place that holds first; the last one is under all others and tells names apart.
    pub declared: Vec<Span>,
}

/// What tells one name from all others of a project.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Symbol {
    Declared(Span),
    /// A field that nobody sets, by its path.
    Unset(String),
    Function(usize),
}

impl Mention<'_> {
    /// `None` for what is not the same in two places: words, units, paths.
    pub fn symbol(&self) -> Option<Symbol> {
        match (&self.about, self.declared.last()) {
            (About::Path { .. } | About::Word(..) | About::Unit(_), _) => None,
            (About::Function(index), _) => Some(Symbol::Function(*index)),
            (_, Some(span)) => Some(Symbol::Declared(*span)),
            (About::Field(frame, field), None) => {
                Some(Symbol::Unset(format!("{}.{}", frame.path, field.key)))
            }
            _ => None,
        }
    }

    /// Whether it stands where the name is declared, or overridden.
    pub fn declares(&self) -> bool {
        self.declared.contains(&self.span)
    }
}

/// Every name of a file in the order of the text, or those of the statement around `focus`.
pub fn mentions<'t>(names: &Names<'t>, file: &'t SourceFile, focus: Option<usize>) -> Vec<Mention<'t>> {
    let mut lets = HashMap::new();
    for item in names.lets(file) {
        lets.entry(item.name.text.as_str()).or_insert(item);
    }
    let mut walk = Walk { names, focus, lets: vec![lets], found: Vec::new() };
    for item in &file.tree.items {
        match item {
            Item::Use { path, span } if walk.looks_at(*span) => {
                walk.add(*span, About::Path { text: path, used: true }, Vec::new());
            }
            Item::Use { .. } => {}
            Item::Let(item) => walk.binding(item, None),
            Item::Block(block) => walk.item(block),
        }
    }
    walk.found
}

/// The name at `offset` of a file.
pub fn mention_at<'t>(names: &Names<'t>, file: FileId, offset: usize) -> Option<Mention<'t>> {
    let source = names.files.iter().find(|source| source.tree.id == file)?;
    let covers = |span: Span| (span.start as usize..=span.end as usize).contains(&offset);
    let found = mentions(names, source, Some(offset)).into_iter().filter(|mention| covers(mention.span));
    found.min_by_key(|mention| mention.span.end - mention.span.start)
}

struct Walk<'n, 't> {
    names: &'n Names<'t>,
    focus: Option<usize>,
    /// The `let`s in sight, those of the file first.
    lets: Vec<HashMap<&'t str, &'t Let>>,
    found: Vec<Mention<'t>>,
}

impl<'t> Walk<'_, 't> {
    fn looks_at(&self, span: Span) -> bool {
        self.focus.is_none_or(|focus| (span.start as usize..=span.end as usize).contains(&focus))
    }

    fn add(&mut self, span: Span, about: About<'t>, declared: Vec<Span>) {
        self.found.push(Mention { span, about, declared });
    }

    fn item(&mut self, block: &'t Block) {
        if !self.looks_at(block.span) {
            return;
        }
        let Some(frame) = self.names.top(block) else { return };
        self.add(block.kind.span, About::Block(Rc::clone(&frame)), vec![block.kind.span]);
        if let Some(name) = &block.name {
            self.add(name.span, About::Item { kind: &block.kind.text, name: &name.text }, vec![name.span]);
        }
        self.item_name(&block.kind.text, block.base.as_ref());
        self.body(block.stmts(), &frame);
    }

    /// A name that stands for a top-level item.
    fn item_name(&mut self, kind: &'t str, name: Option<&'t Ident>) {
        let Some(name) = name else { return };
        let item = self.names.item(kind, &name.text).and_then(|block| block.name.as_ref());
        let declared = item.map_or(name.span, |item| item.span);
        self.add(name.span, About::Item { kind, name: &name.text }, vec![declared]);
    }

    fn body(&mut self, stmts: &'t [Stmt], frame: &Rc<Frame<'t>>) {
        let mut lets = HashMap::new();
        for stmt in stmts {
            if let Stmt::Let(item) = stmt {
                lets.entry(item.name.text.as_str()).or_insert(item);
            }
        }
        let scoped = !lets.is_empty();
        if scoped {
            self.lets.push(lets);
        }
        stmts.iter().for_each(|stmt| self.stmt(stmt, frame));
        if scoped {
            self.lets.pop();
        }
    }

    fn stmt(&mut self, stmt: &'t Stmt, frame: &Rc<Frame<'t>>) {
        match stmt {
            Stmt::Attr { key, value } if self.looks_at(key.span.to(value.span)) => {
                let field = frame.schema.field(&key.text);
                if let Some(field) = field {
                    let declared = frame.key(field.key).to_vec();
                    self.add(key.span, About::Field(Rc::clone(frame), field), declared);
                }
                self.expr(value, frame, field.map(|field| &field.ty));
            }
            Stmt::Block(block) if self.looks_at(block.span) => self.block(block, frame),
            Stmt::Let(item) => self.binding(item, Some(frame)),
            Stmt::Require { cond, span, .. } if self.looks_at(*span) => self.expr(cond, frame, None),
            Stmt::If { cond, then, otherwise, span } if self.looks_at(*span) => {
                self.expr(cond, frame, None);
                self.body(then, frame);
                self.body(otherwise, frame);
            }
            _ => {}
        }
    }

    fn binding(&mut self, item: &'t Let, frame: Option<&Rc<Frame<'t>>>) {
        if !self.looks_at(item.name.span.to(item.value.span)) {
            return;
        }
        self.add(item.name.span, About::Let(item), vec![item.name.span]);
        // At the level of the file, names are those of whatever uses the value: the first recipe's.
        if let Some(frame) = frame.cloned().or_else(|| self.names.recipe()) {
            self.expr(&item.value, &frame, None);
        }
    }

    fn block(&mut self, block: &'t Block, frame: &Rc<Frame<'t>>) {
        match (frame.schema.kind, block.kind.text.as_str()) {
            ("layer", _) => self.override_(block, frame),
            ("recipe", "profile") => self.profile(block, frame),
            (_, kind) => self.inner(kind, block, frame),
        }
    }

    fn inner(&mut self, kind: &'t str, block: &'t Block, frame: &Rc<Frame<'t>>) {
        let name = block.name.as_ref();
        let Some(field) = frame.schema.field(kind) else { return };
        if let Some(name) = name {
            match field.ty {
                Type::Choice(choice) => {
                    if let Some(word) = choice.words.iter().find(|word| word.word == name.text) {
                        self.add(name.span, About::Word(word.word, word.doc), Vec::new());
                    }
                }
                Type::Layers => self.add(name.span, About::Variable(name), vec![name.span]),
                _ if is_item(kind) => self.item_name(kind, Some(name)),
                _ => {}
            }
        }
        let text = name.map(|name| name.text.as_str());
        let Some(child) = self.names.child(frame, kind, text) else { return };
        self.add(block.kind.span, About::Block(Rc::clone(&child)), child.declared_kinds());
        if let (Type::Named(_), Some(name)) = (field.ty, name) {
            self.add(name.span, About::Named(Rc::clone(&child)), child.declared_names());
        }
        match (&block.base, field.ty) {
            (Some(base), Type::Named(_)) if frame.has(kind, &base.text) => {
                if let Some(below) = self.names.child(frame, kind, Some(&base.text)) {
                    self.add(base.span, About::Named(Rc::clone(&below)), below.declared_names());
                }
            }
            (base, _) if is_item(kind) => self.item_name(kind, base.as_ref()),
            _ => {}
        }
        self.body(block.stmts(), &child);
    }

    /// A block of the model inside of `layer`, by name alone or by kind and name.
    fn override_(&mut self, block: &'t Block, layer: &Rc<Frame<'t>>) {
        let Some(model) = &layer.outer else { return };
        let (kind, name) = match &block.name {
            Some(name) => (Some(block.kind.text.as_str()), name),
            None => (model.kind_of(&block.kind.text), &block.kind),
        };
        let Some(kind) = kind.filter(|kind| model.has(kind, &name.text)) else { return };
        let Some(child) = self.names.child(model, kind, Some(&name.text)) else { return };
        if block.name.is_some() {
            self.add(block.kind.span, About::Block(Rc::clone(&child)), child.declared_kinds());
        }
        self.add(name.span, About::Named(Rc::clone(&child)), child.declared_names());
        let over = self.names.overridden(&child, block, layer);
        self.body(block.stmts(), &over);
    }

    fn profile(&mut self, block: &'t Block, recipe: &Rc<Frame<'t>>) {
        if let Some(field) = recipe.schema.field("profile") {
            self.add(block.kind.span, About::Field(Rc::clone(recipe), field), vec![block.kind.span]);
        }
        for name in [&block.name, &block.base].into_iter().flatten() {
            let declared = recipe.blocks("profile").iter().filter_map(|block| block.name.as_ref());
            let declared: Vec<_> = declared.filter(|other| other.text == name.text).map(|n| n.span).collect();
            self.add(name.span, About::Profile(&name.text), declared);
        }
        let device = block.target.as_ref();
        let word = device.and_then(|device| DeviceKind::WORDS.iter().find(|word| word.word == device.text));
        if let (Some(device), Some(word)) = (device, word) {
            self.add(device.span, About::Word(word.word, word.doc), Vec::new());
        }
        if let Some(name) = &block.name {
            let frame = self.names.profile(recipe, &name.text);
            self.body(block.stmts(), &frame);
        }
    }

    fn expr(&mut self, expr: &'t Expr, frame: &Rc<Frame<'t>>, want: Option<&Type>) {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => {}
            ExprKind::Unit { unit, .. } => self.add(unit.span, About::Unit(&unit.text), Vec::new()),
            ExprKind::Str(text) if want.is_some_and(takes_path) => {
                self.add(expr.span, About::Path { text, used: false }, Vec::new());
            }
            ExprKind::Str(_) => {}
            ExprKind::Path(path) => self.path(path, frame, want),
            ExprKind::List(items) => {
                let want = match want {
                    Some(Type::List(inner, _)) => Some(*inner),
                    _ => None,
                };
                items.iter().for_each(|item| self.expr(item, frame, want));
            }
            ExprKind::Call { function, args } => {
                if let Some(index) = FUNCTIONS.iter().position(|(name, ..)| *name == function.text) {
                    self.add(function.span, About::Function(index), Vec::new());
                }
                args.iter().for_each(|arg| self.expr(arg, frame, None));
            }
            ExprKind::Unary { operand, .. } => self.expr(operand, frame, None),
            ExprKind::Index { list: left, index: right }
            | ExprKind::Binary { left, right, .. }
            | ExprKind::Range { start: left, end: right } => {
                self.expr(left, frame, None);
                self.expr(right, frame, None);
            }
            ExprKind::If { cond, then, otherwise } => {
                self.expr(cond, frame, None);
                self.expr(then, frame, want);
                self.expr(otherwise, frame, want);
            }
        }
    }

    fn path(&mut self, path: &'t [Ident], frame: &Rc<Frame<'t>>, want: Option<&Type>) {
        if let [word] = path {
            return self.word(word, frame, want);
        }
        let steps: Vec<_> = path.iter().map(|step| step.text.as_str()).collect();
        let found = self.names.steps(frame, &steps);
        for (ident, step) in path.iter().zip(found) {
            self.add(ident.span, step.about, step.declared);
        }
    }

    fn word(&mut self, ident: &'t Ident, frame: &Rc<Frame<'t>>, want: Option<&Type>) {
        let word = ident.text.as_str();
        let names_block = want.is_some_and(Type::is_reference);
        if let Some(want) = want.filter(|want| !names_block && want.takes_word(word)) {
            if let Some(known) = want.words().iter().find(|known| known.word == word) {
                self.add(ident.span, About::Word(known.word, known.doc), Vec::new());
            }
            return;
        }
        if let Some(variable) = frame.outward().find_map(|f| f.variable.filter(|own| own.text == word)) {
            return self.add(ident.span, About::Variable(variable), vec![variable.span]);
        }
        if let Some(item) = self.lets.iter().rev().find_map(|scope| scope.get(word).copied()) {
            return self.add(ident.span, About::Let(item), vec![item.name.span]);
        }
        match want {
            Some(Type::Reference(kinds)) => {
                let model = frame.outward().find(|frame| frame.schema.kind == "model");
                let kind =
                    model.and_then(|model| kinds.iter().find(|kind| model.has(kind, word)).zip(Some(model)));
                if let Some(child) = kind.and_then(|(kind, model)| self.names.child(model, kind, Some(word)))
                {
                    self.add(ident.span, About::Named(Rc::clone(&child)), child.declared_names());
                }
            }
            Some(Type::Item(kind, _)) => self.item_name(kind, Some(ident)),
            _ => {
                let value = |frame: &Rc<Frame<'t>>| {
                    let field = frame.schema.field(word).filter(|field| field.ty.is_value())?;
                    Some((Rc::clone(frame), field))
                };
                if let Some((frame, field)) = frame.outward().find_map(value) {
                    let declared = frame.key(field.key).to_vec();
                    self.add(ident.span, About::Field(frame, field), declared);
                }
            }
        }
    }
}

/// Whether a text of this type is the path of a file or a folder.
pub fn takes_path(ty: &Type) -> bool {
    match ty {
        Type::Optional(inner) => takes_path(inner),
        ty => matches!(ty, Type::Path | Type::WordOrPath(_)),
    }
}
