//! The load of one cell: callers that each keep one connection busy, and what they and the server's processor say.

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

/// How long a cell runs before it is measured.
const WARM_UP: Duration = Duration::from_millis(200);
/// A call that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The filler of an ordinary message: with it a JSON-RPC request is 1 kB.
pub fn echo() -> String {
    format!("echo {}", "y".repeat(700))
}

/// What a cell calls.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    /// GetTask of a finished task; each connection has its own.
    Get,
    /// A blocking SendMessage.
    Send,
    /// SendStreamingMessage with so many pieces, made one by one. An operation is a piece.
    Chunks(usize),
    /// The same where a bare server has all at once.
    Burst(usize),
}

/// What a cell has shown in one round.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Operations that count, a second.
    pub rate: f64,
    /// Processor time of the server for each, in microseconds.
    pub cpu: f64,
    /// Half of all calls took at most so many microseconds.
    pub p50: f64,
    /// And 99 of a hundred.
    pub p99: f64,
    /// Share of a core that the client took.
    pub client: f64,
    /// Cores that everybody else took.
    pub others: f64,
    /// Bytes of an answer.
    pub bytes: usize,
    /// Calls that do not count, and why the first one does not.
    pub failed: Option<(usize, String)>,
}

impl Sample {
    /// From a count of operations and what the machine did meanwhile.
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

/// Who calls: one connection, one request at a time.
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

    /// One call. Returns how many operations it was, and the bytes of a unary answer.
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
                        // As browsers and scripts do: a connection for each stream.
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

/// One blocking SendMessage on a connection of its own. Returns the id of the task.
pub async fn send(wire: Wire, server: SocketAddr, words: &str) -> Result<String, String> {
    let ask = Ask::Send(words.to_owned());
    let mut request = Prepared::new(wire, server, &ask);
    let task = match Connection::open(wire, server).await? {
        Connection::Http(mut connection) => task_in(&connection.completed(request.fresh()).await?),
        Connection::Grpc(mut connection) => Some(task_of(connection.unary(ask.rpc(), request.fresh()).await?)?.id),
    };
    task.ok_or_else(|| "an answer without a task".to_owned())
}

/// One stream on a connection of its own, to its end.
pub async fn stream(wire: Wire, server: SocketAddr, ask: Ask, seen: Seen) -> Result<Seen, String> {
    let mut request = Prepared::new(wire, server, &ask);
    match Connection::open(wire, server).await? {
        Connection::Http(mut connection) => connection.stream(request.fresh(), seen).await,
        Connection::Grpc(mut connection) => connection.stream(ask.rpc(), request.fresh(), seen).await,
    }
}

/// Keeps so many connections busy, and says what that took.
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

/// Makes so many finished tasks, as fast as they come. Returns how many a second.
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
