//! What must hold whatever the coefficients are.

use super::*;
use stage::layers_of;

/// A small mixture of experts with two dense layers before it.
fn shape() -> Shape {
    let attention = AttentionShape::grouped(32, 8, 128);
    let dense = LayerShape { attention, ffn: FfnShape::Dense { inner: 11008.0 } };
    let moe = FfnShape::Moe { experts: 64.0, top_k: 8.0, inner: 1024.0, shared: 1024.0 };
    let runs =
        vec![Run { layer: dense, count: 2 }, Run { layer: LayerShape { ffn: moe, ..dense }, count: 14 }];
    Shape { hidden: 4096.0, vocab: 128000.0, tied: false, runs, mtp: Vec::new(), mtp_heads: 0 }
}

fn job() -> Job {
    Job {
        engine: Engine::TorchtitanFsdp2,
        layout: Layout {
            replicate: 1,
            fsdp: 64,
            ep: 8,
            ep_fsdp: 8,
            tp: 1,
            cp: 1,
            pp: 1,
            context: Context::Ring,
            chunks: 1,
            last_layers: None,
            sequence_parallel: false,
            loss_parallel: false,
            whole_experts: false,
        },
        micro_batch: 2,
        accumulate: 4,
        sequence: 4096,
        recompute: Recompute::Full,
        loss: Loss::Plain,
        optimizer: Optimizer::Fused,
        precision: Precision::MIXED,
        offload: Offload::default(),
        cross_entropy: CrossEntropy::Eager,
        compile: false,
        reshard: true,
        reduce_last: false,
        prefetch: 1,
        imbalance: 1.0,
    }
}

fn machine() -> Machine {
    let link = |bandwidth| Link { bandwidth, latency: 1e-5 };
    Machine {
        memory: 60e9,
        flops: 350e12,
        bandwidth: 1.6e12,
        devices_per_node: 8,
        intra: link(196e9),
        inter: link(25e9),
        reached: Reached { compute: 0.5, memory: 0.5, link: 0.7, launch: 50e-6 },
    }
}

#[test]
fn the_state_of_a_shard_is_sixteen_bytes_a_parameter() {
    let (shape, job) = (shape(), job());
    let update = Memory::of(&shape, &job).moments[3];
    let expected = 16.0 * shape.params() / 64.0;
    assert!((update.total() / expected - 1.0).abs() < 1e-3, "{} of {expected}", update.total());
    let foreach = Memory::of(&shape, &Job { optimizer: Optimizer::Foreach, ..job }).moments[3];
    assert!((foreach.total() / update.total() - 20.0 / 16.0).abs() < 1e-3);
    let host = Offload { optimizer: true, ..Offload::default() };
    assert_eq!(Memory::of(&shape, &Job { offload: host, ..job }).moments[3].optimizer, 0.0);
}

#[test]
fn keeping_less_needs_less_and_takes_longer() {
    let (shape, machine) = (shape(), machine());
    let of = |recompute| Estimate::of(&shape, &Job { recompute, ..job() }, &machine);
    let [none, selective, full] = [Recompute::None, Recompute::Selective, Recompute::Full].map(of);
    let kept = |e: &Estimate| e.memory.moments[0].activations + e.memory.moments[0].dispatch;
    assert!(kept(&none) > kept(&selective) && kept(&selective) > kept(&full));
    assert!(none.memory.allocated() > full.memory.allocated());
    assert!(none.time.step < full.time.step);
    let chunked = Memory::of(&shape, &Job { loss: Loss::Chunks(8), ..job() });
    assert!(chunked.moments[0].logits < full.memory.moments[0].logits / 3.0);
}

#[test]
fn more_ranks_never_need_more_each() {
    let shape = shape();
    let mut before = f64::MAX;
    for fsdp in [16, 32, 64, 128] {
        let layout = Layout { fsdp, ep_fsdp: fsdp / 8, ..job().layout };
        let now = Memory::of(&shape, &Job { layout, ..job() }).reserved();
        assert!(now < before, "{fsdp}: {now}");
        before = now;
    }
}

#[test]
fn uneven_experts_cost_memory_and_time() {
    let (shape, machine) = (shape(), machine());
    let even = Estimate::of(&shape, &job(), &machine);
    let uneven = Estimate::of(&shape, &Job { imbalance: 2.0, ..job() }, &machine);
    let (a, b) = (&even.memory.moments[1], &uneven.memory.moments[1]);
    assert!((b.dispatch / a.dispatch - 2.0).abs() < 1e-9);
    assert_eq!((a.parameters, a.logits), (b.parameters, b.logits));
    assert!(uneven.time.step > even.time.step && uneven.time.exposed > even.time.exposed);
}

#[test]
fn stages_share_all_layers() {
    let shape = shape();
    for pp in 1..=16 {
        for last_layers in [None, Some(1)] {
            let layout = Layout { pp, last_layers: last_layers.filter(|_| pp > 1), ..job().layout };
            let stages = (0..pp).map(|i| layers_of(&shape, &layout, i).map(|run| run.count).sum::<u64>());
            assert_eq!(stages.sum::<u64>(), 16, "{pp} stages");
        }
    }
}

#[test]
fn a_pipeline_waits_less_with_more_micro_batches() {
    let (shape, machine) = (shape(), machine());
    let share = |accumulate, chunks| {
        let layout = Layout { pp: 4, fsdp: 16, ep_fsdp: 2, chunks, ..job().layout };
        let time = Time::of(&shape, &Job { layout, accumulate, ..job() }, &machine);
        assert!(time.exposed <= time.communication && time.mfu() < 1.0);
        time.bubble / time.step
    };
    assert!(share(8, 1) > share(32, 1) && share(8, 1) > share(8, 2));
    assert_eq!(Time::of(&shape, &job(), &machine).bubble, 0.0);
}

#[test]
fn the_peak_is_the_largest_moment_and_its_categories_add_up() {
    let memory = Memory::of(&shape(), &job());
    let (_, peak) = memory.peak();
    assert!(memory.moments.iter().all(|m| m.total() <= peak.total()));
    assert!(peak.categories().iter().all(|(_, bytes)| *bytes >= 0.0));
    let shown: f64 = memory.categories(peak).iter().map(|(_, bytes)| bytes).sum();
    assert!((shown / memory.needed() - 1.0).abs() < 1e-12);
    assert!(memory.allocated() <= memory.reserved() && memory.reserved() <= memory.used());
    let machine = machine();
    assert!(
        memory.fits(&machine, 0.0)
            && !memory.fits(&Machine { memory: memory.needed() - 1.0, ..machine }, 0.0)
    );
}

#[test]
fn muon_keeps_one_moment_of_a_matrix_and_computes_for_it() {
    let (shape, machine) = (shape(), machine());
    let of = |optimizer| Estimate::of(&shape, &Job { optimizer, ..job() }, &machine);
    let [adamw, muon] = [Optimizer::Fused, Optimizer::Muon { iterations: 5 }].map(of);
    let share = muon.memory.moments[3].optimizer / adamw.memory.moments[3].optimizer;
    // Embedding and head are AdamW's: 7 % of these parameters.
    let tables = 2.0 * shape.vocab * shape.hidden / shape.params();
    assert!((share - (0.5 + tables / 2.0)).abs() < 1e-3, "{share}");
    assert!(muon.time.optimizer > adamw.time.optimizer && muon.time.exposed > adamw.time.exposed);
}

#[test]
fn what_is_offloaded_is_not_on_the_device() {
    let (shape, machine) = (shape(), machine());
    let offload = Offload { optimizer: true, params: true, activations: false };
    let off = Estimate::of(&shape, &Job { offload, ..job() }, &machine);
    assert!(off.memory.moments.iter().all(|m| m.parameters + m.optimizer + m.gradients == 0.0));
    assert!(off.time.step > Estimate::of(&shape, &job(), &machine).time.step);
}

#[test]
fn nothing_gathered_ahead_takes_less_memory_and_more_time() {
    let (shape, machine) = (shape(), machine());
    let of = |prefetch| Estimate::of(&shape, &Job { prefetch, ..job() }, &machine);
    let [none, one, two] = [0, 1, 2].map(of);
    let gathered = |e: &Estimate| e.memory.moments[1].gathered;
    assert_eq!(gathered(&one) / gathered(&none), 1.5);
    assert_eq!(gathered(&two) / gathered(&none), 2.0);
    assert!(none.time.exposed > one.time.exposed && one.time == two.time);
}

#[test]
fn a_ring_hides_what_ulysses_waits_for() {
    let (shape, machine) = (shape(), machine());
    let of = |context, cp| {
        let layout = Layout { cp, context, ..job().layout };
        Estimate::of(&shape, &Job { layout, sequence: 65536, ..job() }, &machine)
    };
    let [ring, ulysses] = [Context::Ring, Context::Ulysses].map(|context| of(context, 8));
    assert!(ring.time.exposed < ulysses.time.exposed && ring.memory.moments[1].buffers > 0.0);
    assert_eq!(of(Context::Ring, 1), of(Context::Ulysses, 1), "with one rank there is nothing to exchange");
    // Every rank needs a key head: 8 of them over 16 ranks are repeated.
    let sent = |cp| of(Context::Ulysses, cp).memory.moments[1].buffers * cp as f64;
    assert!(sent(16) > sent(8));
}
