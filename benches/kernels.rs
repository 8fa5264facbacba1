//! Speed of the CPU kernels at the sizes of a laptop-sized model, on all cores: `cargo bench --bench
//! kernels`.
//!
//! Products and attention are reported in multiplications and additions a second, the rest in bytes moved
//! (each operand read and each result written once); the first group measures what the memory itself gives.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use stepc::kernels::*;

const TOKENS: usize = 2048;
const HIDDEN: usize = 256;
const INNER: usize = 704;

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 % 2003) as f32 / 1001.5) - 1.0).collect()
}

fn operations(n: usize) -> Throughput {
    Throughput::Elements(n as u64)
}

fn floats(n: usize) -> Throughput {
    Throughput::Bytes(4 * n as u64)
}

fn memory(c: &mut Criterion) {
    let mut group = c.benchmark_group("memory");
    let n = 1 << 23;
    let (x, mut y) = (values(n), vec![0.0; n]);
    group.throughput(floats(2 * n));
    group.bench_function("copy 32 MiB", |b| b.iter(|| copy(&mut y, black_box(&x))));
    group.throughput(floats(3 * n));
    group.bench_function("add_assign 32 MiB", |b| b.iter(|| add_assign(&mut y, black_box(&x))));
    group.throughput(floats(n));
    group.bench_function("sum_squares 32 MiB", |b| b.iter(|| sum_squares(black_box(&x))));
}

fn products(c: &mut Criterion) {
    let mut group = c.benchmark_group("matmul");
    for (m, n, k) in [(TOKENS, INNER, HIDDEN), (TOKENS, HIDDEN, INNER), (512, 512, 512)] {
        let (a, b, mut out) = (values(m * k), values(k * n), vec![0.0; m * n]);
        group.throughput(operations(2 * m * n * k));
        for (name, trans_a, trans_b) in [("nn", false, false), ("nt", false, true), ("tn", true, false)] {
            group.bench_function(BenchmarkId::new(name, format!("{m}x{n}x{k}")), |bench| {
                bench.iter(|| matmul(&mut out, black_box(&a), &b, m, n, k, trans_a, trans_b, false));
            });
        }
    }
    group.finish();

    let mut group = c.benchmark_group("grouped");
    let (experts, rows) = (16, 4 * TOKENS);
    let counts: Vec<u32> = (0..experts).map(|e| if e % 2 == 0 { 300 } else { 724 }).collect();
    let (x, y) = (values(rows * HIDDEN), values(rows * 64));
    let w = values(experts * 64 * HIDDEN);
    let (mut out, mut dw) = (vec![0.0; rows * 64], vec![0.0; w.len()]);
    group.throughput(operations(2 * rows * 64 * HIDDEN));
    group.bench_function("forward", |b| {
        b.iter(|| grouped_matmul(&mut out, black_box(&x), &w, &counts, 64, HIDDEN, true, false));
    });
    group.bench_function("weight gradient", |b| {
        b.iter(|| grouped_matmul_weight_grad(&mut dw, black_box(&y), &x, &counts, 64, HIDDEN, false));
    });
}

fn attention(c: &mut Criterion) {
    let mut group = c.benchmark_group("attention");
    let (tokens, segments) = (TOKENS, [0, 512, 1024, 1536, 2048]);
    for (heads, kv_heads, head_dim, window) in
        [(4, 2, 64, None), (6, 2, 64, Some(128)), (12, 1, 128, Some(512))]
    {
        let scale = 1.0 / (head_dim as f32).sqrt();
        let shape =
            Attention { heads, kv_heads, head_dim, value_dim: head_dim, window, scale, softcap: None };
        let (q, k, v) = (
            values(tokens * heads * head_dim),
            values(tokens * kv_heads * head_dim),
            values(tokens * kv_heads * head_dim),
        );
        let (mut o, mut lse) = (vec![0.0; q.len()], vec![0.0; tokens * heads]);
        let seen = |s: usize| (s + 1).min(window.unwrap_or(usize::MAX));
        let pairs: usize = 4 * (0..512).map(seen).sum::<usize>();
        let name = format!("{heads}/{kv_heads} heads of {head_dim}, window {window:?}");
        group.throughput(operations(4 * pairs * heads * head_dim));
        group.bench_function(BenchmarkId::new("forward", &name), |b| {
            b.iter(|| flash_attention(&shape, &mut o, &mut lse, black_box(&q), &k, &v, None, &segments));
        });
        let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        let d_o = values(q.len());
        group.throughput(operations(10 * pairs * heads * head_dim));
        group.bench_function(BenchmarkId::new("backward", &name), |b| {
            b.iter(|| {
                let (dq, dk, dv) = (&mut dq, &mut dk, &mut dv);
                flash_attention_grad(&shape, dq, dk, dv, black_box(&d_o), &q, &k, &v, &o, &lse, &segments);
            });
        });
    }
}

fn rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("rows");
    for (rows, cols) in [(TOKENS, HIDDEN), (6 * TOKENS, 64), (TOKENS, 4096)] {
        let n = rows * cols;
        let (x, gamma) = (values(n), values(cols));
        let (mut y, mut rstd) = (vec![0.0; n], vec![0.0; rows]);
        group.throughput(floats(2 * n));
        group.bench_function(BenchmarkId::new("rms_norm", format!("{rows}x{cols}")), |b| {
            b.iter(|| rms_norm(&mut y, &mut rstd, black_box(&x), &gamma, 1e-5, 1.0));
        });
        let (mut dx, mut dgamma) = (vec![0.0; n], vec![0.0; cols]);
        group.throughput(floats(3 * n));
        group.bench_function(BenchmarkId::new("rms_norm_grad", format!("{rows}x{cols}")), |b| {
            b.iter(|| {
                rms_norm_grad(&mut dx, &mut dgamma, black_box(&y), &x, &rstd, &gamma, 1.0, false, false);
            });
        });
    }

    let n = TOKENS * INNER;
    let (mut g, mut u, mut a) = (values(n), values(n), vec![0.0; n]);
    let silu = Glu { act: Act::Silu, limit: None };
    group.throughput(floats(3 * n));
    group.bench_function("swi_glu", |b| b.iter(|| glu(&mut a, black_box(&g), &u, silu, None)));
    group.throughput(floats(6 * n));
    group.bench_function("swi_glu_grad", |b| {
        b.iter(|| glu_grad(black_box(&mut g), &mut u, &mut a, silu, None, None, INNER));
    });

    let (heads, head_dim) = (6, 64);
    let half = head_dim / 2;
    let (mut cos, mut sin) = (vec![0.0; TOKENS * half], vec![0.0; TOKENS * half]);
    rope_table(&mut cos, &mut sin, 1e4, head_dim, RopeScaling::None, 1.0);
    let table = RopeTable { cos: &cos, sin: &sin, rot_dim: head_dim };
    let positions: Vec<u32> = (0..TOKENS as u32).collect();
    let mut x = values(TOKENS * heads * head_dim);
    group.throughput(floats(2 * x.len()));
    group.bench_function("rotary", |b| {
        let rotation = Rotation { heads, head_dim, from: 0, interleaved: false, inverse: false };
        b.iter(|| rotary(black_box(&mut x), &table, &positions, &rotation))
    });

    let vocabulary = 4096;
    let labels: Vec<i32> = (0..TOKENS as i32).collect();
    let mut logits = values(TOKENS * vocabulary);
    group.throughput(floats(2 * logits.len()));
    group.bench_function("cross_entropy", |b| {
        b.iter(|| cross_entropy(black_box(&mut logits), &labels, 1.0, None))
    });

    let (experts, k) = (16, 4);
    let logits = values(TOKENS * experts);
    let (mut index, mut weight) = (vec![0; TOKENS * k], vec![0.0; TOKENS * k]);
    let gating = Gating {
        k,
        score: Score::Sigmoid,
        normalize: true,
        scale: 3.0,
        groups: 1,
        top_groups: 1,
        group_score: GroupScore::BestTwo,
    };
    group.throughput(operations(TOKENS));
    group.bench_function("gating_top_k 4 of 16", |b| {
        b.iter(|| gating_top_k(&mut index, &mut weight, black_box(&logits), None, &gating));
    });
}

fn optimizer(c: &mut Criterion) {
    let mut group = c.benchmark_group("optimizer");
    let n = 1 << 23;
    let (mut p, g, mut m, mut v) = (values(n), values(n), vec![0.0; n], vec![0.0; n]);
    let step = AdamWStep {
        lr: 1e-4,
        beta1: 0.9,
        beta2: 0.95,
        eps: 1e-8,
        weight_decay: 0.1,
        step: 10,
        grad_scale: 1.0,
    };
    group.throughput(floats(7 * n));
    group.bench_function("adamw 32 MiB", |b| b.iter(|| adamw(&mut p, black_box(&g), &mut m, &mut v, &step)));
}

criterion_group!(benches, memory, products, attention, rows, optimizer);
criterion_main!(benches);
