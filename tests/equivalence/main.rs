//! Equivalence of the bindings: a request, valid or not, has the same outcome over each of them.
//!
//! Random requests go to the real server over all three bindings, and the test compares their outcomes: accepted or
//! refused, the reason, the paths of invalid fields, the resulting tasks. `TRICORD_EQUIVALENCE_REQUESTS` is the number
//! of requests (20,000), `TRICORD_EQUIVALENCE_SEED` the seed, and `TRICORD_EQUIVALENCE_CASE` a single case that an
//! earlier run printed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "what was sent is part of the result")]

mod answer;
mod case;
mod mutate;
mod protobuf;
#[path = "../shared/random.rs"]
mod random;
#[allow(unreachable_pub, dead_code, reason = "shared with the tests of the wire")]
#[path = "../wire/support.rs"]
mod support;
mod wires;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use futures::StreamExt as _;
use tricord_bindings::Binding;

use answer::Answer;
use case::Case;
use support::Server;
use wires::{WIRES, Wires};
use world::World;

/// The number of cases in progress at once.
const AT_ONCE: usize = 24;
/// The number of differences after which the test stops.
const ENOUGH: usize = 5;
/// The most attempts to make a failing case smaller.
const SMALLER: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_has_the_same_outcome_over_every_binding() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let requests = number("TRICORD_EQUIVALENCE_REQUESTS").unwrap_or(20_000);
    let seed = number("TRICORD_EQUIVALENCE_SEED").unwrap_or(1);
    let server = Server::start(world::CONFIG);
    let bench = Bench { world: World::make(&server.url).await, wires: Wires::new(&server.url) };
    if let Ok(case) = std::env::var("TRICORD_EQUIVALENCE_CASE") {
        let case: Case = serde_json::from_str(&case).expect("a case");
        let outcome = bench.run(&case).await;
        println!("{}", outcome.text());
        assert!(outcome.problem.is_none(), "a difference");
        return;
    }
    println!("{requests} requests of seed {seed}");

    let started = std::time::Instant::now();
    let cases = futures::stream::iter(0..requests).map(|number| {
        let bench = &bench;
        async move {
            let case = Case::make(seed, number);
            let outcome = bench.run(&case).await;
            (case, outcome)
        }
    });
    let mut cases = std::pin::pin!(cases.buffer_unordered(AT_ONCE));
    let (mut counts, mut sent) = (BTreeMap::<String, usize>::new(), BTreeMap::<usize, usize>::new());
    let mut differences = Vec::new();
    while let Some((case, outcome)) = cases.next().await {
        if outcome.problem.is_some() {
            let (case, outcome) = bench.shrink(case, outcome).await;
            let json = serde_json::to_string(&case).unwrap();
            differences.push(format!("{}\nTRICORD_EQUIVALENCE_CASE='{json}'", outcome.text()));
            if differences.len() == ENOUGH {
                break;
            }
            continue;
        }
        *sent.entry(outcome.answers.len()).or_default() += 1;
        if let Some((_, Ok(answer))) = outcome.answers.first() {
            *counts.entry(format!("{} {}", case.rpc, answer.name())).or_default() += 1;
        }
    }
    assert!(differences.is_empty(), "seed {seed}: the bindings differ\n{}", differences.join("\n\n"));
    println!("no difference in {requests} requests of seed {seed}, {:?}; wires a request: {sent:?}", started.elapsed());
    for (outcome, count) in &counts {
        println!("{count:6} {outcome}");
    }
    // The comparison means little if most requests are refused early.
    let accepted: usize = counts.iter().filter(|(name, _)| name.ends_with("accepted")).map(|(_, count)| count).sum();
    assert!(accepted as u64 * 5 >= requests, "{accepted} of {requests} were accepted");
}

/// A server with its tasks, and connections to it.
struct Bench {
    world: World,
    wires: Wires,
}

/// The outcomes of a case over every binding that can express it.
struct Outcome {
    answers: Vec<(Binding, Result<Answer, String>)>,
    /// What was sent, as text.
    sent: Vec<String>,
    problem: Option<String>,
}

impl Outcome {
    fn text(&self) -> String {
        let mut text = self.problem.clone().unwrap_or_else(|| "no difference".to_owned());
        for ((wire, answer), sent) in self.answers.iter().zip(&self.sent) {
            let _ = write!(text, "\n--- {wire:?}\n{sent}\n{answer:#?}");
        }
        text
    }
}

impl Bench {
    /// Sends a case over every wire and compares.
    async fn run(&self, case: &Case) -> Outcome {
        let (mut answers, mut sent) = (Vec::new(), Vec::new());
        let key = uuid::Uuid::now_v7().to_string();
        let endless = case.rpc == "SubscribeToTask" && case.names("@live");
        // A retry is about the same task as the first attempt.
        let retried = case.names("@key");
        let mut fresh = self.world.fresh(case, &key).await;
        for wire in WIRES {
            if self.wires.request(wire, case).is_none() {
                continue;
            }
            if !retried && !sent.is_empty() {
                fresh = self.world.fresh(case, &key).await;
            }
            let resolved = self.world.resolve(case, &fresh);
            let Some(request) = self.wires.request(wire, &resolved) else { continue };
            let params: String = resolved.params.to_string().chars().take(2000).collect();
            sent.push(format!("{} {} {:?} {params}", request.method(), request.uri(), request.headers()));
            answers.push((wire, self.wires.send(wire, &resolved, request, endless).await));
        }
        let problem = problem(case, &answers);
        Outcome { answers, sent, problem }
    }

    /// Removes everything that the difference does not need.
    async fn shrink(&self, mut case: Case, mut outcome: Outcome) -> (Case, Outcome) {
        let mut left = SMALLER;
        'again: while left > 0 {
            for smaller in mutate::smaller(&case) {
                if smaller == case || left == 0 {
                    continue;
                }
                left -= 1;
                let found = self.run(&smaller).await;
                if found.problem.is_some() {
                    (case, outcome) = (smaller, found);
                    continue 'again;
                }
            }
            break;
        }
        (case, outcome)
    }
}

/// Returns the difference between the outcomes, if there is one.
fn problem(case: &Case, answers: &[(Binding, Result<Answer, String>)]) -> Option<String> {
    if let Some((wire, Err(fault))) = answers.iter().find(|(_, answer)| answer.is_err()) {
        return Some(format!("{wire:?}: {fault}"));
    }
    let comparable = answers.iter().filter_map(|(wire, answer)| Some((wire, comparable(case, answer.clone().ok()?))));
    let comparable: Vec<_> = comparable.collect();
    let (first, expected) = comparable.first()?;
    let (other, _) = comparable.iter().find(|(wire, answer)| !same(case, **wire, expected, answer))?;
    Some(format!("{first:?} and {other:?} differ"))
}

fn same(case: &Case, wire: Binding, a: &Answer, b: &Answer) -> bool {
    match (a, b) {
        // Protobuf readers stop at a hundred levels, and a message that could not be read has no path.
        (Answer::Refused { reason: a, .. }, Answer::Refused { reason: b, fields, .. })
            if wire == Binding::Grpc && fields.is_empty() && nests(&case.params) > MAX_PROTOBUF =>
        {
            a == b
        }
        // Of several values that JSON cannot represent, each binding names the first in its own order.
        (Answer::Refused { reason: a, .. }, Answer::Refused { reason: b, .. }) if unreadable(&case.params) > 1 => {
            a == b
        }
        // Query parameters have no JSON types that a message could name.
        _ if wire == Binding::HttpJson && case.rpc().verb != "POST" => {
            a.clone().without_texts() == b.clone().without_texts()
        }
        _ => a == b,
    }
}

/// Counts the values at which a JSON reader stops and a protobuf reader does not.
fn unreadable(params: &serde_json::Value) -> usize {
    let numbers = [("/message/role", 2), ("/status", 8)];
    let unknown = numbers.iter().filter(|(at, last)| {
        params.pointer(at).and_then(serde_json::Value::as_i64).is_some_and(|number| !(0..=*last).contains(&number))
    });
    let structs = ["/metadata", "/message/metadata", "/message/parts"].iter().filter_map(|at| params.pointer(at));
    unknown.count() + structs.filter(|value| nests(value) > MAX_VALUE_DEPTH).count()
}

/// The most levels in a `Struct` or `Value`.
const MAX_VALUE_DEPTH: usize = 30;

/// The nesting up to which a request can certainly be read as protobuf.
const MAX_PROTOBUF: usize = 33;

fn nests(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(list) => 1 + list.iter().map(nests).max().unwrap_or(0),
        serde_json::Value::Object(members) => 1 + members.values().map(nests).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns an outcome without the parts that may differ.
fn comparable(case: &Case, answer: Answer) -> Answer {
    let at_once = case.params["configuration"]["returnImmediately"] == true;
    // Other cases may send to the agent of this list at the same time.
    let moving = case.rpc == "ListTasks" && case.params["tenant"] != "still";
    match answer {
        answer if moving => answer.bare(),
        // A retry gets the same task.
        answer if case.names("@key") => answer,
        answer if at_once => answer.without_progress().normal(),
        answer => answer.normal(),
    }
}
