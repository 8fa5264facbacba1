//! Descriptors of tensors: a type, a shape and strides over device memory.

use crate::error::{Result, refused};
use crate::{DataType, DeviceBuffer, Error, sys};

/// The most dimensions that operators take.
const DIMENSIONS: usize = 8;
/// Operators require storage to begin on such an address.
const ALIGNMENT: usize = 32;

/// The library's descriptor, destroyed with this.
#[derive(Debug)]
struct Handle(*mut sys::aclTensor);

impl Drop for Handle {
    fn drop(&mut self) {
        if let Ok(destroy) = sys::aclDestroyTensor.get() {
            // SAFETY: the descriptor is this one's own; an operator submitted with it has copied what it needs.
            unsafe { destroy(self.0) };
        }
    }
}

/// A view of device memory as operators take it. It keeps the memory.
#[derive(Debug)]
pub struct Tensor {
    raw: Handle,
    memory: DeviceBuffer,
    start: usize,
    shape: [i64; DIMENSIONS],
    strides: [i64; DIMENSIONS],
    dimensions: usize,
    of: DataType,
}

impl Tensor {
    /// A contiguous tensor that begins `start` bytes into `memory`, a whole number of its elements. A shape without dimensions is a scalar.
    ///
    /// # Errors
    /// If it is not within the memory, or has more than eight dimensions.
    pub fn new(memory: &DeviceBuffer, start: usize, shape: &[i64], of: DataType) -> Result<Tensor> {
        let mut strides = [1i64; DIMENSIONS];
        let strides = strides.get_mut(..shape.len()).ok_or_else(too_many)?;
        for at in (1..shape.len()).rev() {
            strides[at - 1] = strides[at].saturating_mul(shape[at].max(1));
        }
        Tensor::strided(memory, start, shape, strides, of)
    }

    /// A tensor with `strides`, in elements. The transpose of a matrix of `[k, n]` is `[n, k]` with strides `[1, n]`; products of matrices take
    /// it as it is.
    ///
    /// # Errors
    /// If an element is not within the memory, `start` is not at an element, or shape and strides are of different length.
    pub fn strided(
        memory: &DeviceBuffer,
        start: usize,
        shape: &[i64],
        strides: &[i64],
        of: DataType,
    ) -> Result<Tensor> {
        if shape.len() > DIMENSIONS {
            return Err(too_many());
        }
        if shape.len() != strides.len() || shape.iter().chain(strides).any(|value| *value < 0) {
            return Err(wrong(format!("shape {shape:?} and strides {strides:?}: as many, none negative")));
        }
        if !start.is_multiple_of(of.bytes()) {
            return Err(wrong(format!("it begins at byte {start}, amid elements of {} bytes", of.bytes())));
        }
        let elements = extent(shape, strides).ok_or_else(|| wrong(format!("shape {shape:?} overflows")))?;
        let bytes = elements.checked_mul(of.bytes() as i64).and_then(|bytes| usize::try_from(bytes).ok());
        if bytes.and_then(|bytes| bytes.checked_add(start)).is_none_or(|end| end > memory.bytes()) {
            let held = memory.bytes();
            return Err(wrong(format!(
                "shape {shape:?}, strides {strides:?} from byte {start} leave {held} bytes"
            )));
        }
        let create = sys::aclCreateTensor.get()?;
        // Storage begins on such an address; what is before the first element is an offset.
        let storage = start - start % ALIGNMENT;
        let offset = ((start - storage) / of.bytes()) as i64;
        let (address, stored) = (memory.address().wrapping_byte_add(storage), offset + elements);
        // SAFETY: the arrays are as long as said and copied by the call; all elements are within the memory.
        let raw = unsafe {
            create(
                shape.as_ptr(),
                shape.len() as u64,
                of as i32,
                strides.as_ptr(),
                offset,
                sys::ACL_FORMAT_ND,
                &stored,
                1,
                address,
            )
        };
        match raw.is_null() {
            true => Err(refused("aclCreateTensor")),
            false => {
                let kept = |values: &[i64]| std::array::from_fn(|at| values.get(at).copied().unwrap_or(0));
                let (raw, memory, dimensions) = (Handle(raw), memory.clone(), shape.len());
                Ok(Tensor { raw, memory, start, shape: kept(shape), strides: kept(strides), dimensions, of })
            }
        }
    }

    pub(crate) fn raw(&self) -> *mut sys::aclTensor {
        self.raw.0
    }

    /// Other elements of the same memory: the first one `offset` elements behind this tensor's first.
    ///
    /// # Errors
    /// As [`Tensor::strided`].
    pub fn view(&self, offset: i64, shape: &[i64], strides: &[i64]) -> Result<Tensor> {
        let moved = offset
            .checked_mul(self.of.bytes() as i64)
            .and_then(|bytes| self.start.checked_add_signed(bytes as isize));
        let start =
            moved.ok_or_else(|| wrong(format!("{offset} elements from byte {} is nowhere", self.start)))?;
        Tensor::strided(&self.memory, start, shape, strides, self.of)
    }

    /// Another descriptor of the same elements, for a list to own.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn same(&self) -> Result<Tensor> {
        let dimensions = self.shape().len();
        self.view(0, self.shape(), &self.strides[..dimensions])
    }

    /// The bytes from its first to its last element, all of which are its own if it is contiguous.
    ///
    /// # Errors
    /// None for a tensor that could be made.
    pub fn region(&self) -> Result<crate::Region<'_>> {
        let elements = extent(self.shape(), &self.strides[..self.dimensions]).unwrap_or(0);
        self.memory.region(self.start..self.start + elements as usize * self.of.bytes())
    }

    /// Elements of each dimension.
    pub fn shape(&self) -> &[i64] {
        &self.shape[..self.dimensions]
    }

    /// The type of its elements.
    pub fn data_type(&self) -> DataType {
        self.of
    }

    /// The memory that it describes a part of.
    pub fn memory(&self) -> &DeviceBuffer {
        &self.memory
    }
}

/// Tensors as one argument. The list owns them.
#[derive(Debug)]
pub struct TensorList {
    raw: *mut sys::aclTensorList,
    /// The descriptors belong to the list of the library; what is left of the members is their memory.
    _memory: Vec<DeviceBuffer>,
}

impl TensorList {
    /// A list of `tensors`, in order.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn new(tensors: impl IntoIterator<Item = Tensor>) -> Result<TensorList> {
        let tensors: Vec<Tensor> = tensors.into_iter().collect();
        let create = sys::aclCreateTensorList.get()?;
        let raw: Vec<*const sys::aclTensor> =
            tensors.iter().map(|tensor| tensor.raw().cast_const()).collect();
        // SAFETY: as many descriptors as said, all alive; the array is copied.
        let list = unsafe { create(raw.as_ptr(), raw.len() as u64) };
        if list.is_null() {
            return Err(refused("aclCreateTensorList"));
        }
        // The list destroys its members: they are not destroyed here again.
        let handed_over = |tensor: Tensor| {
            std::mem::forget(tensor.raw);
            tensor.memory
        };
        let memory = tensors.into_iter().map(handed_over).collect();
        Ok(TensorList { raw: list, _memory: memory })
    }

    pub(crate) fn raw(&self) -> *mut sys::aclTensorList {
        self.raw
    }
}

impl Drop for TensorList {
    fn drop(&mut self) {
        if let Ok(destroy) = sys::aclDestroyTensorList.get() {
            // SAFETY: the list is this one's own, with its members.
            unsafe { destroy(self.raw) };
        }
    }
}

/// What may be left out is null.
pub(crate) fn or_null<D: Described>(described: Option<&D>) -> *mut D::Raw {
    described.map_or(std::ptr::null_mut(), D::handle)
}

/// Everything that an operator takes by handle.
pub(crate) trait Described {
    type Raw;
    fn handle(&self) -> *mut Self::Raw;
}

impl Described for Tensor {
    type Raw = sys::aclTensor;
    fn handle(&self) -> *mut sys::aclTensor {
        self.raw()
    }
}

impl Described for TensorList {
    type Raw = sys::aclTensorList;
    fn handle(&self) -> *mut sys::aclTensorList {
        self.raw
    }
}

/// Elements from the first to the last of a view, both included; 0 where a dimension is 0.
fn extent(shape: &[i64], strides: &[i64]) -> Option<i64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let last = shape
        .iter()
        .zip(strides)
        .try_fold(0i64, |last, (count, stride)| last.checked_add((count - 1).checked_mul(*stride)?));
    last?.checked_add(1)
}

fn too_many() -> Error {
    wrong(format!("more than {DIMENSIONS} dimensions"))
}

fn wrong(message: String) -> Error {
    Error::argument("aclCreateTensor", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_ends_where_its_last_element_does() {
        assert_eq!(extent(&[2, 3], &[3, 1]), Some(6));
        assert_eq!(extent(&[3, 2], &[1, 3]), Some(6));
        assert_eq!(extent(&[4, 2], &[10, 1]), Some(32));
        assert_eq!(extent(&[4, 0], &[10, 1]), Some(0));
        assert_eq!(extent(&[], &[]), Some(1));
        assert_eq!(extent(&[i64::MAX, 2], &[2, 1]), None);
    }
}
