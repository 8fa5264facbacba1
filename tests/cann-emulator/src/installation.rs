//! The emulator where an installation of CANN would be, and processes that find it there.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Which test a process was begun for, as which rank, and where it finds the others.
const TEST: &str = "EMULATOR_TEST";
const RANK: &str = "EMULATOR_RANK";
/// The folder that all processes of a test share.
pub const FOLDER: &str = "EMULATOR_FOLDER";

/// What the processes of a test left.
pub struct Outcome {
    pub statuses: Vec<ExitStatus>,
    /// Reports of the emulator, a line of JSON for each process that came to its end.
    pub reports: Vec<String>,
}

impl Outcome {
    /// Every process did what it should, no call was refused, nothing leaked.
    ///
    /// # Panics
    /// If not.
    pub fn is_clean(&self) {
        assert!(self.statuses.iter().all(ExitStatus::success), "{:?}, {:?}", self.statuses, self.reports);
        assert_eq!(self.reports.len(), self.statuses.len(), "reports of the emulator");
        for report in &self.reports {
            assert!(report.ends_with("\"refused\": [], \"leaks\": []}"), "{report}");
        }
    }
}

/// In the test's own process: runs `body` in `ranks` others, and gives what came of them. In those: runs it and ends. `test` is the
/// name that the test has for the test runner.
///
/// # Panics
/// If the processes cannot be begun.
pub fn in_processes(test: &str, ranks: usize, settings: &[(&str, &str)], body: fn(usize)) -> Outcome {
    if std::env::var(TEST).as_deref() == Ok(test) {
        body(std::env::var(RANK).expect("set below").parse().expect("a number"));
        std::process::exit(0);
    }
    let folder =
        std::env::temp_dir().join(format!("emulated-{}-{}", std::process::id(), test.replace("::", "-")));
    install(&folder);
    let begin = |rank: usize| -> Child {
        Command::new(std::env::current_exe().expect("a test has a file"))
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(TEST, test)
            .env(RANK, rank.to_string())
            .env(FOLDER, &folder)
            .env("ASCEND_HOME_PATH", &folder)
            .env("EMU_REPORT", folder.join("report"))
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .spawn()
            .expect("the test begins again")
    };
    let children: Vec<Child> = (0..ranks).map(begin).collect();
    let statuses = children.into_iter().map(|mut child| child.wait().expect("it ends")).collect();
    let reports = std::fs::read_to_string(folder.join("report")).unwrap_or_default();
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    Outcome { statuses, reports: reports.lines().map(str::to_owned).collect() }
}

/// Makes `folder` look like an installation. The library is built beside the tests that depend on this package.
fn install(folder: &Path) {
    let lib = folder.join("lib64");
    std::fs::create_dir_all(&lib).expect("a folder of our own");
    let library = std::env::current_exe().expect("a test has a file").with_file_name("libcann_emulator.so");
    assert!(library.exists(), "{} is built with the tests", library.display());
    for name in ["libascendcl.so", "libopapi.so", "libhccl.so"] {
        std::os::unix::fs::symlink(&library, lib.join(name)).expect("a name of its own");
    }
}
