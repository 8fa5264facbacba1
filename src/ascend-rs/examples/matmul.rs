//! The product of two matrices on device 0, held against the host's.
//!
//! Usage: `cargo run --example matmul`

use ascend_rs::{DataType, Device, Error, Result, Runtime, Tensor, ops};

const M: usize = 48;
const K: usize = 64;
const N: usize = 32;
/// Products and sums in the order of the host, in 32 bits.
const KEEP_PRECISION: i8 = 0;

fn main() -> std::result::Result<(), Error> {
    let runtime = Runtime::init()?;
    let device = Device::open(&runtime, 0)?;
    let stream = device.stream()?;

    let a: Vec<f32> = (0..M * K).map(|at| (at % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..K * N).map(|at| (at % 5) as f32 - 2.0).collect();
    let upload = |values: &[f32]| -> Result<_> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let memory = device.allocate(bytes.len())?;
        stream.upload(memory.region(..)?, &bytes)?;
        Ok(memory)
    };
    let (a_memory, b_memory, out_memory) = (upload(&a)?, upload(&b)?, device.allocate(M * N * 4)?);
    let a_tensor = Tensor::new(&a_memory, 0, &[M as i64, K as i64], DataType::F32)?;
    let b_tensor = Tensor::new(&b_memory, 0, &[K as i64, N as i64], DataType::F32)?;
    let out_tensor = Tensor::new(&out_memory, 0, &[M as i64, N as i64], DataType::F32)?;
    stream.launch(ops::matmul(&a_tensor, &b_tensor, &out_tensor, KEEP_PRECISION)?)?;

    let mut bytes = vec![0; M * N * 4];
    stream.download(&mut bytes, out_memory.region(..)?)?;
    let out = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes));
    let expected = (0..M * N).map(|at| (0..K).map(|k| a[at / N * K + k] * b[k * N + at % N]).sum::<f32>());
    let difference = out.zip(expected).map(|(out, expected)| (out - expected).abs()).fold(0.0, f32::max);
    println!("[{M}, {K}] × [{K}, {N}]: largest difference from the host {difference:e}");
    Ok(())
}
