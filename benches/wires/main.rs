//! The cost of the three bindings: `cargo bench --bench wires -- --help`.
//!
//! Our server, with its store on disk, is loaded beside bare axum and tonic servers that have the same types,
//! allocator, runtime, socket options and build, but no task engine. The servers run on one core and the client on
//! another. A round measures every cell on all servers one after the other, so that a slow minute affects all of them.
//! Every round starts new servers.

#![allow(clippy::print_stdout, clippy::print_stderr, unreachable_pub)]

mod bare;
mod grpc;
mod http1;
mod load;
mod machine;
mod many;
mod options;
mod process;
mod request;
mod seen;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser as _;

use load::{Op, Sample};
use machine::{Cores, resident};
use options::{Options, Part};
use process::{Kind, Server};
use request::Wire;
use table::{Column, Of, Samples, median, print_mark, short};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CONNECTIONS: [usize; 3] = [1, 16, 64];
const PIECES: [usize; 3] = [100, 1000, 10_000];
/// The concurrent streams of a [`Part::Stream`] cell.
const STREAMS: usize = 16;
const SUBSCRIBERS: usize = 500;
const DELIVERED_PIECES: usize = 100;
const IDLE_STREAMS: usize = 2000;
const STARTS: usize = 7;
/// The number of tasks after which memory is first measured, as the base of the comparison.
const FIRST_FILL: usize = 20_000;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(process::BARE) {
        return bare::serve();
    }
    let options = Options::parse();
    let cores = Cores::pin();
    machine::raise_open_files();
    let mut bench = Bench { options, cores, samples: Samples::default(), figures: Figures::default() };
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let result = tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            result = bench.run() => result,
            // Servers are stopped when their handles are dropped, so a signal must end this function normally.
            () = shutdown_signal() => Err("stopped by a signal".into()),
        }
    });
    bench.print();
    println!("\nThe run took {:.0} s.", start.elapsed().as_secs_f64());
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the run ended early: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn shutdown_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        _ => std::future::pending().await,
    }
}

struct Bench {
    options: Options,
    cores: Cores,
    samples: Samples,
    figures: Figures,
}

/// Figures that are measured once, of our server alone.
#[derive(Default)]
struct Figures {
    /// Milliseconds from exec to the first answer with a card.
    starts: Vec<f64>,
    /// Milliseconds from exec to the first card with a full store, and its number of tasks.
    filled_start: Option<(usize, f64)>,
    /// Bytes of an idle stream, with all streams on one task.
    idle: Option<f64>,
    /// Bytes of an idle stream, with a task for each stream.
    idle_own: Option<f64>,
    /// The number of tasks, the resident bytes, and the tasks per second.
    fills: Vec<(usize, f64, f64)>,
}

impl Bench {
    async fn run(&mut self) -> Result<(), String> {
        if self.options.wants(Part::Start) {
            for _ in 0..STARTS {
                let server = Server::start(Kind::Ours, self.cores).await?;
                self.figures.starts.push(milliseconds(server.ready_after));
            }
        }
        if [Part::Get, Part::Send, Part::Stream, Part::Fanout].iter().any(|part| self.options.wants(*part)) {
            for round in 1..=self.options.rounds() {
                eprintln!("round {round} of {}", self.options.rounds());
                self.round().await?;
            }
        }
        if self.options.wants(Part::Idle) {
            eprintln!("idle streams");
            let server = Server::start(Kind::Ours, self.cores).await?;
            self.figures.idle = Some(many::idle(&server, Wire::JsonRpc, IDLE_STREAMS, false).await?);
            let server = Server::start(Kind::Ours, self.cores).await?;
            self.figures.idle_own = Some(many::idle(&server, Wire::JsonRpc, IDLE_STREAMS, true).await?);
        }
        if self.options.wants(Part::Fill) {
            self.fill().await?;
        }
        Ok(())
    }

    async fn round(&mut self) -> Result<(), String> {
        let ours = Server::start(Kind::Ours, self.cores).await?;
        let bare = Server::start(Kind::Bare, self.cores).await?;
        for (part, name, op) in [(Part::Get, "GetTask", Op::Get), (Part::Send, "SendMessage", Op::Send)] {
            for (wire, connections) in each(Wire::ALL, CONNECTIONS) {
                let plural = if connections == 1 { "" } else { "s" };
                let cell = format!("{name} {}, {connections} connection{plural}", wire.name());
                let runs = [(Of::Ours, &ours, op), (Of::Bare, &bare, op)];
                self.cells(part, &cell, &runs, wire, connections).await?;
            }
        }
        for (wire, pieces) in each(Wire::ALL, PIECES) {
            let cell = format!("stream {}, {pieces} pieces", wire.name());
            let (one_by_one, at_once) = (Op::Chunks(pieces), Op::Burst(pieces));
            let runs = [(Of::Ours, &ours, one_by_one), (Of::Bare, &bare, one_by_one), (Of::Burst, &bare, at_once)];
            self.cells(Part::Stream, &cell, &runs, wire, STREAMS).await?;
        }
        if self.options.wants(Part::Fanout) {
            for wire in Wire::ALL {
                let cell = format!("fan-out {}", wire.name());
                for (of, server) in [(Of::Ours, &ours), (Of::Bare, &bare)] {
                    let sample = many::fan_out(server, wire, SUBSCRIBERS, DELIVERED_PIECES).await;
                    self.add(&cell, of, sample.map_err(|error| format!("{cell}, {of:?}: {error}"))?);
                }
            }
        }
        Ok(())
    }

    async fn cells(
        &mut self,
        part: Part,
        cell: &str,
        runs: &[(Of, &Server, Op)],
        wire: Wire,
        connections: usize,
    ) -> Result<(), String> {
        if !self.options.wants(part) {
            return Ok(());
        }
        let time = Duration::from_secs_f64(self.options.secs());
        for (of, server, op) in runs {
            let sample = load::measure(server, wire, *op, connections, time).await;
            self.add(cell, *of, sample.map_err(|error| format!("{cell}, {of:?}: {error}"))?);
        }
        Ok(())
    }

    fn add(&mut self, cell: &str, of: Of, sample: Sample) {
        let (rate, cpu) = (short(sample.rate), short(sample.cpu));
        eprintln!("{cell}, {of:?}: {rate}/s, server {cpu} us each, client {:.2}", sample.client);
        self.samples.add(cell, of, sample);
    }

    async fn fill(&mut self) -> Result<(), String> {
        let server = Server::start(Kind::Ours, self.cores).await?;
        let mut made = 0;
        for goal in [FIRST_FILL, self.options.fill()] {
            if goal > made {
                eprintln!("filling up to {goal} tasks");
                let rate = load::fill(&server, goal - made).await?;
                made = goal;
                tokio::time::sleep(Duration::from_secs(2)).await;
                self.figures.fills.push((made, resident(server.pid()) as f64, rate));
            }
        }
        let server = server.again(self.cores).await?;
        self.figures.filled_start = Some((made, milliseconds(server.ready_after)));
        Ok(())
    }

    fn print(&self) {
        let (secs, rounds) = (self.options.secs(), self.options.rounds());
        println!("{}", machine::describe(Path::new(env!("CARGO_TARGET_TMPDIR")), self.cores));
        println!(
            "Medians of {rounds} rounds of {secs} s a cell. CPU is the server's, user and system, in microseconds."
        );
        use Column::{Figure, Ratio};
        use Of::{Bare, Burst, Ours};
        let unary: &[(&str, Column)] = &[
            ("requests/s", Figure(Ours, rate)),
            ("bare", Figure(Bare, rate)),
            ("ratio", Ratio(Bare, rate)),
            ("CPU/request", Figure(Ours, cpu)),
            ("bare", Figure(Bare, cpu)),
            ("ratio", Ratio(Bare, cpu)),
            ("p50 us", Figure(Ours, |sample| sample.p50)),
            ("p99 us", Figure(Ours, |sample| sample.p99)),
            ("answer", Figure(Ours, |sample| sample.bytes as f64)),
            ("bare", Figure(Bare, |sample| sample.bytes as f64)),
            ("client", Figure(Ours, |sample| sample.client)),
            ("bare", Figure(Bare, |sample| sample.client)),
        ];
        self.samples.print("GetTask of a finished task", "GetTask", unary);
        self.samples.print("SendMessage, blocking, on the disk before it is answered", "SendMessage", unary);
        let stream = [
            ("events/s", Figure(Ours, rate)),
            ("bare", Figure(Bare, rate)),
            ("ratio", Ratio(Bare, rate)),
            ("CPU/event", Figure(Ours, cpu)),
            ("bare", Figure(Bare, cpu)),
            ("ratio", Ratio(Bare, cpu)),
            ("bare, all at once", Figure(Burst, cpu)),
            ("ratio", Ratio(Burst, cpu)),
            ("client", Figure(Ours, |sample| sample.client)),
        ];
        let title = format!("SendStreamingMessage, pieces of 100 bytes, {STREAMS} streams at a time");
        self.samples.print(&title, "stream", &stream);
        let title = format!("Fan-out, {SUBSCRIBERS} streams of one task with {DELIVERED_PIECES} pieces, by delivery");
        self.samples.print(&title, "fan-out", &[&stream[..6], &stream[8..]].concat());
        self.print_figures();
        self.print_marks();
        self.samples.print_doubts();
    }

    fn print_figures(&self) {
        let figures = &self.figures;
        println!("\n### Memory and start\n");
        if let Some(start) = median(figures.starts.clone()) {
            println!("- Exec to the first card: {start:.1} ms (median of {}).", figures.starts.len());
        }
        if let Some((tasks, start)) = figures.filled_start {
            println!("- The same on a store of {tasks} tasks: {start:.1} ms.");
        }
        if let Some(bytes) = figures.idle {
            println!("- An idle stream, {IDLE_STREAMS} of one task: {bytes:.0} bytes.");
        }
        if let Some(bytes) = figures.idle_own {
            println!("- An idle stream with its own live task, {IDLE_STREAMS} of them: {bytes:.0} bytes.");
        }
        for (tasks, bytes, rate) in &figures.fills {
            println!("- Resident after {tasks} finished tasks: {:.1} MB ({rate:.0} tasks/s).", bytes / 1e6);
        }
    }

    fn print_marks(&self) {
        let figures = &self.figures;
        println!("\n### Marks\n\n| | measured | at most | |\n|---|---:|---:|---|");
        let of_bare = |cell: &str| self.samples.ratio(cell, Of::Bare, cpu);
        print_mark("SendMessage, CPU to bare", of_bare("SendMessage JSON-RPC, 16 connections"), 4.0, "x");
        print_mark("GetTask, CPU to bare", of_bare("GetTask JSON-RPC, 16 connections"), 1.8, "x");
        for pieces in PIECES {
            let cell = format!("stream JSON-RPC, {pieces} pieces");
            print_mark(&format!("Event in a stream of {pieces}, CPU to bare"), of_bare(&cell), 2.0, "x");
        }
        let event = |pieces| self.samples.median(&format!("stream JSON-RPC, {pieces} pieces"), Of::Ours, cpu);
        let flat = event(PIECES[0]).zip(event(PIECES[2])).map(|(few, many)| (many / few).max(few / many));
        print_mark("Event in a stream of 10,000 to one of 100, either way", flat, 1.3, "x");
        print_mark("Delivery, CPU to bare", of_bare("fan-out JSON-RPC"), 2.0, "x");
        print_mark("Idle stream with its own task", figures.idle_own.map(|bytes| bytes / 1e3), 30.0, " kB");
        if let [(_, first, _), (_, last, _)] = figures.fills.as_slice() {
            print_mark("Resident after 200,000 tasks to after 20,000", Some(last / first), 1.5, "x");
        }
        print_mark("First card", median(figures.starts.clone()), 50.0, " ms");
    }
}

fn each<A: Copy, B: Copy, const N: usize, const M: usize>(
    outer: [A; N],
    inner: [B; M],
) -> impl Iterator<Item = (A, B)> {
    outer.into_iter().flat_map(move |a| inner.into_iter().map(move |b| (a, b)))
}

fn rate(sample: &Sample) -> f64 {
    sample.rate
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
