//! `stepc data`

use super::args::{DataArgs, DataCommand, PreviewArgs};
use super::exit::Failure;
use super::inputs::data_config;
use super::session::Session;
use crate::check::place;
use crate::data::{Loader, Overlong, Sequence};
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;
use crate::report::Style;

/// Runs a command on the data of a recipe.
pub fn data(session: &mut Session, args: &DataArgs) -> Result<(), Failure> {
    match &args.command {
        DataCommand::Preview(args) => preview(session, args),
    }
}

/// Shows the first sequences as they will be trained on.
fn preview(session: &mut Session, args: &PreviewArgs) -> Result<(), Failure> {
    let loaded = session.load(&args.recipe)?;
    let resolved = session.resolve(&loaded, args.recipe.profile.as_deref())?;
    session.show_warnings();
    let recipe = &resolved.recipe;
    let mut config = data_config(&recipe.data, &recipe.train, recipe.model.vocab);
    if let Some(name) = &args.source {
        let names: Vec<String> = config.sources.iter().map(|source| source.name.clone()).collect();
        config.sources.retain(|source| source.name == *name);
        if config.sources.is_empty() {
            let problem =
                Diagnostic::error("step::data::source", format!("the recipe has no source `{name}`"));
            return Err(Failure::Input(vec![match nearest(name, names.iter().map(String::as_str)) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(format!("its sources are {}", names.join(", "))),
            }]));
        }
    }
    config.ahead = 1;
    let placed = |diagnostic| place(diagnostic, Some(&resolved.origins));
    let loader = Loader::open(&config, 1).map_err(placed)?;
    let (style, padded) = (session.style(), config.policy.overlong != Overlong::Split);
    for index in 0..u64::from(args.sequences) {
        let sequence = loader.sequence(0, index).map_err(placed)?;
        session.print(&page(index, &sequence, &loader, (args.ids, padded), style));
    }
    session.sink.extend(loader.statistics().left_out());
    Ok(())
}

/// A sequence, document by document; `ids` too, and what has no label at its end is padding where it is `padded`. In the
/// margin stands what is learned, `+`, and what is only read.
fn page(
    index: u64,
    sequence: &Sequence,
    loader: &Loader,
    (ids, padded): (bool, bool),
    style: Style,
) -> String {
    let supervised = sequence.labels.iter().filter(|&&label| label >= 0).count();
    let head = format!("sequence {index}: {} tokens, {supervised} learned", sequence.tokens.len());
    let mut out = format!("{}\n", style.bold(&head));
    for (number, segment) in sequence.segments.windows(2).enumerate() {
        let (start, end) = (segment[0] as usize, segment[1] as usize);
        // A token is learned where the one before it has it as its label.
        let learned: Vec<bool> = (start..end).map(|at| at > start && sequence.labels[at - 1] >= 0).collect();
        let count = learned.iter().filter(|learned| **learned).count();
        if padded && count == 0 && end == sequence.tokens.len() {
            out += &style.code(&format!("{:─<72}\n", format!("── padding: {} tokens ", end - start)));
            break;
        }
        let title = format!("── document {}: {} tokens, {count} learned ", number + 1, end - start);
        out += &style.code(&format!("{title:─<72}"));
        out.push('\n');
        let mut from = start;
        for run in learned.chunk_by(|a, b| a == b) {
            let tokens = &sequence.tokens[from..from + run.len()];
            from += run.len();
            out += &lines(&loader.text(tokens), run[0], style);
            if ids {
                let ids: Vec<String> = tokens.iter().map(u32::to_string).collect();
                out += &style.dim(&format!("  # {}\n", ids.join(" ")));
            }
        }
    }
    out.push('\n');
    out
}

/// Text on lines of its own, each line break of it shown.
fn lines(text: &str, learned: bool, style: Style) -> String {
    let margin = if learned { "+ " } else { "  " };
    let line = |line: &str| {
        let shown = match line.strip_suffix('\n') {
            Some(line) => format!("{margin}{}↵", visible(line)),
            None => format!("{margin}{}", visible(line)),
        };
        format!("{}\n", if learned { style.good(&shown) } else { style.dim(&shown) })
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Control characters would act on the terminal.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
