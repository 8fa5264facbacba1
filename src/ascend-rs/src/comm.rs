//! HCCL: collectives among the ranks of a group.

use crate::error::{Result, check_hccl, hccl};
use crate::{DataType, Device, Error, Region, Stream, sys};
use std::ffi::CString;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

/// What the first rank of a group tells the others, by any way they have, before they meet: bytes that only HCCL reads. Good for one
/// group.
#[derive(Clone)]
pub struct RootInfo(Box<[u8; RootInfo::BYTES]>);

impl RootInfo {
    /// Its size.
    pub const BYTES: usize = sys::HCCL_ROOT_INFO_BYTES as usize;

    /// Made by the group's first rank, which listens from now on and must itself join.
    ///
    /// # Errors
    /// If HCCL finds no way for others to reach it.
    pub fn new(device: &Device) -> Result<RootInfo> {
        device.enter()?;
        let mut info = Box::new(sys::HcclRootInfo { internal: [0; RootInfo::BYTES] });
        // SAFETY: it fills the bytes, whose number is the same in all releases.
        unsafe { hccl!(HcclGetRootInfo(&mut *info)) }?;
        Ok(RootInfo(Box::new(info.internal)))
    }

    /// As it came from the first rank.
    pub fn from_bytes(bytes: [u8; RootInfo::BYTES]) -> RootInfo {
        RootInfo(Box::new(bytes))
    }

    /// To be sent as it is.
    pub fn bytes(&self) -> &[u8; RootInfo::BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for RootInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RootInfo({} bytes)", RootInfo::BYTES)
    }
}

/// How a reduction joins elements. There is no mean: scale before or behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Reduction {
    /// Added up.
    Sum = sys::HCCL_REDUCE_SUM,
    /// Multiplied.
    Product = sys::HCCL_REDUCE_PROD,
    /// The largest.
    Max = sys::HCCL_REDUCE_MAX,
    /// The smallest.
    Min = sys::HCCL_REDUCE_MIN,
}

/// A group of ranks as one of them sees it. All ranks make their groups in the same order and call on each the same collectives in the same
/// order.
#[derive(Debug)]
pub struct Communicator {
    raw: sys::HcclComm,
    ranks: u32,
    rank: u32,
    device: Device,
}

/// How long a group that is still at work is waited for when it is dropped.
const PARTING: Duration = Duration::from_secs(2);

impl Communicator {
    /// Joins a group of `ranks` as `rank`. Comes back when all have joined.
    ///
    /// # Errors
    /// With [`Class::Timeout`](crate::Class::Timeout) or [`Class::Link`](crate::Class::Link) if one does not come within `HCCL_CONNECT_TIMEOUT`
    /// seconds.
    pub fn new(device: &Device, ranks: u32, root: &RootInfo, rank: u32) -> Result<Communicator> {
        device.enter()?;
        let root = sys::HcclRootInfo { internal: *root.bytes() };
        let mut raw = sys::HcclComm(null_mut());
        // SAFETY: the bytes are read, a handle is written.
        unsafe { hccl!(HcclCommInitRootInfo(ranks, &root, rank, &mut raw)) }?;
        Ok(Communicator { raw, ranks, rank, device: device.clone() })
    }

    /// Joins all ranks of a rank table, a JSON file, as `rank`.
    ///
    /// # Errors
    /// If the table is not right, or a rank does not come in time.
    pub fn from_rank_table(device: &Device, table: &Path, rank: u32) -> Result<Communicator> {
        device.enter()?;
        let path = CString::new(table.as_os_str().as_encoded_bytes())
            .map_err(|_| Error::argument("HcclCommInitClusterInfo", "a path with a NUL"))?;
        let (mut raw, mut ranks) = (sys::HcclComm(null_mut()), 0);
        // SAFETY: the path is read, a handle is written.
        unsafe { hccl!(HcclCommInitClusterInfo(path.as_ptr(), rank, &mut raw)) }?;
        let mut joined = Communicator { raw, ranks, rank, device: device.clone() };
        // SAFETY: the handle is alive; a number is written.
        unsafe { hccl!(HcclGetRankSize(raw, &mut ranks)) }?;
        joined.ranks = ranks;
        Ok(joined)
    }

    /// Ranks of the group.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// This rank among them.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// An error that came up since, of the link to another rank. HCCL reports few of them here: a peer that has died shows as a time-out of
    /// the stream.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<()> {
        let mut found = sys::HCCL_SUCCESS;
        // SAFETY: the handle is alive; a number is written.
        unsafe { hccl!(HcclGetCommAsyncError(self.raw, &mut found)) }?;
        check_hccl("HcclGetCommAsyncError", found)
    }

    /// Every rank gets all elements of `from`, joined over the ranks. Both may be the same place.
    ///
    /// # Errors
    /// If the sizes do not fit, or HCCL refuses. As with all collectives, what fails on the way shows when the stream is synchronised.
    pub fn all_reduce(
        &self,
        stream: &Stream,
        from: Region<'_>,
        to: Region<'_>,
        of: DataType,
        by: Reduction,
    ) -> Result<()> {
        let count = count("HcclAllReduce", from, of)?;
        fits("HcclAllReduce", to, count, 1, of)?;
        self.device.enter()?;
        let (from, to) = (from.address(), to.address());
        // SAFETY: both are within allocations, which are not freed before the device is done.
        unsafe { hccl!(HcclAllReduce(from, to, count, of.hccl(), by as i32, self.raw, stream.raw())) }
    }

    /// Every rank gets the elements of all, in the order of ranks.
    ///
    /// # Errors
    /// If `to` is not as large as `from` times the ranks, or HCCL refuses.
    pub fn all_gather(&self, stream: &Stream, from: Region<'_>, to: Region<'_>, of: DataType) -> Result<()> {
        let count = count("HcclAllGather", from, of)?;
        fits("HcclAllGather", to, count, self.ranks, of)?;
        self.device.enter()?;
        // SAFETY: both are within allocations, which are not freed before the device is done.
        unsafe {
            hccl!(HcclAllGather(from.address(), to.address(), count, of.hccl(), self.raw, stream.raw()))
        }
    }

    /// Every rank gets its part of the elements of `from`, joined over the ranks.
    ///
    /// # Errors
    /// If `from` is not as large as `to` times the ranks, or HCCL refuses.
    pub fn reduce_scatter(
        &self,
        stream: &Stream,
        from: Region<'_>,
        to: Region<'_>,
        of: DataType,
        by: Reduction,
    ) -> Result<()> {
        let count = count("HcclReduceScatter", to, of)?;
        fits("HcclReduceScatter", from, count, self.ranks, of)?;
        self.device.enter()?;
        let (from, to) = (from.address(), to.address());
        // SAFETY: both are within allocations, which are not freed before the device is done.
        unsafe { hccl!(HcclReduceScatter(from, to, count, of.hccl(), by as i32, self.raw, stream.raw())) }
    }

    /// Every rank sends `sent[r]` elements to rank `r` and gets `received[r]` from it; both lie one behind the other in the order of ranks.
    /// The numbers are read before this comes back.
    ///
    /// # Errors
    /// If they are not one for each rank or add up to more than there is, or HCCL refuses.
    pub fn all_to_all(
        &self,
        stream: &Stream,
        from: Region<'_>,
        sent: &[u64],
        to: Region<'_>,
        received: &[u64],
        of: DataType,
    ) -> Result<()> {
        const CALL: &str = "HcclAlltoAllV";
        let ranks = self.ranks as usize;
        if sent.len() != ranks || received.len() != ranks {
            let message =
                format!("{} and {} numbers of elements for {ranks} ranks", sent.len(), received.len());
            return Err(Error::argument(CALL, message));
        }
        for (region, counts) in [(from, sent), (to, received)] {
            let elements = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
            let bytes = elements.and_then(|elements| elements.checked_mul(of.bytes() as u64));
            if bytes.is_none_or(|bytes| bytes > region.bytes() as u64) {
                let message =
                    format!("{counts:?} elements of {} bytes leave {} bytes", of.bytes(), region.bytes());
                return Err(Error::argument(CALL, message));
            }
        }
        let (sends, receives) = (starts(sent), starts(received));
        self.device.enter()?;
        // SAFETY: the arrays have an element for each rank and are read by the call; the elements are within allocations, which are not freed
        // before the device is done.
        unsafe {
            hccl!(HcclAlltoAllV(
                from.address().cast_const(),
                sent.as_ptr().cast(),
                sends.as_ptr().cast(),
                of.hccl(),
                to.address().cast_const(),
                received.as_ptr().cast(),
                receives.as_ptr().cast(),
                of.hccl(),
                self.raw,
                stream.raw(),
            ))
        }
    }

    /// Every rank gets the elements that `root` has.
    ///
    /// # Errors
    /// If HCCL refuses.
    pub fn broadcast(&self, stream: &Stream, of_all: Region<'_>, of: DataType, root: u32) -> Result<()> {
        let count = count("HcclBroadcast", of_all, of)?;
        self.device.enter()?;
        // SAFETY: it is within an allocation, which is not freed before the device is done.
        unsafe { hccl!(HcclBroadcast(of_all.address(), count, of.hccl(), root, self.raw, stream.raw())) }
    }

    /// The stream passes when those of all ranks have come to it.
    ///
    /// # Errors
    /// If HCCL refuses.
    pub fn barrier(&self, stream: &Stream) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the handles are alive.
        unsafe { hccl!(HcclBarrier(self.raw, stream.raw())) }
    }
}

/// Elements that a region holds.
fn count(call: &'static str, region: Region<'_>, of: DataType) -> Result<u64> {
    match region.bytes() % of.bytes() {
        0 => Ok((region.bytes() / of.bytes()) as u64),
        _ => Err(Error::argument(call, format!("{} bytes are no whole elements of {of:?}", region.bytes()))),
    }
}

fn fits(call: &'static str, region: Region<'_>, count: u64, ranks: u32, of: DataType) -> Result<()> {
    let bytes = u128::from(count) * u128::from(ranks) * of.bytes() as u128;
    match bytes == region.bytes() as u128 {
        true => Ok(()),
        false => {
            Err(Error::argument(call, format!("the other side has {} bytes, not {bytes}", region.bytes())))
        }
    }
}

/// Where each rank's elements begin.
fn starts(counts: &[u64]) -> Vec<u64> {
    let after = |next: &mut u64, count: &u64| {
        let end = *next + count;
        Some(std::mem::replace(next, end))
    };
    counts.iter().scan(0, after).collect()
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let _ = self.device.synchronize_for(PARTING);
        if let Ok(destroy) = sys::HcclCommDestroy.get() {
            // SAFETY: the handle is this one's own.
            unsafe { destroy(self.raw) };
        }
    }
}
