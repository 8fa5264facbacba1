//! Reading a recipe and all it uses. A file is looked for beside the one that uses it, then in the `library`.

use super::library;
use super::node::{check_lets, twice};
use crate::base::{FileId, Host, SourceMap, Span};
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};
use crate::syntax::tree::{self, Block, Expr, Ident, Item};
use crate::syntax::{Parser, TOP_KINDS, parse_assignment};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// What a command wants resolved.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The file to read.
    pub path: PathBuf,
    /// Which of its recipes; needed where there are several.
    pub recipe: Option<String>,
    /// The profile the user asked for by name; [`Loaded::resolve`](super::Loaded::resolve) takes it.
    pub profile: Option<String>,
    /// `--set` arguments, `a.b.c=value` each, the later one winning.
    pub set: Vec<String>,
}

/// One file that takes part.
#[derive(Debug)]
pub struct SourceFile {
    pub tree: tree::File,
    /// The folder that relative paths written in it start from.
    pub folder: PathBuf,
    /// The files it uses, and those they use, by index.
    pub reach: Vec<usize>,
    /// Part of the embedded library.
    pub library: bool,
}

/// Every file and assignment that takes part, parsed.
#[derive(Debug)]
pub struct Parsed {
    /// The root first, the prelude last.
    pub files: Vec<SourceFile>,
    pub sets: Vec<(Vec<Ident>, Expr)>,
    /// Something could not be read or parsed: what is missing may just not have been understood.
    pub broken: bool,
}

impl Parsed {
    /// The names of the recipes that the root holds.
    pub fn recipes(&self) -> impl Iterator<Item = &Ident> {
        self.files.first().into_iter().flat_map(|root| &root.tree.items).filter_map(|item| match item {
            Item::Block(block) if block.kind.text == "recipe" => block.name.as_ref(),
            _ => None,
        })
    }
}

/// The largest number of files one inside the other.
const DEPTH: usize = 64;

/// Reads the file of `request`, what it uses and the `--set` arguments. `None` if the file itself cannot be read.
///
/// What `parser` remembers of earlier times is not read again.
pub fn parse_all(
    host: &dyn Host,
    request: &Request,
    parser: &mut Parser,
    sources: &mut SourceMap,
    sink: &mut Sink,
) -> Option<Parsed> {
    let text = match host.read_text(&request.path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read `{}`: {}", request.path.display(), reason(&error));
            let problem = Diagnostic::error("step::recipe::unreadable", message);
            sink.push(problem.help("give the path of a `.step` file"));
            return None;
        }
    };
    let mut own = Sink::default();
    let mut loader = Loader {
        host,
        parser,
        sources,
        sink: &mut own,
        files: Vec::new(),
        known: HashMap::new(),
        open: Vec::new(),
    };
    loader.file(Place::Disk(request.path.clone()), text);
    if let Some((path, text)) = library::file(library::PRELUDE)
        && !loader.known.contains_key(&Place::Library(path))
    {
        loader.file(Place::Library(path), text.to_owned());
    }
    let files: Vec<_> = loader.files.into_iter().flatten().collect();
    parser.forget();
    check_items(&files, &mut own);
    let sets = request.set.iter().filter_map(|text| {
        let id = sources.add("<--set>", text.as_str());
        parse_assignment(id, text, &mut own)
    });
    let sets = sets.collect();
    let broken = own.has_errors();
    sink.extend(own.finish());
    Some(Parsed { files, sets, broken })
}

/// Where a file is, which also tells files apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Disk(PathBuf),
    Library(&'static str),
}

impl Place {
    fn shown(&self) -> String {
        match self {
            Place::Disk(path) => path.display().to_string(),
            Place::Library(path) => format!("<library>/{path}"),
        }
    }

    fn folder(&self) -> PathBuf {
        match self {
            Place::Disk(path) => path.parent().unwrap_or(Path::new("")).to_owned(),
            Place::Library(path) => Path::new(path).parent().unwrap_or(Path::new("")).to_owned(),
        }
    }
}

/// A file whose `use`s are being followed.
struct Open {
    index: usize,
    shown: String,
    text: String,
}

struct Loader<'l> {
    host: &'l dyn Host,
    parser: &'l mut Parser,
    sources: &'l mut SourceMap,
    sink: &'l mut Sink,
    /// In the order of their first `use`; filled when what they use has been read.
    files: Vec<Option<SourceFile>>,
    known: HashMap<Place, usize>,
    open: Vec<Open>,
}

impl Loader<'_> {
    /// Parses a file and follows what it uses.
    fn file(&mut self, place: Place, text: String) -> usize {
        let index = self.files.len();
        self.files.push(None);
        let id = self.sources.add(place.shown(), text.as_str());
        let tree = self.parser.parse(id, &text, self.sink);
        self.known.insert(normal(&place), index);
        self.open.push(Open { index, shown: place.shown(), text });
        let mut reach: Vec<usize> = Vec::new();
        for item in &tree.items {
            if let Item::Use { path, span } = item
                && let Some(used) = self.follow(&place, path, *span)
            {
                let further = self.files[used].iter().flat_map(|file| &file.reach);
                for index in std::iter::once(&used).chain(further) {
                    if !reach.contains(index) {
                        reach.push(*index);
                    }
                }
            }
        }
        self.open.pop();
        let library = matches!(place, Place::Library(_));
        self.files[index] = Some(SourceFile { tree, folder: place.folder(), reach, library });
        index
    }

    /// The file that `use "path"` in the file at `from` means, read if it has not been.
    fn follow(&mut self, from: &Place, path: &str, span: Span) -> Option<usize> {
        let beside = normal(&match from {
            Place::Disk(_) => Place::Disk(from.folder().join(path)),
            Place::Library(_) => {
                let joined = normal_path(&from.folder().join(path));
                let (known, _) = library::file(joined.to_str()?).or_else(|| library::file(path))?;
                Place::Library(known)
            }
        });
        let place = match &beside {
            Place::Disk(file) if !self.host.exists(file) => match library::file(path) {
                Some((known, _)) => Place::Library(known),
                None => {
                    self.sink.push(not_found(path, span));
                    return None;
                }
            },
            _ => beside,
        };
        if let Some(index) = self.known.get(&place).copied() {
            return self.unless_open(index, path, span);
        }
        let text = match &place {
            Place::Library(known) => library::file(known)?.1.to_owned(),
            Place::Disk(file) => match self.host.read_text(file) {
                Ok(text) => text,
                Err(error) => {
                    let message = format!("cannot read `{}`: {}", file.display(), reason(&error));
                    let problem = Diagnostic::error("step::recipe::unreadable", message);
                    self.sink.push(problem.label(span, "used here"));
                    return None;
                }
            },
        };
        // Links can lead to one file by ever longer paths: its text tells that it is the same.
        if let Some(same) = self.open.iter().find(|open| open.text == text) {
            return self.unless_open(same.index, path, span);
        }
        if self.open.len() == DEPTH {
            let message = format!("files use one another over {DEPTH} deep");
            self.sink.push(Diagnostic::error("step::recipe::use_cycle", message).label(span, "stopped here"));
            return None;
        }
        Some(self.file(place, text))
    }

    /// `index`, or a report that it is being read: a cycle.
    fn unless_open(&mut self, index: usize, path: &str, span: Span) -> Option<usize> {
        let Some(start) = self.open.iter().position(|open| open.index == index) else { return Some(index) };
        let mut names: Vec<_> = self.open[start..].iter().map(|open| format!("`{}`", open.shown)).collect();
        names.extend(names.first().cloned());
        let message = format!("files use one another in a circle: {}", names.join(" → "));
        let problem = Diagnostic::error("step::recipe::use_cycle", message);
        let label = format!("`{path}` is being read already");
        self.sink.push(problem.label(span, label).help("move what both need into a file of its own"));
        None
    }
}

fn not_found(path: &str, span: Span) -> Diagnostic {
    let problem = Diagnostic::error("step::recipe::use_not_found", format!("there is no file `{path}`"))
        .label(span, "neither beside this file nor in the library");
    match nearest(path, library::LIBRARY.iter().map(|(known, _)| *known)) {
        // The text stands in quotes at the end, unless some of it is escaped.
        Some(near) if !path.contains(['"', '\\']) => {
            let end = span.end - 1;
            let text = Span { start: end - path.len() as u32, end, ..span };
            problem.help(format!("did you mean `{near}`?")).fix(text, near)
        }
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("`stepc new --list` shows the models of the library"),
    }
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

fn normal(place: &Place) -> Place {
    match place {
        Place::Disk(path) => Place::Disk(normal_path(path)),
        library => library.clone(),
    }
}

/// `path` without `.` and, as far as the text tells, without `..`.
fn normal_path(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Reports items that have no name, or a name that is taken.
fn check_items(files: &[SourceFile], sink: &mut Sink) {
    let mut taken: HashMap<(&str, &str), (&Block, FileId)> = HashMap::new();
    for file in files {
        let lets = file.tree.items.iter().filter_map(|item| match item {
            Item::Let(item) => Some(item),
            _ => None,
        });
        check_lets(lets, sink);
        let blocks = file.tree.items.iter().filter_map(|item| match item {
            Item::Block(block) => Some(block),
            _ => None,
        });
        for block in blocks {
            let kind = block.kind.text.as_str();
            if !TOP_KINDS.contains(&kind) {
                // Reported by the parser.
                continue;
            }
            let Some(name) = &block.name else {
                let message = format!("this `{kind}` has no name");
                let problem = Diagnostic::error("step::recipe::nameless", message)
                    .label(block.kind.span, "needs a name");
                sink.push(problem.help(format!("write `{kind} main {{ … }}`")));
                continue;
            };
            match taken.get(&(kind, name.text.as_str())) {
                // The user's own item goes before one of the library.
                Some((_, id)) if *id != file.tree.id && file.library => {}
                Some((first, _)) => {
                    sink.push(twice(
                        &format!("{kind} {}", name.text),
                        Some(block.head()),
                        Some(first.head()),
                    ));
                }
                None => {
                    taken.insert((kind, &name.text), (block, file.tree.id));
                }
            }
        }
    }
}
