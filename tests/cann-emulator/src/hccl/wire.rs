//! What ranks and switch say to each other.

use crate::descriptor::{BF16, DOUBLE, FLOAT, FLOAT16, INT8, INT32, INT64, UINT8};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

/// What the first rank tells the others. Only these bytes, whole, are taken.
#[repr(C)]
pub struct RootInfo([u8; 4108]);

const MAGIC: &[u8; 8] = b"emulator";

impl RootInfo {
    pub fn new(address: &str) -> RootInfo {
        let mut bytes = [0; 4108];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = address.len() as u8;
        bytes[9..9 + address.len()].copy_from_slice(address.as_bytes());
        let end = bytes.len() - 8;
        bytes[end..].copy_from_slice(MAGIC);
        RootInfo(bytes)
    }

    pub fn address(&self) -> Option<String> {
        let (start, end) = (&self.0[..8], &self.0[self.0.len() - 8..]);
        let length = usize::from(self.0[8]);
        let address = std::str::from_utf8(&self.0[9..9 + length]).ok()?;
        (start == MAGIC && end == MAGIC).then(|| address.to_owned())
    }
}

/// The type of `aclDataType` that a type of HCCL is.
pub fn element(of: i32) -> Option<i32> {
    Some(match of {
        0 => INT8,
        2 => INT32,
        3 => FLOAT16,
        4 => FLOAT,
        5 => INT64,
        7 => UINT8,
        10 => DOUBLE,
        11 => BF16,
        _ => return None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Barrier,
    AllToAll,
}

impl Kind {
    const ALL: [Kind; 6] = [
        Kind::AllReduce,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::Broadcast,
        Kind::Barrier,
        Kind::AllToAll,
    ];
}

/// A rank's part in a collective.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Collectives of this group before it.
    pub number: u64,
    pub kind: Kind,
    pub of: i32,
    pub by: i32,
    pub root: u32,
    /// Elements brought and taken: one number, or one for each rank.
    pub brought: Vec<u64>,
    pub taken: Vec<u64>,
    pub data: Vec<u8>,
}

fn write_numbers(to: &mut impl Write, numbers: &[u64]) -> Result<()> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    to.write_all(&bytes)
}

fn read_numbers(from: &mut impl Read, count: usize) -> Result<Vec<u64>> {
    let mut bytes = vec![0; 8 * count];
    from.read_exact(&mut bytes)?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}

impl Request {
    pub fn write(&self, to: &mut impl Write) -> Result<()> {
        let Request { number, kind, of, by, root, brought, taken, data } = self;
        let head = [*number, *kind as u64, *of as u64, *by as u64, u64::from(*root)];
        let sizes = [brought.len() as u64, taken.len() as u64, data.len() as u64];
        write_numbers(to, &[&head[..], &sizes, brought, taken].concat())?;
        to.write_all(data)
    }

    pub fn read(from: &mut impl Read) -> Result<Request> {
        let head = read_numbers(from, 8)?;
        let brought = read_numbers(from, head[5] as usize)?;
        let taken = read_numbers(from, head[6] as usize)?;
        let mut data = vec![0; head[7] as usize];
        from.read_exact(&mut data)?;
        let kind =
            Kind::ALL.into_iter().find(|kind| *kind as u64 == head[1]).ok_or(ErrorKind::InvalidData)?;
        let (of, by, root) = (head[2] as i32, head[3] as i32, head[4] as u32);
        Ok(Request { number: head[0], kind, of, by, root, brought, taken, data })
    }
}

/// A result or the reason why there is none.
pub fn write_reply(to: &mut impl Write, reply: &std::result::Result<Vec<u8>, String>) -> Result<()> {
    let (ok, bytes) = match reply {
        Ok(data) => (1, data.as_slice()),
        Err(text) => (0, text.as_bytes()),
    };
    write_numbers(to, &[ok, bytes.len() as u64])?;
    to.write_all(bytes)
}

fn read_reply(from: &mut impl Read) -> Result<std::result::Result<Vec<u8>, String>> {
    let head = read_numbers(from, 2)?;
    let mut bytes = vec![0; head[1] as usize];
    from.read_exact(&mut bytes)?;
    Ok(if head[0] == 1 { Ok(bytes) } else { Err(String::from_utf8_lossy(&bytes).into_owned()) })
}

/// Brings `request` and takes what comes of it.
pub fn exchange(socket: &mut UnixStream, request: &Request) -> Result<std::result::Result<Vec<u8>, String>> {
    socket.set_read_timeout(Some(super::seconds("HCCL_EXEC_TIMEOUT", 1836.0)))?;
    request.write(socket)?;
    read_reply(socket).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => {
            Error::new(ErrorKind::TimedOut, "a peer did not come within HCCL_EXEC_TIMEOUT")
        }
        _ => Error::new(error.kind(), "the group has fallen apart: a peer is gone"),
    })
}

/// Joins the group at `address`; comes back when all ranks have.
pub fn join(address: &str, ranks: u32, rank: u32, limit: Duration) -> Result<UnixStream> {
    let (address, until) = (SocketAddr::from_abstract_name(address)?, Instant::now() + limit);
    let mut socket = loop {
        match UnixStream::connect_addr(&address) {
            Ok(socket) => break socket,
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    write_numbers(&mut socket, &[u64::from(ranks), u64::from(rank)])?;
    socket.set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
    match read_reply(&mut socket)? {
        Ok(_) => Ok(socket),
        Err(text) => Err(Error::new(ErrorKind::InvalidInput, text)),
    }
}

/// What a rank says when it joins.
pub fn greeting(socket: &mut UnixStream) -> Result<(u32, u32)> {
    let numbers = read_numbers(socket, 2)?;
    Ok((numbers[0] as u32, numbers[1] as u32))
}
