//! The language server: `stepc lsp`.
//!
//! ```text
//! edits ──server──▶ Snapshot ──publish──▶ diagnostics, as `stepc check` finds them
//! requests ──server──▶ workers ──▶ View ──requests/*──▶ answer
//! ```
//!
//! | file | what it does |
//! | --- | --- |
//! | `stdio`, `server` | messages in and out; the life of a session; edits, applied in their order |
//! | `document`, `overlay`, `index` | open files, those on disk below them, and which files use which |
//! | `snapshot`, `project`, `plans` | all files at one moment, and what is known of them, found out once when asked for |
//! | `view`, `position`, `uri` | what a request sees: one file, its places as the protocol counts them |
//! | `shelf` | the library as files, for editors that can only open files |
//! | `walk` | the parts of a tree with what the schema knows of them |
//! | `glance` | the same of what was known last, for answers between two keystrokes |
//! | `knowledge` | what names mean, by what is written |
//! | `workers`, `publish` | threads that answer requests and that check; the main one never waits for them |
//! | `requests` | one file a request: a pure function of a view |
//!
//! Snapshots never change, so threads need no locks: an edit makes the next one, which keeps what it leaves alone.

mod capabilities;
mod document;
mod glance;
mod guard;
mod index;
mod knowledge;
mod overlay;
mod plans;
mod position;
mod project;
mod publish;
pub mod requests;
mod server;
mod shelf;
mod snapshot;
mod stdio;
mod uri;
mod view;
mod walk;
mod workers;

pub use document::Document;
pub use overlay::Overlay;
pub use plans::Plans;
pub use position::{Encoding, Lines};
pub use project::{Checked, Project};
pub use server::{Ended, serve};
pub use snapshot::Snapshot;
pub use stdio::stdio;
pub use view::View;
