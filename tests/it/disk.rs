//! What a disk can do to checkpoints.

use crate::checkpoint::{finished, refused};
use crate::cli::{Desk, Run, STEPC};
use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Says on the terminal, past the test harness, that a machine does not let a test do its work.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

/// Runs a script in a name space where it may mount; none where the machine does not let it.
fn mounting(desk: &Desk, script: &str) -> Option<Run> {
    let run = Run::new(desk.command("unshare", &["-rm", "sh", "-c", script]).output().ok()?);
    (run.code != Some(77) && !run.err.contains("unshare")).then_some(run)
}

/// What a run must leave behind that could not write a checkpoint: the reason, the one before whole, no half one; with room
/// again it goes on.
#[track_caller]
fn stopped(desk: &Desk, run: &Run, reason: &str) {
    refused(run, 1, &["step::checkpoint::write", reason, "step-00000", "is complete", "--resume"]);
    let kept = stepc::checkpoint::newest(&desk.path("out")).expect("the one before is there");
    stepc::checkpoint::Checkpoint::open(&kept.path).unwrap();
    let names = fs::read_dir(desk.path("out")).unwrap().map(|e| e.unwrap().file_name());
    let half: Vec<_> = names.filter(|name| name.to_string_lossy().contains("unfinished")).collect();
    assert!(half.is_empty(), "{half:?}");
    let again = desk.stepc(&["run", "small.step", "--set", "train.steps=6", "--resume"]);
    assert_eq!(again.code, Some(0), "{}", again.err);
}

/// A limit on the size of files: writing fails as on a full disk, whoever runs the test.
#[test]
fn a_file_that_may_not_grow_stops_the_run() {
    for every in ["every = 2, keep = 9", "every = 6"] {
        let desk = Desk::new();
        desk.spoil("every = 3", every);
        // Ends behind step 2 with a checkpoint, in the background or, where nothing comes behind it, at once.
        assert_eq!(desk.stepc(&["run", "small.step", "--set", "train.steps=2"]).code, Some(0));
        let shard = fs::metadata(desk.path("out/step-000002/rank-00000.safetensors")).unwrap().len();
        let script = format!(
            "trap '' XFSZ; ulimit -f {}; exec {STEPC} run small.step --set train.steps=6 --resume",
            shard / 2 / 512
        );
        let run = Run::new(desk.command("sh", &["-c", &script]).output().unwrap());
        stopped(&desk, &run, "File too large");
    }
}

/// A file without room takes the place of a rank's: no byte of it is written, whoever runs the test.
#[test]
fn a_disk_without_room_stops_the_run() {
    let desk = Desk::new();
    desk.spoil("every = 3", "every = 100");
    assert_eq!(desk.stepc(&["run", "small.step", "--set", "train.steps=2"]).code, Some(0));
    let long = ["run", "small.step", "--set", "train.steps=150", "--resume"];
    let mut child = desk.command(STEPC, &long);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = || fs::read_to_string(desk.path("out/metrics.jsonl")).unwrap_or_default().lines().count();
    let patience = Instant::now();
    while lines() < 3 && patience.elapsed().as_secs() < 60 {
        sleep(Duration::from_millis(1));
    }
    // By now it has removed what earlier runs may have left behind.
    let folder = desk.path("out/step-000100.unfinished");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.join("rank-00001.safetensors")).unwrap();
    let run = Run::new(child.wait_with_output().unwrap());
    stopped(&desk, &run, "No space left on device");
}

/// A small disk of its own, filled by what is written.
#[test]
fn a_full_disk_stops_the_run() {
    let desk = Desk::new();
    desk.spoil("every = 3", "every = 1, keep = 9");
    fs::create_dir(desk.path("out")).unwrap();
    assert_eq!(
        desk.stepc(&["run", "small.step", "--set", "train.steps=1", "--output", "probe"]).code,
        Some(0)
    );
    let one = stepc::checkpoint::Checkpoint::open(&desk.path("probe")).unwrap().manifest().bytes();
    let script = format!(
        "mount -t tmpfs -o size={} small out || exit 77\n\
         {STEPC} run small.step --set train.steps=6\n\
         code=$?\ncp -r out kept\nexit $code",
        one * 7 / 2
    );
    let Some(run) = mounting(&desk, &script) else {
        return skipped("a full disk", "no disk can be mounted; `/dev/full` and a limit on files are tried");
    };
    fs::remove_dir(desk.path("out")).unwrap();
    fs::rename(desk.path("kept"), desk.path("out")).unwrap();
    stopped(&desk, &run, "No space left on device");
}

/// By a mount, which binds everybody, or else by its mode, which binds all but root.
#[test]
fn a_folder_that_may_only_be_read_is_refused() {
    let desk = finished();
    let resume = ["run", "small.step", "--set", "train.steps=8", "--resume"];
    let script = format!(
        "mount --bind out out && mount -o remount,ro,bind out || exit 77\n{STEPC} {}",
        resume.join(" ")
    );
    if let Some(run) = mounting(&desk, &script) {
        return refused(&run, 2, &["step::output::unwritable", "Read-only file system"]);
    }
    let mode = |mode: &str| assert!(desk.command("chmod", &[mode, "out"]).status().unwrap().success());
    mode("555");
    if fs::write(desk.path("out/probe"), "").is_ok() {
        return skipped("a read-only folder", "root may write it, and nothing can be mounted");
    }
    let run = desk.stepc(&resume);
    mode("755");
    refused(&run, 2, &["step::output::unwritable", "Permission denied"]);
}
