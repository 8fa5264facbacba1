//! Inputs that nobody means: each is told in a diagnostic with exit code 2, in time, by the real program.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a run may take before it counts as hanging; a loaded machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exit code and standard error of `stepc ARGS`; a run that hangs fails the test.
fn stepc(folder: &Path, args: &[&str]) -> (i32, String) {
    let errors = folder.join("stderr.txt");
    let mut child = Command::new(env!("CARGO_BIN_EXE_stepc"))
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("`stepc {}` hangs", args.join(" "));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = String::from_utf8_lossy(&fs::read(errors).unwrap()).into_owned();
    (status.code().unwrap_or_else(|| panic!("killed: {status}\n{said}")), said)
}

fn written(folder: &TempDir, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join("a.step");
    fs::write(&path, bytes).unwrap();
    path
}

/// Checks and formats `a.step`, which is to be refused with `words` both times and left as it was.
fn refused(folder: &TempDir, words: &[&str]) {
    let path = folder.path().join("a.step");
    let before = fs::metadata(&path).ok().filter(|kind| kind.is_file()).map(|_| fs::read(&path).ok());
    for command in ["check", "fmt"] {
        let (code, said) = stepc(folder.path(), &[command, "a.step", "--format", "short"]);
        assert_eq!(code, 2, "{command}: {said}");
        for word in words {
            assert!(said.contains(word), "{command} does not say `{word}`:\n{said}");
        }
    }
    let after = fs::metadata(&path).ok().filter(|kind| kind.is_file()).map(|_| fs::read(&path).ok());
    assert_eq!(before, after, "the file was touched");
}

/// The same for a text; only `check` refuses where the words are the evaluator's.
fn text_is_refused(text: impl AsRef<[u8]>, words: &[&str]) {
    let folder = TempDir::new().unwrap();
    written(&folder, text);
    refused(&folder, words);
}

#[test]
fn deep_nesting() {
    let deep = 100_000;
    let open = |bracket: &str| format!("recipe r {{ x = {} }}", bracket.repeat(deep));
    let closed = |a: &str, b: &str| format!("recipe r {{ x = {}1{} }}", a.repeat(deep), b.repeat(deep));
    let texts = [
        open("("),
        open("["),
        closed("(", ")"),
        closed("[", "]"),
        closed("max(", ")"),
        closed("a[", "]"),
        closed("- ", ""),
        closed("!", ""),
        closed("1 + ", ""),
        closed("if a { 1 } else { ", " }"),
        format!("recipe r {{ x = {}{{ 1 }} }}", "if a { 1 } else ".repeat(deep)),
        "recipe r { ".repeat(deep),
        format!("recipe r {{ {} {} }}", "a { ".repeat(deep), "}".repeat(deep)),
        format!("recipe r {{ {} }}", "if a { ".repeat(deep)),
        format!("recipe r {{ if a {{ }} {} }}", "else if a { } ".repeat(deep)),
    ];
    for text in texts {
        text_is_refused(text, &["a.step:1:", "error[step::syntax::too_deep]"]);
    }
}

#[test]
fn deep_paths_and_closing_brackets() {
    text_is_refused(format!("recipe r {{ x = {} }}", "}".repeat(100_000)), &["error[step::syntax::stray]"]);
    let folder = TempDir::new().unwrap();
    written(&folder, format!("recipe r {{ x = a{} }}", ".a".repeat(100_000)));
    let (code, said) = stepc(folder.path(), &["check", "a.step", "--format", "short"]);
    assert_eq!(code, 2, "{said}");
}

#[test]
fn huge_numbers() {
    let range = "error[step::syntax::number_range]";
    text_is_refused("recipe r { x = 99999999999999999999 }", &["a.step:1:16", range]);
    text_is_refused("recipe r { x = 1e999 }", &["a.step:1:16", range]);
    text_is_refused(
        format!("recipe r {{ x = {} }}", "9".repeat(1_000_000)),
        &["(1000000 characters)", range],
    );
    text_is_refused(format!("recipe r {{ x = 1e{} }}", "9".repeat(1_000_000)), &[range]);
    // In range for the language, too much for the field or for the arithmetic.
    let folder = TempDir::new().unwrap();
    for value in [
        "9223372036854775807",
        "9223372036854775807 * 2",
        "0 - 9223372036854775807 - 2",
        "1e308 * 10",
        "8388608Ti",
    ] {
        written(&folder, format!("recipe r {{ train {{ steps = {value} }} }}"));
        let (code, said) = stepc(folder.path(), &["check", "a.step", "--format", "short"]);
        assert!(code == 2 && said.contains("a.step:1:"), "{value}: {said}");
    }
}

#[test]
fn a_file_that_is_too_large() {
    let folder = TempDir::new().unwrap();
    File::create(folder.path().join("a.step")).unwrap().set_len(100_000_000).unwrap();
    refused(&folder, &["error[step::recipe::unreadable]", "is larger than 64 MiB"]);
}

#[test]
fn bytes_that_are_no_text() {
    let at = |bytes: &[u8], words: &[&str]| text_is_refused(bytes, words);
    at(b"// \xe6\xad\xa5\nrecipe r { \xff }", &["byte 0xff at line 2, column 12"]);
    at(b"recipe r { x = \"\xed\xa0\x80\" }", &["byte 0xed at line 1, column 17"]);
    at(b"recipe r { // cut \xe6\xad", &["byte 0xe6 at line 1, column 19"]);
    at(b"recipe\0 r {\0\0 }", &["a.step:1:7", "control character U+0000"]);
    at(&[0; 4096], &["a.step:1:1", "control character U+0000"]);
    at(b"\xff\xfer\0e\0c\0", &["is UTF-16, not a text"]);
}

#[test]
fn files_of_other_formats() {
    let mut safetensors = 22u64.to_le_bytes().to_vec();
    safetensors.extend(b"{\"__metadata__\":{}}   \0\0\x80\x3f");
    text_is_refused(&safetensors, &["is a safetensors file, not a text"]);
    text_is_refused(b"PK\x03\x04\x14\0\0\0\x08\0", &["is a zip archive, not a text"]);
    text_is_refused("{ \"model\": { \"hidden\": 64 } }", &["a.step:1:1", "JSON"]);
    text_is_refused("model:\n  hidden: 64\n  layers: 2\ntrain:\n  steps: 10\n", &["a.step:1:", "YAML"]);
}

#[test]
fn what_is_no_file() {
    let folder = TempDir::new().unwrap();
    refused(&folder, &["error[step::recipe::unreadable]", "cannot read `a.step`: there is no such file"]);
    fs::create_dir(folder.path().join("a.step")).unwrap();
    refused(&folder, &["cannot read `a.step`: is a folder, not a file"]);
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_do_not_hang() {
    let folder = TempDir::new().unwrap();
    let made = Command::new("mkfifo").arg(folder.path().join("a.step")).status().unwrap();
    assert!(made.success());
    refused(&folder, &["cannot read `a.step`: is not a regular file"]);
    let folder = TempDir::new().unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("a.step")).unwrap();
    refused(&folder, &["cannot read `a.step`: is not a regular file"]);
    // Used by another file.
    fs::write(folder.path().join("b.step"), "use \"a.step\"\nrecipe r { }").unwrap();
    let (code, said) = stepc(folder.path(), &["check", "b.step", "--format", "short"]);
    assert!(code == 2 && said.contains("b.step:1:1: error[step::recipe::unreadable]"), "{said}");
}

#[cfg(unix)]
#[test]
fn files_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let path = written(&folder, "recipe r { }");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser reads everything.
    if File::open(&path).is_err() {
        refused(&folder, &["cannot read `a.step`: permission denied"]);
    }
}

#[cfg(unix)]
#[test]
fn links_in_circles() {
    use std::os::unix::fs::symlink;
    let folder = TempDir::new().unwrap();
    symlink("b.step", folder.path().join("a.step")).unwrap();
    symlink("a.step", folder.path().join("b.step")).unwrap();
    refused(&folder, &["error[step::recipe::unreadable]", "cannot read `a.step`"]);

    let folder = TempDir::new().unwrap();
    symlink(".", folder.path().join("again")).unwrap();
    fs::write(folder.path().join("a.step"), "use \"again/a.step\"\nrecipe r { }").unwrap();
    let (code, said) = stepc(folder.path(), &["check", "a.step", "--format", "short"]);
    assert!(code == 2 && said.contains("a.step:1:1: error[step::recipe::use_cycle]"), "{said}");
}

#[test]
fn files_that_use_one_another() {
    let folder = TempDir::new().unwrap();
    for (name, used) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let text = format!("use \"{used}.step\"\nrecipe {name} {{ }}");
        fs::write(folder.path().join(format!("{name}.step")), text).unwrap();
    }
    let (code, said) = stepc(folder.path(), &["check", "a.step", "--format", "short"]);
    assert!(code == 2 && said.contains("c.step:1:1: error[step::recipe::use_cycle]"), "{said}");
    assert!(said.contains("`a.step` → `b.step` → `c.step` → `a.step`"), "{said}");
}

#[test]
fn an_empty_file() {
    let folder = TempDir::new().unwrap();
    for text in ["", "\n\n", "\u{feff}", "// only a comment"] {
        written(&folder, text);
        let (code, said) = stepc(folder.path(), &["check", "a.step", "--format", "short"]);
        assert!(code == 2 && said.contains("error[step::recipe::no_recipe]"), "{text:?}: {said}");
        assert_eq!(stepc(folder.path(), &["fmt", "a.step"]).0, 0);
    }
}

#[test]
fn marks_and_line_ends_of_other_systems_are_fine() {
    let folder = TempDir::new().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("recipes/step35_flash.step")).unwrap();
    for path in ["recipes", "examples/data"] {
        fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    fs::write(folder.path().join("examples/data/tokenizer.json"), "{}").unwrap();
    let file = folder.path().join("recipes/a.step");
    fs::write(file, format!("\u{feff}{}", text.replace('\n', "\r\n"))).unwrap();
    assert_eq!(stepc(folder.path(), &["check", "recipes/a.step"]), (0, String::new()));
    assert_eq!(stepc(folder.path(), &["fmt", "--check", "recipes/a.step"]), (0, String::new()));
}

#[test]
fn thousands_of_mistakes_are_told_in_time() {
    let folder = TempDir::new().unwrap();
    written(&folder, format!("recipe r {{\n{}}}\n", "  x = = 1\n".repeat(20_000)));
    let (code, said) = stepc(folder.path(), &["check", "a.step"]);
    assert_eq!(code, 2);
    assert!(said.contains("and 19950 more; `--format short` shows all"), "{}", &said[said.len() - 300..]);
    assert!(said.trim_end().ends_with("20000 errors"), "{}", &said[said.len() - 300..]);
    let (_, said) = stepc(folder.path(), &["check", "a.step", "--format", "short"]);
    assert_eq!(said.lines().count(), 20_000);
}

#[test]
fn a_file_on_one_line_does_not_flood_the_terminal() {
    let folder = TempDir::new().unwrap();
    written(&folder, format!("recipe r {{ {}x = }}", "text = \"s\", ".repeat(100_000)));
    let (code, said) = stepc(folder.path(), &["check", "a.step"]);
    assert_eq!(code, 2);
    assert!(said.len() < 10_000, "{} bytes", said.len());
    assert!(said.contains("a.step:1:") && said.contains("and 99951 more"), "{said}");
}
