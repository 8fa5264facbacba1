//! Everything that is wrong with a recipe, for `stepc check` and for editors.
//!
//! In: a [`Loaded`] recipe. Out: its sound variants, and diagnostics in the sink.

mod weights;

pub use weights::{audit, check_weights};

use crate::base::Host;
use crate::diag::{Diagnostic, Sink};
use crate::plan;
use crate::recipe::{DeviceKind, Loaded, Origins, Resolved};

/// Checks the recipe under `profile`, or as it stands and under each of its profiles, and whether the paths of the one
/// that this machine can run lead to something. Gives the sound variants.
pub fn check(host: &dyn Host, loaded: &Loaded, profile: Option<&str>, sink: &mut Sink) -> Vec<Resolved> {
    let resolved: Vec<Resolved> = match profile {
        Some(profile) => loaded.resolve(Some(profile), sink).into_iter().collect(),
        None => loaded.check_all(sink),
    };
    for Resolved { recipe, origins, .. } in &resolved {
        plan::rules::check(recipe, origins, sink);
    }
    if let Some(own) = for_this_machine(&resolved) {
        own.check_paths(host, sink);
    }
    resolved
}

/// As `stepc run` chooses: the recipe itself where it is for this machine, else its first profile that is.
pub fn for_this_machine(resolved: &[Resolved]) -> Option<&Resolved> {
    resolved.iter().find(|resolved| resolved.recipe.cluster.device.kind == DeviceKind::Cpu)
}

/// Points a problem of data or weights at the field of the recipe that it comes from.
pub fn place(mut diagnostic: Diagnostic, origins: Option<&Origins>) -> Diagnostic {
    let fields: &[(&str, &str)] = match diagnostic.code {
        "step::data::vocab" => &[("data.tokenizer", "this tokenizer"), ("model.vocab", "this vocabulary")],
        "step::data::tokenizer" => &[("data.tokenizer", "named here")],
        "step::data::template" => {
            &[("data.chat.template", "named here"), ("data.tokenizer", "this tokenizer")]
        }
        "step::data::overlong" => &[("data.overlong", "set here"), ("data.sequence", "tokens a sequence")],
        "step::data::conversation" | "step::data::unsupervised" => {
            &[("train.stage", "conversations are asked for here")]
        }
        "step::data::too_small" => &[("data.sequence", "tokens a sequence")],
        "step::output::unwritable" | "step::checkpoint::exists" | "step::checkpoint::busy" => {
            &[("checkpoint.dir", "named here")]
        }
        code if code.starts_with("step::weights::") => &[("model.weights", "named here")],
        _ => &[],
    };
    for (path, text) in fields {
        diagnostic = diagnostic.label(origins.and_then(|o| o.span(path)), *text);
    }
    diagnostic
}
