//! Dotted paths: what `model.full.heads` means step by step, by the rules of `recipe::lookup` and without a value.

use super::frames::{Frame, Names};
use super::mentions::About;
use crate::base::Span;
use crate::recipe::schema::{FieldSchema, Type};
use crate::syntax::tree::{ExprKind, Stmt};
use std::rc::Rc;

/// One step of a dotted path.
pub struct Step<'t> {
    pub about: About<'t>,
    pub declared: Vec<Span>,
}

impl<'t> Names<'t> {
    /// What the steps of `model.full.heads` mean inside of `from`, as far as they mean something.
    pub fn steps(&self, from: &Rc<Frame<'t>>, path: &[&str]) -> Vec<Step<'t>> {
        let mut found = Vec::new();
        let Some(mut at) = path.first().and_then(|first| from.outward().find(|f| f.leads_to(first))).cloned()
        else {
            return found;
        };
        let mut rest = path;
        while let [step, after @ ..] = rest {
            rest = after;
            let field = at.schema.field(step);
            let next = match field {
                Some(field) if field.ty.is_value() => {
                    let declared = at.key(field.key).to_vec();
                    let device = (!after.is_empty()).then(|| self.device_of(&at, field)).flatten();
                    found.push(Step { about: About::Field(at, field), declared });
                    device
                }
                Some(FieldSchema { ty: Type::Named(_), key, .. })
                    if after.first().is_some_and(|n| at.has(key, n)) =>
                {
                    let child = self.child(&at, key, after.first().copied());
                    rest = after.get(1..).unwrap_or_default();
                    found.extend(child.iter().flat_map(|child| [by_kind(child), by_name(child)]));
                    child
                }
                Some(field) => {
                    let child = self.child(&at, field.key, None);
                    found.extend(child.as_ref().map(by_kind));
                    child
                }
                None => {
                    let child = at.kind_of(step).and_then(|kind| self.child(&at, kind, Some(step)));
                    found.extend(child.as_ref().map(by_name));
                    child
                }
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        found
    }

    /// The block that a whole path leads to.
    pub fn block_at(&self, from: &Rc<Frame<'t>>, path: &[&str]) -> Option<Rc<Frame<'t>>> {
        let steps = self.steps(from, path);
        let last = steps.into_iter().nth(path.len().checked_sub(1)?)?;
        match last.about {
            About::Block(frame) | About::Named(frame) => Some(frame),
            About::Field(frame, field) => self.device_of(&frame, field),
            _ => None,
        }
    }

    fn device_of(&self, cluster: &Rc<Frame<'t>>, field: &FieldSchema) -> Option<Rc<Frame<'t>>> {
        let Type::Item("device", _) = field.ty else { return None };
        let value = cluster.layers.iter().flat_map(|block| block.stmts()).find_map(|stmt| match stmt {
            Stmt::Attr { key, value } if key.text == field.key => Some(value),
            _ => None,
        });
        match value.map(|value| &value.kind) {
            Some(ExprKind::Path(path)) => self.device(cluster, path.first().map_or("", |word| &word.text)),
            _ => self.device(cluster, ""),
        }
    }
}

fn by_kind<'t>(frame: &Rc<Frame<'t>>) -> Step<'t> {
    Step { declared: frame.declared_kinds(), about: About::Block(Rc::clone(frame)) }
}

fn by_name<'t>(frame: &Rc<Frame<'t>>) -> Step<'t> {
    Step { declared: frame.declared_names(), about: About::Named(Rc::clone(frame)) }
}
