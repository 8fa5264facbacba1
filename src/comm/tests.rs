//! Every collective against a plain computation, and every way a job can go wrong.

use super::{CommError, Communicator, LocalComm, Op, Routing, local, local_with_limit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

/// Runs `body` on a thread for each rank and returns what they return, in rank order.
fn on_ranks<R: Send>(comms: Vec<LocalComm>, body: impl Fn(LocalComm) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let threads: Vec<_> = comms.into_iter().map(|comm| scope.spawn(|| body(comm))).collect();
        threads.into_iter().map(|thread| thread.join().expect("rank thread")).collect()
    })
}

/// A small generator of test values (Knuth's MMIX constants).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn value(rank: u32, i: usize) -> f32 {
    (rank as f32 + 1.0) * 0.1 + (i as f32) * 0.37
}

/// The sum in rank order, as the collectives promise it bit by bit.
fn sum(ranks: &[u32], i: usize) -> f32 {
    ranks.iter().fold(0.0, |sum, &rank| sum + value(rank, i))
}

#[test]
fn collectives_agree_with_a_plain_computation() {
    for world in 1..=4u32 {
        on_ranks(local(world as usize), |mut comm| {
            let me = comm.rank();
            let everyone: Vec<u32> = (0..world).collect();
            let strided: Vec<u32> = (me % 2..world).step_by(2).collect();
            for ranks in [everyone, strided, vec![me]] {
                let group = comm.group(&ranks).unwrap();
                assert_eq!(comm.group(&ranks).unwrap(), group, "a group is made once");
                for len in [0, 1, 7, 1500] {
                    let n = ranks.len();
                    let send: Vec<f32> = (0..n * len).map(|i| value(me, i)).collect();

                    let mut all = vec![0.0; n * n * len];
                    comm.all_gather(&group, &send, &mut all).unwrap();
                    for (index, part) in all.chunks(n * len.max(1)).enumerate() {
                        assert!(part.iter().enumerate().all(|(i, &x)| x == value(ranks[index], i)));
                    }

                    let mut part = vec![0.0; len];
                    comm.reduce_scatter(&group, &send, &mut part, false).unwrap();
                    let at = group.index() * len;
                    assert!(part.iter().enumerate().all(|(i, &x)| x == sum(&ranks, at + i)));
                    comm.reduce_scatter(&group, &send, &mut part, true).unwrap();
                    assert!(part.iter().enumerate().all(|(i, &x)| x == sum(&ranks, at + i) * 2.0));

                    let mut data = send.clone();
                    comm.all_reduce(&group, &mut data).unwrap();
                    assert!(data.iter().enumerate().all(|(i, &x)| x == sum(&ranks, i)));

                    let mut data = send.clone();
                    comm.broadcast(&group, n - 1, &mut data).unwrap();
                    assert!(data.iter().enumerate().all(|(i, &x)| x == value(ranks[n - 1], i)));
                    comm.barrier(&group).unwrap();
                }
                let mut values = [f64::from(me), 1.0];
                comm.all_reduce_f64(&group, &mut values).unwrap();
                assert_eq!(values, [ranks.iter().sum::<u32>() as f64, ranks.len() as f64]);
                let mut all = vec![0; ranks.len()];
                comm.all_gather_u32(&group, &[me], &mut all).unwrap();
                assert_eq!(all, ranks);
            }
        });
    }
}

#[test]
fn dispatch_reaches_the_owner_and_combine_undoes_it() {
    for (world, experts, cols) in [(1, 4, 3), (2, 6, 5), (3, 3, 1), (4, 8, 16)] {
        on_ranks(local(world), |mut comm| {
            let me = comm.rank() as usize;
            let group = comm.group(&(0..world as u32).collect::<Vec<_>>()).unwrap();
            let mut routing = Routing::new(world, experts).unwrap();
            for round in 0..8u64 {
                let mut random = Random(round * 97 + me as u64);
                // Skewed, with zeros; in round 0 nobody sends anything.
                let counts: Vec<u32> = (0..experts)
                    .map(|e| {
                        if round == 0 || e % 3 == 2 {
                            0
                        } else {
                            random.below(1 + 20 / (e as u64 + 1)) as u32
                        }
                    })
                    .collect();
                comm.exchange(&group, &counts, &mut routing).unwrap();
                // A row says where it comes from and where it goes.
                let tag = |source: usize, expert: usize, row: u32| {
                    (source * 10000 + expert * 100) as f32 + row as f32
                };
                let rows = |source: usize, expert: usize| {
                    let count = routing.counts()[source * experts + expert];
                    (0..count).flat_map(move |row| vec![tag(source, expert, row); cols])
                };
                let send: Vec<f32> = (0..experts).flat_map(|e| rows(me, e)).collect();
                assert_eq!(send.len(), routing.sent(me) * cols);
                let mut recv = vec![0.0; routing.received(me) * cols + 2];
                let received = comm.dispatch(&group, &send, &mut recv, cols, &routing).unwrap();
                assert_eq!(received, routing.received(me));
                let mut expected = Vec::new();
                for expert in routing.owned(me) {
                    (0..world).for_each(|source| expected.extend(rows(source, expert)));
                }
                assert_eq!(recv[..received * cols], expected);
                let mut local_counts = vec![0; experts / world];
                routing.local_counts(me, &mut local_counts);
                assert_eq!(local_counts.iter().sum::<u32>() as usize, received);
                let mut back = vec![-1.0; send.len()];
                comm.combine(&group, &recv, &mut back, cols, &routing).unwrap();
                assert_eq!(back, send);
            }
        });
    }
}

#[test]
fn experts_must_divide_evenly() {
    assert_eq!(Routing::new(3, 8), None);
    assert_eq!(Routing::new(0, 8), None);
}

#[test]
fn a_full_buffer_is_an_error_on_every_rank() {
    let results = on_ranks(local(2), |mut comm| {
        let group = comm.group(&[0, 1]).unwrap();
        let mut routing = Routing::new(2, 2).unwrap();
        comm.exchange(&group, &[0, 3], &mut routing).unwrap();
        comm.dispatch(&group, &[1.0; 6], &mut [0.0; 8], 2, &routing)
    });
    for result in results {
        assert_eq!(result, Err(CommError::Capacity { rank: 1, rows: 6, average: 3, capacity: 4 }));
    }
}

#[test]
fn a_different_collective_or_length_is_named_on_every_rank() {
    let results = on_ranks(local(3), |mut comm| {
        let group = comm.group(&[0, 1, 2]).unwrap();
        comm.barrier(&group).unwrap();
        match comm.rank() {
            1 => comm.all_reduce(&group, &mut [0.0; 4]),
            _ => comm.barrier(&group),
        }
    });
    for result in results {
        let Err(CommError::Mismatch { first, second }) = result else { panic!("{result:?}") };
        assert_eq!((first.rank, first.op, first.number), (0, Op::Barrier, 2));
        assert_eq!((second.rank, second.op, second.elements), (1, Op::AllReduce, 4));
    }
    let results = on_ranks(local(2), |mut comm| {
        let group = comm.group(&[0, 1]).unwrap();
        let len = 3 + comm.rank() as usize;
        comm.all_gather(&group, &vec![0.0; len], &mut vec![0.0; 2 * len])
    });
    for result in results {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("3 elements") && text.contains("4 elements"), "{text}");
    }
}

#[test]
fn ranks_that_wait_for_each_other_in_different_groups_are_found() {
    let start = Instant::now();
    // 0 waits for 1, 1 for 2, 2 for 0: no two of them are in the same group.
    let results = on_ranks(local(3), |mut comm| {
        let groups = [vec![0, 1], vec![1, 2], vec![0, 2]];
        let group = comm.group(&groups[comm.rank() as usize]).unwrap();
        comm.barrier(&group)
    });
    for result in results {
        assert!(matches!(result, Err(CommError::Mismatch { .. })), "{result:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_slow_rank_is_not_a_deadlock() {
    let results = on_ranks(local(3), |mut comm| {
        let (left, right) = (comm.group(&[0, 1]), comm.group(&[1, 2]));
        match comm.rank() {
            0 => comm.barrier(&left.unwrap()),
            1 => comm.barrier(&right.unwrap()).and_then(|()| comm.barrier(&left.unwrap())),
            _ => {
                thread::sleep(Duration::from_millis(500));
                comm.barrier(&right.unwrap())
            }
        }
    });
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
}

#[test]
fn arguments_that_do_not_fit_fail_everywhere() {
    let results = on_ranks(local(2), |mut comm| {
        let group = comm.group(&[0, 1]).unwrap();
        let mut recv = vec![0.0; if comm.rank() == 0 { 3 } else { 4 }];
        comm.all_gather(&group, &[0.0; 2], &mut recv)
    });
    for result in results {
        assert!(matches!(result, Err(CommError::Argument { rank: 0, op: Op::AllGather, .. })), "{result:?}");
    }
}

#[test]
fn an_abort_ends_every_wait_at_once_and_for_good() {
    let start = Instant::now();
    let results = on_ranks(local(4), |mut comm| {
        let group = comm.group(&[0, 1, 2, 3]).unwrap();
        if comm.rank() == 2 {
            thread::sleep(Duration::from_millis(50));
            comm.abort("ran out of disk");
            comm.abort("second reason");
        }
        (comm.barrier(&group), comm.barrier(&group))
    });
    let expected = Err(CommError::Aborted { rank: 2, reason: "ran out of disk".into() });
    for (first, second) in results {
        assert_eq!((&first, &second), (&expected, &expected));
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_panic_and_an_early_end_reach_the_others() {
    let results = on_ranks(local(3), |mut comm| {
        let group = comm.group(&[0, 1, 2]).unwrap();
        if comm.rank() == 1 {
            let died = catch_unwind(AssertUnwindSafe(move || {
                let _mine = comm;
                std::panic::resume_unwind(Box::new("dead"));
            }));
            assert!(died.is_err());
            return Ok(());
        }
        comm.all_reduce(&group, &mut [1.0; 100])
    });
    let expected = Err(CommError::Aborted { rank: 1, reason: "panicked".into() });
    assert_eq!([&results[0], &results[2]], [&expected, &expected]);

    let results = on_ranks(local(2), |mut comm| {
        let group = comm.group(&[0, 1]).unwrap();
        if comm.rank() == 0 { comm.barrier(&group) } else { Ok(()) }
    });
    let text = results[0].as_ref().unwrap_err().to_string();
    assert!(text.starts_with("rank 1 ended while rank 0 is in barrier"), "{text}");
}

#[test]
fn a_silent_rank_is_named_when_the_time_is_up() {
    let limit = Duration::from_millis(250);
    let results = on_ranks(local_with_limit(3, limit), |mut comm| {
        let group = comm.group(&[0, 1, 2]).unwrap();
        if comm.rank() == 2 {
            thread::sleep(limit * 3);
        }
        comm.broadcast(&group, 0, &mut [0.0; 9])
    });
    for result in results {
        let Err(CommError::Timeout { call, silent, .. }) = result else { panic!("{result:?}") };
        assert_eq!((call.op, silent), (Op::Broadcast, vec![2]));
    }
}

#[test]
fn groups_are_checked() {
    let mut comms = local(4);
    for ranks in [&[1, 0][..], &[0, 0], &[0, 4], &[1, 2], &[]] {
        assert!(matches!(comms[0].group(ranks), Err(CommError::Group { .. })), "{ranks:?}");
    }
    let foreign = comms[1].group(&[1]).unwrap();
    assert!(matches!(comms[0].barrier(&foreign), Err(CommError::Group { .. })));
}

#[test]
fn many_collectives_on_several_groups_stay_in_step() {
    let results = on_ranks(local(4), |mut comm| {
        let me = comm.rank();
        let world = comm.group(&[0, 1, 2, 3]).unwrap();
        let row = comm.group(&if me < 2 { [0, 1] } else { [2, 3] }).unwrap();
        let column = comm.group(&if me % 2 == 0 { [0, 2] } else { [1, 3] }).unwrap();
        let mut total = [0.0f64];
        let mut data = vec![me as f32; 33];
        for _ in 0..500 {
            for group in [&row, &column, &world] {
                comm.all_reduce(group, &mut data).unwrap();
                data.iter_mut().for_each(|x| *x /= group.size() as f32);
            }
            total[0] += f64::from(data[32]);
        }
        comm.all_reduce_f64(&world, &mut total).unwrap();
        total[0]
    });
    assert_eq!(results, [3000.0; 4]);
}
