//! Streams: a thread each, which does what is submitted in order; and events, which are positions of streams.

use crate::process::{self, CORE_EXCEPTION, SYNC_TIMEOUT, fail, fail_as, lock};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What a task failed with.
#[derive(Clone)]
pub struct Fault {
    pub code: i32,
    pub textual: &'static str,
    pub text: String,
}

impl Fault {
    pub fn new(text: impl Into<String>) -> Fault {
        Fault { code: CORE_EXCEPTION, textual: "EZ9999", text: text.into() }
    }
}

pub type Task = Box<dyn FnOnce() -> Result<(), Fault> + Send>;

pub struct Stream {
    pub device: i32,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    submitted: u64,
    done: u64,
    failed: Option<Fault>,
    stops: bool,
    closed: bool,
}

impl Stream {
    fn start(device: i32) -> Arc<Stream> {
        let stream = Arc::new(Stream { device, queue: Mutex::default(), changed: Condvar::new() });
        let worker = Arc::clone(&stream);
        std::thread::spawn(move || worker.work());
        stream
    }

    fn work(&self) {
        loop {
            let mut queue = lock(&self.queue);
            while queue.tasks.is_empty() && !queue.closed {
                queue = self.changed.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            let Some(task) = queue.tasks.pop_front() else { return };
            let skipped = queue.stops && queue.failed.is_some();
            drop(queue);
            let outcome = if skipped { Ok(()) } else { task() };
            let mut queue = lock(&self.queue);
            queue.done += 1;
            if let Err(fault) = outcome {
                queue.failed.get_or_insert(fault);
            }
            self.changed.notify_all();
        }
    }

    pub fn submit(&self, task: Task) -> u64 {
        let mut queue = lock(&self.queue);
        queue.tasks.push_back(task);
        queue.submitted += 1;
        self.changed.notify_all();
        queue.submitted
    }

    /// Waits until `position` tasks are done, or all; `false` when the limit is over.
    fn reach(&self, position: Option<u64>, limit: Option<Duration>) -> bool {
        let until = limit.map(|limit| Instant::now() + limit);
        let mut queue = lock(&self.queue);
        while queue.done < position.unwrap_or(queue.submitted) {
            let left = until
                .map_or(Duration::from_secs(3600), |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        true
    }

    pub fn synchronize(&self, limit: Option<Duration>) -> i32 {
        if !self.reach(None, limit) {
            return fail(SYNC_TIMEOUT, "the stream is not idle within the limit");
        }
        match lock(&self.queue).failed.clone() {
            Some(fault) => fail_as(fault.textual, fault.code, fault.text),
            None => process::SUCCESS,
        }
    }

    pub fn is_idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.done == queue.submitted
    }

    pub fn stop_on_failure(&self, stops: bool) {
        lock(&self.queue).stops = stops;
    }
}

/// The position that was recorded last, and when a stream passed it.
#[derive(Default)]
pub struct Event {
    pub recorded: Mutex<Option<Record>>,
}

#[derive(Clone)]
pub struct Record {
    pub stream: Arc<Stream>,
    pub position: u64,
    pub passed: Arc<Mutex<Option<Instant>>>,
}

impl Record {
    pub fn wait(&self) -> bool {
        self.stream.reach(Some(self.position), None)
    }

    pub fn is_done(&self) -> bool {
        self.stream.reach(Some(self.position), Some(Duration::ZERO))
    }
}

/// What is alive, by the address that stands for it.
pub struct Registry<T>(Mutex<BTreeMap<usize, Arc<T>>>);

pub static STREAMS: Registry<Stream> = Registry(Mutex::new(BTreeMap::new()));
pub static EVENTS: Registry<Event> = Registry(Mutex::new(BTreeMap::new()));

impl<T> Registry<T> {
    pub fn add(&self, item: Arc<T>) -> *mut c_void {
        let address = Arc::as_ptr(&item) as usize;
        lock(&self.0).insert(address, item);
        address as *mut c_void
    }

    pub fn get(&self, handle: *mut c_void) -> Option<Arc<T>> {
        lock(&self.0).get(&(handle as usize)).cloned()
    }

    pub fn remove(&self, handle: *mut c_void) -> Option<Arc<T>> {
        lock(&self.0).remove(&(handle as usize))
    }

    pub fn all(&self) -> Vec<Arc<T>> {
        lock(&self.0).values().cloned().collect()
    }
}

pub fn create(device: i32) -> *mut c_void {
    STREAMS.add(Stream::start(device))
}

pub fn destroy(stream: &Stream) {
    stream.reach(None, None);
    lock(&stream.queue).closed = true;
    stream.changed.notify_all();
}

pub fn record(event: &Event, stream: &Arc<Stream>) {
    let passed = Arc::new(Mutex::new(None));
    let when = Arc::clone(&passed);
    let position = stream.submit(Box::new(move || {
        *lock(&when) = Some(Instant::now());
        Ok(())
    }));
    *lock(&event.recorded) = Some(Record { stream: Arc::clone(stream), position, passed });
}

/// What `stream` is given from now on starts behind the record that `event` has now; before the first record nothing waits.
pub fn wait(stream: &Stream, event: &Event) {
    let Some(record) = lock(&event.recorded).clone() else { return };
    stream.submit(Box::new(move || {
        record.wait();
        Ok(())
    }));
}
