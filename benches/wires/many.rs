//! Many streams at once: a fan-out to subscribers of one task, and idle streams.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};
use uuid::Uuid;

use crate::load::{Sample, send, stream};
use crate::machine::{Clock, resident};
use crate::process::Server;
use crate::request::{Ask, Wire};
use crate::seen::Seen;

/// The streams that are opened concurrently. With more, the queue of the listening socket would be measured.
const WAVE: usize = 32;
/// The time limit of a measurement.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between opening the last stream and reading the memory.
const SETTLE: Duration = Duration::from_secs(1);

/// Streams that wait for a gate.
struct Waiting {
    key: String,
    streams: Vec<JoinHandle<Result<Seen, String>>>,
    /// The streams that have received their first event.
    ready: Rc<Ready>,
}

#[derive(Default)]
struct Ready {
    count: Cell<usize>,
    task: RefCell<String>,
    changed: Notify,
}

impl Waiting {
    fn new() -> Self {
        Self { key: Uuid::now_v7().simple().to_string(), streams: Vec::new(), ready: Rc::default() }
    }

    /// Opens one more stream.
    fn open(&mut self, wire: Wire, server: SocketAddr, ask: Ask) {
        let ready = self.ready.clone();
        let seen = Seen::telling(move |task| {
            ready.count.set(ready.count.get() + 1);
            ready.task.replace(task.to_owned());
            ready.changed.notify_one();
        });
        self.streams.push(spawn_local(stream(wire, server, ask, seen)));
    }

    /// Opens a stream that creates its own task, with this many pieces after the gate.
    fn open_task(&mut self, wire: Wire, server: SocketAddr, pieces: usize) {
        let words = format!("gate {} chunks {pieces}", self.key);
        self.open(wire, server, Ask::Stream(words));
    }

    /// Waits until all streams but this many have received their first event.
    async fn ready(&mut self, but: usize) -> Result<(), String> {
        let wait = async {
            while self.ready.count.get() + but < self.streams.len() {
                self.ready.changed.notified().await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_ok() {
            return Ok(());
        }
        let (ready, all) = (self.ready.count.get(), self.streams.len());
        let ended = self.streams.iter().position(JoinHandle::is_finished).map(|at| self.streams.swap_remove(at));
        let why = match ended {
            Some(ended) => format!(": {:?}", ended.await.map(|seen| seen.map(|seen| seen.pieces))),
            None => String::new(),
        };
        Err(format!("{ready} of {all} streams received a first event{why}"))
    }

    /// Opens the gate and reads all streams to the end. Returns the total number of pieces.
    async fn finish(self, wire: Wire, server: SocketAddr, pieces: usize) -> Result<usize, String> {
        send(wire, server, &format!("open {}", self.key)).await?;
        let mut all = 0;
        for stream in self.streams {
            let seen = tokio::time::timeout(PATIENCE, stream).await.map_err(|_| "a stream did not end")?;
            let seen = seen.map_err(|error| error.to_string())??;
            seen.check(pieces)?;
            all += seen.pieces;
        }
        Ok(all)
    }
}

/// Opens this many streams of one task, including the one that creates it.
async fn subscribe(wire: Wire, server: SocketAddr, streams: usize, pieces: usize) -> Result<Waiting, String> {
    let mut waiting = Waiting::new();
    waiting.open_task(wire, server, pieces);
    waiting.ready(0).await?;
    let task = waiting.ready.task.borrow().clone();
    while waiting.streams.len() < streams {
        waiting.open(wire, server, Ask::Subscribe(task.clone()));
        waiting.ready(WAVE).await?;
    }
    waiting.ready(0).await?;
    Ok(waiting)
}

/// Measures the cost of a delivery: one task with many streams and pieces.
pub async fn fan_out(server: &Server, wire: Wire, streams: usize, pieces: usize) -> Result<Sample, String> {
    let waiting = subscribe(wire, server.address, streams, pieces).await?;
    let clock = Clock::read(server.pid());
    let delivered = waiting.finish(wire, server.address, pieces).await?;
    Ok(Sample::new(delivered, clock.since(server.pid())))
}

/// Measures the bytes of an idle stream, with all streams on one task or each on its own.
pub async fn idle(server: &Server, wire: Wire, streams: usize, own: bool) -> Result<f64, String> {
    // The first streams cause allocations that happen only once.
    subscribe(wire, server.address, WAVE, 1).await?.finish(wire, server.address, 1).await?;
    tokio::time::sleep(SETTLE).await;
    let before = resident(server.pid());
    let waiting = if own {
        let mut waiting = Waiting::new();
        while waiting.streams.len() < streams {
            waiting.open_task(wire, server.address, 1);
            waiting.ready(WAVE).await?;
        }
        waiting.ready(0).await?;
        waiting
    } else {
        subscribe(wire, server.address, streams, 1).await?
    };
    tokio::time::sleep(SETTLE).await;
    let after = resident(server.pid());
    waiting.finish(wire, server.address, 1).await?;
    Ok((after as f64 - before as f64) / streams as f64)
}
