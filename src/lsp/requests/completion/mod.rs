//! What can be written here.

mod items;
mod paths;
mod statements;
mod values;

use super::{Answer, Glance};
use crate::lsp::knowledge::{Cursor, Frame, Head, Names, Slot};
use crate::recipe::schema::FieldSchema;
use crate::recipe::{SourceFile, item_schema};
use items::Items;
use lsp_types::*;
use std::rc::Rc;

pub fn completion(view: &Glance, params: CompletionParams) -> Answer<Option<CompletionResponse>> {
    let offset = view.offset(params.text_document_position_params.position);
    let names = Names::of(&view.project);
    let cursor = Cursor::at(&view.text, offset);
    let place = Place::of(view, &names, &cursor, offset);
    let mut items = Items::new(view, cursor.word.clone());
    match &cursor.slot {
        Slot::Nothing => {}
        Slot::Statement => statements::statements(&place, &mut items),
        Slot::Name { kind } => statements::names(&place, kind, &mut items),
        Slot::Base { kind } => statements::bases(&place, kind, &mut items),
        Slot::Target => statements::targets(&mut items),
        Slot::Value { key, path } => values::values(&place, place.field(*key), path, &mut items),
        Slot::Unit { key, digits } => values::units(place.field(*key), digits, &mut items),
        Slot::Text { key, before } => paths::paths(&place, *key, before, &mut items),
    }
    Ok(Some(items.finish().into()))
}

/// Where the cursor stands, in terms of what is known.
pub struct Place<'p, 't> {
    pub view: &'p Glance,
    pub names: &'p Names<'t>,
    pub cursor: &'p Cursor<'p>,
    offset: usize,
    /// The file at hand, as it was when the project was read.
    pub file: Option<&'t SourceFile>,
    /// The blocks around, the outermost first; fewer where one of them is unknown.
    pub frames: Vec<Rc<Frame<'t>>>,
}

impl<'p, 't> Place<'p, 't> {
    fn of(view: &'t Glance, names: &'p Names<'t>, cursor: &'p Cursor<'p>, offset: usize) -> Place<'p, 't>
    where
        't: 'p,
    {
        let file = view.project.file(&view.path);
        let file = names.files.iter().find(|source| Some(source.tree.id) == file);
        let mut frames: Vec<Rc<Frame<'t>>> = Vec::new();
        for head in &cursor.blocks {
            let next = match frames.last() {
                None => outermost(names, *head),
                Some(around) => inner(names, around, *head),
            };
            match next {
                Some(next) => frames.push(next),
                None => break,
            }
        }
        Place { view, names, cursor, offset, file, frames }
    }

    /// The block that the cursor is in; `None` at the level of the file and in an unknown block.
    pub fn frame(&self) -> Option<&Rc<Frame<'t>>> {
        self.frames.last().filter(|_| self.frames.len() == self.cursor.blocks.len())
    }

    /// What stands of the word before the cursor.
    pub fn typed(&self) -> &str {
        self.view.text.get(self.cursor.word.start..self.offset).unwrap_or_default()
    }

    pub fn field(&self, key: Option<&str>) -> Option<&'static FieldSchema> {
        self.frame()?.schema.field(key?)
    }
}

fn outermost<'t>(names: &Names<'t>, head: Head<'_>) -> Option<Rc<Frame<'t>>> {
    let written = head.name.and_then(|name| names.item(head.kind, name)).and_then(|block| names.top(block));
    written.or_else(|| Some(names.unwritten(item_schema(head.kind)?)))
}

fn inner<'t>(names: &Names<'t>, around: &Rc<Frame<'t>>, head: Head<'_>) -> Option<Rc<Frame<'t>>> {
    match (around.schema.kind, head.kind) {
        ("recipe", "profile") => Some(names.profile(around, head.name.unwrap_or_default())),
        ("layer", _) => {
            let model = around.outer.as_ref()?;
            let name = head.name.unwrap_or(head.kind);
            names.child(model, model.kind_of(name)?, Some(name))
        }
        (_, kind) => {
            let child = names.child(around, kind, head.name);
            let schema = || around.schema.field(kind)?.ty.body(head.name);
            child.or_else(|| Some(names.unwritten(schema()?)))
        }
    }
}
