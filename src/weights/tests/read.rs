//! Elements against PyTorch's conversions (`tests/golden/make_elements.py`), and lines against a plain look-up.

use super::{empty_folder, output, save, value};
use crate::base::{DType, Line};
use crate::weights::{Folder, float8};
use half::{bf16, f16};
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/elements.safetensors")
}

fn all(folder: &Folder, name: &str) -> Vec<f32> {
    let count = folder.tensor(name).unwrap().shape.iter().product::<u64>();
    let mut values = vec![0.0; count as usize];
    folder.read_elements(name, 0..count, &mut values).unwrap();
    values
}

/// The bytes of a tensor as they lie in the file.
fn bytes(folder: &Folder, name: &str) -> Vec<u8> {
    let range = folder.tensor(name).unwrap().range.clone();
    fs::read(golden()).unwrap()[range.start as usize..range.end as usize].to_vec()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn elements_are_those_of_pytorch() {
    let folder = Folder::open(&golden()).unwrap();
    let x = all(&folder, "x");
    let rounded: Vec<f32> = x.iter().map(|x| bf16::from_f32(*x).to_f32()).collect();
    assert_eq!(bits(&all(&folder, "bf16")), bits(&rounded));
    let rounded: Vec<f32> = x.iter().map(|x| f16::from_f32(*x).to_f32()).collect();
    assert_eq!(bits(&all(&folder, "f16")), bits(&rounded));
    let encoded: Vec<u8> = x.iter().map(|x| float8::encode(*x)).collect();
    for ((x, own), wanted) in x.iter().zip(&encoded).zip(bytes(&folder, "float8")) {
        assert_eq!(*own, wanted, "{x}");
    }
    for (byte, wanted) in (0..=255).zip(all(&folder, "every_float8")) {
        let own = float8::decode(byte);
        assert!(
            own.to_bits() == wanted.to_bits() || own.is_nan() && wanted.is_nan(),
            "{byte}: {own} {wanted}"
        );
        assert!(own.is_nan() || float8::encode(own) == byte);
    }
}

#[test]
fn blocks_are_scaled_and_quantized_back() {
    let folder = Folder::open(&golden()).unwrap();
    let shape = folder.tensor("w").unwrap().shape.clone();
    let wide = all(&folder, "w_wide");
    assert_eq!(bits(&all(&folder, "w")), bits(&wide));
    // Any part of it, with no more scales than it needs.
    for range in [0..1u64, 100..400, 129..130, 16_600..17_030] {
        let mut part = vec![0.0; (range.end - range.start) as usize];
        let read = folder.read_elements("w", range.clone(), &mut part).unwrap();
        assert_eq!(part, wide[range.start as usize..range.end as usize]);
        let rows = if range.end > 128 * 130 && range.start < 128 * 130 { 2 } else { 1 };
        assert_eq!(read, part.len() as u64 + rows * 2 * 4);
    }
    // What was dequantized is quantized to values nearer than half a step of 8-bit floats, and twice gives the same.
    let (quantized, scales) = float8::quantize(&wide, &shape);
    let grid = float8::Grid::new(&shape);
    let back = |quantized: &[u8], scales: &[f32]| -> Vec<f32> {
        let runs = grid.blocks(0..wide.len() as u64);
        let values = runs.flat_map(|(elements, block)| elements.map(move |i| (i, block)));
        values.map(|(i, block)| float8::decode(quantized[i as usize]) * scales[block as usize]).collect()
    };
    let once = back(&quantized, &scales);
    for (a, b) in once.iter().zip(&wide) {
        assert!((a - b).abs() <= b.abs() / 16.0 + 0.01, "{a} for {b}");
    }
    let (again, _) = float8::quantize(&once, &shape);
    assert_eq!(again, quantized);
}

proptest! {
    #[test]
    fn lines_lead_to_their_places(
        dtype in prop::sample::select(vec![DType::F32, DType::Bf16, DType::F16]),
        (rows, columns, step) in (1u64..40, 1u64..40, 1u64..3),
        across in any::<bool>(),
    ) {
        let folder = empty_folder();
        let path = folder.path().join("model.safetensors");
        save(&path, &[output("a", dtype, &[rows * columns * step])]);
        let read = Folder::open(&path).unwrap();
        let whole = all(&read, "a");
        // A matrix [columns, rows] in the file and [rows, columns] in memory, or the same in both.
        let lines: Vec<Line> = if across {
            (0..columns).map(|i| Line { count: rows, at: i * rows * step, step, first: i + 7, stride: columns }).collect()
        } else {
            (0..rows).map(|i| Line { count: columns, at: i * columns * step, step, first: i * columns + 7, stride: 1 }).collect()
        };
        let mut out = vec![f32::NAN; (rows * columns) as usize];
        read.reader("a").unwrap().read(&lines, 7, &mut out).unwrap();
        for (at, first) in lines.iter().flat_map(|line| line.pairs()) {
            prop_assert_eq!(out[first - 7], whole[at]);
        }
        let beyond = Line { at: rows * columns * step - 1, count: 2, step: 1, first: 0, stride: 1 };
        prop_assert!(read.reader("a").unwrap().read(&[beyond], 0, &mut [0.0; 2]).is_err());
    }
}

#[test]
fn equal_tensors_are_told_from_others() {
    let folder = empty_folder();
    let path = folder.path().join("model.safetensors");
    let shapes = [("a", 5), ("b", 5), ("c", 6)];
    let tensors = shapes.map(|(name, n)| output(name, DType::F32, &[n]));
    save(&path, &tensors);
    let read = Folder::open(&path).unwrap();
    assert_eq!(value(0), all(&read, "a")[0]);
    assert_eq!([read.same("a", "b"), read.same("a", "c")], [Ok(true), Ok(false)]);
}
