//! Measures one cell of the table: callers that each keep one connection busy, and the processor time of the server.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use prost::Message as _;
use tokio::task::spawn_local;
use tricord::schema::send_message_response::Payload;
use tricord::schema::{SendMessageResponse, Task};

use crate::machine::{Clock, Usage};
use crate::process::Server;
use crate::request::{Ask, Prepared, Wire};
use crate::seen::{Seen, completed, task_in};
use crate::{grpc, http1};

/// The warm-up time before a cell is measured.
const WARM_UP: Duration = Duration::from_millis(200);
/// The time limit of a call.
const PATIENCE: Duration = Duration::from_secs(30);

/// The filler text of a message, with which a JSON-RPC request has 1 kB.
pub fn echo() -> String {
    format!("echo {}", "y".repeat(700))
}

/// The calls of a cell.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    /// GetTask of a finished task, a separate one for each connection.
    Get,
    /// A blocking SendMessage.
    Send,
    /// SendStreamingMessage with this many pieces, produced one by one. An operation is a piece.
    Chunks(usize),
    /// SendStreamingMessage for which a bare server has all pieces at once.
    Burst(usize),
}

/// The result of a cell in one round.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Successful operations per second.
    pub rate: f64,
    /// Processor time of the server per operation, in microseconds.
    pub cpu: f64,
    /// The median latency in microseconds.
    pub p50: f64,
    /// The 99th percentile of the latency in microseconds.
    pub p99: f64,
    /// The share of a core that the client used.
    pub client: f64,
    /// The cores that other processes used.
    pub others: f64,
    /// The bytes of an answer.
    pub bytes: usize,
    /// The number of failed calls, and the reason of the first one.
    pub failed: Option<(usize, String)>,
}

impl Sample {
    /// Computes the result from the operations and the processor times.
    pub fn new(operations: usize, usage: Usage) -> Self {
        let each = 1.0 / operations.max(1) as f64;
        Self {
            rate: operations as f64 / usage.wall.as_secs_f64(),
            cpu: usage.server.as_secs_f64() * 1e6 * each,
            client: usage.client,
            others: usage.others,
            ..Self::default()
        }
    }
}

#[derive(Default)]
struct Tally {
    operations: Cell<usize>,
    bytes: Cell<usize>,
    failed: Cell<usize>,
    why: RefCell<String>,
    micros: RefCell<Vec<u32>>,
}

enum Connection {
    Http(http1::Connection),
    Grpc(grpc::Connection),
}

impl Connection {
    async fn open(wire: Wire, server: SocketAddr) -> Result<Self, String> {
        Ok(match wire {
            Wire::Grpc => Self::Grpc(grpc::Connection::open(server).await?),
            Wire::JsonRpc | Wire::HttpJson => Self::Http(http1::Connection::open(server).await?),
        })
    }
}

/// A caller: one connection, one request at a time.
struct Caller {
    wire: Wire,
    server: SocketAddr,
    op: Op,
    connection: Connection,
    ask: Ask,
    request: Prepared,
}

impl Caller {
    async fn new(wire: Wire, server: SocketAddr, op: Op) -> Result<Self, String> {
        let ask = match op {
            Op::Get => Ask::Get(send(wire, server, &echo()).await?),
            Op::Send => Ask::Send(echo()),
            Op::Chunks(count) => Ask::Stream(format!("chunks {count}")),
            Op::Burst(count) => Ask::Stream(format!("burst {count}")),
        };
        let connection = Connection::open(wire, server).await?;
        let request = Prepared::new(wire, server, &ask);
        Ok(Self { wire, server, op, connection, ask, request })
    }

    /// Makes one call. Returns the number of operations and the bytes of a unary answer.
    async fn call(&mut self) -> Result<(usize, usize), String> {
        let (rpc, request) = (self.ask.rpc(), self.request.fresh());
        match (self.op, &mut self.connection) {
            (Op::Get | Op::Send, Connection::Http(connection)) => Ok((1, connection.completed(request).await?.len())),
            (Op::Get | Op::Send, Connection::Grpc(connection)) => {
                let message = connection.unary(rpc, request).await?;
                let bytes = message.len();
                match self.op {
                    Op::Get => check(&Task::decode(message).map_err(|error| error.to_string())?)?,
                    _ => check(&task_of(message)?)?,
                }
                Ok((1, bytes))
            }
            (Op::Chunks(count) | Op::Burst(count), connection) => {
                let seen = match connection {
                    Connection::Http(connection) => {
                        let seen = connection.stream(request, Seen::default()).await?;
                        // Browsers and scripts use a connection for each stream, so this does too.
                        *connection = http1::Connection::open(self.server).await?;
                        seen
                    }
                    Connection::Grpc(connection) => connection.stream(rpc, request, Seen::default()).await?,
                };
                seen.check(count)?;
                Ok((count, 0))
            }
        }
    }

    async fn run(mut self, end: Instant, tally: Rc<Tally>) -> Result<Self, String> {
        loop {
            let start = Instant::now();
            if start >= end {
                return Ok(self);
            }
            let result = tokio::time::timeout(PATIENCE, self.call()).await;
            match result.unwrap_or_else(|_| Err("no answer in time".into())) {
                Ok((operations, bytes)) => {
                    tally.operations.set(tally.operations.get() + operations);
                    tally.bytes.set(bytes);
                    tally.micros.borrow_mut().push(u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX));
                }
                Err(why) => {
                    if tally.failed.replace(tally.failed.get() + 1) == 0 {
                        tally.why.replace(why);
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    self.connection = Connection::open(self.wire, self.server).await?;
                }
            }
        }
    }
}

fn check(task: &Task) -> Result<(), String> {
    if completed(task) { Ok(()) } else { Err(format!("not completed: {:?}", task.status)) }
}

fn task_of(message: bytes::Bytes) -> Result<Task, String> {
    match SendMessageResponse::decode(message).map_err(|error| error.to_string())?.payload {
        Some(Payload::Task(task)) => Ok(task),
        other => Err(format!("no task: {other:?}")),
    }
}

/// Makes a blocking SendMessage on its own connection and returns the task's id.
pub async fn send(wire: Wire, server: SocketAddr, words: &str) -> Result<String, String> {
    let ask = Ask::Send(words.to_owned());
    let mut request = Prepared::new(wire, server, &ask);
    let task = match Connection::open(wire, server).await? {
        Connection::Http(mut connection) => task_in(&connection.completed(request.fresh()).await?),
        Connection::Grpc(mut connection) => Some(task_of(connection.unary(ask.rpc(), request.fresh()).await?)?.id),
    };
    task.ok_or_else(|| "an answer without a task".to_owned())
}

/// Reads one stream on its own connection to the end.
pub async fn stream(wire: Wire, server: SocketAddr, ask: Ask, seen: Seen) -> Result<Seen, String> {
    let mut request = Prepared::new(wire, server, &ask);
    match Connection::open(wire, server).await? {
        Connection::Http(mut connection) => connection.stream(request.fresh(), seen).await,
        Connection::Grpc(mut connection) => connection.stream(ask.rpc(), request.fresh(), seen).await,
    }
}

/// Keeps this many connections busy and returns the result.
pub async fn measure(
    server: &Server,
    wire: Wire,
    op: Op,
    connections: usize,
    time: Duration,
) -> Result<Sample, String> {
    let mut callers = Vec::new();
    for _ in 0..connections {
        callers.push(Caller::new(wire, server.address, op).await?);
    }
    let callers = drive(callers, WARM_UP, &Rc::default()).await?;
    let tally = Rc::<Tally>::default();
    let clock = Clock::read(server.pid());
    drive(callers, time, &tally).await?;
    let usage = clock.since(server.pid());
    let mut micros = tally.micros.take();
    micros.sort_unstable();
    let quantile = |of: usize| micros.get((micros.len() * of / 100).min(micros.len().saturating_sub(1)));
    let failed = tally.failed.get();
    Ok(Sample {
        p50: quantile(50).copied().unwrap_or_default().into(),
        p99: quantile(99).copied().unwrap_or_default().into(),
        bytes: tally.bytes.get(),
        failed: (failed > 0).then(|| (failed, tally.why.take())),
        ..Sample::new(tally.operations.get(), usage)
    })
}

async fn drive(callers: Vec<Caller>, time: Duration, tally: &Rc<Tally>) -> Result<Vec<Caller>, String> {
    let end = Instant::now() + time;
    let running: Vec<_> = callers.into_iter().map(|caller| spawn_local(caller.run(end, tally.clone()))).collect();
    let mut callers = Vec::new();
    for caller in running {
        callers.push(caller.await.map_err(|error| error.to_string())??);
    }
    Ok(callers)
}

/// Creates this many finished tasks as fast as possible and returns the number per second.
pub async fn fill(server: &Server, count: usize) -> Result<f64, String> {
    const CONNECTIONS: usize = 64;
    let (start, left) = (Instant::now(), Rc::new(Cell::new(count)));
    let mut running = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut caller = Caller::new(Wire::JsonRpc, server.address, Op::Send).await?;
        let left = left.clone();
        running.push(spawn_local(async move {
            while let Some(now) = left.get().checked_sub(1) {
                left.set(now);
                caller.call().await?;
            }
            Ok::<_, String>(())
        }));
    }
    for caller in running {
        caller.await.map_err(|error| error.to_string())??;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
