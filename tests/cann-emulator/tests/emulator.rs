//! `ascend-rs` over the emulator: a process for each rank of each test, begun by the test itself.

use ascend_rs::{
    Class, Communicator, DataType, Device, DeviceBuffer, Reduction, RootInfo, Runtime, Scalar, Stream,
    Tensor, ops,
};
use cann_emulator::installation::{FOLDER, in_processes};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The device of a rank with a stream.
fn device(rank: usize) -> (Device, Stream) {
    let device = Device::open(&Runtime::init().unwrap(), rank as i32).unwrap();
    let stream = device.stream().unwrap();
    (device, stream)
}

fn upload(stream: &Stream, values: &[f32]) -> DeviceBuffer {
    let memory = stream.device().allocate(size_of_val(values)).unwrap();
    stream.upload(memory.region(..).unwrap(), bytemuck::cast_slice(values)).unwrap();
    memory
}

fn download(stream: &Stream, memory: &DeviceBuffer) -> Vec<f32> {
    let mut values = vec![0.0; memory.bytes() / 4];
    stream.download(bytemuck::cast_slice_mut(&mut values), memory.region(..).unwrap()).unwrap();
    values
}

#[test]
fn operators_leave_nothing_behind() {
    let outcome = in_processes("operators_leave_nothing_behind", 1, &[], |rank| {
        let (_, stream) = device(rank);
        let (x, y) = (upload(&stream, &[1.0, 2.0, 3.0, 4.0]), upload(&stream, &[10.0, 20.0]));
        let out = stream.device().allocate(16).unwrap();
        let x = Tensor::new(&x, 0, &[2, 2], DataType::F32).unwrap();
        let y = Tensor::new(&y, 0, &[2], DataType::F32).unwrap();
        let to = Tensor::new(&out, 0, &[2, 2], DataType::F32).unwrap();
        stream.launch(ops::add(&x, &y, &Scalar::f32(0.5).unwrap(), &to).unwrap()).unwrap();
        assert_eq!(download(&stream, &out), [6.0, 12.0, 8.0, 14.0]);
        // A call that is prepared and never submitted.
        drop(ops::inplace_zero(&to).unwrap());
    });
    outcome.is_clean();
}

#[test]
fn a_transposed_view_is_multiplied_as_it_is() {
    let outcome = in_processes("a_transposed_view_is_multiplied_as_it_is", 1, &[], |rank| {
        let (_, stream) = device(rank);
        let (a, b) = (
            upload(&stream, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            upload(&stream, &[1.0, 0.0, 2.0, 1.0, 0.0, 3.0]),
        );
        let out = stream.device().allocate(16).unwrap();
        let a = Tensor::strided(&a, 0, &[2, 3], &[1, 2], DataType::F32).unwrap();
        let b = Tensor::new(&b, 0, &[3, 2], DataType::F32).unwrap();
        let to = Tensor::new(&out, 0, &[2, 2], DataType::F32).unwrap();
        stream.launch(ops::matmul(&a, &b, &to, 0).unwrap()).unwrap();
        assert_eq!(download(&stream, &out), [7.0, 18.0, 10.0, 22.0]);
    });
    outcome.is_clean();
}

#[test]
fn device_memory_is_not_the_hosts() {
    let outcome = in_processes("device_memory_is_not_the_hosts", 1, &[], |rank| {
        let (device, _) = device(rank);
        let memory = device.allocate(64).unwrap();
        // SAFETY: none; it is what must end the process.
        let value = unsafe { memory.address().cast::<u8>().read_volatile() };
        panic!("the host read {value} from the device");
    });
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(outcome.statuses[0].signal(), Some(11), "a segmentation fault");
}

#[test]
fn failures_have_a_class_and_cann_s_message() {
    let settings = [("EMU_HBM_BYTES", "16777216"), ("EMU_FAIL", "aclrtCreateEventExWithFlag:2:207007")];
    let outcome = in_processes("failures_have_a_class_and_cann_s_message", 1, &settings, |rank| {
        let (device, stream) = device(rank);
        let error = device.allocate(32 << 20).unwrap_err();
        assert_eq!((error.class, error.name), (Class::OutOfMemory, Some("ACL_ERROR_RT_MEMORY_ALLOCATION")));
        assert_eq!((error.message_code(), error.call), (Some("EL0004"), "aclrtMalloc"));
        let event = device.event().unwrap();
        assert_eq!(device.event().unwrap_err().class, Class::OutOfMemory);
        assert_eq!(stream.wait(&event).unwrap_err().class, Class::Argument, "nobody recorded it");
        let memory = device.allocate(64).unwrap();
        let wrong = Tensor::new(&memory, 0, &[3, 3], DataType::F32).unwrap();
        let right = Tensor::new(&memory, 0, &[4, 4], DataType::F32).unwrap();
        let error = ops::matmul(&wrong, &right, &right, 0).unwrap_err();
        assert_eq!((error.class, error.code), (Class::Argument, 161_002));
        assert_eq!(ops::triu(&right, 1, &right).unwrap_err().class, Class::Unavailable, "it is not emulated");
    });
    assert!(outcome.statuses[0].success(), "{:?}", outcome.statuses);
    assert!(
        outcome.reports[0].ends_with("\"leaks\": []}"),
        "failures leak nothing either: {}",
        outcome.reports[0]
    );
}

#[test]
fn fresh_memory_is_no_number_and_streams_wait_for_events() {
    let outcome = in_processes("fresh_memory_is_no_number_and_streams_wait_for_events", 1, &[], |rank| {
        let (device, first) = device(rank);
        let second = device.stream().unwrap();
        let memory = device.allocate(256).unwrap();
        assert!(download(&first, &memory).iter().all(|value| value.is_nan()));
        let all = Tensor::new(&memory, 0, &[64], DataType::F32).unwrap();
        let (event, one) = (device.event().unwrap(), Scalar::f32(1.0).unwrap());
        for round in 0..200 {
            first
                .launch(ops::inplace_fill_scalar(&all, &Scalar::f32(round as f32).unwrap()).unwrap())
                .unwrap();
            first.record(&event).unwrap();
            second.wait(&event).unwrap();
            second.launch(ops::inplace_add(&all, &all, &one).unwrap()).unwrap();
            assert_eq!(download(&second, &memory)[63], 2.0 * round as f32);
        }
        event.synchronize().unwrap();
        assert!(event.is_done().unwrap());
    });
    outcome.is_clean();
}

#[test]
fn the_gradient_of_a_norm_is_that_of_differences() {
    let outcome = in_processes("the_gradient_of_a_norm_is_that_of_differences", 1, &[], |rank| {
        let (_, stream) = device(rank);
        let (x, gamma, dy) = ([0.5f32, -1.0, 2.0, 0.25], [1.0f32, 0.5, 2.0, -1.0], [0.1f32, 0.2, -0.3, 0.4]);
        let norm = |x: &[f32]| -> (Vec<f32>, f32) {
            let (input, weight) = (upload(&stream, x), upload(&stream, &gamma));
            let (output, scale) = (upload(&stream, &[0.0; 4]), upload(&stream, &[0.0]));
            let tensors = [(&input, 4), (&weight, 4), (&output, 4)]
                .map(|(memory, columns)| Tensor::new(memory, 0, &[columns], DataType::F32).unwrap());
            let rstd = Tensor::new(&scale, 0, &[1], DataType::F32).unwrap();
            stream
                .launch(ops::rms_norm(&tensors[0], &tensors[1], 1e-5, &tensors[2], &rstd).unwrap())
                .unwrap();
            (download(&stream, &output), download(&stream, &scale)[0])
        };
        let (_, rstd) = norm(&x);
        let memories =
            [&dy[..], &x, &[rstd], &gamma, &[0.0; 4], &[0.0; 4]].map(|values| upload(&stream, values));
        let tensors =
            memories.each_ref().map(|m| Tensor::new(m, 0, &[m.bytes() as i64 / 4], DataType::F32).unwrap());
        let [d_output, input, scale, weight, d_input, d_weight] = &tensors;
        stream
            .launch(ops::rms_norm_grad(d_output, input, scale, weight, d_input, d_weight).unwrap())
            .unwrap();
        let gradient = download(&stream, &memories[4]);
        for at in 0..4 {
            let moved = |by: f32| {
                let mut moved = x;
                moved[at] += by;
                norm(&moved).0.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f32>()
            };
            let difference = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((gradient[at] - difference).abs() < 1e-3, "{at}: {} and {difference}", gradient[at]);
        }
    });
    outcome.is_clean();
}

/// A group of `ranks`: the first one's root info reaches the others by a file.
fn join(device: &Device, ranks: usize, rank: usize) -> ascend_rs::Result<Communicator> {
    let file = PathBuf::from(std::env::var(FOLDER).unwrap()).join("root");
    let root = if rank == 0 {
        let root = RootInfo::new(device)?;
        std::fs::write(file.with_extension("part"), root.bytes()).unwrap();
        std::fs::rename(file.with_extension("part"), file).unwrap();
        root
    } else {
        let until = Instant::now() + Duration::from_secs(60);
        while !file.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        RootInfo::from_bytes(std::fs::read(file).unwrap().try_into().unwrap())
    };
    Communicator::new(device, ranks as u32, &root, rank as u32)
}

#[test]
fn collectives_of_four_processes() {
    let outcome = in_processes("collectives_of_four_processes", 4, &[], |rank| {
        let (device, stream) = device(rank);
        let group = join(&device, 4, rank).unwrap();
        let own = rank as f32;
        let (data, all) = (upload(&stream, &[own, 1.0, 2.0, 3.0]), upload(&stream, &[0.0; 16]));
        let (whole, every) = (data.region(..).unwrap(), all.region(..).unwrap());
        group.all_gather(&stream, whole, every, DataType::F32).unwrap();
        assert_eq!(download(&stream, &all)[12..], [3.0, 1.0, 2.0, 3.0]);
        group.all_reduce(&stream, whole, whole, DataType::F32, Reduction::Sum).unwrap();
        assert_eq!(download(&stream, &data), [6.0, 4.0, 8.0, 12.0]);
        group.reduce_scatter(&stream, every, whole, DataType::F32, Reduction::Max).unwrap();
        assert_eq!(download(&stream, &data), [own, 1.0, 2.0, 3.0]);
        // Rank r sends r + 1 elements to everybody.
        let (sent, received) = ([rank as u64 + 1; 4], [1, 2, 3, 4]);
        let from = upload(&stream, &vec![own; 4 * (rank + 1)]);
        let to = upload(&stream, &[0.0; 10]);
        let (source, target) = (from.region(..).unwrap(), to.region(..).unwrap());
        group.all_to_all(&stream, source, &sent, target, &received, DataType::F32).unwrap();
        assert_eq!(download(&stream, &to), [0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0]);
        group.barrier(&stream).unwrap();
        stream.synchronize().unwrap();
        group.check().unwrap();
    });
    outcome.is_clean();
}

#[test]
fn a_rank_that_dies_is_noticed_by_the_others() {
    let outcome = in_processes(
        "a_rank_that_dies_is_noticed_by_the_others",
        3,
        &[("HCCL_EXEC_TIMEOUT", "20")],
        |rank| {
            let (device, stream) = device(rank);
            let group = join(&device, 3, rank).unwrap();
            group.barrier(&stream).unwrap();
            stream.synchronize().unwrap();
            if rank == 2 {
                std::process::exit(7);
            }
            group.barrier(&stream).unwrap();
            let error = stream.synchronize().unwrap_err();
            assert_eq!((error.class, error.message_code()), (Class::Link, Some("EI0002")), "{error}");
        },
    );
    let codes: Vec<_> = outcome.statuses.iter().map(ExitStatus::code).collect();
    assert_eq!(codes, [Some(0), Some(0), Some(7)]);
}

#[test]
fn ranks_that_do_not_agree_are_told() {
    let outcome = in_processes("ranks_that_do_not_agree_are_told", 2, &[], |rank| {
        let (device, stream) = device(rank);
        let group = join(&device, 2, rank).unwrap();
        let data = upload(&stream, &vec![0.0; 4 + rank]);
        let whole = data.region(..).unwrap();
        group.all_reduce(&stream, whole, whole, DataType::F32, Reduction::Sum).unwrap();
        let error = stream.synchronize().unwrap_err();
        assert_eq!((error.class, error.message_code()), (Class::Argument, Some("EI0005")), "{error}");
    });
    assert!(outcome.statuses.iter().all(ExitStatus::success), "{:?}", outcome.statuses);
}

#[test]
fn a_rank_that_never_comes_is_waited_for_no_longer_than_the_limit() {
    let settings = [("HCCL_CONNECT_TIMEOUT", "0.5")];
    let outcome = in_processes(
        "a_rank_that_never_comes_is_waited_for_no_longer_than_the_limit",
        1,
        &settings,
        |rank| {
            let (device, _) = device(rank);
            let error = join(&device, 2, rank).unwrap_err();
            assert_eq!((error.class, error.message_code()), (Class::Link, Some("EI0006")), "{error}");
        },
    );
    assert!(outcome.statuses[0].success(), "{:?}", outcome.statuses);
}
