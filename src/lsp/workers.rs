//! Threads that answer requests. Whoever takes a request off the list of pending ones answers it: a worker that is
//! done, or the main thread for a client that has changed its mind.

use super::requests::{answer, refused};
use super::snapshot::Snapshot;
use crossbeam_channel::{Receiver, Sender, unbounded};
use lsp_server::{ErrorCode, Message, RequestId, Response};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;

/// Threads at least: one may be planning.
const LEAST: usize = 3;

/// A request, and the files as they were when it came.
struct Job {
    id: RequestId,
    method: String,
    params: Value,
    snapshot: Arc<Snapshot>,
}

/// The requests that nobody has answered yet.
#[derive(Default)]
struct Pending(Mutex<HashSet<RequestId>>);

impl Pending {
    fn add(&self, id: &RequestId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
    }

    fn has(&self, id: &RequestId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    fn take(&self, id: &RequestId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}

/// The threads, and what they have to do.
pub struct Workers {
    jobs: Sender<Job>,
    pending: Arc<Pending>,
    out: Sender<Message>,
}

impl Workers {
    /// Starts the threads. They end with the last sender of jobs.
    pub fn start(out: Sender<Message>, current: &Arc<RwLock<Arc<Snapshot>>>) -> Workers {
        let (jobs, todo) = unbounded::<Job>();
        let pending = Arc::<Pending>::default();
        let threads = thread::available_parallelism().map_or(LEAST, |cores| cores.get().max(LEAST));
        for _ in 0..threads {
            let (todo, pending) = (todo.clone(), Arc::clone(&pending));
            let (out, current) = (out.clone(), Arc::clone(current));
            thread::spawn(move || work(&todo, &pending, &out, &current));
        }
        Workers { jobs, pending, out }
    }

    /// Has a request answered from `snapshot`.
    pub fn ask(&self, id: RequestId, method: String, params: Value, snapshot: Arc<Snapshot>) {
        self.pending.add(&id);
        let _ = self.jobs.send(Job { id, method, params, snapshot });
    }

    /// Answers a request at once that nobody waits for any more.
    pub fn cancel(&self, id: RequestId) {
        if self.pending.take(&id) {
            let error = refused(ErrorCode::RequestCanceled, "cancelled".to_owned());
            let _ = self.out.send(Response { id, response_result: Err(error) }.into());
        }
    }
}

fn work(todo: &Receiver<Job>, pending: &Pending, out: &Sender<Message>, current: &RwLock<Arc<Snapshot>>) {
    while let Ok(Job { id, method, params, snapshot }) = todo.recv() {
        if !pending.has(&id) {
            continue;
        }
        let newest = Arc::clone(&current.read().unwrap_or_else(PoisonError::into_inner));
        let result = match snapshot.changed_since(&newest, &params) {
            true => Err(refused(ErrorCode::ContentModified, "the text has changed".to_owned())),
            false => answer(&newest, &method, params),
        };
        if pending.take(&id) {
            let _ = out.send(Response { id, response_result: result }.into());
        }
    }
}
