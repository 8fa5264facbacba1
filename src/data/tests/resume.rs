//! The same sequences from anywhere, whoever asks and however many threads prepare them.

use super::chat::chats;
use super::*;
use crate::data::Position;
use proptest::prelude::*;

fn policy(overlong: Overlong, config: Config) -> Config {
    Config { policy: Policy { overlong, ..config.policy }, ..config }
}

/// Goes on at `index` as a run does that has stopped there: through the position's own text.
fn resumed(config: &Config, index: u64, count: u64) -> Vec<Arc<Sequence>> {
    let loader = Loader::open(config, 1).unwrap();
    (0..index).for_each(|index| drop(loader.sequence(0, index).unwrap()));
    let text = ron::to_string(&loader.position(index).unwrap()).unwrap();
    drop(loader);
    let position: Position = ron::from_str(&text).unwrap();
    let loader = Loader::open_at(config, &position, 1).unwrap();
    assert_eq!(loader.position(index).unwrap(), position);
    (index..index + count).map(|index| loader.sequence(0, index).unwrap()).collect()
}

#[test]
fn a_run_goes_on_where_it_stopped() {
    let text = jsonl(300);
    let long: String = (0..90_000).map(|i| format!("w{} ", 1 + i % 99)).collect();
    let folder = folder(&[
        ("a.jsonl", text.as_bytes()),
        ("b.jsonl.zst", &zstd::encode_all(text.as_bytes(), 1).unwrap()),
        ("c.txt", long.as_bytes()),
    ]);
    let mixed = Config {
        sources: vec![
            source(folder.path(), "a.jsonl"),
            SourceConfig { weight: 0.5, ..source(folder.path(), "b.jsonl.zst") },
            SourceConfig { weight: 2.0, ..source(folder.path(), "c.txt") },
        ],
        ..config(folder.path(), "", 4096)
    };
    let cases = [
        ("lines", config(folder.path(), "a.jsonl", 33)),
        ("mixed", mixed),
        ("whole", policy(Overlong::Drop, config(folder.path(), "a.jsonl", 33))),
        ("conversations", chats("headers.jsonl", "headers_unmarked.jinja")),
        (
            "columns",
            policy(Overlong::Truncate, Config { sequence: 64, ..chats("chat.parquet", "headers.jinja") }),
        ),
    ];
    for (name, config) in cases {
        let all = read(&config, 0, 70);
        for index in [0, 1, 2, 13, 50] {
            assert_eq!(resumed(&config, index, 20), all[index as usize..][..20], "{name} at {index}");
        }
    }
}

#[test]
fn a_position_is_known_for_every_step_and_for_no_other_data() {
    let text = jsonl(100);
    let folder = folder(&[("a.jsonl", text.as_bytes())]);
    let config = config(folder.path(), "a.jsonl", 16);
    let loader = Loader::open(&config, 2).unwrap();
    // Two ranks, four sequences a step; rank 1 is a step behind.
    (0..8).step_by(2).for_each(|index| drop(loader.sequence(0, index).unwrap()));
    (1..8).step_by(2).for_each(|index| drop(loader.sequence(1, index).unwrap()));
    let position = loader.position(8).unwrap();
    assert_eq!(position.sequence, 8);
    assert_eq!(loader.position(2).unwrap_err().code, "step::data::order");
    for other in [Config { seed: 1, ..config.clone() }, Config { sequence: 17, ..config.clone() }] {
        assert_eq!(Loader::open_at(&other, &position, 1).err().map(|e| e.code), Some("step::data::position"));
    }
    write_tokenizer_with(folder.path(), "[UNKNOWN]");
    assert_eq!(Loader::open_at(&config, &position, 1).err().map(|e| e.code), Some("step::data::position"));
    write_tokenizer(folder.path());
    // Ranks, threads and what is prepared ahead are free to change.
    let moved = Config { workers: 7, ahead: 1, ..config };
    assert!(Loader::open_at(&moved, &position, 5).unwrap().changed().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: proptest::test_runner::RngSeed::Fixed(5), ..Default::default() })]

    #[test]
    fn any_ranks_threads_and_start_give_the_same_sequences(
        documents in 5usize..60,
        length in 2usize..60,
        workers in 1usize..6,
        ahead in 1u64..40,
        ranks in 1u64..5,
        start in 0u64..30,
        whole in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let (text, other) = (jsonl(documents), jsonl(documents / 2 + 1));
        let folder = folder(&[("a.jsonl", text.as_bytes()), ("b.jsonl", other.as_bytes())]);
        let sources = vec![
            source(folder.path(), "a.jsonl"),
            SourceConfig { name: "b".into(), weight: 1.7, ..source(folder.path(), "b.jsonl") },
        ];
        let base = Config { sources, seed, workers: 1, ..config(folder.path(), "", length) };
        let base = policy(if whole { Overlong::Truncate } else { Overlong::Split }, base);
        let Ok(loader) = Loader::open(&base, 1) else { return Ok(()) };
        let expected: Vec<_> = (0..start + 12).map(|index| loader.sequence(0, index).unwrap()).collect();
        prop_assert_eq!(&resumed(&base, start, 12), &expected[start as usize..].to_vec());
        let loader = Loader::open(&Config { workers, ahead, ..base }, ranks as usize).unwrap();
        for rank in 0..ranks {
            for index in (rank..start + 12).step_by(ranks as usize) {
                prop_assert_eq!(&loader.sequence(rank as usize, index).unwrap(), &expected[index as usize]);
            }
        }
    }
}
