//! What ProtoJSON costs: ours beside pbjson's, for a small message, a task and a large task.
//!
//! `cargo bench --bench codecs`. Each number is the median over rounds of the time of one operation. Both read JSON text into
//! their own prost types and write those as JSON text again; ours also checks what the protocol asks for (duplicate keys,
//! depth, unknown enum values).

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tricord::schema::part::Content;
use tricord::schema::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use tricord_bindings::proto_json;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 31;
/// How long one round lasts.
const ROUND: Duration = Duration::from_millis(20);

fn part(text: String) -> Part {
    Part { content: Some(Content::Text(text)), ..Part::default() }
}

fn message(id: usize, text: String) -> Message {
    Message {
        message_id: format!("0198c5a0-7a3e-7000-8000-{id:012}"),
        role: Role::User as i32,
        parts: vec![part(text)],
        ..Message::default()
    }
}

/// A task with so many messages and artifacts, each with a text of so many bytes.
fn task(count: usize, bytes: usize) -> Task {
    let text = "The quick brown fox said: \"jump\"\n".repeat(bytes / 33 + 1);
    Task {
        id: "0198c5a0-7a3e-7000-8000-000000000000".to_owned(),
        context_id: "0198c5a0-7a3e-7000-8000-00000000000c".to_owned(),
        status: Some(TaskStatus {
            state: TaskState::Completed as i32,
            message: None,
            timestamp: Some("2026-01-02T03:04:05.678Z".parse().expect("a timestamp")),
        }),
        history: (0..count).map(|id| message(id, text.clone())).collect(),
        artifacts: (0..count)
            .map(|id| Artifact { artifact_id: id.to_string(), parts: vec![part(text.clone())], ..Artifact::default() })
            .collect(),
        ..Task::default()
    }
}

/// The median time of one call.
fn measure<T>(mut call: impl FnMut() -> T) -> Duration {
    let began = Instant::now();
    black_box(call());
    let calls = (ROUND.as_nanos() / began.elapsed().as_nanos().max(100)).max(1) as u32;
    let mut rounds: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..calls {
                black_box(call());
            }
            began.elapsed() / calls
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}

/// Measures both codecs on one message; `P` is pbjson's type of it.
fn compare<T, P>(name: &str, message: &T)
where
    T: prost::Message + Serialize + DeserializeOwned + Default,
    P: prost::Message + Serialize + DeserializeOwned + Default,
{
    let theirs = P::decode(message.encode_to_vec().as_slice()).expect("the same schema");
    let json = serde_json::to_vec(message).expect("a message prints");
    let their_json = serde_json::to_vec(&theirs).expect("a message prints");
    let decode = measure(|| proto_json::decode::<T>(black_box(&json)).expect("JSON of ours"));
    let their_decode = measure(|| serde_json::from_slice::<P>(black_box(&their_json)).expect("JSON of theirs"));
    let encode = measure(|| serde_json::to_vec(black_box(message)).expect("a message prints"));
    let their_encode = measure(|| serde_json::to_vec(black_box(&theirs)).expect("a message prints"));
    for (what, ours, theirs) in [("decode", decode, their_decode), ("encode", encode, their_encode)] {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!(
            "{name:14} {what} {:>9} bytes {:>11.2} us {:>11.2} us {ratio:>6.2}",
            json.len(),
            micros(ours),
            micros(theirs)
        );
    }
}

fn main() {
    println!("{:14} {:6} {:>15} {:>14} {:>14} {:>6}", "message", "", "JSON", "ours", "pbjson", "ratio");
    compare::<_, tricord_pbjson::Message>("small message", &message(1, "hello, how are you?".to_owned()));
    compare::<_, tricord_pbjson::Task>("task", &task(2, 200));
    compare::<_, tricord_pbjson::Task>("large task", &task(100, 4000));
}
