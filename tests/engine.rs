//! The engine through its library face: what agents say becomes tasks and events, in order, durable, once.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tricord::agents::{Agent, BoxAgent, Conformance, TaskContext, from_fn, text_part};
use tricord::internals::engine::{AgentSpec, Engine, EngineError, EngineLimits, Incoming, OnRestart, Outcome};
use tricord::internals::store::{Options, Store, StoreUrl};
use tricord::schema::part::Content;
use tricord::schema::stream_response::Payload;
use tricord::schema::{Artifact, Message, Role, StreamResponse, Task, TaskState};
use uuid::Uuid;

fn spec(agent: impl Agent) -> AgentSpec {
    AgentSpec {
        name: "a".into(),
        agent: BoxAgent::new(agent),
        on_restart: OnRestart::Fail,
        cancel_grace: Duration::from_millis(200),
    }
}

async fn start(agent: impl Agent) -> Engine {
    let store = Store::open(&Options::new(StoreUrl::memory())).expect("a store in memory");
    Engine::start(store, vec![spec(agent)], EngineLimits::default()).await.expect("an engine")
}

fn message(text: &str) -> Incoming {
    let message =
        Message { message_id: "m".into(), role: Role::User.into(), parts: vec![text_part(text)], ..Message::default() };
    Incoming {
        agent: "a".into(),
        owner: "".into(),
        message,
        metadata: None,
        extensions: Vec::new(),
        accepted_output_modes: Vec::new(),
        bytes: 0,
        streaming: false,
        claim: None,
    }
}

fn follow_up(task: &Task, text: &str) -> Incoming {
    let mut incoming = message(text);
    incoming.message.task_id.clone_from(&task.id);
    incoming
}

async fn send(engine: &Engine, incoming: Incoming) -> Task {
    match engine.send(incoming).await.expect("admitted").outcome(true).await.expect("an outcome") {
        Outcome::Task(task) => task.value().clone(),
        Outcome::Message(message) => panic!("a message came instead of a task: {message:?}"),
    }
}

async fn begin(engine: &Engine, text: &str) -> Task {
    match engine.send(message(text)).await.expect("admitted").outcome(false).await.expect("an outcome") {
        Outcome::Task(task) => task.value().clone(),
        Outcome::Message(message) => panic!("a message came instead of a task: {message:?}"),
    }
}

fn state(task: &Task) -> TaskState {
    task.status.as_ref().expect("a status").state()
}

fn id(task: &Task) -> Uuid {
    task.id.parse().expect("an id of ours")
}

fn texts(task: &Task) -> Vec<&str> {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    parts
        .filter_map(|part| if let Some(Content::Text(text)) = &part.content { Some(text.as_str()) } else { None })
        .collect()
}

async fn collect(engine: &Engine, incoming: Incoming) -> Vec<StreamResponse> {
    let sent = engine.send(Incoming { streaming: true, ..incoming }).await.expect("admitted");
    let events = sent.stream(engine, None).expect("a stream");
    events.map(|event| event.expect("an event").value().into_owned()).collect().await
}

#[tokio::test]
async fn a_blocking_send_returns_the_completed_task() {
    let engine = start(Conformance::default()).await;
    let task = send(&engine, message("echo hello there")).await;
    assert_eq!(state(&task), TaskState::Completed);
    assert_eq!(texts(&task), ["hello there"]);
    assert_eq!(task.history.len(), 1);
    assert_eq!(task.history[0].task_id, task.id);
    assert_eq!(engine.read("a", "", id(&task)).await.expect("readable").value(), &task);
    assert_eq!(engine.read("a", "ben", id(&task)).await.expect_err("not his"), EngineError::NotFound);
}

#[tokio::test]
async fn a_message_answer_makes_no_task() {
    let engine = start(Conformance::default()).await;
    let outcome = engine.send(message("msg hi")).await.expect("admitted").outcome(true).await.expect("an outcome");
    let Outcome::Message(event) = outcome else { panic!("expected a message, got {outcome:?}") };
    let Some(Payload::Message(message)) = &event.value().payload else { panic!("not a message: {event:?}") };
    assert!(message.task_id.is_empty() && !message.context_id.is_empty() && !message.message_id.is_empty());
    let events = collect(&engine, self::message("msg hi")).await;
    assert!(matches!(events[..], [StreamResponse { payload: Some(Payload::Message(_)) }]), "{events:?}");
}

#[tokio::test]
async fn a_stream_begins_with_the_task_as_submitted_and_ends_with_its_end() {
    let engine = start(Conformance::default()).await;
    let events = collect(&engine, message("chunks 3")).await;
    let kinds: Vec<String> = events
        .iter()
        .map(|event| match event.payload.as_ref().expect("a payload") {
            Payload::Task(task) => format!("task {}", state(task).as_str_name()),
            Payload::StatusUpdate(update) => update.status.as_ref().expect("a status").state().as_str_name().into(),
            Payload::ArtifactUpdate(update) => format!("piece append={} last={}", update.append, update.last_chunk),
            Payload::Message(_) => "message".into(),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "task TASK_STATE_SUBMITTED",
            "TASK_STATE_WORKING",
            "piece append=false last=false",
            "piece append=true last=false",
            "piece append=true last=true",
            "TASK_STATE_COMPLETED"
        ]
    );
}

#[tokio::test]
async fn ten_thousand_pieces_arrive_in_order_at_a_slow_reader() {
    let engine = start(Conformance::default()).await;
    let sent = engine.send(Incoming { streaming: true, ..message("chunks 10000") }).await.expect("admitted");
    let mut events = sent.stream(&engine, None).expect("a stream");
    let (mut pieces, mut last) = (0, 0);
    while let Some(event) = events.next().await {
        let event = event.expect("an event");
        let seq = event.id().expect("a place").seq;
        assert!(seq > last, "{seq} after {last}");
        last = seq;
        if matches!(event.value().payload, Some(Payload::ArtifactUpdate(_))) {
            pieces += 1;
        }
        if pieces == 1 {
            // Far enough behind that the ring has dropped what comes next.
            let Some(Payload::ArtifactUpdate(update)) = &event.value().payload else { continue };
            let task: Uuid = update.task_id.parse().expect("an id");
            while state(engine.read("a", "", task).await.expect("readable").value()) != TaskState::Completed {
                tokio::task::yield_now().await;
            }
        }
    }
    assert_eq!(pieces, 10_000);
}

#[tokio::test]
async fn a_follow_up_continues_the_task_that_asked() {
    let engine = start(Conformance::default()).await;
    let asked = send(&engine, message("ask")).await;
    assert_eq!(state(&asked), TaskState::InputRequired);
    let done = send(&engine, follow_up(&asked, "forty-two")).await;
    assert_eq!((state(&done), &done.id, &done.context_id), (TaskState::Completed, &asked.id, &asked.context_id));
    let roles: Vec<_> = done.history.iter().map(Message::role).collect();
    assert_eq!(roles, [Role::User, Role::Agent, Role::User]);
    assert_eq!(
        engine.send(follow_up(&done, "more")).await.expect_err("it has ended"),
        EngineError::Ended(TaskState::Completed)
    );
}

#[tokio::test]
async fn a_cancel_ends_the_run_and_the_task() {
    let engine = start(Conformance::default()).await;
    let task = begin(&engine, "slow 30").await;
    let canceled = engine.cancel("a", "", id(&task)).await.expect("cancelled");
    assert_eq!(state(canceled.value()), TaskState::Canceled);
    assert_eq!(
        engine.cancel("a", "", id(&task)).await.expect_err("it has ended"),
        EngineError::Ended(TaskState::Canceled)
    );
    assert_eq!(engine.load().runs, 0);
}

#[tokio::test]
async fn a_run_that_ignores_the_cancel_is_cut_off() {
    let engine = start(from_fn(|task: TaskContext| async move {
        task.working("").await?;
        std::future::pending::<()>().await;
        Ok(())
    }))
    .await;
    let task = begin(&engine, "x").await;
    assert_eq!(state(engine.cancel("a", "", id(&task)).await.expect("cancelled").value()), TaskState::Canceled);
}

#[tokio::test]
async fn a_panic_and_an_error_fail_the_task() {
    let engine = start(Conformance::default()).await;
    for text in ["boom", "fail"] {
        let task = send(&engine, message(text)).await;
        assert_eq!(state(&task), TaskState::Failed, "{text}");
        let message = task.status.as_ref().and_then(|status| status.message.as_ref()).expect("a reason");
        assert_eq!((message.role(), message.parts.len(), &message.task_id), (Role::Agent, 1, &task.id));
    }
}

#[tokio::test]
async fn a_silent_run_gets_its_task_before_it_says_anything() {
    let engine = start(Conformance::default()).await;
    let task = begin(&engine, "silent 30").await;
    assert_eq!(state(&task), TaskState::Submitted);
    engine.cancel("a", "", id(&task)).await.expect("cancelled");
}

#[tokio::test]
async fn subscriptions_at_any_moment_see_everything_once() {
    let engine = start(Conformance::default()).await;
    let task = begin(&engine, "gate k chunks 200").await;
    let readers: Vec<_> = (0..20)
        .map(|n| {
            let (engine, task) = (engine.clone(), task.clone());
            tokio::spawn(async move {
                for _ in 0..n * 3 {
                    tokio::task::yield_now().await;
                }
                let mut events = match engine.subscribe("a", "", id(&task), None, None).await {
                    Ok(events) => events,
                    Err(error) => return assert_eq!(error, EngineError::Ended(TaskState::Completed)),
                };
                let mut pieces = 0;
                while let Some(event) = events.next().await {
                    pieces += match event.expect("an event").value().payload.as_ref().expect("a payload") {
                        Payload::Task(task) => texts(task).len(),
                        Payload::ArtifactUpdate(_) => 1,
                        _ => 0,
                    };
                }
                assert_eq!(pieces, 200);
            })
        })
        .collect();
    send(&engine, message("open k")).await;
    for reader in readers {
        reader.await.expect("a reader");
    }
}

#[tokio::test]
async fn a_stream_resumes_where_it_was_left_also_after_the_end() {
    let engine = start(Conformance::default()).await;
    let all = {
        let sent = engine.send(Incoming { streaming: true, ..message("chunks 5") }).await.expect("admitted");
        let events = sent.stream(&engine, None).expect("a stream");
        events.map(|event| event.expect("an event")).collect::<Vec<_>>().await
    };
    let Some(Payload::Task(task)) = &all[0].value().payload else { panic!("no task first: {:?}", all[0]) };
    let cursor = all[3].id().expect("a place").to_string();
    let again = engine.subscribe("a", "", id(task), Some(&cursor), None).await.expect("a replay");
    let again: Vec<_> = again.map(|event| event.expect("an event")).collect().await;
    let Some(Payload::Task(folded)) = &again[0].value().payload else { panic!("no task first: {:?}", again[0]) };
    assert_eq!(texts(folded).len(), 2);
    assert_eq!(again[0].id(), all[3].id());
    let ids = |events: &[tricord_bindings::Reply<StreamResponse>]| events.iter().map(|e| e.id()).collect::<Vec<_>>();
    assert_eq!(ids(&again[1..]), ids(&all[4..]));
    let last = all.last().and_then(|event| event.id()).expect("a place").to_string();
    let refused = engine.subscribe("a", "", id(task), Some(&last), None).await.expect_err("nothing is left");
    assert_eq!(refused, EngineError::Ended(TaskState::Completed));
}

#[tokio::test]
async fn two_follow_ups_at_once_are_both_in_the_history() {
    let engine = start(Conformance::default()).await;
    let asked = send(&engine, message("ask")).await;
    let (engine, asked) = (Arc::new(engine), Arc::new(asked));
    let sends = ["one", "two"].map(|text| {
        let (engine, asked) = (Arc::clone(&engine), Arc::clone(&asked));
        tokio::spawn(async move {
            match engine.send(follow_up(&asked, text)).await {
                Ok(sent) => sent.outcome(true).await.map(|_| true),
                Err(EngineError::Ended(TaskState::Completed)) => Ok(false),
                Err(error) => Err(error),
            }
        })
    });
    let mut taken = 0;
    for send in sends {
        taken += usize::from(send.await.expect("a send").expect("taken or refused"));
    }
    let task = engine.read("a", "", id(&asked)).await.expect("readable").value().clone();
    assert_eq!(state(&task), TaskState::Completed);
    assert_eq!(task.history.iter().filter(|message| message.role() == Role::User).count(), 1 + taken);
}

#[test]
fn what_ran_when_the_process_ended_is_failed_or_resumed() {
    let dir = tempfile::tempdir().expect("a directory");
    let url: StoreUrl = format!("sqlite:{}", dir.path().join("t.db").display()).parse().expect("an address");
    for on_restart in [OnRestart::Fail, OnRestart::Resume] {
        let open = async || {
            let store = Store::open(&Options::new(url.clone())).expect("a store");
            Engine::start(
                store,
                vec![AgentSpec { on_restart, ..spec(Conformance::default()) }],
                EngineLimits::default(),
            )
            .await
            .expect("an engine")
        };
        let first = tokio::runtime::Runtime::new().expect("a runtime");
        let (running, waiting) = first.block_on(async {
            let engine = open().await;
            let waiting = send(&engine, message("ask")).await;
            let running = begin(&engine, "slow 0.3").await;
            engine.close().await;
            (running, waiting)
        });
        first.shutdown_timeout(Duration::from_secs(10));
        let second = tokio::runtime::Runtime::new().expect("a runtime");
        second.block_on(async {
            let engine = open().await;
            let end = loop {
                let task = engine.read("a", "", id(&running)).await.expect("readable").value().clone();
                match state(&task) {
                    TaskState::Submitted | TaskState::Working => tokio::time::sleep(Duration::from_millis(10)).await,
                    _ => break task,
                }
            };
            let expected = if on_restart == OnRestart::Fail { TaskState::Failed } else { TaskState::Completed };
            assert_eq!(state(&end), expected);
            let waiting = engine.read("a", "", id(&waiting)).await.expect("readable").value().clone();
            assert_eq!(state(&waiting), TaskState::InputRequired);
            assert_eq!(state(&send(&engine, follow_up(&waiting, "42")).await), TaskState::Completed);
            engine.close().await;
        });
        second.shutdown_timeout(Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_stream_that_may_not_be_opened_begins_nothing() {
    let store = Store::open(&Options::new(StoreUrl::memory())).expect("a store in memory");
    let limits = EngineLimits { streams: 0, ..EngineLimits::default() };
    let engine = Engine::start(store, vec![spec(Conformance::default())], limits).await.expect("an engine");
    let refused =
        engine.send(Incoming { streaming: true, ..message("slow 30") }).await.expect_err("no stream may be opened");
    assert!(matches!(refused, EngineError::Busy(_)), "{refused}");
    assert_eq!(engine.load().runs, 0);
}

#[tokio::test]
async fn an_agent_that_says_without_end_what_it_does_is_stopped() {
    let store = Store::open(&Options::new(StoreUrl::memory())).expect("a store in memory");
    let limits = EngineLimits { task_records: 100, ..EngineLimits::default() };
    let agent = from_fn(|task: TaskContext| async move {
        loop {
            task.working("still at it").await?;
        }
    });
    let engine = Engine::start(store, vec![spec(agent)], limits).await.expect("an engine");
    let task = send(&engine, message("x")).await;
    assert_eq!(state(&task), TaskState::Failed);
    assert_eq!(task.history.len(), 99);
}

/// Starts an engine on a file again and again, and ends it without letting runs end.
struct Restarts {
    _dir: tempfile::TempDir,
    url: StoreUrl,
}

impl Restarts {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", dir.path().join("t.db").display()).parse().expect("an address");
        Self { _dir: dir, url }
    }

    fn life<F: Future>(&self, limits: EngineLimits, agent: impl Agent, life: impl FnOnce(Engine) -> F) -> F::Output {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let result = runtime.block_on(async {
            let store = Store::open(&Options::new(self.url.clone())).expect("a store");
            let spec = AgentSpec { on_restart: OnRestart::Resume, ..spec(agent) };
            let engine = Engine::start(store, vec![spec], limits).await.expect("an engine");
            let result = life(engine.clone()).await;
            engine.close().await;
            result
        });
        runtime.shutdown_timeout(Duration::from_secs(10));
        result
    }
}

async fn until(engine: &Engine, task: Uuid, end: TaskState) {
    let waiting = async {
        while state(engine.read("a", "", task).await.expect("readable").value()) != end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(30), waiting).await.is_ok();
    assert!(
        reached,
        "{:?} is not reached by {:?}",
        end,
        engine.read("a", "", task).await.expect("readable").value().status
    );
}

#[test]
fn attempts_are_counted_also_where_a_checkpoint_covers_them() {
    let restarts = Restarts::new();
    let (attempts, tried) = std::sync::mpsc::channel();
    let agent = move || {
        let attempts = attempts.clone();
        from_fn(move |task: TaskContext| {
            let attempts = attempts.clone();
            async move {
                // More than what is worth a checkpoint.
                let big = text_part("x".repeat(3 << 20));
                let artifact = Artifact { artifact_id: "big".into(), parts: vec![big], ..Artifact::default() };
                task.emit_artifact(artifact, false, true).await?;
                task.commit().await?;
                let _ = attempts.send(task.turn().attempt);
                std::future::pending().await
            }
        })
    };
    let wait = |n| {
        let attempt = tried.recv_timeout(Duration::from_secs(30)).expect("an attempt");
        assert_eq!(attempt, n);
    };
    let task = restarts.life(EngineLimits::default(), agent(), |engine| async move {
        let task = begin(&engine, "x").await;
        tokio::task::block_in_place(|| wait(1));
        task
    });
    for attempt in [2, 3] {
        restarts.life(EngineLimits::default(), agent(), |_| async { tokio::task::block_in_place(|| wait(attempt)) });
    }
    let failed = |engine: Engine| async move { until(&engine, id(&task), TaskState::Failed).await };
    restarts.life(EngineLimits::default(), agent(), failed);
}

#[test]
fn runs_for_which_there_is_no_place_at_the_start_are_taken_up_later() {
    let restarts = Restarts::new();
    let tasks = restarts.life(EngineLimits::default(), Conformance::default(), |engine| async move {
        let mut tasks = Vec::new();
        for _ in 0..3 {
            tasks.push(id(&begin(&engine, "slow 0.2").await));
        }
        tasks
    });
    let one = EngineLimits { running: 1, ..EngineLimits::default() };
    restarts.life(one, Conformance::default(), |engine| async move {
        for task in tasks {
            until(&engine, task, TaskState::Completed).await;
        }
    });
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// What clients do to one task at the same time: messages, streams, cancels, and leaving in the middle.
async fn disturb(engine: Engine, task: Task, mut random: Random) {
    for _ in 0..random.below(6) {
        tokio::task::yield_now().await;
    }
    let patience = Duration::from_micros(random.below(3000));
    match random.below(5) {
        0 | 1 => {
            let words = ["done", "ask", "chunks 9", "slow 0.005", "hold", "auth"][random.below(6) as usize];
            match engine.send(follow_up(&task, words)).await {
                Ok(sent) if random.below(2) == 0 => drop(sent),
                Ok(sent) => drop(tokio::time::timeout(patience, sent.outcome(true)).await),
                Err(error) => assert!(matches!(error, EngineError::Ended(_)), "{error}"),
            }
        }
        2 => drop(tokio::time::timeout(patience, engine.cancel("a", "", id(&task))).await),
        _ => {
            let cursor = (random.below(2) == 0).then(|| format!("{}.2", engine.generation()));
            let Ok(mut events) = engine.subscribe("a", "", id(&task), cursor.as_deref(), None).await else { return };
            let mut last = None;
            let reading = async {
                while let Some(event) = events.next().await {
                    let place = event.expect("an event").id().expect("a place").seq;
                    assert!(last < Some(place), "{place} after {last:?}");
                    last = Some(place);
                }
            };
            let _ = tokio::time::timeout(10 * patience, reading).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_clients_do_at_once_leaves_nothing_behind() {
    let store = Store::open(&Options::new(StoreUrl::memory())).expect("a store in memory");
    let agent = from_fn(|task: TaskContext| async move {
        if task.text() == "hold" {
            task.working("").await?;
            std::future::pending::<()>().await;
        }
        Conformance::default().run(task).await
    });
    let spec = AgentSpec { cancel_grace: Duration::from_micros(200), ..spec(agent) };
    let engine = Engine::start(store, vec![spec], EngineLimits::default()).await.expect("an engine");
    for round in 0..150 {
        let words = ["ask", "hold", "slow 0.003", "tck-multi-turn", "auth", "chunks 50"][round % 6];
        let task = begin(&engine, words).await;
        let clients: Vec<_> =
            (0..8).map(|n| tokio::spawn(disturb(engine.clone(), task.clone(), Random(round as u64 * 8 + n)))).collect();
        for client in clients {
            client.await.expect("a client");
        }
        // Whatever came of it, a last cancel ends it if nothing else has.
        match engine.cancel("a", "", id(&task)).await {
            Ok(_) | Err(EngineError::Ended(_)) => {}
            Err(error) => panic!("{words}: {error}"),
        }
        let end = engine.read("a", "", id(&task)).await.expect("readable").value().clone();
        assert!(tricord::internals::task::lifecycle::is_terminal(state(&end)), "{words}: {:?}", end.status);
    }
    engine.drain(Duration::from_secs(30)).await;
    assert_eq!((engine.load().runs, engine.load().streams), (0, 0));
}

#[test]
fn a_cut_off_turn_begins_again_with_its_own_message_and_unread_ones_follow_in_order() {
    let restarts = Restarts::new();
    let (begun, turns) = std::sync::mpsc::channel();
    let agent = move || {
        let begun = begun.clone();
        from_fn(move |task: TaskContext| {
            let begun = begun.clone();
            async move {
                let words = match &task.message().parts[0].content {
                    Some(Content::Text(text)) => text.clone(),
                    _ => String::new(),
                };
                let (attempt, is_first) = (task.turn().attempt, task.turn().begins_task);
                task.working("").await?;
                let _ = begun.send((words.clone(), attempt, is_first));
                match (words.as_str(), attempt) {
                    ("one", _) => task.ask(vec![text_part("and then?")]).await,
                    // Reads one message, which a repetition of the turn has to see again.
                    ("two", 1) => {
                        task.incoming().await;
                        let _ = begun.send(("read".into(), 0, false));
                        std::future::pending().await
                    }
                    ("three", 1) => std::future::pending().await,
                    _ => Ok(()),
                }
            }
        })
    };
    let next = |words: &str, attempt| {
        let turn = tokio::task::block_in_place(|| turns.recv_timeout(Duration::from_secs(30))).expect("a turn");
        assert_eq!(turn, (words.to_owned(), attempt, words == "one"));
    };
    let task = restarts.life(EngineLimits::default(), agent(), async |engine: Engine| {
        let task = send(&engine, message("one")).await;
        for words in ["two", "three", "four", "five"] {
            engine.send(follow_up(&task, words)).await.expect("accepted").outcome(false).await.expect("an outcome");
        }
        ["one", "two", "read"].into_iter().for_each(|words| next(words, u32::from(words != "read")));
        task
    });
    restarts.life(EngineLimits::default(), agent(), async |_| {
        next("two", 2);
        next("three", 1);
    });
    let end = restarts.life(EngineLimits::default(), agent(), async |engine: Engine| {
        next("three", 2);
        next("four", 1);
        next("five", 1);
        until(&engine, id(&task), TaskState::Completed).await;
        engine.read("a", "", id(&task)).await.expect("readable").value().clone()
    });
    let users = end.history.iter().filter(|message| message.role() == Role::User);
    assert_eq!(users.count(), 5, "nothing is in the history twice");
    assert!(turns.try_recv().is_err(), "no turn was repeated once more");
}
