//! Files that are not as they should be, each with the place and the words it is told with.

use super::*;

#[test]
fn a_bad_document_reaches_the_reader_with_its_place() {
    let cases: [(&str, Vec<u8>, &str, &str); 5] = [
        (
            "a.jsonl",
            b"{\"text\": \"w1\"}\n{\"text\": w2}\n".to_vec(),
            "step::data::json",
            "a.jsonl:2:10: not JSON",
        ),
        (
            "b.jsonl",
            b"{\"text\": \"w1\"}\n{\"body\": \"w2\"}\n".to_vec(),
            "step::data::column",
            "b.jsonl:2:1: no field `text`",
        ),
        (
            "c.jsonl",
            b"{\"text\": 3}\n".to_vec(),
            "step::data::column",
            "c.jsonl:1:1: field `text` is not a string",
        ),
        ("d.txt", b"w1 w2\nw3 \xff".to_vec(), "step::data::utf8", "d.txt:2:4: byte 0xff"),
        (
            "e.jsonl",
            b"{\"text\": \"\"}\n\n".to_vec(),
            "step::data::too_small",
            "0 tokens, one sequence needs 65",
        ),
    ];
    for (name, content, code, place) in cases {
        let folder = folder(&[(name, &content)]);
        let (found, message) = code_of(&config(folder.path(), name, 64));
        assert_eq!(found, code, "{message}");
        assert!(message.contains(place), "{message}");
    }
    // In the middle of a run: the sequences before it are still good, those after it are not.
    let mut text = jsonl(2000);
    text.push_str("broken\n");
    let folder = folder(&[("a.jsonl", text.as_bytes())]);
    let loader = Loader::open(&config(folder.path(), "a.jsonl", 8), 1).unwrap();
    loader.sequence(0, 0).unwrap();
    let error = loader.sequence(0, 5000).unwrap_err();
    assert!(error.message.contains("a.jsonl:2001:1: not JSON"), "{}", error.message);
}

#[test]
fn what_cannot_work_is_refused_at_the_start() {
    let folder = folder(&[
        ("a.txt", b"w1 w2 w3 w4"),
        ("empty.txt", b""),
        ("p.parquet", b"PAR1"),
        ("x.dat", b"w1"),
        ("lfs.json", b"version https://git-lfs.github.com/spec/v1\n"),
    ]);
    let path = folder.path();
    let expect = |config: Config, code: &str, part: &str| {
        let (found, message) = code_of(&config);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(part), "{message}");
    };
    expect(config(path, "*.jsonl", 2), "step::data::no_files", "no file matches");
    expect(config(path, "", 2), "step::data::no_files", "is a folder");
    expect(config(path, "[", 2), "step::data::no_files", "pattern");
    expect(config(path, "empty.txt", 2), "step::data::empty", "empty.txt is empty");
    expect(config(path, "*.parquet", 2), "step::data::parquet", "cannot read");
    expect(config(path, "x.dat", 2), "step::data::format", "x.dat");
    expect(config(path, "a.txt", 9), "step::data::too_small", "5 tokens, one sequence needs 10");
    let base = config(path, "a.txt", 2);
    expect(Config { vocab: 100, ..base.clone() }, "step::data::vocab", "101 token ids, the model only 100");
    expect(Config { eos: Some(500), ..base.clone() }, "step::data::vocab", "end-of-text token 500");
    expect(Config { tokenizer: path.join("none"), ..base.clone() }, "step::data::tokenizer", "none");
    expect(
        Config { tokenizer: path.join("lfs.json"), ..base.clone() },
        "step::data::tokenizer",
        "Git LFS pointer",
    );
    expect(Config { tokenizer: path.join("a.txt"), ..base.clone() }, "step::data::tokenizer", "a.txt");
    expect(Config { sources: Vec::new(), ..base.clone() }, "step::data::config", "0 sources");
    for weight in [0.0, -1.0, f64::NAN] {
        let sources = vec![SourceConfig { weight, ..source(path, "a.txt") }];
        expect(Config { sources, ..base.clone() }, "step::data::weight", "weight");
    }
}
