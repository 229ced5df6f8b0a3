//! A damaged store: every answer is right, or there is a sign that something is wrong. Nothing panics.
//!
//! `TRICORD_DAMAGE_ROUNDS` is the number of damaged files (60), `TRICORD_DAMAGE_SEED` the seed of the places.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tricord::agents::{BoxAgent, TaskContext, from_fn, text_part};
use tricord::internals::engine::{AgentSpec, Engine, EngineError, EngineLimits, Incoming, OnRestart, Outcome};
use tricord::internals::store::{ListQuery, Options, Store, StoreUrl};
use tricord::schema::part::Content;
use tricord::schema::{Artifact, Message, Role, Task};
use uuid::Uuid;

const OWNERS: [&str; 3] = ["", "ann", "bob"];

/// Answers with as many kilobytes as the message says, or asks.
async fn start(path: &Path) -> Result<Engine, String> {
    let agent = from_fn(|task: TaskContext| async move {
        let Some(Content::Text(text)) = task.message().parts[0].content.clone() else { return Ok(()) };
        let Ok(size) = text.parse::<usize>() else { return task.ask(vec![text_part("how much?")]).await };
        for piece in 0..size.div_ceil(500) {
            let parts = vec![text_part(format!("{piece}").repeat(size * 1000 / 8))];
            let artifact = Artifact { artifact_id: "a".into(), parts, ..Artifact::default() };
            task.emit_artifact(artifact, true, false).await?;
        }
        Ok(())
    });
    let spec = AgentSpec {
        name: "a".into(),
        agent: BoxAgent::new(agent),
        on_restart: OnRestart::Fail,
        cancel_grace: Duration::ZERO,
    };
    let store = Store::open(&Options::new(StoreUrl::sqlite(path))).map_err(|error| error.to_string())?;
    Engine::start(store, vec![spec], EngineLimits::default()).await.map_err(|error| error.to_string())
}

async fn send(engine: &Engine, owner: &str, text: &str) -> Result<Task, EngineError> {
    let message =
        Message { message_id: "m".into(), role: Role::User.into(), parts: vec![text_part(text)], ..Message::default() };
    let incoming = Incoming {
        agent: "a".into(),
        owner: owner.into(),
        message,
        metadata: None,
        extensions: Vec::new(),
        accepted_output_modes: Vec::new(),
        streaming: false,
        claim: None,
        bytes: 0,
    };
    match engine.send(incoming).await?.outcome(true).await? {
        Outcome::Task(task) => Ok(task.value().clone()),
        Outcome::Message(message) => panic!("a message came instead of a task: {message:?}"),
    }
}

/// A small random generator (xorshift64*), with which a seed gives the same places everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % bound
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}

type Expected = BTreeMap<(&'static str, Uuid), Task>;

/// Makes a store with tasks of several sizes and owners.
async fn fill(path: &Path) -> Expected {
    let engine = start(path).await.unwrap();
    let mut expected = Expected::new();
    for n in 0..45 {
        let owner = OWNERS[n % 3];
        let text = match n % 9 {
            8 => "2500".to_owned(),
            4 => "20".to_owned(),
            2 => "ask".to_owned(),
            _ => "1".to_owned(),
        };
        let task = send(&engine, owner, &text).await.unwrap();
        expected.insert((owner, task.id.parse().unwrap()), task);
    }
    engine.close().await;
    expected
}

/// Reads everything. Returns the first answer that is wrong, if there is one.
async fn wrong(engine: &Engine, expected: &Expected) -> Option<String> {
    for ((owner, id), task) in expected {
        match engine.read("a", owner, *id).await {
            Ok(read) if read.value() == task => {}
            Err(EngineError::Damaged | EngineError::StoreUnavailable) => {}
            other => return Some(format!("{id}: {:?}", other.map(|task| task.value().status.clone()))),
        }
    }
    for owner in OWNERS {
        let query = ListQuery {
            agent: "a".into(),
            owner: owner.into(),
            context: None,
            state: None,
            after_us: None,
            limit: 100,
            cursor: None,
        };
        let Ok(rows) = engine.store().list(&query).await else { continue };
        let mut listed = Vec::new();
        let take = |task| {
            listed.push(task);
            ControlFlow::Continue(())
        };
        if engine.read_rows(&rows, take).await.is_err() {
            continue;
        }
        let own = expected.iter().filter(|((of, _), _)| *of == owner).count();
        if listed.len() != own {
            return Some(format!("{} of {own} tasks are listed", listed.len()));
        }
        for task in listed {
            if expected.get(&(owner, task.value().id.parse().unwrap())) != Some(task.value()) {
                return Some(format!("{} is listed and differs", task.value().id));
            }
        }
    }
    send(engine, "ann", "1").await.err().filter(|error| *error == EngineError::NotFound).map(|error| error.to_string())
}

/// Whether the server says that something is wrong, in its log and its metrics. The check at the start takes a moment.
async fn has_sign(engine: &Engine) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while engine.store().damage_count() == 0 {
        if Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn no_damage_gives_a_wrong_answer_without_a_sign() {
    let rounds = setting("TRICORD_DAMAGE_ROUNDS", 60);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = setting("TRICORD_DAMAGE_SEED", u64::from(now.subsec_nanos()) | 1);
    println!("{rounds} rounds, TRICORD_DAMAGE_SEED={seed}");
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whole.db");
    let expected = fill(&path).await;
    let whole = std::fs::read(&path).unwrap();
    let (mut refused, mut signs) = (0, 0);
    for round in 0..rounds {
        let mut bytes = whole.clone();
        // Most of the file is the content of large tasks: half of the places are in pages of rows and indexes.
        let small =
            || bytes.chunks(4096).enumerate().filter(|(_, page)| !matches!(page[0], 0)).map(|(at, _)| at * 4096);
        let pages: Vec<usize> = small().collect();
        let at = if round % 2 == 0 {
            pages[random.below(pages.len())] + random.below(4096)
        } else {
            random.below(bytes.len())
        };
        let how = match round % 4 {
            0 | 1 => {
                bytes[at] ^= 1 << random.below(8);
                "flipped a bit"
            }
            2 => {
                let end = bytes.len().min(at + 512);
                bytes[at..end].fill(0);
                "zeroed 512 bytes"
            }
            _ => {
                bytes.truncate(at);
                "truncated"
            }
        };
        let copy = dir.path().join(format!("{round}.db"));
        std::fs::write(&copy, bytes).unwrap();
        match start(&copy).await {
            // It says why in one line.
            Err(_) => refused += 1,
            Ok(engine) => {
                if let Some(wrong) = wrong(&engine, &expected).await {
                    assert!(has_sign(&engine).await, "{how} at {at}: {wrong}");
                    signs += 1;
                }
                engine.close().await;
            }
        }
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let _ = std::fs::remove_file(dir.path().join(format!("{round}.db{suffix}")));
        }
    }
    println!("{refused} files were refused, {signs} gave an answer that a sign came with");
}

fn tricord(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_tricord")).args(arguments).current_dir(directory).output().unwrap();
    (ran.status.code(), format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_copies_every_task_that_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tricord.db");
    let expected = fill(&path).await;
    let (code, said) = tricord(dir.path(), &["store", "check"]);
    assert_eq!(code, Some(0), "{said}");
    // The content of one large task.
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(64).position(|window| window == &b"3".repeat(64)[..]).unwrap();
    bytes[at + 20] = b'4';
    std::fs::write(&path, bytes).unwrap();

    let (code, said) = tricord(dir.path(), &["store", "check"]);
    assert!(code == Some(1) && said.contains("not as"), "{code:?} {said}");
    let engine = start(&path).await.unwrap();
    let mut damaged = Vec::new();
    for ((owner, id), task) in &expected {
        match engine.read("a", owner, *id).await {
            Ok(read) => assert_eq!(read.value(), task),
            Err(error) => {
                assert_eq!(error, EngineError::Damaged);
                damaged.push(*id);
            }
        }
    }
    assert_eq!(damaged.len(), 1, "one task alone is damaged");
    assert!(said.contains(&damaged[0].to_string()), "{said}");
    assert!(engine.store().damage_count() > 0);
    engine.close().await;

    let (code, said) = tricord(dir.path(), &["store", "repair", "new.db"]);
    assert!(code == Some(0) && said.contains("44 tasks") && said.contains("1 left out"), "{code:?} {said}");
    let (code, said) = tricord(dir.path(), &["store", "check", "--store", "sqlite:new.db"]);
    assert_eq!(code, Some(0), "{said}");
    let engine = start(&dir.path().join("new.db")).await.unwrap();
    let whole: Expected = expected.into_iter().filter(|((_, id), _)| !damaged.contains(id)).collect();
    assert_eq!(wrong(&engine, &whole).await, None);
    assert_eq!(engine.store().damage_count(), 0);
    engine.close().await;
    let (code, said) = tricord(dir.path(), &["store", "repair", "new.db"]);
    assert!(code != Some(0) && said.contains("exists"), "{code:?} {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_file_beside_its_log_and_a_second_name_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tricord.db");
    fill(&path).await;
    std::fs::hard_link(&path, dir.path().join("other.db")).unwrap();
    for name in [&path, &dir.path().join("other.db")] {
        let error = start(name).await.unwrap_err();
        assert!(error.contains("hard link"), "{error}");
    }
    std::fs::remove_file(dir.path().join("other.db")).unwrap();

    // A log as a killed server leaves it: copied while the store is open.
    let engine = start(&path).await.unwrap();
    send(&engine, "ann", "1").await.unwrap();
    let (file, log) = (std::fs::read(&path).unwrap(), std::fs::read(dir.path().join("tricord.db-wal")).unwrap());
    engine.close().await;
    let left = |file: Option<&[u8]>, log: &[u8]| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tricord.db-wal"), log).unwrap();
        if let Some(file) = file {
            std::fs::write(dir.path().join("tricord.db"), file).unwrap();
        }
        dir
    };
    for file in [None, Some(&[][..])] {
        let dir = left(file, &log);
        let error = start(&dir.path().join("tricord.db")).await.unwrap_err();
        assert!(error.contains("missing or empty") && error.contains("tricord.db-wal"), "{error}");
        assert_eq!(std::fs::read(dir.path().join("tricord.db-wal")).unwrap(), log, "the log is left alone");
    }
    let dir = left(Some(&file), &log);
    start(&dir.path().join("tricord.db")).await.unwrap().close().await;

    // A transaction that others follow is broken.
    let mut broken = log.clone();
    broken[32 + 24 + 100] ^= 1;
    let dir = left(Some(&file), &broken);
    let error = start(&dir.path().join("tricord.db")).await.unwrap_err();
    assert!(error.contains("damaged at byte 32"), "{error}");
    // The end of the last one is missing, as after a power failure.
    let dir = left(Some(&file), &log[..log.len() - 100]);
    start(&dir.path().join("tricord.db")).await.unwrap().close().await;
}
