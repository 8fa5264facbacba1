//! The thread that joins what ranks bring.

use super::wire::{self, Kind, Request};
use crate::descriptor::{self, BF16, DOUBLE, FLOAT, FLOAT16, INT32, INT64};
use half::{bf16, f16};
use std::collections::BTreeMap;
use std::io::Result;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};

/// Starts a switch for one group; gives the name it is reached by.
pub fn listen() -> Result<String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // A name that no file stands for: nothing is left behind, however the process ends.
    let name = format!("cann-emulator-{}-{number}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    std::thread::spawn(move || {
        if let Ok(mut sockets) = meet(&listener) {
            while serve(&mut sockets).is_ok() {}
        }
    });
    Ok(name)
}

/// Waits for every rank once.
fn meet(listener: &UnixListener) -> Result<Vec<UnixStream>> {
    let mut waiting: BTreeMap<u32, UnixStream> = BTreeMap::new();
    let mut expected = None;
    loop {
        let (mut socket, _) = listener.accept()?;
        let Ok((ranks, rank)) = wire::greeting(&mut socket) else { continue };
        let refusal = match *expected.get_or_insert(ranks) {
            others if others != ranks => Some(format!("rank {rank} says {ranks} ranks, others {others}")),
            _ if waiting.contains_key(&rank) => Some(format!("rank {rank} comes twice")),
            _ => None,
        };
        if let Some(text) = refusal {
            wire::write_reply(&mut socket, &Err(text))?;
            continue;
        }
        waiting.insert(rank, socket);
        if waiting.len() == ranks as usize {
            let mut sockets: Vec<_> = waiting.into_values().collect();
            for socket in &mut sockets {
                wire::write_reply(socket, &Ok(Vec::new()))?;
            }
            return Ok(sockets);
        }
    }
}

/// One collective. An error closes all sockets, and every rank learns that the group is gone.
fn serve(sockets: &mut [UnixStream]) -> Result<()> {
    let requests: Vec<Request> = sockets.iter_mut().map(Request::read).collect::<Result<_>>()?;
    let replies = match disagreement(&requests) {
        Some(text) => vec![Err(text); sockets.len()],
        None => results(&requests).into_iter().map(Ok).collect(),
    };
    // The first rank is the process of this thread and may end when it has its reply.
    for (socket, reply) in sockets.iter_mut().zip(&replies).rev() {
        wire::write_reply(socket, reply)?;
    }
    Ok(())
}

/// What ranks do not agree on.
fn disagreement(requests: &[Request]) -> Option<String> {
    let first = &requests[0];
    for (rank, request) in requests.iter().enumerate() {
        let of = |r: &Request| (r.number, r.kind, r.of, r.by, r.root);
        let sizes = |r: &Request| (r.brought.clone(), r.taken.clone());
        if of(request) != of(first) || (first.kind != Kind::AllToAll && sizes(request) != sizes(first)) {
            let text = |r: &Request| format!("{:?} {:?} of {:?} elements", of(r), r.kind, r.brought);
            return Some(format!("rank 0 has {}, rank {rank} {}", text(first), text(request)));
        }
        for (other, peer) in requests.iter().enumerate().filter(|_| first.kind == Kind::AllToAll) {
            if request.brought[other] != peer.taken[rank] {
                let (sent, taken) = (request.brought[other], peer.taken[rank]);
                return Some(format!(
                    "rank {rank} sends {sent} elements to rank {other}, which takes {taken}"
                ));
            }
        }
    }
    None
}

/// What each rank gets.
fn results(requests: &[Request]) -> Vec<Vec<u8>> {
    let first = &requests[0];
    let ranks = requests.len();
    match first.kind {
        Kind::Barrier => vec![Vec::new(); ranks],
        Kind::Broadcast => vec![requests[first.root as usize].data.clone(); ranks],
        Kind::AllGather => {
            vec![requests.iter().flat_map(|request| request.data.iter().copied()).collect(); ranks]
        }
        Kind::AllReduce => vec![reduced(requests); ranks],
        Kind::ReduceScatter => {
            let all = reduced(requests);
            let part = all.len() / ranks;
            (0..ranks).map(|rank| all[rank * part..][..part].to_vec()).collect()
        }
        Kind::AllToAll => {
            let bytes = descriptor::bytes(first.of).expect("known types");
            let part = |from: &Request, rank: usize| {
                let start = from.brought[..rank].iter().sum::<u64>() as usize * bytes;
                from.data[start..][..from.brought[rank] as usize * bytes].to_vec()
            };
            (0..ranks).map(|rank| requests.iter().flat_map(|from| part(from, rank)).collect()).collect()
        }
    }
}

/// The ranks' elements joined in the order of ranks, each step rounded to the type as the links do it.
fn reduced(requests: &[Request]) -> Vec<u8> {
    let mut sum = requests[0].data.clone();
    let (of, by) = (requests[0].of, requests[0].by);
    for request in &requests[1..] {
        match of {
            FLOAT => {
                joined(&mut sum, &request.data, f32::from_le_bytes, f32::to_le_bytes, |x, y| float(by, x, y))
            }
            DOUBLE => {
                joined(&mut sum, &request.data, f64::from_le_bytes, f64::to_le_bytes, |x, y| double(by, x, y))
            }
            BF16 => joined(&mut sum, &request.data, bf16::from_le_bytes, bf16::to_le_bytes, |x, y| {
                bf16::from_f32(float(by, x.to_f32(), y.to_f32()))
            }),
            FLOAT16 => joined(&mut sum, &request.data, f16::from_le_bytes, f16::to_le_bytes, |x, y| {
                f16::from_f32(float(by, x.to_f32(), y.to_f32()))
            }),
            INT32 => joined(&mut sum, &request.data, i32::from_le_bytes, i32::to_le_bytes, |x, y| {
                integer(by, x.into(), y.into()) as i32
            }),
            INT64 => joined(&mut sum, &request.data, i64::from_le_bytes, i64::to_le_bytes, |x, y| {
                integer(by, x, y)
            }),
            _ => joined(&mut sum, &request.data, i8::from_le_bytes, i8::to_le_bytes, |x, y| {
                integer(by, x.into(), y.into()) as i8
            }),
        }
    }
    sum
}

fn joined<const N: usize, T>(
    sum: &mut [u8],
    data: &[u8],
    read: fn([u8; N]) -> T,
    write: fn(T) -> [u8; N],
    join: impl Fn(T, T) -> T,
) {
    for (sum, value) in sum.as_chunks_mut::<N>().0.iter_mut().zip(data.as_chunks::<N>().0) {
        *sum = write(join(read(*sum), read(*value)));
    }
}

fn float(by: i32, x: f32, y: f32) -> f32 {
    match by {
        0 => x + y,
        1 => x * y,
        2 => x.max(y),
        _ => x.min(y),
    }
}

fn double(by: i32, x: f64, y: f64) -> f64 {
    match by {
        0 => x + y,
        1 => x * y,
        2 => x.max(y),
        _ => x.min(y),
    }
}

fn integer(by: i32, x: i64, y: i64) -> i64 {
    match by {
        0 => x.wrapping_add(y),
        1 => x.wrapping_mul(y),
        2 => x.max(y),
        _ => x.min(y),
    }
}
