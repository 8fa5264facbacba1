//! What can be done with a recipe, shown above it, and with its profiles.

use super::{Answer, View};
use crate::base::Span;
use crate::lsp::walk::{Part, parts};
use lsp_types::*;
use serde_json::json;

/// Title and command of what a recipe offers; the editor runs them, the last with the help of this server.
const OFFERS: [(&str, &str); 4] =
    [("Check", "stepc.check"), ("Plan", "stepc.plan"), ("Run", "stepc.run"), ("Open plan", "stepc.openPlan")];

/// A profile is checked with its recipe.
const OF_PROFILE: &[(&str, &str)] = OFFERS.split_at(1).1;

pub fn lenses(view: &View, _: CodeLensParams) -> Answer<Option<Vec<CodeLens>>> {
    let mut found = Vec::new();
    let mut recipe = "";
    if let Some(tree) = view.tree() {
        parts(tree, &mut |part| {
            let Part::Block { block, .. } = part else { return };
            let Some(name) = &block.name else { return };
            match block.kind.text.as_str() {
                "recipe" => {
                    recipe = &name.text;
                    found.extend(offers(view, &OFFERS, block.head(), recipe, None));
                }
                "profile" => found.extend(offers(view, OF_PROFILE, block.head(), recipe, Some(&name.text))),
                _ => {}
            }
        });
    }
    Ok(Some(found))
}

fn offers(
    view: &View,
    offers: &[(&str, &str)],
    place: Span,
    recipe: &str,
    profile: Option<&str>,
) -> Vec<CodeLens> {
    let mut target = json!({ "uri": view.uri, "recipe": recipe });
    if let Some(profile) = profile {
        target["profile"] = profile.into();
    }
    let lens = |(title, command): &(&str, &str)| CodeLens {
        range: view.range(place),
        command: Some(Command {
            title: (*title).to_owned(),
            command: (*command).to_owned(),
            arguments: Some(vec![target.clone()]),
            ..Command::default()
        }),
        data: None,
    };
    offers.iter().map(lens).collect()
}
