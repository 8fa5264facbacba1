//! Sizes that can be counted: what is behind these rules multiplies without overflow.

use super::model::attentions;
use super::parallel::moe_blocks;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::model::Ffn;
use crate::recipe::schema::recipe::Recipe;

/// Elements of a tensor: some thousand times the largest model there is.
const TENSOR: u128 = 1 << 46;
/// Elements of an activation of one micro batch on one rank: several TB.
const ACTIVATION: u128 = 1 << 40;

/// Tokens of a whole run.
const RUN: u128 = 1 << 62;

/// Reports the first tensor, the first activation and a run that are too large to be meant.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    widths(recipe, origins, sink);
    let (train, sequence) = (&recipe.train, recipe.data.sequence);
    let sequences = u128::from(train.steps) * u128::from(train.global_batch);
    if sequences.saturating_mul(u128::from(sequence)) > RUN {
        let message =
            format!("{} steps of {} sequences are more than can be counted", train.steps, train.global_batch);
        let problem = Diagnostic::error("step::train::size", message)
            .label(origins.nearest("train.global_batch"), format!("{} sequences a step", train.global_batch))
            .label(origins.span("train.steps"), format!("{} steps", train.steps));
        sink.push(problem.help("a run has at most 2^62 tokens"));
    }
}

fn widths(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let hidden = u128::from(recipe.model.hidden);
    // Name of a width, its path, the width, and how many tensors of it lie in one.
    let mut widths = vec![
        ("hidden".to_owned(), "model.hidden".to_owned(), hidden, 1),
        ("vocab".to_owned(), "model.vocab".to_owned(), u128::from(recipe.model.vocab), 1),
    ];
    for (name, attention) in attentions(recipe) {
        let heads = u128::from(attention.heads.max(attention.kv_heads));
        let at = format!("model.attention {name}");
        let head = u128::from(attention.head_dim.max(attention.value_dim));
        widths.push((format!("heads × head_dim of {name}"), format!("{at}.heads"), heads * head, 1));
        if let Some(latent) = &attention.latent {
            let rank = u128::from(latent.q_rank.unwrap_or(0).max(latent.kv_rank));
            // A latent is projected to heads, whose width may be larger than that of the hidden state.
            let many = (heads * 2 * head).div_ceil(hidden.max(1)).max(1);
            widths.push((format!("latents of {name}"), format!("{at}.latent.kv_rank"), rank, many));
        }
    }
    for layer in &recipe.model.blocks {
        if let Ffn::Dense(mlp) = &layer.ffn {
            let name = &layer.ffn_name;
            widths.push((
                format!("inner of {name}"),
                format!("model.mlp {name}.inner"),
                u128::from(mlp.inner),
                1,
            ));
        }
    }
    for (name, moe) in moe_blocks(recipe) {
        let at = format!("model.moe {name}");
        let experts = u128::from(moe.experts);
        widths.push((format!("inner of {name}"), format!("{at}.inner"), u128::from(moe.inner), experts));
        widths.push((format!("experts of {name}"), format!("{at}.experts"), experts, 1));
        // Rows that are sent to experts: `top_k` of each token.
        let sent = u128::from(moe.top_k.min(moe.experts)).saturating_mul(hidden.max(u128::from(moe.inner)));
        widths.push((format!("top_k rows of {name}"), format!("{at}.top_k"), sent, 0));
        if let Some(shared) = &moe.shared {
            let width = u128::from(shared.inner);
            widths.push((format!("inner of {name}.shared"), format!("{at}.shared.inner"), width, 1));
        }
    }
    let tokens = u128::from(recipe.train.micro_batch) * u128::from(recipe.data.sequence);
    for (name, path, width, many) in widths {
        let tensor = width.saturating_mul(hidden).saturating_mul(many);
        if tensor > TENSOR {
            let message = format!("a tensor over {name} would have {:.1e} elements", tensor as f64);
            let problem = Diagnostic::error("step::model::size", message)
                .label(origins.nearest(&path), "too large to be meant")
                .label(
                    origins.span("model.hidden").filter(|_| path != "model.hidden"),
                    format!("{hidden} wide"),
                );
            sink.push(problem.help("the largest tensor has 2^46 elements"));
            return;
        }
        // Logits exist a few rows at a time.
        if path != "model.vocab" && tokens.saturating_mul(width) > ACTIVATION {
            let message =
                format!("{tokens} tokens at a time, {width} channels each, are more than any device holds");
            let problem = Diagnostic::error("step::train::size", message)
                .label(
                    origins.nearest("train.micro_batch"),
                    format!("{} sequences", recipe.train.micro_batch),
                )
                .label(origins.span("data.sequence"), format!("{} tokens each", recipe.data.sequence))
                .label(origins.span(&path), name);
            sink.push(
                problem.help("a smaller `micro_batch`: gradients accumulate until `global_batch` is reached"),
            );
            return;
        }
    }
}
