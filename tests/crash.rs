//! `kill -9` at random moments: nothing that a client was told is lost, repeated or contradicted.
//!
//! Each round puts load on a server over all bindings, kills it, starts it again on the same store, and compares its
//! answers with what clients were told before. `TRICORD_CRASH_ROUNDS` is the number of rounds (50),
//! `TRICORD_CRASH_SEED` the seed of the moments.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "wire/support.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the wire tests, which use all of it")]
mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use tricord::client::Client;
use tricord::schema::stream_response::Payload;
use tricord::schema::{GetTaskRequest, ListTasksRequest, StreamResponse, SubscribeToTaskRequest, Task, TaskState};

use support::{Server, WIRES, at_once, follow_up, request, state, task_of, text};

/// What a client was told about a task.
#[derive(Default)]
struct Told {
    /// The events in order, with their ids if the binding has them.
    events: Vec<(Option<String>, StreamResponse)>,
    /// The task in an answer.
    answer: Option<Task>,
}

#[derive(Default)]
struct Recorder(Mutex<HashMap<String, Told>>);

impl Recorder {
    fn answer(&self, task: Task) {
        let id = task.id.clone();
        self.0.lock().unwrap().entry(id).or_default().answer = Some(task);
    }

    fn event(&self, id: Option<String>, event: StreamResponse) {
        let task = match event.payload.as_ref().unwrap() {
            Payload::Task(task) => task.id.clone(),
            Payload::StatusUpdate(update) => update.task_id.clone(),
            Payload::ArtifactUpdate(update) => update.task_id.clone(),
            Payload::Message(_) => return,
        };
        self.0.lock().unwrap().entry(task).or_default().events.push((id, event));
    }
}

/// A small random generator (xorshift64*), with which a seed gives the same moments everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}

#[test]
fn nothing_that_was_told_is_lost() {
    let rounds = setting("TRICORD_CRASH_ROUNDS", 50);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = setting("TRICORD_CRASH_SEED", u64::from(now.subsec_nanos()) | 1);
    println!("{rounds} rounds, TRICORD_CRASH_SEED={seed}");
    let mut random = Random(seed);
    let mut server = Server::two_agents();
    let (mut tasks, mut events) = (0, 0);
    for round in 0..rounds {
        let recorder = Arc::new(Recorder::default());
        // Each round has its own runtime. Dropping it ends the calls that still wait for the dead server.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let until = Instant::now() + Duration::from_millis(20 + random.below(300));
        runtime.block_on(async {
            for wire in WIRES {
                let client = Arc::new(server.client(wire).await);
                for lane in 0..4 {
                    let (client, recorder) = (Arc::clone(&client), Arc::clone(&recorder));
                    tokio::spawn(async move { load(&client, &recorder, lane).await });
                }
            }
            tokio::time::sleep_until(until.into()).await;
            server.kill();
        });
        runtime.shutdown_timeout(Duration::from_secs(5));
        server.kill_and_restart();
        let told = std::mem::take(&mut *recorder.0.lock().unwrap());
        tasks += told.len();
        events += told.values().map(|told| told.events.len()).sum::<usize>();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let client = server.client(WIRES[usize::try_from(round).unwrap() % 3]).await;
            let http = server.client(WIRES[2]).await;
            let generation = generation(&http).await;
            for (id, told) in told {
                check(&client, &http, &generation, &id, told).await;
            }
            for left in [TaskState::Working, TaskState::Submitted] {
                let ask = ListTasksRequest { status: left.into(), ..ListTasksRequest::default() };
                let page = client.list_tasks(ask).await.unwrap();
                assert_eq!(page.total_size, 0, "a task is still in {left:?}: {:?}", page.tasks.first());
            }
        });
    }
    println!("{tasks} tasks and {events} events were reported to clients, and the store has all of them");
    assert!(tasks > 0 && events > 0, "the load never reached the server");
}

/// An agent that notes its turns in a file, and ends none of them before there is a file `go`.
const NOTES_TURNS: &str = r#"
[server]
grace = "100ms"

[[agents]]
name = "notes"
kind = "exec"
on_restart = "resume"
command = ["sh", "-c", "echo \"$TRICORD_ATTEMPT $(cat)\" >> turns; while [ ! -e go ]; do sleep 0.02; done"]
"#;

#[test]
fn a_resumed_task_reads_every_message_in_order() {
    for kills in [true, false] {
        let mut server = Server::start(NOTES_TURNS);
        let turns = server.dir().join("turns");
        let noted = |expected: &str| {
            let until = Instant::now() + Duration::from_secs(60);
            while std::fs::read_to_string(&turns).unwrap_or_default() != expected {
                assert!(Instant::now() < until, "{:?} is not {expected:?}", std::fs::read_to_string(&turns));
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let task = runtime.block_on(async {
            let task = task_of(server.client(WIRES[0]).await.send(at_once(request("one"))).await.unwrap());
            noted("1 one\n");
            for (wire, words) in WIRES.into_iter().zip(["two", "three", "four"]) {
                server.client(wire).await.send(at_once(follow_up(&task.id, words))).await.unwrap();
            }
            task
        });
        if kills {
            server.kill();
        } else {
            server.terminate();
            assert!(server.wait());
        }
        server.restart();
        noted("1 one\n2 one\n");
        std::fs::write(server.dir().join("go"), "").unwrap();
        noted("1 one\n2 one\n1 two\n1 three\n1 four\n");
        runtime.block_on(async {
            let client = server.client(WIRES[1]).await;
            loop {
                let task = GetTaskRequest { id: task.id.clone(), ..GetTaskRequest::default() };
                match state(&client.get_task(task).await.unwrap()) {
                    TaskState::Working => tokio::time::sleep(Duration::from_millis(10)).await,
                    end => break assert_eq!(end, TaskState::Completed),
                }
            }
        });
    }
}

/// The work of one client, until the server is gone.
async fn load(client: &Client, recorder: &Recorder, lane: usize) {
    for n in 0.. {
        let gone = match (lane + n) % 4 {
            0 => client.send(request("echo hi")).await.map(|response| recorder.answer(task_of(response))).is_err(),
            1 => client.send(at_once(request("slow 0.05"))).await.map(|r| recorder.answer(task_of(r))).is_err(),
            2 => {
                let mut request = request("chunks 40");
                request.message.as_mut().unwrap().parts.push(text(format!("piece of {lane}.{n} ")));
                stream(client, recorder, &request).await.is_err()
            }
            _ => client.send(request("ask")).await.map(|response| recorder.answer(task_of(response))).is_err(),
        };
        if gone {
            return;
        }
    }
}

async fn stream(
    client: &Client,
    recorder: &Recorder,
    request: &tricord::schema::SendMessageRequest,
) -> Result<(), tricord_bindings::client::ClientError> {
    let mut events = client.service().send_streaming_message(request, client.options()).await?;
    while let Some(event) = events.next().await {
        let event = event?;
        recorder.event(event.id, event.message);
    }
    Ok(())
}

/// Compares what a client was told about a task with the server's answers after its restart.
async fn check(client: &Client, http: &Client, generation: &str, id: &str, told: Told) {
    let ask = GetTaskRequest { id: id.to_owned(), ..GetTaskRequest::default() };
    let task =
        client.get_task(ask).await.unwrap_or_else(|error| panic!("{id} was reported to a client and is lost: {error}"));
    if let Some(answer) = told.answer {
        if matches!(state(&answer), TaskState::Submitted | TaskState::Working) {
            assert_ne!(state(&task), TaskState::Working, "{id} is still working");
        } else {
            assert_eq!(task, answer, "{id} differs from what its client was told");
        }
    }
    let Some((_, first)) = told.events.first() else { return };
    let Some(Payload::Task(_)) = &first.payload else { panic!("{id}: a stream began with {first:?}") };
    let log = replay(http, generation, id).await;
    // Ids increase, exactly one terminal state ends the log, and nothing follows it.
    let places: Vec<u64> = log.iter().map(|(place, _)| *place).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{id}: {places:?}");
    let ends = log.iter().filter(|(_, event)| ends(event)).count();
    assert!(ends == 1 && log.last().is_some_and(|(_, event)| ends_with(event, state(&task))), "{id}: {ends} ends");
    // Every reported event is in the log, in the same order, with nothing in between.
    let told: Vec<&StreamResponse> = told.events[1..].iter().map(|(_, event)| event).collect();
    let stands: Vec<&StreamResponse> = log.iter().map(|(_, event)| event).take(told.len()).collect();
    assert_eq!(stands, told, "{id}: the streamed events differ from the log");
}

/// Returns the first half of an event id, the generation, which a restart does not change.
async fn generation(http: &Client) -> String {
    let mut events = http.service().send_streaming_message(&request("echo hi"), http.options()).await.unwrap();
    let id = events.next().await.unwrap().unwrap().id.unwrap();
    id.split_once('.').unwrap().0.to_owned()
}

/// Reads the events of a task again, from the record of its message on.
async fn replay(http: &Client, generation: &str, id: &str) -> Vec<(u64, StreamResponse)> {
    let ask = SubscribeToTaskRequest { id: id.to_owned(), ..SubscribeToTaskRequest::default() };
    let options = http.options().clone().last_event_id(&format!("{generation}.2")).unwrap();
    let mut events = http.service().subscribe_to_task(&ask, &options).await.unwrap();
    let mut log = Vec::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        let id = event.id.unwrap();
        let (_, place) = id.split_once('.').unwrap();
        log.push((place.parse().unwrap(), event.message));
    }
    let (place, first) = log.remove(0);
    assert!(place == 2 && matches!(first.payload, Some(Payload::Task(_))), "{id}: a replay began with {first:?}");
    log
}

fn ends(event: &StreamResponse) -> bool {
    use TaskState::{Canceled, Completed, Failed, Rejected};
    [Completed, Failed, Canceled, Rejected].iter().any(|end| ends_with(event, *end))
}

fn ends_with(event: &StreamResponse, end: TaskState) -> bool {
    match &event.payload {
        Some(Payload::StatusUpdate(update)) => update.status.as_ref().is_some_and(|status| status.state() == end),
        _ => false,
    }
}
