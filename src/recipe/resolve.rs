//! From files to a [`Resolved`] recipe: merge items, profile and `--set`, evaluate, hold against the rules.

use super::eval::{Chain, Evaluator, World};
use super::items::{Items, base_cycle, unknown_item};
use super::load::{Parsed, Request, SourceFile, parse_all};
use super::merge::{expand, is_item, overlay, overlay_profile, set, settle};
use super::node::{Node, Scope, twice};
use super::origins::{Origins, Via};
use super::reader::Reader;
use super::rules;
use super::schema::BlockSchema;
use super::schema::machine::{Cluster, Device, DeviceKind};
use super::schema::model::Model;
use super::schema::recipe::Recipe;
use crate::base::{Host, SourceMap, Span};
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::declare::Block as _;
use crate::syntax::Parser;
use crate::syntax::tree::{Block, Ident, Stmt};
use rayon::prelude::*;
use std::rc::Rc;
use std::sync::Arc;

/// A recipe with every value known and checked.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub recipe: Recipe,
    /// The places of its values.
    pub origins: Origins,
    /// The profile that was applied.
    pub profile: Option<String>,
}

/// A profile of a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub name: String,
    /// The device it is chosen for without being asked for.
    pub target: Option<DeviceKind>,
    pub span: Span,
}

/// A recipe read from files, ready to be resolved with one profile or another.
#[derive(Debug)]
pub struct Loaded {
    parsed: Arc<Parsed>,
    recipe: String,
    profiles: Vec<Profile>,
    /// Nothing was wrong so far.
    sound: bool,
}

/// The schema of a top-level item.
pub fn item_schema(kind: &str) -> Option<&'static BlockSchema> {
    const RECIPE: &BlockSchema = &Recipe::SCHEMA;
    const MODEL: &BlockSchema = &Model::SCHEMA;
    const CLUSTER: &BlockSchema = &Cluster::SCHEMA;
    const DEVICE: &BlockSchema = &Device::SCHEMA;
    match kind {
        "recipe" => Some(RECIPE),
        "model" => Some(MODEL),
        "cluster" => Some(CLUSTER),
        "device" => Some(DEVICE),
        _ => None,
    }
}

/// Reads what `request` names and chooses its recipe. `None`, with a report, where there is none to choose.
pub fn load(host: &dyn Host, request: &Request, sources: &mut SourceMap, sink: &mut Sink) -> Option<Loaded> {
    let parsed = parse_all(host, request, &mut Parser::default(), sources, sink)?;
    let recipe = choose(&parsed, request, sink)?;
    Some(Loaded::new(Arc::new(parsed), recipe, sink))
}

impl Resolved {
    /// What the rules would say with a change to the recipe.
    pub fn changed(&self, change: impl FnOnce(&mut Recipe)) -> Vec<Diagnostic> {
        let (mut recipe, mut sink) = (self.recipe.clone(), Sink::default());
        change(&mut recipe);
        rules::check(&recipe, &self.origins, &mut sink);
        sink.finish()
    }

    /// Warns of every file or folder that the recipe names and `host` does not have.
    pub fn check_paths(&self, host: &dyn Host, sink: &mut Sink) {
        rules::paths::check(host, &self.recipe, &self.origins, sink);
    }
}

impl Loaded {
    /// The recipe of this name, which the root of `parsed` holds; reports what is wrong in the heads of its profiles.
    pub fn new(parsed: Arc<Parsed>, recipe: String, sink: &mut Sink) -> Loaded {
        let mut own = Sink::default();
        let profiles = profiles(&parsed, &recipe, &mut own);
        let sound = !parsed.broken && !own.has_errors();
        sink.extend(own.finish());
        Loaded { parsed, recipe, profiles, sound }
    }

    /// The name of the recipe.
    pub fn recipe(&self) -> &str {
        &self.recipe
    }

    /// Where the recipe's block begins: its kind and name.
    pub fn head(&self) -> Option<Span> {
        let items = self.items();
        items.written("recipe", &self.recipe).map(|(block, _)| block.head())
    }

    /// The recipe's block, from its kind to its closing brace.
    pub fn span(&self) -> Option<Span> {
        let items = Items::collect(&self.parsed.files);
        items.written("recipe", &self.recipe).map(|(block, _)| block.span)
    }

    /// The profiles of the recipe, in the order they are written.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// The profile for a machine with such devices, where the user names none.
    pub fn profile_for(&self, kind: DeviceKind) -> Option<&str> {
        let found = self.profiles.iter().find(|profile| profile.target == Some(kind));
        found.map(|profile| profile.name.as_str())
    }

    /// The recipe with `profile` laid over it. `None` if anything is wrong, here or while loading, which is reported.
    pub fn resolve(&self, profile: Option<&str>, sink: &mut Sink) -> Option<Resolved> {
        let mut own = Sink::default();
        let resolved = self.resolve_into(profile, &mut own);
        let failed = own.has_errors();
        let follow_on = ["step::recipe::missing", "step::recipe::unknown_item"];
        sink.extend(own.finish().into_iter().filter(|problem| {
            // What is missing may stand in the part that could not be read.
            !(self.parsed.broken && follow_on.contains(&problem.code))
        }));
        resolved.filter(|_| !failed && self.sound)
    }

    /// Reports everything that is wrong with the recipe, with any of its profiles, and what is never used. Gives the
    /// sound ones of them, the recipe itself first.
    pub fn check_all(&self, sink: &mut Sink) -> Vec<Resolved> {
        let profiles = self.profiles.iter().map(|profile| Some(profile.name.as_str()));
        let variants: Vec<_> = std::iter::once(None).chain(profiles).collect();
        let checked = variants.par_iter().map(|profile| {
            let mut own = Sink::default();
            let resolved = self.resolve(*profile, &mut own);
            (resolved, own.finish())
        });
        let checked: Vec<_> = checked.collect();
        let resolved = checked.into_iter().filter_map(|(resolved, found)| {
            sink.extend(found);
            resolved
        });
        let resolved = resolved.collect();
        rules::unused::unused_lets(&self.parsed.files, sink);
        resolved
    }

    fn resolve_into(&self, profile: Option<&str>, sink: &mut Sink) -> Option<Resolved> {
        let items = self.items();
        let root = self.merged(&items, profile, sink)?;
        let schema = item_schema("recipe")?;
        let mut origins = Origins::default();
        root.collect_origins("", schema, &mut origins);
        let world = self.world(&items, sink);
        let recipe = self.evaluate(&root, schema, &world, &mut origins, sink)?;
        Some(Resolved { recipe, origins, profile: profile.map(str::to_owned) })
    }

    /// The recipe with its items, `profile` and `--set` laid over one another.
    pub(super) fn merged<'t>(
        &'t self,
        items: &Items<'t>,
        profile: Option<&str>,
        sink: &mut Sink,
    ) -> Option<Node<'t>> {
        let mut root = items.node("recipe", &self.recipe, Via::Recipe, sink)?;
        let blocks = std::mem::take(&mut root.blocks);
        root.blocks = blocks
            .into_iter()
            .map(|block| if is_item(block.kind) { expand(block, items, sink) } else { block })
            .collect();
        if let Some(name) = profile {
            let Some(profile) = profile_node(items, &self.recipe, name, sink) else {
                sink.push(self.unknown_profile(name));
                return None;
            };
            overlay_profile(&mut root, profile, items, sink);
        }
        let schema = item_schema("recipe")?;
        let nothing = Rc::new(Scope::default());
        for (path, value) in &self.parsed.sets {
            set(&mut root, schema, path, value, &nothing, sink);
        }
        settle(&mut root, Some(schema), sink);
        Some(root)
    }

    /// The top-level items that the recipe can name.
    pub(super) fn items(&self) -> Items<'_> {
        Items::collect(&self.parsed.files)
    }

    fn evaluate<'t>(
        &self,
        root: &Node<'t>,
        schema: &'static BlockSchema,
        world: &World<'t>,
        origins: &mut Origins,
        sink: &mut Sink,
    ) -> Option<Recipe> {
        let chain = Chain { node: root, schema, outer: None, index: None };
        let mut eval = Evaluator::new(world, sink);
        eval.check_shape(&chain);
        let recipe = Recipe::read(&mut Reader { eval: &mut eval, at: &chain })?;
        if let Some(device) = world.devices.get(recipe.cluster.device.name.as_str()) {
            device.collect_origins("cluster.device", &Device::SCHEMA, origins);
        }
        if rules::machine::device_count(&mut eval, &chain, &recipe, origins) {
            rules::check(&recipe, origins, eval.sink);
        }
        // A rule that is broken says more than the `require` that it breaks.
        if !eval.sink.has_errors() {
            rules::require::check_requires(&mut eval, &chain, origins);
        }
        Some(recipe)
    }

    /// What expressions may refer to besides the recipe.
    pub(super) fn world<'t>(&'t self, items: &Items<'t>, sink: &mut Sink) -> World<'t> {
        world(&self.parsed.files, items, sink)
    }

    fn unknown_profile(&self, name: &str) -> Diagnostic {
        let known: Vec<_> = self.profiles.iter().map(|profile| profile.name.as_str()).collect();
        let message = format!("recipe `{}` has no profile `{name}`", self.recipe);
        let problem = Diagnostic::error("step::recipe::unknown_profile", message);
        match nearest(name, known.iter().copied()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None if known.is_empty() => problem.help("it has none: leave `--profile` out"),
            None => problem.help(format!("known: {}", known.join(", "))),
        }
    }
}

/// What expressions of `files` may refer to besides the block they stand in.
pub(super) fn world<'t>(files: &'t [SourceFile], items: &Items<'t>, sink: &mut Sink) -> World<'t> {
    let devices = items.names("device").into_iter().filter_map(|name| {
        let mut node = items.node("device", name, Via::Item, sink)?;
        settle(&mut node, item_schema("device"), sink);
        Some((name, node))
    });
    let devices = devices.collect();
    let folders = files.iter().map(|file| (file.tree.id, file.folder.clone())).collect();
    World { devices, folders }
}

/// The name of the recipe to resolve.
fn choose(parsed: &Parsed, request: &Request, sink: &mut Sink) -> Option<String> {
    let known: Vec<&Ident> = parsed.recipes().collect();
    let listed = || known.iter().map(|name| format!("`{}`", name.text)).collect::<Vec<_>>().join(", ");
    if let Some(wanted) = &request.recipe {
        if known.iter().any(|name| name.text == *wanted) {
            return Some(wanted.clone());
        }
        let names = known.iter().map(|name| name.text.as_str());
        sink.push(unknown_item("recipe", wanted, None, names));
        return None;
    }
    match known.as_slice() {
        [only] => return Some(only.text.clone()),
        // A file that could not be understood may well hold one.
        [] if parsed.broken => {}
        [] => {
            let message = format!("`{}` holds no recipe", request.path.display());
            let problem = Diagnostic::error("step::recipe::no_recipe", message);
            sink.push(problem.help("write `recipe NAME { … }`, or give the file that `use`s this one"));
        }
        [first, ..] => {
            let message = format!("`{}` holds several recipes", request.path.display());
            let problem = Diagnostic::error("step::recipe::several_recipes", message);
            sink.push(problem.label(first.span, "the first one").help(format!("choose one of {}", listed())));
        }
    }
    None
}

/// The recipe's own block and those it is based on, itself first.
fn with_bases<'t>(items: &Items<'t>, recipe: &str) -> Vec<(&'t Block, Rc<Scope<'t>>)> {
    let mut found: Vec<(&'t Block, Rc<Scope<'t>>)> = Vec::new();
    let mut next = items.written("recipe", recipe);
    while let Some((block, scope)) = next {
        if found.iter().any(|(known, _)| std::ptr::eq(*known, block)) {
            break;
        }
        found.push((block, Scope::inside(block.stmts(), scope)));
        next = block.base.as_ref().and_then(|base| items.written("recipe", &base.text));
    }
    found
}

fn profile_blocks(block: &Block) -> impl Iterator<Item = &Block> {
    block.stmts().iter().filter_map(|stmt| match stmt {
        Stmt::Block(inner) if inner.kind.text == "profile" => Some(inner),
        _ => None,
    })
}

/// The profile as a block to lay over the recipe, over the profile it has as its base.
fn profile_node<'t>(items: &Items<'t>, recipe: &str, name: &str, sink: &mut Sink) -> Option<Node<'t>> {
    let recipes = with_bases(items, recipe);
    let written = |name: &str| {
        recipes.iter().find_map(|(block, scope)| {
            let mut blocks = profile_blocks(block);
            blocks
                .find(|block| block.name.as_ref().is_some_and(|own| own.text == name))
                .map(|block| (block, scope))
        })
    };
    let (mut block, scope) = written(name)?;
    let mut node = Node::build(block, scope, Via::Profile, sink);
    let mut above = vec![block];
    while let Some(base) = &block.base {
        let Some((below, scope)) = written(&base.text) else {
            sink.push(unknown_item("profile", &base.text, Some(base.span), []));
            break;
        };
        let names: Vec<_> = above.iter().filter_map(|block| block.name.as_ref()).collect();
        if let Some(problem) = base_cycle(&names, base) {
            sink.push(problem);
            break;
        }
        let mut under = Node::build(below, scope, Via::Profile, sink);
        overlay(&mut under, node, item_schema("recipe"), sink);
        node = under;
        above.push(below);
        block = below;
    }
    Some(node)
}

/// The profiles of a recipe and of those it is based on, with what is wrong in their heads.
fn profiles(parsed: &Parsed, recipe: &str, sink: &mut Sink) -> Vec<Profile> {
    let items = Items::collect(&parsed.files);
    let mut found: Vec<Profile> = Vec::new();
    for (index, (recipe, _)) in with_bases(&items, recipe).into_iter().enumerate() {
        for block in profile_blocks(recipe) {
            let Some(name) = &block.name else {
                let problem = Diagnostic::error("step::recipe::nameless", "this profile has no name");
                let help = "write `profile laptop for cpu { … }`";
                sink.push(problem.label(block.kind.span, "needs a name").help(help));
                continue;
            };
            if let Some(first) = found.iter().find(|known| known.name == name.text) {
                if index == 0 {
                    sink.push(twice(&format!("profile {}", name.text), Some(block.head()), Some(first.span)));
                }
                continue;
            }
            let target = block.target.as_ref().and_then(|target| {
                let kind = DeviceKind::from_word(&target.text);
                if kind.is_none() {
                    let words: Vec<_> = DeviceKind::WORDS.iter().map(|known| known.word).collect();
                    let message = format!("`{}` is not a kind of device", target.text);
                    let problem = Diagnostic::error("step::recipe::unknown_device", message);
                    sink.push(
                        problem.label(target.span, "unknown").help(format!("write {}", words.join(", "))),
                    );
                }
                kind
            });
            found.push(Profile { name: name.text.clone(), target, span: block.head() });
        }
    }
    found
}
