//! The arguments of the function around a place.

use super::{Answer, Glance};
use crate::lsp::knowledge::Cursor;
use crate::recipe::functions::FUNCTIONS;
use lsp_types::*;

pub fn signature(view: &Glance, params: SignatureHelpParams) -> Answer<Option<SignatureHelp>> {
    let offset = view.offset(params.text_document_position_params.position);
    let call = Cursor::at(&view.text, offset).call;
    Ok(call.and_then(|(function, before)| help(function, before)))
}

fn help(function: &str, before: usize) -> Option<SignatureHelp> {
    let (name, takes, does) = FUNCTIONS.iter().find(|(name, ..)| *name == function)?;
    let label = format!("{name}({takes})");
    let mut start = name.len() + 1;
    let parameters = takes.split(", ").map(|parameter| {
        let label = (start as u32, (start + parameter.chars().count()) as u32);
        start += parameter.chars().count() + 2;
        ParameterInformation { label: label.into(), documentation: None }
    });
    let parameters: Vec<_> = parameters.collect();
    // `…` takes all further arguments.
    let active = match takes.ends_with('…') {
        true => before.min(parameters.len() - 1),
        false => before,
    };
    let signature = SignatureInformation {
        label,
        documentation: Some(Documentation::String((*does).to_owned())),
        parameters: Some(parameters),
        active_parameter: None,
    };
    Some(SignatureHelp {
        signatures: vec![signature],
        active_signature: Some(0),
        active_parameter: Some((active as u32).into()),
    })
}
