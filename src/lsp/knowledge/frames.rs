//! Blocks as they lie over one another, by what is written: an override in a profile, over the recipe, over the model that it
//! names, over that one's base. Follows the rules of `recipe::merge` without evaluating anything, so that it also answers in
//! files that hold no recipe, or none that is sound.

use super::super::Project;
use crate::base::Span;
use crate::recipe::schema::{BlockSchema, FieldSchema, Type};
use crate::recipe::{LAYER, SourceFile, item_schema};
use crate::syntax::tree::{Block, Ident, Item, Let, Stmt};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The kinds of block that layers are made of.
pub const LAYER_KINDS: [&str; 3] = ["attention", "mlp", "moe"];
/// Bases one behind the other.
const DEPTH: usize = 32;

/// A block with all that lies under it.
pub struct Frame<'t> {
    pub schema: &'static BlockSchema,
    /// As `--set` names it: `model.moe.sparse`; empty for a recipe.
    pub path: String,
    /// The block as written in each place, the one that goes over the others first. The first `own` are called the same; what
    /// follows they copy from a block beside them.
    pub layers: Vec<&'t Block>,
    pub own: usize,
    pub outer: Option<Rc<Frame<'t>>>,
    /// The profile that it is part of.
    pub profile: Option<Rc<str>>,
    /// The variable of a `layer` block.
    pub variable: Option<&'t Ident>,
    inside: OnceCell<Inside<'t>>,
}

/// What the layers of a frame hold, by name.
#[derive(Default)]
struct Inside<'t> {
    keys: HashMap<&'t str, Vec<Span>>,
    /// By kind.
    blocks: HashMap<&'t str, Vec<&'t Block>>,
    /// By kind and name; without a name as well under "".
    named: HashMap<(&'t str, &'t str), Vec<&'t Block>>,
}

impl<'t> Frame<'t> {
    fn new(schema: &'static BlockSchema, path: String, layers: Vec<&'t Block>) -> Self {
        let own = layers.len();
        Frame {
            schema,
            path,
            layers,
            own,
            outer: None,
            profile: None,
            variable: None,
            inside: OnceCell::new(),
        }
    }

    /// This block and those around it, from the inside.
    pub fn outward<'s>(self: &'s Rc<Self>) -> impl Iterator<Item = &'s Rc<Frame<'t>>> {
        std::iter::successors(Some(self), |frame| frame.outer.as_ref())
    }

    /// Where `key` is set, the place that holds first.
    pub fn key(&self, key: &str) -> &[Span] {
        self.inside().keys.get(key).map_or(&[], Vec::as_slice)
    }

    /// The blocks of a kind in it, those that go over others first.
    pub fn blocks(&self, kind: &str) -> &[&'t Block] {
        self.inside().blocks.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Whether it holds a block of this kind and name.
    pub fn has(&self, kind: &str, name: &str) -> bool {
        self.inside().named.contains_key(&(kind, name))
    }

    /// The kind of the block of this name, among those that are told apart by their names.
    pub fn kind_of(&self, name: &str) -> Option<&'static str> {
        let named = self.schema.fields.iter().filter(|field| matches!(field.ty, Type::Named(_)));
        named.map(|field| field.key).find(|kind| self.has(kind, name))
    }

    /// The names of the blocks of `kind`, each once.
    pub fn names(&self, kind: &str) -> Vec<&'t str> {
        let mut names: Vec<_> = self
            .blocks(kind)
            .iter()
            .filter_map(|block| block.name.as_ref())
            .map(|name| name.text.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether `name.…` can begin here.
    pub fn leads_to(&self, name: &str) -> bool {
        let kind = self.schema.field(name).is_some_and(leads);
        kind || self.kind_of(name).is_some()
    }

    /// The names of the blocks that it is made of, the innermost override first.
    pub fn declared_names(&self) -> Vec<Span> {
        self.layers[..self.own].iter().filter_map(|block| block.name.as_ref()).map(|name| name.span).collect()
    }

    /// Likewise their kinds.
    pub fn declared_kinds(&self) -> Vec<Span> {
        self.layers[..self.own].iter().map(|block| block.kind.span).collect()
    }

    fn inside(&self) -> &Inside<'t> {
        self.inside.get_or_init(|| {
            let mut inside = Inside::default();
            for stmt in self.layers.iter().flat_map(|block| block.stmts()) {
                match stmt {
                    Stmt::Attr { key, .. } => inside.keys.entry(&key.text).or_default().push(key.span),
                    Stmt::Block(block) => {
                        let (kind, name) = (block.kind.text.as_str(), block.name.as_ref());
                        inside.blocks.entry(kind).or_default().push(block);
                        let name = name.map_or("", |name| name.text.as_str());
                        inside.named.entry((kind, name)).or_default().push(block);
                    }
                    _ => {}
                }
            }
            inside
        })
    }

    fn called(&self, kind: &str, name: &str) -> Vec<&'t Block> {
        let of = |name| self.inside().named.get(&(kind, name)).into_iter().flatten().copied();
        let unnamed = of("").filter(|_| self.names(kind).len() == 1);
        of(name).chain(unnamed).collect()
    }
}

/// Whether `field.…` leads into a block.
fn leads(field: &FieldSchema) -> bool {
    !field.ty.is_value() || field.ty.body(None).is_some()
}

/// Every item of a project by kind and name.
pub struct Names<'t> {
    pub files: &'t [SourceFile],
    items: HashMap<(&'t str, &'t str), &'t Block>,
    recipe: OnceCell<Option<Rc<Frame<'t>>>>,
}

impl<'t> Names<'t> {
    pub fn of(project: &'t Project) -> Self {
        let files = project.parsed.as_ref().map_or(&[][..], |parsed| &parsed.files);
        let (library, own): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.library);
        let mut items = HashMap::new();
        for item in own.into_iter().chain(library).flat_map(|file| &file.tree.items) {
            if let Item::Block(block) = item
                && let Some(name) = &block.name
            {
                items.entry((block.kind.text.as_str(), name.text.as_str())).or_insert(block);
            }
        }
        Names { files, items, recipe: OnceCell::new() }
    }

    /// The item of this kind and name; the user's own goes before one of the library.
    pub fn item(&self, kind: &str, name: &str) -> Option<&'t Block> {
        self.items.get(&(kind, name)).copied()
    }

    /// The names of the items of a kind, sorted.
    pub fn items(&self, kind: &str) -> Vec<&'t str> {
        let mut names: Vec<_> =
            self.items.keys().filter(|(own, _)| *own == kind).map(|(_, name)| *name).collect();
        names.sort_unstable();
        names
    }

    /// The `let`s of a file and of those it uses, its own first.
    pub fn lets(&self, file: &'t SourceFile) -> impl Iterator<Item = &'t Let> {
        let used = file.reach.iter().filter_map(|index| self.files.get(*index));
        std::iter::once(file).chain(used).flat_map(|file| &file.tree.items).filter_map(|item| match item {
            Item::Let(item) => Some(item),
            _ => None,
        })
    }

    /// A top-level item over its bases. Models and clusters stand inside the first recipe of the project, whose values they may
    /// refer to.
    pub fn top(&self, block: &'t Block) -> Option<Rc<Frame<'t>>> {
        let kind = block.kind.text.as_str();
        let path = match kind {
            "recipe" => String::new(),
            "device" => "cluster.device".to_owned(),
            kind => kind.to_owned(),
        };
        let mut frame = Frame::new(item_schema(kind)?, path, self.with_bases(block));
        frame.own = 1;
        if is_item(kind) {
            frame.outer = self.recipe();
        }
        Some(Rc::new(frame))
    }

    /// A block that nobody wrote, outside of everything.
    pub fn unwritten(&self, schema: &'static BlockSchema) -> Rc<Frame<'t>> {
        Rc::new(Frame::new(schema, schema.kind.to_owned(), Vec::new()))
    }

    /// The first recipe of the project.
    pub fn recipe(&self) -> Option<Rc<Frame<'t>>> {
        let first = || recipes(self.files.first()?).next().and_then(|recipe| self.top(recipe));
        self.recipe.get_or_init(first).clone()
    }

    /// An item and what it copies.
    pub fn with_bases(&self, block: &'t Block) -> Vec<&'t Block> {
        let kind = block.kind.text.as_str();
        let next = |block: &&'t Block| self.item(kind, &block.base.as_ref()?.text);
        let mut found: Vec<&Block> = Vec::new();
        for block in std::iter::successors(Some(block), next).take(DEPTH) {
            if found.iter().any(|known| std::ptr::eq(*known, block)) {
                break;
            }
            found.push(block);
        }
        found
    }

    /// The frame of a profile of `recipe`, over the recipe.
    pub fn profile(&self, recipe: &Rc<Frame<'t>>, name: &str) -> Rc<Frame<'t>> {
        let mut layers = recipe.called("profile", name);
        let base = layers.first().and_then(|block| block.base.as_ref());
        if let Some(base) = base.filter(|base| base.text != name) {
            layers.extend(recipe.called("profile", &base.text));
        }
        layers.extend(&recipe.layers);
        let frame = Frame::new(recipe.schema, String::new(), layers);
        Rc::new(Frame { profile: Some(name.into()), outer: recipe.outer.clone(), ..frame })
    }

    /// The block of this kind inside of `frame`, written or not; of several the one called `name`. `None` where the schema
    /// knows none.
    pub fn child(&self, frame: &Rc<Frame<'t>>, kind: &str, name: Option<&str>) -> Option<Rc<Frame<'t>>> {
        let field = frame.schema.field(kind)?;
        let written = frame.blocks(field.key);
        let first = written.iter().find_map(|block| block.name.as_ref()).map(|name| name.text.as_str());
        let mut path = if frame.path.is_empty() { String::new() } else { format!("{}.", frame.path) };
        path += field.key;
        let (schema, layers): (&'static BlockSchema, Vec<&'t Block>) = match field.ty {
            Type::Layers => (const { &LAYER }, written.to_vec()),
            Type::Named(schema) => {
                let name = name.or(first).unwrap_or_default();
                path = format!("{path}.{name}");
                (schema, frame.called(field.key, name))
            }
            Type::Choice(_) => {
                let word = name.or(first).or(field.default);
                let same =
                    |block: &&&Block| block.name.as_ref().is_none_or(|own| Some(own.text.as_str()) == word);
                (field.ty.body(word)?, written.iter().filter(same).copied().collect())
            }
            ty => (ty.body(name)?, written.to_vec()),
        };
        let mut child = Frame::new(schema, path, layers);
        match field.ty {
            Type::Named(_) => self.copy_beside(frame, &mut child),
            Type::Block(_) if is_item(field.key) => self.put_item_under(field.key, &mut child),
            _ => {}
        }
        child.variable = matches!(field.ty, Type::Layers)
            .then(|| child.layers.first().and_then(|block| block.name.as_ref()))
            .flatten();
        (child.outer, child.profile) = (Some(Rc::clone(frame)), frame.profile.clone());
        Some(Rc::new(child))
    }

    /// The frame of a block of the model with an override inside of `layer` laid over it.
    pub fn overridden(&self, frame: &Frame<'t>, block: &'t Block, layer: &Rc<Frame<'t>>) -> Rc<Frame<'t>> {
        let layers = std::iter::once(block).chain(frame.layers.iter().copied()).collect();
        let over = Frame::new(frame.schema, frame.path.clone(), layers);
        let (outer, profile) = (Some(Rc::clone(layer)), frame.profile.clone());
        Rc::new(Frame { own: frame.own + 1, outer, profile, ..over })
    }

    /// The device that a cluster names.
    pub fn device(&self, cluster: &Rc<Frame<'t>>, name: &str) -> Option<Rc<Frame<'t>>> {
        let mut frame = Frame::new(item_schema("device")?, "cluster.device".to_owned(), Vec::new());
        frame.layers = self.item("device", name).map(|block| self.with_bases(block)).unwrap_or_default();
        (frame.own, frame.profile) = (frame.layers.len().min(1), cluster.profile.clone());
        Some(Rc::new(frame))
    }

    /// `attention sliding: full`: what `full` says lies under it.
    fn copy_beside(&self, frame: &Frame<'t>, child: &mut Frame<'t>) {
        let Some(kind) = child.layers.first().map(|block| block.kind.text.as_str()) else { return };
        for _ in 0..DEPTH {
            let from = child.layers.iter().rev().find_map(|block| block.base.as_ref());
            let Some(base) = from else { return };
            let below = frame.called(kind, &base.text);
            let known = |block: &&'t Block| child.layers.iter().any(|other| std::ptr::eq(*other, *block));
            if below.is_empty() || below.iter().any(known) {
                return;
            }
            let ends = below.iter().all(|block| block.base.is_none());
            child.layers.extend(below);
            if ends {
                return;
            }
        }
    }

    /// The item that a `model` or `cluster` block of a recipe names lies under it; one with another name takes the place of
    /// those below it.
    fn put_item_under(&self, kind: &'static str, child: &mut Frame<'t>) {
        let named = child.layers.iter().find_map(|block| block.name.as_ref());
        if let Some(name) = named {
            let differs =
                |block: &&'t Block| block.name.as_ref().is_some_and(|other| other.text != name.text);
            let kept = child.layers.iter().position(differs).unwrap_or(child.layers.len());
            child.layers.truncate(kept);
        }
        child.own = child.layers.len();
        let from = child.layers.iter().find_map(|block| block.base.as_ref()).or(named);
        if let Some(item) = from.and_then(|from| self.item(kind, &from.text)) {
            child.layers.extend(self.with_bases(item));
        }
    }
}

/// The recipes of a file.
fn recipes(file: &SourceFile) -> impl Iterator<Item = &Block> {
    file.tree.items.iter().filter_map(|item| match item {
        Item::Block(block) if block.kind.text == "recipe" => Some(block),
        _ => None,
    })
}

/// Whether a block of this kind in a recipe stands for a top-level item.
pub fn is_item(kind: &str) -> bool {
    matches!(kind, "model" | "cluster")
}
