//! Diagnostics as they are pushed to the editor: checked on a thread of their own, the newest state of the files only.

use super::project::Project;
use super::snapshot::Snapshot;
use super::uri;
use super::view::range;
use crate::diag::{self, Severity};
use crossbeam_channel::{Receiver, Sender, unbounded};
use lsp_server::{Message, Notification as Note};
use lsp_types::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for the next edit of a burst.
const DEBOUNCE: Duration = Duration::from_millis(2);

/// How long to wait for the end of a burst.
const PATIENCE: Duration = Duration::from_millis(20);

/// Starts the thread. It ends when the sender is gone.
pub fn start(out: Sender<Message>) -> Sender<Arc<Snapshot>> {
    let (states, newer) = unbounded();
    thread::spawn(move || publish(&newer, &out));
    states
}

/// Per file, the version that was checked and what was found.
type Found = BTreeMap<PathBuf, (Option<i32>, Vec<Diagnostic>)>;

fn publish(newer: &Receiver<Arc<Snapshot>>, out: &Sender<Message>) {
    let mut shown = Found::new();
    while let Ok(mut snapshot) = newer.recv() {
        let last = Instant::now() + PATIENCE;
        while let Ok(next) = newer.recv_deadline(last.min(Instant::now() + DEBOUNCE)) {
            snapshot = next;
        }
        // Checkpoints are read when everything else has been shown.
        for late in [false, true] {
            let Some(found) = found(&snapshot, late) else { break };
            for (path, diagnostics) in changes(&mut shown, found) {
                let version = snapshot.host.open.get(&path).map(|document| document.version);
                let params = PublishDiagnosticsParams { uri: snapshot.uri(&path), version, diagnostics };
                let method = PublishDiagnosticsNotification::METHOD.to_string();
                if out.send(Note::new(method, params).into()).is_err() {
                    return;
                }
            }
        }
    }
}

/// The diagnostics of every file that has some or is open. `None` where the files have changed meanwhile.
fn found(snapshot: &Snapshot, late: bool) -> Option<Found> {
    let open = snapshot.host.open.iter();
    let mut found: Found =
        open.map(|(path, document)| (path.clone(), (Some(document.version), Vec::new()))).collect();
    for root in snapshot.roots() {
        if snapshot.is_stale() {
            return None;
        }
        let Some(project) = snapshot.project(&root) else { continue };
        for diagnostic in project.diagnostics.iter().chain(project.late(late)) {
            // That a file holds no recipe has no place: it need not.
            let Some(place) = project.place(diagnostic) else { continue };
            let path = PathBuf::from(project.sources.path(place.file));
            let shown = to_lsp(snapshot, &project, diagnostic);
            let (_, of_file) = found.entry(path).or_default();
            if !of_file.contains(&shown) {
                of_file.push(shown);
            }
        }
    }
    Some(found)
}

/// What differs from what is shown: `shown` becomes `found`.
fn changes(shown: &mut Found, found: Found) -> Vec<(PathBuf, Vec<Diagnostic>)> {
    let gone = shown.iter().filter(|(path, (_, had))| !found.contains_key(*path) && !had.is_empty());
    let mut changes: Vec<_> = gone.map(|(path, _)| (path.clone(), Vec::new())).collect();
    let new = found.iter().filter(|(path, state)| shown.get(*path) != Some(state));
    changes.extend(new.map(|(path, (_, diagnostics))| (path.clone(), diagnostics.clone())));
    *shown = found;
    changes
}

/// A diagnostic as the protocol writes it, in the file of its place.
pub fn to_lsp(snapshot: &Snapshot, project: &Project, diagnostic: &diag::Diagnostic) -> Diagnostic {
    let place = project.place(diagnostic);
    let (here, related): (Vec<_>, Vec<_>) =
        diagnostic.labels.iter().partition(|label| Some(label.span) == place);
    let related = related.into_iter().map(|label| DiagnosticRelatedInformation {
        location: snapshot.location(project, label.span),
        message: label.text.clone(),
    });
    let label = here.first().map(|label| label.text.as_str()).filter(|text| !text.is_empty());
    let mut message = diagnostic.message.clone();
    for more in label.into_iter().chain(diagnostic.help.as_deref()) {
        message.push('\n');
        message.push_str(more);
    }
    Diagnostic {
        range: place.map(|place| range(project, place, snapshot.encoding)).unwrap_or_default(),
        severity: Some(match diagnostic.severity {
            Severity::Error => DiagnosticSeverity::Error,
            Severity::Warning => DiagnosticSeverity::Warning,
        }),
        code: Some(Code::String(diagnostic.code.to_owned())),
        code_description: snapshot
            .shows_library
            .then(|| CodeDescription { href: uri::from_library(&format!("errors/{}.md", diagnostic.code)) }),
        source: Some("stepc".to_owned()),
        message: message.into(),
        tags: None,
        related_information: Some(related.collect::<Vec<_>>()).filter(|related| !related.is_empty()),
        data: None,
    }
}
