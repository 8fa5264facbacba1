//! The shape rules of the instruction set: what a kernel may take for granted.

use super::ops::{Heads, Op};
use super::program::{Rows, View};

/// Says which operands of an operation do not fit together.
pub(super) fn check(op: &Op) -> Result<(), String> {
    match op {
        Op::Gather { shard, full, .. } => elements_divide(shard, full, "full"),
        Op::ReduceScatter { full, shard, .. } => elements_divide(&shard.view, full, "full"),
        Op::Free { .. } | Op::AllReduce { .. } | Op::CountTokens {} | Op::ReduceMetrics {} => Ok(()),
        Op::Exchange { counts, local, .. } => elements_divide(local, counts, "counts"),
        Op::Dispatch { rows, out, .. } | Op::Combine { rows, out, .. } => {
            same("columns of rows and out", rows.cols, out.cols)
        }
        Op::Embedding { table, ids, out, .. } => {
            same("columns of table and out", table.cols, out.cols)?;
            same_rows("ids", ids, "out", out)
        }
        Op::EmbeddingGrad { dy, ids, d_table, .. } => {
            same("columns of dy and d_table", dy.cols, d_table.view.cols)?;
            same_rows("ids", ids, "dy", dy)
        }
        Op::Softcap { .. } => Ok(()),
        Op::CrossEntropy { logits, labels, .. } => same_rows("logits", logits, "labels", labels),
        Op::Matmul { a, b, out, trans_a, trans_b } => {
            let (m, k) = transposed(a, *trans_a);
            let (k2, n) = transposed(b, *trans_b);
            same("inner dimensions of a and b", k, k2)?;
            same("rows of a and out", m, fixed(&out.view))?;
            same("columns of b and out", n, out.view.cols)
        }
        Op::ShiftTokens { x, y, .. } => same_shape("x", x, "y", &y.view),
        Op::ShiftLabels { labels, targets, .. } => same_shape("labels", labels, "targets", targets),
        Op::Concat { a, b, out: whole } | Op::Split { x: whole, a, b } => {
            same_rows("a", a, "the whole", whole)?;
            same_rows("b", b, "the whole", whole)?;
            same("columns of both and of the whole", a.cols.saturating_add(b.cols), whole.cols)
        }
        Op::Add { a, b, out } => {
            same_shape("a", a, "b", b)?;
            same_shape("a", a, "out", out)
        }
        Op::RmsNorm { x, gamma, y, rstd, .. } => {
            same_shape("x", x, "y", y)?;
            same("columns of x and elements of gamma", x.cols, elements(gamma))?;
            same("rows of x and elements of rstd", fixed(x), elements(rstd))
        }
        Op::RmsNormGrad { dy, x, rstd, gamma, dx, d_gamma, .. } => {
            same_shape("dy", dy, "x", x)?;
            same("elements of x and dx", elements(x), elements(&dx.view))?;
            same("columns of x and elements of gamma", x.cols, elements(gamma))?;
            same("columns of x and elements of d_gamma", x.cols, elements(&d_gamma.view))?;
            same("rows of x and elements of rstd", fixed(x), elements(rstd))
        }
        Op::Clip { x, y, .. } => same_shape("x", x, "y", y),
        Op::ClipGrad { dy, x, .. } => same_shape("dy", dy, "x", x),
        Op::RotaryPositionEmbedding { x, cos, sin, positions, heads, head_dim, from, .. } => {
            same_shape("cos", cos, "sin", sin)?;
            same_rows("x", x, "positions", positions)?;
            same("columns of x and heads", x.cols, heads.saturating_mul(*head_dim))?;
            at_most("rotary channels", cos.cols.saturating_mul(2).saturating_add(*from), *head_dim)
        }
        Op::LatentKeyValue { kv, rope, k, v, heads } => latent([kv, rope, k, v], *heads),
        Op::LatentKeyValueGrad { dk, dv, d_kv, d_rope, heads } => latent([d_kv, d_rope, dk, dv], *heads),
        Op::FlashAttentionScore { q, k, v, sinks, out, lse, heads } => {
            attention([q, k, v, out], lse, sinks.as_ref(), heads)
        }
        Op::FlashAttentionScoreGrad { dy, q, k, v, sinks, out, lse, dq, dk, dv, d_sinks, heads } => {
            attention([q, k, v, out], lse, sinks.as_ref(), heads)?;
            attention([dq, dk, dv, dy], lse, d_sinks.as_ref().map(|sum| &sum.view), heads)?;
            same("number of sinks and d_sinks", sinks.is_some() as u64, d_sinks.is_some() as u64)?;
            same_rows("q", q, "dq", dq)
        }
        Op::HeadGate { x, gate, y, heads, head_dim } => {
            same_shape("x", x, "y", y)?;
            gated(x, gate, *heads, *head_dim)
        }
        Op::HeadGateGrad { dy, x, gate, dx, d_gate, heads, head_dim } => {
            same_shape("x", x, "dx", dx)?;
            same_shape("x", x, "dy", dy)?;
            same_shape("gate", gate, "d_gate", d_gate)?;
            gated(x, gate, *heads, *head_dim)
        }
        Op::Glu { gate, up, scale, y, .. } => {
            same_shape("gate", gate, "up", up)?;
            same_shape("gate", gate, "y", y)?;
            scale.iter().try_for_each(|scale| per_row(scale, gate))
        }
        Op::GluGrad { gate, up, dy, scale, d_scale, .. } => {
            same_shape("gate", gate, "up", up)?;
            same_shape("gate", gate, "dy", dy)?;
            same("number of scale and d_scale", scale.is_some() as u64, d_scale.is_some() as u64)?;
            scale.iter().chain(d_scale).try_for_each(|scale| per_row(scale, gate))
        }
        Op::AddBias { x, bias, counts, scale } => {
            biased(x, bias, counts)?;
            scale.iter().try_for_each(|scale| per_row(scale, x))
        }
        Op::AddBiasGrad { dy, bias, counts, scale, d_bias, d_scale } => {
            biased(dy, bias, counts)?;
            same_shape("bias", bias, "d_bias", &d_bias.view)?;
            same("number of scale and d_scale", scale.is_some() as u64, d_scale.is_some() as u64)?;
            scale.iter().chain(d_scale).try_for_each(|scale| per_row(scale, dy))
        }
        Op::MoeGatingTopK { logits, bias, index, weight, groups, top_groups, .. } => {
            same("remainder of experts by groups", logits.cols.checked_rem(*groups).unwrap_or(1), 0)?;
            at_most("top_groups", *top_groups, *groups)?;
            at_most("top_k", index.cols, (logits.cols / groups).saturating_mul(*top_groups))?;
            same_shape("index", index, "weight", weight)?;
            same_rows("logits", logits, "index", index)?;
            at_most("top_k", index.cols, logits.cols)?;
            bias.iter().try_for_each(|bias| same("experts of logits and bias", logits.cols, elements(bias)))
        }
        Op::MoeGatingTopKGrad { logits, index, d_weight, d_logits, .. } => {
            same_shape("index", index, "d_weight", d_weight)?;
            same_shape("logits", logits, "d_logits", d_logits)?;
            same_rows("logits", logits, "index", index)
        }
        Op::MoeAuxLoss { logits, index, load, d_logits, sequence, .. } => {
            same_shape("logits", logits, "d_logits", d_logits)?;
            same_rows("logits", logits, "index", index)?;
            same("columns of logits and load", logits.cols, load.cols)?;
            same("tokens of all sequences", fixed(load).saturating_mul(*sequence), fixed(logits))
        }
        Op::MoeCountLoad { counts, load } => same_shape("counts", counts, "load", &load.view),
        Op::MoeUpdateBias { load, bias, .. } => same_shape("load", load, "bias", bias),
        Op::MoeTokenSort { index, position, source, .. } => {
            same("elements of index and position", elements(index), elements(position))?;
            same("elements of index and source", elements(index), elements(source))
        }
        Op::MoeTokenPermute { x, source, rows, top_k } => permuted(rows, source, x, *top_k),
        Op::MoeTokenUnpermute { rows, position, y, top_k } => permuted(rows, position, &y.view, *top_k),
        Op::MoeWeightPermute { weight, source, out } => {
            same("elements of weight and source", elements(weight), elements(source))?;
            same("elements of weight and out", elements(weight), elements(out))
        }
        Op::MoeWeightUnpermute { rows, position, weight } => {
            same("elements of rows and position", elements(rows), elements(position))?;
            same("elements of rows and weight", elements(rows), elements(weight))
        }
        Op::GroupedMatmul { x, w, counts, out, trans_w } => {
            same_rows("x", x, "out", &out.view)?;
            let (k, n) = (x.cols, out.view.cols);
            let cols = if *trans_w { k } else { n };
            same("columns of w", w.cols, cols)?;
            same("elements of w", elements(w), elements(counts).saturating_mul(k).saturating_mul(n))
        }
        Op::GroupedMatmulGrad { dy, x, counts, dw } => {
            same_rows("dy", dy, "x", x)?;
            same("columns of x and dw", x.cols, dw.view.cols)?;
            same(
                "elements of dw",
                elements(&dw.view),
                elements(counts).saturating_mul(dy.cols).saturating_mul(x.cols),
            )
        }
        Op::SumSquares { .. } => Ok(()),
        Op::ApplyAdamW { grad, param, m, v, .. } => {
            same_shape("grad", grad, "param", param)?;
            same_shape("grad", grad, "m", m)?;
            same_shape("grad", grad, "v", v)
        }
    }
}

fn same(what: &str, a: u64, b: u64) -> Result<(), String> {
    if a == b { Ok(()) } else { Err(format!("{what} differ: {a} and {b}")) }
}

fn at_most(what: &str, a: u64, most: u64) -> Result<(), String> {
    if a <= most { Ok(()) } else { Err(format!("{what}: {a} is more than {most}")) }
}

/// Rows known before it runs; none for routed rows, which only meet their like.
fn fixed(view: &View) -> u64 {
    match view.rows {
        Rows::Fixed(rows) => rows,
        Rows::Routed(_) => 0,
    }
}

fn elements(view: &View) -> u64 {
    fixed(view).saturating_mul(view.cols)
}

fn transposed(view: &View, transpose: bool) -> (u64, u64) {
    if transpose { (view.cols, fixed(view)) } else { (fixed(view), view.cols) }
}

fn same_rows(a_name: &str, a: &View, b_name: &str, b: &View) -> Result<(), String> {
    if a.rows == b.rows {
        return Ok(());
    }
    Err(format!("rows of {a_name} and {b_name} differ: {:?} and {:?}", a.rows, b.rows))
}

fn same_shape(a_name: &str, a: &View, b_name: &str, b: &View) -> Result<(), String> {
    same_rows(a_name, a, b_name, b)?;
    same(&format!("columns of {a_name} and {b_name}"), a.cols, b.cols)
}

fn per_row(scale: &View, rows: &View) -> Result<(), String> {
    same_rows("scale", scale, "the rows it scales", rows)?;
    same("columns of scale", scale.cols, 1)
}

/// A row of `bias` for every group of rows.
fn biased(x: &View, bias: &View, counts: &Option<View>) -> Result<(), String> {
    same("columns of rows and bias", x.cols, bias.cols)?;
    same("rows of bias and groups", fixed(bias), counts.as_ref().map_or(1, elements))
}

fn elements_divide(part: &View, whole: &View, name: &str) -> Result<(), String> {
    let (part, whole) = (elements(part), elements(whole));
    if whole == 0 && part == 0 || part > 0 && whole.is_multiple_of(part) {
        return Ok(());
    }
    Err(format!("{name} has {whole} elements, not a multiple of {part}"))
}

fn attention(
    [q, k, v, out]: [&View; 4],
    lse: &View,
    sinks: Option<&View>,
    heads: &Heads,
) -> Result<(), String> {
    let Heads { queries, keys, head_dim, value_dim, .. } = *heads;
    same_rows("q", q, "out", out)?;
    same_rows("k", k, "v", v)?;
    same_rows("q", q, "k", k)?;
    same("columns of q and heads", q.cols, queries.saturating_mul(head_dim))?;
    same("columns of k and heads", k.cols, keys.saturating_mul(head_dim))?;
    same("columns of v and heads", v.cols, keys.saturating_mul(value_dim))?;
    same("columns of out and heads", out.cols, queries.saturating_mul(value_dim))?;
    same("remainder of heads by key heads", queries.checked_rem(keys).unwrap_or(1), 0)?;
    sinks.iter().try_for_each(|sinks| same("elements of sinks and heads", elements(sinks), queries))?;
    same("elements of lse", elements(lse), fixed(q).saturating_mul(queries))
}

/// Channels of every head go somewhere, and those that heads share come from somewhere.
fn latent([kv, rope, k, v]: [&View; 4], heads: u64) -> Result<(), String> {
    for (name, view) in [("rope", rope), ("k", k), ("v", v)] {
        same_rows("kv", kv, name, view)?;
    }
    for (name, view) in [("kv", kv), ("k", k), ("v", v)] {
        let rest = view.cols.checked_rem(heads).unwrap_or(1);
        same(&format!("remainder of columns of {name} by heads"), rest, 0)?;
    }
    let shared = rope.cols.saturating_mul(heads);
    same(
        "columns of k and v, and of kv and rope",
        k.cols.saturating_add(v.cols),
        kv.cols.saturating_add(shared),
    )?;
    let some = [rope.cols, v.cols, k.cols.saturating_sub(shared)].iter().all(|cols| *cols > 0);
    if some { Ok(()) } else { Err("a head has no channels of its own".into()) }
}

fn gated(x: &View, gate: &View, heads: u64, head_dim: u64) -> Result<(), String> {
    same_rows("x", x, "gate", gate)?;
    same("columns of x and heads", x.cols, heads.saturating_mul(head_dim))?;
    same("columns of gate", gate.cols, heads)
}

fn permuted(rows: &View, order: &View, tokens: &View, top_k: u64) -> Result<(), String> {
    same("columns of rows and tokens", rows.cols, tokens.cols)?;
    same("rows of the permutation", fixed(rows), elements(order))?;
    same("rows of the permutation", fixed(rows), fixed(tokens).saturating_mul(top_k))
}
