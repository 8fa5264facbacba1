//! What a model needs against what a checkpoint holds.

use super::{empty_folder, output, raw, save};
use crate::base::DType;
use crate::diag::Diagnostic;
use crate::weights::{Audit, Folder, Needs};

fn needs(tensors: &[(&str, &[u64])]) -> Needs {
    let tensors = tensors.iter().map(|(name, shape)| (name.to_string(), shape.to_vec(), false));
    Needs { tensors: tensors.collect(), ..Needs::default() }
}

/// A checkpoint of f32 tensors.
fn folder(tensors: &[(&str, &[u64])]) -> (tempfile::TempDir, Folder) {
    let folder = empty_folder();
    let path = folder.path().join("model.safetensors");
    let outputs: Vec<_> = tensors.iter().map(|(name, shape)| output(name, DType::F32, shape)).collect();
    save(&path, &outputs);
    let read = Folder::open(&path).unwrap();
    (folder, read)
}

#[track_caller]
fn refused(have: &[(&str, &[u64])], want: &[(&str, &[u64])]) -> Diagnostic {
    folder(have).1.audit(&needs(want)).unwrap_err()
}

const NAMES: [&str; 7] = ["l.0.q", "l.1.q", "l.2.q", "l.3.q", "l.4.q", "l.5.q", "norm"];

#[test]
fn everything_is_needed_kept_or_ignored() {
    let all = NAMES.map(|name| (name, &[2, 3][..]));
    let (_held, read) = folder(&all);
    assert_eq!(read.audit(&needs(&all)), Ok(Audit::default()));
    let kept = Needs { kept: vec!["norm".to_owned(), "not.here".to_owned()], ..needs(&all[..6]) };
    assert_eq!(read.audit(&kept).unwrap().kept, ["norm"]);
    let ignored = [("l.[35].q", "no pattern"), ("l.*.q", "layers"), ("*", "rest")];
    let ignored = ignored.map(|(pattern, why)| (pattern.to_owned(), why.to_owned()));
    let some = Needs { ignored: ignored.to_vec(), ..needs(&all[..2]) };
    assert_eq!(read.audit(&some).unwrap().ignored, [(4, "layers".to_owned()), (1, "rest".to_owned())]);
    // What is ignored is not kept.
    let both = Needs { kept: vec!["norm".to_owned()], ..some };
    assert_eq!(read.audit(&both).unwrap().kept, [""; 0]);
}

#[test]
fn all_problems_are_told_by_pattern() {
    let all = NAMES.map(|name| (name, &[2, 3][..]));
    let error = refused(&all, &[("norm", &[2, 3])]);
    assert_eq!(error.code, "step::weights::unused");
    assert_eq!(
        error.message,
        "6 tensors are used by nothing in the model: `l.{0..5}.q` in model.safetensors"
    );
    assert!(error.help.unwrap().contains("names { ignore NAME"));

    let mut wanted = all.to_vec();
    wanted[6].0 = "nrom";
    wanted[0].1 = &[2, 4];
    let error = refused(&all, &wanted);
    assert_eq!(error.code, "step::weights::missing");
    assert_eq!(
        error.message,
        "1 tensor is missing from the checkpoint: `nrom` (similar: `norm`); \
         1 tensor is of another shape: `l.0.q` is [2, 3] in model.safetensors, the model needs [2, 4]; \
         1 tensor is used by nothing in the model: `norm` in model.safetensors"
    );
}

#[test]
fn other_layouts_are_recognised() {
    const APART: [(&str, &[u64]); 2] =
        [("l.3.experts.0.up.weight", &[3, 4]), ("l.3.experts.1.up.weight", &[3, 4])];
    const WHOLE: (&str, &[u64]) = ("l.3.experts.up", &[2, 3, 4]);
    let help = |have: &[(&str, &[u64])], want: &[(&str, &[u64])]| refused(have, want).help.unwrap();
    assert!(help(&[WHOLE], &APART).contains("layout = stacked"));
    assert!(help(&APART, &[WHOLE]).contains("layout = per_expert"));
    assert!(help(&[(WHOLE.0, &[2, 4, 3])], &[WHOLE]).contains("layout = transposed"));
    assert!(help(&[(WHOLE.0, &[2, 3, 2])], &[WHOLE]).contains("correct the sizes"));
    assert!(help(&[("l.0.gate_up_proj", &[6, 4])], &[("l.0.gate", &[3, 4])]).contains("the same name"));
    assert!(help(&[("l.0.qkv_proj", &[6, 4])], &[("l.0.q", &[3, 4])]).contains("the same name"));
    assert!(help(&[("l.0.up_blocks", &[6, 4])], &[("l.0.up", &[3, 4])]).contains("MXFP4"));
    // Half of the layers the one way and half the other is no layout.
    let mixed = refused(
        &[APART[0], APART[1], ("l.4.experts.up", &[2, 3, 4])],
        &[WHOLE, ("l.4.experts.up", &[2, 3, 4])],
    );
    assert_eq!(mixed.code, "step::weights::missing");
}

#[test]
fn types_and_scales() {
    let folder = empty_folder();
    let audit = |header: &str, bytes: usize, shape: &[u64]| {
        let read = Folder::open(&raw(&folder, header, bytes)).unwrap();
        read.audit(&needs(&[("a", shape)]))
    };
    let message = |header: &str, bytes, shape: &[u64]| audit(header, bytes, shape).unwrap_err().message;
    let integers = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
    assert_eq!(
        message(integers, 2, &[2]),
        "1 tensor is of a type that is not read: `a` is U8 in raw.safetensors"
    );
    let float8 =
        |rest: &str| format!(r#"{{"a":{{"dtype":"F8_E4M3","shape":[129,2],"data_offsets":[0,258]}}{rest}}}"#);
    assert!(message(&float8(""), 258, &[129, 2]).contains("missing from the checkpoint: `a_scale_inv`"));
    let scale = |dtype: &str, shape: &str, end| {
        let scale =
            format!(r#","a_scale_inv":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[258,{end}]}}"#);
        float8(&scale)
    };
    assert!(message(&scale("F32", "[1,1]", 262), 262, &[129, 2]).contains("the model needs [2, 1]"));
    assert!(message(&scale("I32", "[2,1]", 266), 266, &[129, 2]).contains("`a_scale_inv` is I32"));
    assert_eq!(audit(&scale("F32", "[2,1]", 266), 266, &[129, 2]), Ok(Audit::default()));
    let vector = r#"{"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#;
    assert!(message(vector, 2, &[2]).contains("`a` is F8_E4M3"));
}

#[test]
fn a_rounded_bias_is_told() {
    let folder = empty_folder();
    let path = folder.path().join("model.safetensors");
    save(&path, &[output("bias", DType::Bf16, &[4])]);
    let exact = Needs { tensors: vec![("bias".to_owned(), vec![4], true)], ..Needs::default() };
    let audit = Folder::open(&path).unwrap().audit(&exact).unwrap();
    assert_eq!(audit.warnings[0].code, "step::weights::rounded");
}
