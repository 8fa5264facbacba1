//! Going on where the data is not what it was. Documents are single words, each in one file alone, so that a sequence tells where
//! its tokens come from: `1.txt` holds 1, 4, 7, …, `2.txt` 2, 5, 8, … and `3.txt` 3, 6, 9, …

use super::*;
use crate::data::Position;

/// Tokens of a sequence: five documents with their ends.
const SEQUENCE: usize = 10;

struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(folder(&[]));
        (1..=3).for_each(|kind| desk.holds(&format!("{kind}.txt"), kind, 0..33));
        desk
    }

    /// Writes the documents `numbers` of a kind.
    fn holds(&self, name: &str, kind: usize, numbers: impl Iterator<Item = usize>) {
        let text: Vec<_> = numbers.map(|i| format!("w{}", 3 * i + kind)).collect();
        fs::write(self.0.path().join(name), text.join("\n\n\n")).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.0.path().join(from), self.0.path().join(to)).unwrap();
    }

    /// Sources by their kinds and weights.
    fn config(&self, sources: &[(usize, f64)]) -> Config {
        let named = |&(kind, weight): &(usize, f64)| SourceConfig {
            name: kind.to_string(),
            weight,
            ..source(self.0.path(), &format!("{kind}*.txt"))
        };
        Config { sources: sources.iter().map(named).collect(), ..config(self.0.path(), "", SEQUENCE) }
    }
}

/// The documents of some sequences, by their tokens.
fn documents(loader: &Loader, sequences: std::ops::Range<u64>) -> Vec<u32> {
    let tokens = sequences.flat_map(|index| loader.sequence(0, index).unwrap().tokens.clone());
    tokens.filter(|&token| token != EOS).collect()
}

/// Those of one file.
fn of(kind: u32, documents: &[u32]) -> Vec<u32> {
    documents.iter().copied().filter(|token| token % 3 == kind % 3).collect()
}

/// The documents of four sequences, and where the data stands behind them.
fn begun(config: &Config) -> (Vec<u32>, Position) {
    let loader = Loader::open(config, 1).unwrap();
    (documents(&loader, 0..4), loader.position(4).unwrap())
}

/// The sources that have changed by their warnings, and the documents of the `count` sequences that follow.
fn gone_on(config: &Config, position: &Position, count: u64) -> (Vec<Option<String>>, Vec<u32>) {
    let loader = Loader::open_at(config, position, 1).unwrap();
    assert!(loader.changed().iter().all(|changed| changed.warning.code == "step::data::changed"));
    let changed = loader.changed().iter().map(|changed| changed.source.clone()).collect();
    (changed, documents(&loader, position.sequence..position.sequence + count))
}

/// All of a source in the order in which it comes alone.
fn alone(desk: &Desk, kind: usize, sequences: u64) -> Vec<u32> {
    documents(&Loader::open(&desk.config(&[(kind, 1.0)]), 1).unwrap(), 0..sequences)
}

#[test]
fn what_stays_goes_on_and_what_changes_begins_its_next_pass() {
    type Case<'a> = (&'a str, &'a dyn Fn(&Desk), &'a [(usize, f64)], &'a [usize]);
    let both = &[(1, 1.0), (2, 1.0)];
    // What happens between the two runs, the sources of the second, and those whose files are not what they were.
    let cases: [Case; 11] = [
        ("nothing", &|_| {}, both, &[]),
        ("a source more", &|_| {}, &[(1, 1.0), (2, 1.0), (3, 1.0)], &[]),
        ("a source less", &|_| {}, &[(2, 1.0)], &[]),
        ("another one in its place", &|_| {}, &[(3, 1.0), (2, 1.0)], &[]),
        ("another weight", &|_| {}, &[(1, 1.0), (2, 2.5)], &[]),
        ("sources in another order", &|_| {}, &[(2, 1.0), (1, 1.0)], &[]),
        ("a file of another name", &|desk| desk.rename("1.txt", "1-renamed.txt"), both, &[]),
        ("a file that has grown", &|desk| desk.holds("1.txt", 1, (0..33).chain([11])), both, &[1]),
        ("a file that has shrunk", &|desk| desk.holds("1.txt", 1, 0..20), both, &[1]),
        ("a file more", &|desk| desk.holds("1-more.txt", 1, 20..33), both, &[1]),
        ("as many other bytes", &|desk| desk.holds("1.txt", 1, (0..33).rev()), both, &[1]),
    ];
    for (what, happens, sources, others) in cases {
        let desk = Desk::new();
        let order: Vec<_> = (1..=3).map(|kind| alone(&desk, kind, 6)).collect();
        let (seen, position) = begun(&desk.config(both));
        happens(&desk);
        let (changed, then) = gone_on(&desk.config(sources), &position, 8);
        let named: Vec<_> = others.iter().map(|kind| Some(kind.to_string())).collect();
        assert_eq!(changed, named, "{what}");
        for &(kind, _) in sources {
            let (seen, then) = (of(kind as u32, &seen), of(kind as u32, &then));
            assert!(then.len() >= 8, "{what}: {kind} goes on");
            let expected = match others.contains(&kind) {
                false => order[kind - 1][seen.len()..][..then.len().min(30 - seen.len())].to_vec(),
                true => {
                    let again = alone(&desk, kind, 14);
                    let pass = fs::read_dir(desk.0.path()).unwrap().map(|entry| entry.unwrap().path());
                    let pass = pass.filter(|path| {
                        path.file_name().unwrap().to_string_lossy().starts_with(&kind.to_string())
                    });
                    let pass: usize =
                        pass.map(|path| fs::read_to_string(path).unwrap().matches('w').count()).sum();
                    again[pass..][..then.len()].to_vec()
                }
            };
            assert_eq!(then[..expected.len()], expected, "{what}: {kind}");
        }
    }
}

#[test]
fn files_in_another_order_are_other_files() {
    let desk = Desk::new();
    desk.holds("1a.txt", 1, 0..15);
    desk.holds("1b.txt", 1, 15..30);
    fs::remove_file(desk.0.path().join("1.txt")).unwrap();
    let (_, position) = begun(&desk.config(&[(1, 1.0)]));
    desk.rename("1a.txt", "1c.txt");
    assert_eq!(gone_on(&desk.config(&[(1, 1.0)]), &position, 1).0, [Some("1".to_owned())]);
    desk.rename("1c.txt", "1a.txt");
    assert!(gone_on(&desk.config(&[(1, 1.0)]), &position, 1).0.is_empty());
}

#[test]
fn shares_are_counted_from_the_change_on() {
    let desk = Desk::new();
    let (_, position) = begun(&desk.config(&[(1, 1.0), (2, 1.0)]));
    let waiting = 1.0; // a document that had been drawn by the weights of before
    for sources in [&[(1, 1.0), (2, 3.0)][..], &[(1, 1.0), (3, 1.0)], &[(1, 1.0), (2, 1.0), (3, 2.0)]] {
        let (_, then) = gone_on(&desk.config(sources), &position, 16);
        let total: f64 = sources.iter().map(|(_, weight)| weight).sum();
        for &(kind, weight) in sources {
            let wanted = then.len() as f64 * weight / total;
            let got = of(kind as u32, &then).len() as f64;
            assert!((got - wanted).abs() <= 1.0 + waiting, "{sources:?}: {got} of {kind}, {wanted} wanted");
        }
    }
    // How many passes a run is, is judged by all that has been drawn.
    let loader = Loader::open_at(&desk.config(&[(1, 1.0), (3, 1.0)]), &position, 1).unwrap();
    let passes = loader.statistics().passes(10 * 66 * 2);
    assert!((8.0..12.0).contains(&passes), "{passes}");
}

#[test]
fn by_other_policies_what_waits_is_left_out_and_nothing_comes_twice() {
    let text: Vec<_> = (1..100).map(|i| format!("w{i}")).collect();
    let folder = folder(&[("a.txt", text.join("\n\n\n").as_bytes())]);
    for (before, after) in [(Overlong::Split, Overlong::Drop), (Overlong::Truncate, Overlong::Split)] {
        let with = |overlong| {
            let config = config(folder.path(), "a.txt", SEQUENCE);
            Config { policy: Policy { overlong, ..config.policy }, ..config }
        };
        let loader = Loader::open(&with(before), 1).unwrap();
        let seen = documents(&loader, 0..2);
        let position = loader.position(2).unwrap();
        let (changed, mut then) = gone_on(&with(after), &position, 2);
        assert_eq!(changed, [None]);
        then.extend(&seen);
        then.sort_unstable();
        assert!(then.is_sorted_by(|a, b| a < b), "{before:?} to {after:?}: {then:?}");
    }
}

#[test]
fn by_other_policies_the_rest_of_a_document_is_left() {
    let long: String = (0..700_000).map(|i| format!("w{} ", 1 + i % 30)).collect();
    let folder = folder(&[("a.txt", format!("{long}\n\n\nw40 w41\n\n\nw42 w43").as_bytes())]);
    let split = config(folder.path(), "a.txt", 10);
    let drop = Config { policy: Policy { overlong: Overlong::Drop, ..split.policy }, ..split.clone() };
    // Somewhere in the long document, whenever its turn is.
    let loader = Loader::open(&split, 1).unwrap();
    let inside = (0..).find(|&index| !loader.sequence(0, index).unwrap().tokens.contains(&EOS)).unwrap();
    let position = loader.position(inside + 1).unwrap();
    let at = position.sequence;
    let loader = Loader::open_at(&drop, &position, 1).unwrap();
    let all: Vec<_> = (at..at + 3).map(|index| loader.sequence(0, index).unwrap()).collect();
    assert!(
        all.iter().all(|sequence| sequence.tokens.iter().all(|token| !(1..=30).contains(token))),
        "{all:?}"
    );
    // And from there it goes on exactly.
    let position = loader.position(at + 2).unwrap();
    assert_eq!(Loader::open_at(&drop, &position, 1).unwrap().sequence(0, at + 2).unwrap(), all[2]);
}
