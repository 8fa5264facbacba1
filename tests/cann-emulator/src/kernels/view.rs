//! Elements of tensors, whatever their strides and types.

use crate::descriptor::{self, BF16, BOOL, DOUBLE, FLOAT, FLOAT16, INT8, INT32, INT64, Tensor, UINT8};
use crate::memory::Memory;
use crate::stream::Fault;
use half::{bf16, f16};

impl Tensor {
    pub fn elements(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// Elements of the last dimension; 1 for a scalar.
    pub fn columns(&self) -> usize {
        self.shape.last().map_or(1, |columns| *columns as usize)
    }

    pub fn is_float(&self) -> bool {
        matches!(self.of, FLOAT | FLOAT16 | BF16 | DOUBLE)
    }

    /// Where its elements are, row by row.
    fn offsets(&self) -> Vec<usize> {
        let mut offsets = vec![self.offset as usize];
        for (count, stride) in self.shape.iter().zip(&self.strides) {
            let step = |before: &usize| {
                (0..*count as usize).map(move |at| before + at * *stride as usize).collect::<Vec<_>>()
            };
            offsets = offsets.iter().flat_map(step).collect();
        }
        offsets
    }

    fn pages(&self, memory: &Memory, offsets: &[usize]) -> Result<*mut u8, Fault> {
        let bytes = descriptor::bytes(self.of).expect("types are checked when tensors are made");
        let end = offsets.iter().max().map_or(0, |last| (last + 1) * bytes);
        memory.find(self.address, end).ok_or_else(|| {
            Fault::new(format!(
                "a tensor of shape {:?} at {:#x} is not in an allocation that is alive",
                self.shape, self.address
            ))
        })
    }

    /// Its numbers, row by row.
    pub fn load(&self, memory: &Memory) -> Result<Vec<f32>, Fault> {
        Ok(self.load_wide(memory)?.into_iter().map(|value| value as f32).collect())
    }

    pub fn load_integers(&self, memory: &Memory) -> Result<Vec<i64>, Fault> {
        Ok(self.load_wide(memory)?.into_iter().map(|value| value as i64).collect())
    }

    fn load_wide(&self, memory: &Memory) -> Result<Vec<f64>, Fault> {
        let offsets = self.offsets();
        let pages = self.pages(memory, &offsets)?;
        // SAFETY: every offset is within the block that was found, and its address is aligned for the type.
        let one = |at: &usize| unsafe {
            match self.of {
                FLOAT => f64::from(*pages.cast::<f32>().add(*at)),
                DOUBLE => *pages.cast::<f64>().add(*at),
                FLOAT16 => (*pages.cast::<f16>().add(*at)).to_f64(),
                BF16 => (*pages.cast::<bf16>().add(*at)).to_f64(),
                INT64 => *pages.cast::<i64>().add(*at) as f64,
                INT32 => f64::from(*pages.cast::<i32>().add(*at)),
                INT8 => f64::from(*pages.cast::<i8>().add(*at)),
                _ => f64::from(*pages.add(*at)),
            }
        };
        Ok(offsets.iter().map(one).collect())
    }

    /// Writes `values` row by row, rounded to nearest, ties to even.
    pub fn store(&self, memory: &Memory, values: &[f32]) -> Result<(), Fault> {
        let offsets = self.offsets();
        assert_eq!(offsets.len(), values.len(), "a kernel computes every element of its result");
        let pages = self.pages(memory, &offsets)?;
        for (at, value) in offsets.iter().zip(values) {
            // SAFETY: as when loading.
            unsafe {
                match self.of {
                    FLOAT => *pages.cast::<f32>().add(*at) = *value,
                    DOUBLE => *pages.cast::<f64>().add(*at) = f64::from(*value),
                    FLOAT16 => *pages.cast::<f16>().add(*at) = f16::from_f32(*value),
                    BF16 => *pages.cast::<bf16>().add(*at) = bf16::from_f32(*value),
                    INT64 => *pages.cast::<i64>().add(*at) = *value as i64,
                    INT32 => *pages.cast::<i32>().add(*at) = *value as i32,
                    INT8 => *pages.cast::<i8>().add(*at) = *value as i8,
                    BOOL => *pages.add(*at) = u8::from(*value != 0.0),
                    UINT8 => *pages.add(*at) = *value as u8,
                    of => unreachable!("type {of} is refused when a tensor is made"),
                }
            }
        }
        Ok(())
    }
}
