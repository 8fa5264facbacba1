//! Device memory: addresses that the host cannot touch, over pages that only the emulator sees.

use crate::process::{self, INVALID, OUT_OF_MEMORY, fail, lock};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{LazyLock, Mutex};

/// Blocks begin on it.
const ALIGNMENT: usize = 512;
/// What an allocation takes of the capacity is a multiple of it.
const GRANULE: usize = 2 << 20;
/// Bits of fresh memory: a NaN of 32 and of 16 bits.
const POISON: u16 = 0x7fc1;

/// The memory of one device.
pub struct Memory {
    /// Where its addresses begin; nothing can be read there.
    addresses: usize,
    /// Where the same pages are for kernels.
    pages: usize,
    reserved: usize,
    capacity: usize,
    blocks: Mutex<BTreeMap<usize, usize>>,
}

/// Host memory that `aclrtMallocHost` gave, by address.
pub static PINNED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

impl Memory {
    pub fn new() -> Memory {
        let capacity = process::setting("EMU_HBM_BYTES").map_or(8 << 30, |bytes| bytes as usize);
        let reserved = (2 * capacity).next_multiple_of(GRANULE);
        // SAFETY: a file of its own, mapped twice; failures are looked at.
        let (addresses, pages) = unsafe {
            let file = libc::memfd_create(c"device".as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 0 && libc::ftruncate(file, reserved as i64) == 0, "memory of the emulator");
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
            let addresses = libc::mmap(null_mut(), reserved, libc::PROT_NONE, flags, file, 0);
            let pages = libc::mmap(null_mut(), reserved, libc::PROT_READ | libc::PROT_WRITE, flags, file, 0);
            assert!(addresses != libc::MAP_FAILED && pages != libc::MAP_FAILED, "memory of the emulator");
            libc::close(file);
            (addresses as usize, pages as usize)
        };
        Memory { addresses, pages, reserved, capacity, blocks: Mutex::default() }
    }

    fn used(blocks: &BTreeMap<usize, usize>) -> usize {
        blocks.values().map(|bytes| bytes.next_multiple_of(GRANULE)).sum()
    }

    /// Free and total bytes.
    pub fn info(&self) -> (usize, usize) {
        (self.capacity.saturating_sub(Memory::used(&lock(&self.blocks))), self.capacity)
    }

    pub fn allocate(&self, bytes: usize) -> Result<*mut c_void, i32> {
        if bytes == 0 {
            return Err(fail(INVALID, "an allocation of 0 bytes"));
        }
        let mut blocks = lock(&self.blocks);
        let used = Memory::used(&blocks);
        let rounded = (bytes.next_multiple_of(32) + 32).next_multiple_of(ALIGNMENT);
        let mut start = 0;
        for (at, length) in blocks.iter() {
            if at - start >= rounded {
                break;
            }
            start = (at + length).next_multiple_of(ALIGNMENT);
        }
        if used + bytes.next_multiple_of(GRANULE) > self.capacity || start + rounded > self.reserved {
            let text = format!("{bytes} bytes are not free: {used} of {} are in use", self.capacity);
            return Err(fail(OUT_OF_MEMORY, text));
        }
        blocks.insert(start, bytes);
        // SAFETY: within the pages, and nobody else's.
        unsafe { std::slice::from_raw_parts_mut((self.pages + start) as *mut u16, bytes.div_ceil(2)) }
            .fill(POISON);
        Ok((self.addresses + start) as *mut c_void)
    }

    pub fn free(&self, address: *mut c_void) -> i32 {
        let start = (address as usize).wrapping_sub(self.addresses);
        match lock(&self.blocks).remove(&start) {
            None => fail(INVALID, format!("{address:p} is no allocation of this device")),
            Some(bytes) => {
                // SAFETY: the block's own pages; they read as zero afterwards and take no memory.
                unsafe {
                    let whole =
                        (self.pages + start).next_multiple_of(4096)..(self.pages + start + bytes) & !4095;
                    if !whole.is_empty() {
                        libc::madvise(whole.start as *mut c_void, whole.len(), libc::MADV_REMOVE);
                    }
                }
                process::SUCCESS
            }
        }
    }

    /// Where the host finds `bytes` bytes of the device, if they lie in one block that is alive.
    pub fn find(&self, address: usize, bytes: usize) -> Option<*mut u8> {
        let start = address.checked_sub(self.addresses).filter(|start| *start < self.reserved)?;
        let blocks = lock(&self.blocks);
        let (at, length) = blocks.range(..=start).next_back()?;
        (start + bytes <= at + length).then_some((self.pages + start) as *mut u8)
    }

    pub fn leaks(&self) -> Vec<String> {
        lock(&self.blocks).values().map(|bytes| format!("{bytes} bytes of device memory")).collect()
    }
}

/// The memory of every device.
pub fn of(device: i32) -> Option<&'static Memory> {
    static MEMORIES: LazyLock<Vec<LazyLock<Memory>>> = LazyLock::new(|| {
        (0..crate::device::count()).map(|_| LazyLock::new(Memory::new as fn() -> Memory)).collect()
    });
    MEMORIES.get(usize::try_from(device).ok()?).map(|memory| &**memory)
}

/// Bytes of pinned memory at `address`, whole.
pub fn is_pinned(address: usize, bytes: usize) -> bool {
    let pinned = lock(&PINNED);
    pinned.range(..=address).next_back().is_some_and(|(at, length)| address + bytes <= at + length)
}
