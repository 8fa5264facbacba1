//! Files written and read back, a checkpoint of another program, and every way a file can be wrong.

mod audit;
mod read;

use super::{Encoding, Folder, Output, write};
use crate::base::DType;
use crate::diag::Diagnostic;
use half::{bf16, f16};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn output(name: &str, dtype: DType, shape: &[u64]) -> Output {
    Output { name: name.into(), dtype, shape: shape.to_vec() }
}

fn value(i: usize) -> f32 {
    (i as f32 - 50.0) * 0.3
}

/// Writes tensors whose element `i` is `value(i)`.
fn save(path: &Path, tensors: &[Output]) {
    write(path, tensors, |tensor, writer| {
        let values: Vec<f32> = (0..tensor.elements() as usize).map(value).collect();
        values.chunks(7).try_for_each(|part| writer.write(part))
    })
    .unwrap();
}

fn empty_folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A file with the given header text and bytes of data.
fn raw(folder: &TempDir, header: &str, data: usize) -> PathBuf {
    let path = folder.path().join("raw.safetensors");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    fs::write(&path, bytes).unwrap();
    path
}

#[track_caller]
fn refused(path: &Path, part: &str) -> Diagnostic {
    let error = Folder::open(path).expect_err("opened");
    assert!(error.message.contains(part), "{}", error.message);
    error
}

#[test]
fn what_is_written_is_read_back_by_range() {
    let folder = empty_folder();
    let path = folder.path().join("model.safetensors");
    // Longer than the buffers of reader and writer.
    let tensors = [
        output("c", DType::F32, &[3, 5]),
        output("a", DType::Bf16, &[70_001]),
        output("b", DType::F16, &[2, 3, 4]),
        output("none", DType::F32, &[0, 8]),
        output("scalar", DType::F32, &[]),
    ];
    save(&path, &tensors);
    let read = Folder::open(folder.path()).unwrap();
    assert!(read.names().eq(["a", "b", "c", "none", "scalar"]));
    for tensor in &tensors {
        let info = read.tensor(&tensor.name).unwrap();
        assert_eq!((info.encoding, &info.shape), (Encoding::Known(tensor.dtype), &tensor.shape));
        let elements = tensor.elements();
        for range in [0..elements, elements / 3..elements, elements / 2..elements / 2] {
            let mut out = vec![f32::NAN; (range.end - range.start) as usize];
            let bytes = read.read_elements(&tensor.name, range.clone(), &mut out).unwrap();
            assert_eq!(bytes, out.len() as u64 * tensor.dtype.size());
            for (i, &x) in (range.start as usize..).zip(&out) {
                let expected = match tensor.dtype {
                    DType::Bf16 => bf16::from_f32(value(i)).to_f32(),
                    DType::F16 => f16::from_f32(value(i)).to_f32(),
                    _ => value(i),
                };
                assert_eq!(x, expected, "{} {i}", tensor.name);
            }
        }
    }
    for (name, range, len) in [("c", 0..16, 16), ("c", 0..3, 4), ("x", 0..1, 1)] {
        assert_eq!(
            read.read_elements(name, range, &mut vec![0.0; len]).unwrap_err().code,
            "step::weights::read"
        );
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_checkpoint_of_another_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama");
    let read = Folder::open(&folder).unwrap();
    let info = read.tensor("model.embed_tokens.weight").unwrap();
    assert_eq!((info.encoding, &info.shape[..]), (Encoding::Known(DType::F32), &[512, 64][..]));
    let mut row = [0.0; 64];
    let bytes = read.read_elements("model.embed_tokens.weight", 640..704, &mut row).unwrap();
    let file = fs::read(folder.join("model.safetensors")).unwrap();
    let start = info.range.start as usize + 640 * 4;
    assert_eq!(bytemuck::cast_slice::<f32, u8>(&row), &file[start..start + 256]);
    assert!(row.iter().any(|&x| x != 0.0));
    assert_eq!((bytes, read.bytes() < file.len() as u64), (256, true));
}

#[test]
fn shards_and_their_index() {
    let folder = empty_folder();
    let path = folder.path();
    save(&path.join("one.safetensors"), &[output("a", DType::F32, &[2])]);
    save(&path.join("two.safetensors"), &[output("b", DType::Bf16, &[4])]);
    let index = |map: &str| {
        let text = format!("{{\"metadata\": {{\"total_size\": 16}}, \"weight_map\": {map}}}");
        fs::write(path.join("model.safetensors.index.json"), text).unwrap();
    };
    assert!(refused(path, "holds neither").help.unwrap().contains("one.safetensors"));
    index(r#"{"a": "one.safetensors", "b": "two.safetensors"}"#);
    let read = Folder::open(path).unwrap();
    let mut out = [0.0; 2];
    read.read_elements("b", 2..4, &mut out).unwrap();
    assert_eq!(out, [2, 3].map(|i| bf16::from_f32(value(i)).to_f32()));

    index(r#"{"a": "one.safetensors", "b": "one.safetensors"}"#);
    refused(path, "`b` is not in one.safetensors");
    index(r#"{"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"}"#);
    refused(path, "`c` is not in two.safetensors");
    index(r#"{"a": "one.safetensors", "b": "three.safetensors"}"#);
    refused(path, "1 of 2 shards are missing, the first is three.safetensors");
    // The index of another download: all its tensors lie in files that it does not name.
    index(r#"{"a": "model-1-of-1.safetensors", "b": "model-1-of-1.safetensors"}"#);
    let error = refused(path, "1 of 1 shards are missing");
    assert!(error.help.unwrap().contains("2 other files beside it hold all its tensors; delete the index"));
    fs::remove_file(path.join("model.safetensors.index.json")).unwrap();
    for (shard, name) in [("one", "model-1-of-2"), ("two", "model-2-of-2")] {
        fs::copy(
            path.join(shard).with_extension("safetensors"),
            path.join(name).with_extension("safetensors"),
        )
        .unwrap();
    }
    assert!(Folder::open(path).unwrap().names().eq(["a", "b"]));
    index(r#"{"a": "../one.safetensors"}"#);
    refused(path, "outside the folder");
    index(r#"[]"#);
    refused(path, "not an index of shards");
    save(&path.join("two.safetensors"), &[output("b", DType::F32, &[4]), output("d", DType::F32, &[1])]);
    index(r#"{"a": "one.safetensors", "b": "two.safetensors"}"#);
    refused(path, "`d` of");
    save(&path.join("two.safetensors"), &[output("a", DType::F32, &[4])]);
    refused(path, "`a` is both in");
}

#[test]
fn foreign_files_are_recognised() {
    let folder = empty_folder();
    let path = folder.path().join("file.safetensors");
    assert_eq!(refused(&path, "cannot open").code, "step::weights::open");
    let cases: [(&[u8], &str); 8] = [
        (b"", "0 bytes are too few"),
        (b"\x10\0\0\0", "4 bytes are too few"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"PK\x03\x04\0\0\0\0\0\0\0\0", "zip archive"),
        (b"\x80\x02}q\0X\x05\0\0\0model", "pickle"),
        (b"GGUF\x03\0\0\0\0\0\0\0\0", "GGUF"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff{}", "the header claims 18446744073709551615 bytes"),
    ];
    for (content, part) in cases {
        fs::write(&path, content).unwrap();
        assert_eq!(refused(&path, part).code, "step::weights::file");
    }
    fs::write(folder.path().join("pytorch_model.bin"), b"PK").unwrap();
    fs::remove_file(&path).unwrap();
    assert!(refused(folder.path(), "holds neither").help.unwrap().contains("convert"));
    // A header of 0x280 bytes begins like a pickle and is none.
    raw(&folder, &format!("{{{}}}", " ".repeat(0x280 - 2)), 0);
    Folder::open(&folder.path().join("raw.safetensors")).unwrap();
}

#[test]
fn headers_are_held_against_the_file() {
    let folder = empty_folder();
    let tensor = |name: &str, dtype: &str, shape: &str, begin: u64, end: u64| {
        format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{begin},{end}]}}")
    };
    let cases = [
        ("{\"a\":".to_owned(), 0, "not what the format asks for"),
        (format!("{{{}}}", tensor("a", "F31", "[1]", 0, 4)), 4, "tensor `a`: unknown element type `F31`"),
        (
            format!("{{{}}}", tensor("a", "F32", "[2]", 0, 4)),
            4,
            "tensor `a`: bytes 0..4 do not hold a F32 tensor",
        ),
        (format!("{{{}}}", tensor("a", "F32", "[1]", 4, 0)), 4, "tensor `a`: bytes 4..0 do not hold"),
        (format!("{{{}}}", tensor("a", "F32", "[4294967296,4294967296]", 0, 0)), 0, "tensor `a`: bytes 0..0"),
        (format!("{{{}}}", tensor("a", "F32", "[2]", 0, 8)), 4, "tensor `a`: its data ends at byte 8"),
        (format!("{{{}}}", tensor("a", "F32", "[1]", 0, 4)), 8, "4 bytes follow"),
        (format!("{{{}}}", tensor("a", "F32", "[1]", 4, 8)), 8, "tensor `a` leaves a hole"),
        (
            format!("{{{},{}}}", tensor("a", "F32", "[2]", 0, 8), tensor("b", "F32", "[1]", 4, 8)),
            8,
            "tensor `b` overlaps",
        ),
        (
            format!("{{{},{}}}", tensor("a", "F32", "[1]", 0, 4), tensor("a", "F32", "[1]", 4, 8)),
            8,
            "tensor `a` is listed twice",
        ),
    ];
    for (header, data, part) in cases {
        let path = raw(&folder, &header, data);
        assert_eq!(refused(&path, part).code, "step::weights::file");
    }
    // Any prefix of a good file is an error, never a panic.
    let path = folder.path().join("model.safetensors");
    save(&path, &[output("a", DType::F32, &[3]), output("b", DType::F16, &[2])]);
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        refused(&path, "");
    }
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = empty_folder();
    let path = folder.path().join("out.safetensors");
    fs::write(&path, "old").unwrap();
    let one = [output("a", DType::F32, &[4])];
    let short = write(&path, &one, |_, writer| writer.write(&[1.0; 3])).unwrap_err();
    assert!(short.message.contains("`a` lacks 1 elements"), "{}", short.message);
    let long = write(&path, &one, |_, writer| writer.write(&[1.0; 5])).unwrap_err();
    assert!(long.message.contains("more elements"), "{}", long.message);
    let twice = [one[0].clone(), one[0].clone()];
    assert!(write(&path, &twice, |_, writer| writer.write(&[1.0; 4])).unwrap_err().message.contains("twice"));
    let integers = [output("a", DType::I32, &[4])];
    assert!(write(&path, &integers, |_, _| Ok(())).unwrap_err().message.contains("i32"));
    assert!(write(&folder.path().join("none/out"), &one, |_, w| w.write(&[1.0; 4])).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
