//! Which files of the workspace use which, read from the lines that begin with `use`: enough to find the recipes that
//! a file may have a part in. Reading those tells whether it has.

use crate::base::host::normal;
use crate::syntax::TOP_KINDS;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders one inside the other that are searched.
const DEPTH: usize = 16;
/// Files and folders looked at in all, so that a home folder as the workspace ends soon.
const ENTRIES: usize = 50_000;
/// The largest file that is indexed before it is opened, in bytes.
const FILE: u64 = 4 << 20;

/// What one file says at its margin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Head {
    uses: Vec<PathBuf>,
    items: Vec<ItemLine>,
}

/// The line that an item begins on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemLine {
    pub kind: &'static str,
    pub name: String,
    /// From 0.
    pub line: u32,
    /// Of kind and name, both of which are ASCII.
    pub columns: std::ops::Range<u32>,
}

impl Head {
    fn has_recipe(&self) -> bool {
        self.items.iter().any(|item| item.kind == "recipe")
    }
}

/// The `.step` files of the workspace and those that are open.
#[derive(Debug, Clone, Default)]
pub struct Index {
    files: BTreeMap<PathBuf, Head>,
}

impl Index {
    /// Reads the folders of a workspace. Hidden folders, links and build output are left out.
    pub fn of(folders: &[PathBuf]) -> Index {
        let mut index = Index::default();
        let mut left = ENTRIES;
        let mut todo: Vec<(PathBuf, usize)> = folders.iter().map(|folder| (folder.clone(), 0)).collect();
        while let Some((folder, depth)) = todo.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                left = left.saturating_sub(1);
                let (path, name) = (entry.path(), entry.file_name());
                let Ok(kind) = entry.file_type() else { continue };
                let skipped =
                    name.as_encoded_bytes().starts_with(b".") || name == "target" || name == "node_modules";
                if kind.is_dir() && depth < DEPTH && left > 0 && !skipped {
                    todo.push((path, depth + 1));
                } else if kind.is_file()
                    && is_step(&path)
                    && entry.metadata().is_ok_and(|data| data.len() <= FILE)
                {
                    index.read(&path);
                }
            }
        }
        index
    }

    /// Reads a file from disk anew; forgets it where it is gone.
    pub fn read(&mut self, path: &Path) {
        match fs::read_to_string(path) {
            Ok(text) => {
                self.set(path, &text);
            }
            Err(_) => {
                self.files.remove(path);
            }
        }
    }

    /// Notes the text of a file. Whether that changes anything.
    pub fn set(&mut self, path: &Path, text: &str) -> bool {
        let head = head(path, text);
        let changed = self.files.get(path) != Some(&head);
        if changed {
            self.files.insert(path.to_owned(), head);
        }
        changed
    }

    /// Whether `text` would change what is known of a file.
    pub fn differs(&self, path: &Path, text: &str) -> bool {
        self.files.get(path) != Some(&head(path, text))
    }

    /// The items of every file, in order.
    pub fn items(&self) -> impl Iterator<Item = (&Path, &ItemLine)> {
        self.files.iter().flat_map(|(path, head)| head.items.iter().map(|item| (path.as_path(), item)))
    }

    /// The files with recipes that use `path`, over however many others.
    pub fn users(&self, path: &Path) -> Vec<PathBuf> {
        let mut found = BTreeSet::new();
        let mut todo = vec![path.to_owned()];
        while let Some(used) = todo.pop() {
            let users = self.files.iter().filter(|(_, head)| head.uses.contains(&used));
            for (user, _) in users {
                if found.insert(user.clone()) {
                    todo.push(user.clone());
                }
            }
        }
        found.remove(path);
        found.retain(|user| self.files.get(user).is_some_and(Head::has_recipe));
        found.into_iter().collect()
    }
}

/// Whether a path is that of a file of the language.
pub fn is_step(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "step")
}

fn head(path: &Path, text: &str) -> Head {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut head = Head::default();
    for (number, line) in (0..).zip(text.trim_start_matches('\u{feff}').lines()) {
        // Items stand at the margin, and most lines do not.
        if !line.starts_with(|c: char| c.is_ascii_lowercase()) {
            continue;
        }
        if let Some(rest) = line.strip_prefix("use") {
            let used = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
            head.uses.extend(used.map(|used| normal(&folder.join(used))));
        } else if let Some(kind) = TOP_KINDS.into_iter().find(|kind| line.starts_with(kind)) {
            let rest = line[kind.len()..].trim_start();
            let name =
                rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
            if rest.len() < line.len() - kind.len() && !name.is_empty() {
                let end = line.len() - rest.len() + name.len();
                head.items.push(ItemLine {
                    kind,
                    name: name.to_owned(),
                    line: number,
                    columns: 0..end as u32,
                });
            }
        }
    }
    head
}
