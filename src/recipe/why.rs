//! Why a value is what it is: every place that set it, the one that holds first.
//!
//! Looks at the merged recipe and not at the checked one, so that it answers also where a rule is broken.

use super::eval::{Chain, Evaluator, World};
use super::items::Items;
use super::node::Node;
use super::origins::Origin;
use super::resolve::{Loaded, item_schema};
use super::schema::{FieldSchema, Type};
use super::value::Value;
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};

/// A place that set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub origin: Origin,
    /// The item it stands in, `model tiny`; none for `--set`.
    pub item: Option<String>,
}

/// A field or a block, and what set it.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// As `--set` takes it: `model.moe.sparse.experts`.
    pub path: String,
    /// A block, of which the fields follow.
    pub block: bool,
    /// What holds, evaluated; `None` for blocks and where there is no value.
    pub value: Option<String>,
    /// Every place that set it, the winner first; empty where the default holds.
    pub places: Vec<Written>,
    /// What holds where nothing is written.
    pub default: Option<&'static str>,
    /// It can be referred to but not set; the default is what it is derived from.
    pub derived: bool,
}

impl Loaded {
    /// The settings that `path` names: one field, or a block with all that is in it. Blocks are named as for `--set`.
    /// `None` if there is no such path, which is reported with the nearest there is.
    pub fn why(&self, profile: Option<&str>, path: &str, sink: &mut Sink) -> Option<Vec<Setting>> {
        let items = self.items();
        let root = self.merged(&items, profile, sink)?;
        // What is wrong elsewhere is no part of the answer.
        let mut aside = Sink::default();
        let world = self.world(&items, &mut aside);
        let mut walk = Walk {
            world: &world,
            items: &items,
            eval: Evaluator::new(&world, &mut aside),
            words: path.split(['.', ' ']).filter(|word| !word.is_empty()).collect(),
            steps: Vec::new(),
            known: Vec::new(),
            found: Vec::new(),
        };
        let schema = item_schema("recipe")?;
        walk.inside(&Chain { node: &root, schema, outer: None, index: None });
        let Walk { known, found, words, .. } = walk;
        if found.is_empty() {
            sink.push(unknown_path(path, &words.join("."), &known));
            return None;
        }
        Some(found)
    }
}

/// One block or field on the way down.
#[derive(Clone, Copy)]
struct Step<'t> {
    kind: &'t str,
    name: Option<&'t str>,
    /// The name tells it from others of its kind.
    named: bool,
}

struct Walk<'w, 'e, 't> {
    world: &'w World<'t>,
    items: &'w Items<'t>,
    eval: Evaluator<'e, 't>,
    /// The path asked for.
    words: Vec<&'w str>,
    steps: Vec<Step<'t>>,
    /// Every path there is.
    known: Vec<String>,
    found: Vec<Setting>,
}

impl<'t> Walk<'_, '_, 't> {
    fn inside(&mut self, at: &Chain<'_, 't>) {
        for field in at.schema.fields {
            match field.ty {
                Type::Name | Type::Profiles => {}
                ty if ty.is_value() => self.field(at, field),
                _ => self.blocks(at, field),
            }
        }
    }

    fn field(&mut self, at: &Chain<'_, 't>, field: &'static FieldSchema) {
        self.steps.push(Step { kind: field.key, name: None, named: false });
        let written = at.node.fields.get(field.key).filter(|_| !field.read_only);
        if self.is_asked_for() {
            let value = self.eval.field(at, field, None).ok();
            self.found.push(Setting {
                path: self.path(),
                block: false,
                value: value.as_ref().map(Value::to_string),
                places: written.map(|written| self.places(&written.chain)).unwrap_or_default(),
                default: field.default,
                derived: field.read_only,
            });
        }
        if let Type::Item(_, schema) = field.ty
            && let Ok(Value::Word(name)) = self.eval.field(at, field, None)
            && let Some(node) = self.world.devices.get(name.as_str())
        {
            self.inside(&Chain { node, schema, outer: None, index: None });
        }
        self.steps.pop();
    }

    fn blocks(&mut self, at: &Chain<'_, 't>, field: &'static FieldSchema) {
        let mut none = true;
        for node in at.node.blocks.iter().filter(|block| block.kind == field.key) {
            none = false;
            self.block(at, field, node);
        }
        match field.ty {
            Type::Block(_) | Type::Choice(_) | Type::Optional(_) if none => {
                self.block(at, field, &Node::absent(field.key));
            }
            _ => {}
        }
    }

    fn block(&mut self, at: &Chain<'_, 't>, field: &'static FieldSchema, node: &Node<'t>) {
        let named = matches!(field.ty, Type::Named(_));
        self.steps.push(Step { kind: field.key, name: node.name_text(), named });
        if self.is_asked_for() {
            let optional = matches!(field.ty, Type::Optional(_)).then_some("none");
            self.found.push(Setting {
                path: self.path(),
                block: true,
                value: None,
                places: self.places(&node.heads),
                default: field.default.or(optional),
                derived: false,
            });
        }
        let written = !node.heads.is_empty() || matches!(field.ty, Type::Block(_));
        if let Some(inner) = at.inner(node).filter(|_| written && !node.is_none()) {
            self.inside(&inner);
        }
        self.steps.pop();
    }

    fn places(&self, chain: &[Origin]) -> Vec<Written> {
        let item = |origin: &Origin| {
            let block = self.items.around(origin.span)?;
            Some(format!("{} {}", block.kind.text, block.name.as_ref()?.text))
        };
        chain.iter().map(|origin| Written { origin: *origin, item: item(origin) }).collect()
    }

    /// Whether the path asked for ends here or at a block around; notes that this one exists.
    fn is_asked_for(&mut self) -> bool {
        self.known.push(self.path());
        leads_to(&self.words, &self.steps)
    }

    fn path(&self) -> String {
        let words = self.steps.iter().flat_map(|step| [Some(step.kind), step.name.filter(|_| step.named)]);
        words.flatten().collect::<Vec<_>>().join(".")
    }
}

/// Whether `words` name `steps`, or a block around: each step by its kind, its name, or one behind the other.
fn leads_to(words: &[&str], steps: &[Step<'_>]) -> bool {
    let Some((word, rest)) = words.split_first() else { return true };
    let Some((step, below)) = steps.split_first() else { return false };
    let by_kind = *word == step.kind
        && (leads_to(rest, below)
            || rest
                .split_first()
                .is_some_and(|(name, rest)| step.name == Some(name) && leads_to(rest, below)));
    by_kind || (step.name == Some(word) && leads_to(rest, below))
}

fn unknown_path(path: &str, plain: &str, known: &[String]) -> Diagnostic {
    let message = format!("there is no field or block `{path}`");
    let problem = Diagnostic::error("step::why::unknown_path", message);
    let all = || known.iter().map(String::as_str);
    // Steps that were left out, then letters that are wrong, then a wrong name without its way.
    let longer = all().find(|known| in_order(plain, known));
    let last = |path: &'_ str| path.rsplit('.').next().map(str::to_owned).unwrap_or_default();
    let by_name = || {
        let names: Vec<_> = all().map(last).collect();
        let near = nearest(plain, names.iter().map(String::as_str))?;
        all().find(|known| last(known) == near)
    };
    match longer.or_else(|| nearest(plain, all())).or_else(by_name) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("give a path such as `parallel.ep`, or a block such as `train`"),
    }
}

/// Whether the steps of `path` are steps of `known`, in the same order.
fn in_order(path: &str, known: &str) -> bool {
    let mut steps = known.split('.');
    path.split('.').all(|step| steps.any(|known| known == step))
}
