//! Real commands, well behaved and not.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::super::{EmitError, RunHandle, Turn, text_part};
use super::*;
use crate::schema::store::ArtifactPiece;
use crate::schema::store::record::Event;
use crate::schema::{Message, Part, TaskState};
use crate::settings::Secret;

/// Keeps what an agent emits.
#[derive(Default)]
struct Kept {
    events: Mutex<Vec<Event>>,
    full: Mutex<Option<Vec<Waker>>>,
    ended: Mutex<bool>,
}

impl RunHandle for Kept {
    fn append(&self, event: Event) -> Result<u64, EmitError> {
        if *self.ended.lock().unwrap() {
            return Err(EmitError::Ended(TaskState::Canceled));
        }
        let mut events = self.events.lock().unwrap();
        events.push(event);
        Ok(events.len() as u64)
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.full.lock().unwrap() {
            None => Poll::Ready(()),
            Some(wakers) => {
                wakers.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn poll_committed(&self, _seq: u64, _cx: &mut Context<'_>) -> Poll<Result<(), EmitError>> {
        Poll::Ready(Ok(()))
    }

    fn head(&self) -> u64 {
        self.events.lock().unwrap().len() as u64
    }

    fn reply(&self, parts: Vec<Part>) -> Result<Option<Vec<Part>>, EmitError> {
        Ok(Some(parts))
    }

    fn poll_incoming(&self, _cx: &mut Context<'_>) -> Poll<Arc<Message>> {
        Poll::Pending
    }

    fn poll_incoming_ready(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn poll_resumed(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn history(&self) -> Vec<Message> {
        Vec::new()
    }

    fn fresh_id(&self) -> String {
        "fresh".into()
    }
}

impl Kept {
    fn pieces(&self) -> Vec<ArtifactPiece> {
        let events = self.events.lock().unwrap();
        events.iter().filter_map(|d| if let Event::Artifact(piece) = d { Some(piece.clone()) } else { None }).collect()
    }

    fn texts(&self) -> Vec<String> {
        let text = |part: Part| match part.content {
            Some(Content::Text(text)) => text,
            other => panic!("no text: {other:?}"),
        };
        self.pieces().into_iter().flat_map(|p| p.artifact.unwrap().parts).map(text).collect()
    }

    fn text(&self) -> String {
        self.texts().concat()
    }

    async fn until(&self, what: &str) {
        wait(|| self.text().contains(what)).await;
    }
}

/// Waits for something that only a broken agent never does.
async fn wait(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited for nothing");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One turn of a command.
struct Running {
    host: Arc<Kept>,
    cancelled: CancellationToken,
    run: JoinHandle<Result<(), AgentError>>,
}

impl Running {
    async fn end(self) -> (Arc<Kept>, Result<(), AgentError>) {
        let run = tokio::time::timeout(Duration::from_secs(20), self.run).await.expect("the run ends");
        (self.host, run.unwrap())
    }
}

fn start_on(host: Arc<Kept>, agent: &Arc<Exec>, parts: Vec<Part>) -> Running {
    let cancelled = CancellationToken::new();
    let turn = Turn {
        message: Arc::new(Message { message_id: "m-1".into(), parts, ..Message::default() }),
        task_id: "t-1".into(),
        context_id: "c-1".into(),
        agent: "exec".into(),
        owner: "ann".into(),
        begins_task: true,
        attempt: 1,
        extensions: Vec::new(),
        accepted_output_modes: Vec::new(),
        metadata: None,
        cancelled: cancelled.clone(),
    };
    let task = TaskContext::new(host.clone(), Arc::new(turn));
    let agent = agent.clone();
    Running { host, cancelled, run: tokio::spawn(async move { agent.run(task).await }) }
}

fn start(agent: &Arc<Exec>, text: &str) -> Running {
    start_on(Arc::default(), agent, vec![text_part(text)])
}

fn shell(script: &str) -> ExecSettings {
    ExecSettings::new(["sh", "-c", script])
}

/// An agent whose cancelled commands get 900 ms.
fn exec(settings: ExecSettings) -> Arc<Exec> {
    exec_with_grace(settings, Duration::from_millis(900))
}

fn exec_with_grace(settings: ExecSettings, grace: Duration) -> Arc<Exec> {
    Arc::new(Exec::new(settings, grace).unwrap())
}

async fn run(settings: ExecSettings, text: &str) -> (Arc<Kept>, Result<(), AgentError>) {
    start(&exec(settings), text).end().await
}

/// A script in a directory where it can leave files.
fn shell_in(script: &str) -> (TempDir, ExecSettings) {
    let dir = tempfile::tempdir().unwrap();
    let settings = ExecSettings { directory: Some(dir.path().into()), ..shell(script) };
    (dir, settings)
}

/// The number of a process that wrote it to a file.
async fn pid(dir: &TempDir, file: &str) -> u32 {
    let path = dir.path().join(file);
    let read = || std::fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'));
    wait(|| read().is_some()).await;
    read().unwrap().trim().parse().unwrap()
}

fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Gone, or an orphan that whoever is process 1 has not looked after yet.
fn gone(pid: u32) -> bool {
    state(pid).is_none_or(|state| state == 'Z')
}

#[tokio::test]
async fn what_it_reads_is_the_message_and_what_it_prints_the_artifact() {
    let (host, result) = run(ExecSettings::new(["cat"]), "grüße\nund \u{1F30D}").await;
    result.unwrap();
    assert_eq!(host.text(), "grüße\nund \u{1F30D}");
    let pieces = host.pieces();
    assert_eq!(pieces.len(), 1, "printed at once, one piece");
    assert!(pieces[0].last_chunk && !pieces[0].append);
}

#[tokio::test]
async fn parts_of_every_kind_are_read() {
    let json: tricord_bindings::wkt::Value = serde_json::from_str(r#"{"a":[1,null,"x"]}"#).unwrap();
    let part = |content| Part { content: Some(content), ..Part::default() };
    let parts = vec![
        text_part("one"),
        part(Content::Data(json)),
        part(Content::Raw(Bytes::from_static(b"raw"))),
        part(Content::Url("https://example.com/a".into())),
    ];
    let (host, result) = start_on(Arc::default(), &exec(ExecSettings::new(["cat"])), parts).end().await;
    result.unwrap();
    assert_eq!(host.text(), "one\n{\"a\":[1,null,\"x\"]}\nraw\nhttps://example.com/a");
}

#[tokio::test]
async fn a_command_is_told_its_task_and_none_of_the_servers_secrets() {
    let inherited = |name: &str| INHERITED.contains(&name) || name.starts_with("LC_");
    assert!(std::env::vars().any(|(name, _)| !inherited(&name)), "the server has variables of its own");
    let mut settings = ExecSettings::new(["env"]);
    settings.environment.insert("KEY".into(), Secret::new("s3"));
    let (host, result) = run(settings, "").await;
    result.unwrap();
    let text = host.text();
    for line in
        ["TRICORD_TASK_ID=t-1", "TRICORD_CONTEXT_ID=c-1", "TRICORD_MESSAGE_ID=m-1", "TRICORD_OWNER=ann", "KEY=s3"]
    {
        assert!(text.lines().any(|l| l == line), "{line} in {text}");
    }
    for line in text.lines() {
        let name = line.split('=').next().unwrap();
        let known = inherited(name) || name.starts_with("TRICORD_") || name == "KEY";
        assert!(known, "{name} was passed on");
    }
}

#[tokio::test]
async fn lines_arrive_while_it_runs() {
    let (dir, settings) = shell_in(
        "echo one; while [ ! -e gate ]; do sleep 0.01; done; printf 'two\\nthree'; rm gate; \
                  while [ ! -e gate ]; do sleep 0.01; done; echo; echo four",
    );
    let running = start(&exec(settings), "");
    running.host.until("one").await;
    std::fs::write(dir.path().join("gate"), "").unwrap();
    running.host.until("one\ntwo\nthre").await;
    wait(|| !dir.path().join("gate").exists()).await;
    std::fs::write(dir.path().join("gate"), "").unwrap();
    let (host, result) = running.end().await;
    result.unwrap();
    assert_eq!(host.text(), "one\ntwo\nthree\nfour\n");
    let sealed: Vec<_> = host.pieces().iter().map(|piece| piece.last_chunk).collect();
    assert_eq!(sealed, (1..=sealed.len()).map(|n| n == sealed.len()).collect::<Vec<_>>());
    assert!(host.texts().iter().all(|text| !text.is_empty()));
}

#[tokio::test]
async fn a_failure_says_the_code_and_the_end_of_the_complaint() {
    let (host, result) = run(shell("echo half; seq 100000 >&2; echo 'no such order' >&2; exit 3"), "").await;
    let error = result.unwrap_err();
    assert!(error.public().starts_with("The command failed with exit code 3:\n"), "{error}");
    assert!(error.public().ends_with("\n99999\n100000\nno such order"), "{error}");
    assert!(error.public().len() < 3000);
    assert_eq!(host.text(), "half\n");
    assert!(!host.pieces().last().unwrap().last_chunk, "what failed is not sealed");

    let (_, result) = run(shell("exit 1"), "").await;
    assert_eq!(result.unwrap_err().public(), "The command failed with exit code 1.");
    let (_, result) = run(shell("kill -9 $$"), "").await;
    assert_eq!(result.unwrap_err().public(), "The command was ended by signal 9.");
}

#[tokio::test]
async fn a_cancelled_tree_is_gone_root_and_branch() {
    let (dir, settings) = shell_in(
        "sh -c 'trap \"\" TERM; echo $$ >deaf; while :; do sleep 1; done' & \
         sh -c 'sh -c \"echo \\$\\$ >deep; sleep 1000\" & wait' & \
         echo $$ >root; wait",
    );
    let running = start(&exec_with_grace(settings, Duration::from_millis(200)), "");
    let pids = [pid(&dir, "deaf").await, pid(&dir, "deep").await, pid(&dir, "root").await];
    assert!(pids.iter().all(|pid| !gone(*pid)));
    running.cancelled.cancel();
    let (_, result) = running.end().await;
    result.unwrap();
    wait(|| pids.iter().all(|pid| gone(*pid))).await;
    assert_eq!(state(pids[2]), None, "the command itself is no zombie");
}

#[tokio::test]
async fn a_cancelled_command_may_say_good_bye() {
    let (dir, settings) = shell_in("trap 'echo bye; exit 0' TERM; echo $$ >ready; while :; do sleep 0.01; done");
    let running = start(&exec_with_grace(settings, Duration::from_secs(10)), "");
    pid(&dir, "ready").await;
    let start = Instant::now();
    running.cancelled.cancel();
    let (host, result) = running.end().await;
    result.unwrap();
    assert_eq!(host.text(), "bye\n");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_deaf_command_is_killed_after_its_grace() {
    let (dir, settings) = shell_in("trap '' TERM; echo $$ >ready; while :; do sleep 0.01; done");
    let grace = Duration::from_millis(300);
    let running = start(&exec_with_grace(settings, grace), "");
    let root = pid(&dir, "ready").await;
    let start = Instant::now();
    running.cancelled.cancel();
    running.end().await.1.unwrap();
    assert!(start.elapsed() >= grace);
    assert_eq!(state(root), None);
}

#[tokio::test]
async fn a_run_that_is_cut_off_leaves_nothing() {
    let (dir, settings) =
        shell_in("sh -c 'trap \"\" TERM; echo $$ >deaf; while :; do sleep 1; done' & echo $$ >root; wait");
    let running = start(&exec(settings), "");
    let pids = [pid(&dir, "deaf").await, pid(&dir, "root").await];
    running.run.abort();
    wait(|| pids.iter().all(|pid| gone(*pid))).await;
    wait(|| state(pids[1]).is_none()).await;
}

#[test]
fn a_runtime_that_ends_leaves_nothing() {
    let (dir, settings) =
        shell_in("sh -c 'trap \"\" TERM; echo $$ >deaf; while :; do sleep 1; done' & echo $$ >root; wait");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let pids = runtime.block_on(async {
        let running = start(&exec(settings), "");
        let pids = [pid(&dir, "deaf").await, pid(&dir, "root").await];
        drop(running);
        pids
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    let start = Instant::now();
    while !pids.iter().all(|pid| gone(*pid)) {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn many_lines_become_few_pieces() {
    let (host, result) = run(ExecSettings::new(["seq", "200000"]), "").await;
    result.unwrap();
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(host.text() == expected);
    let texts = host.texts();
    assert!(texts.len() < 300, "{} pieces", texts.len());
    assert!(texts.iter().all(|text| text.len() <= 40_000));
}

#[tokio::test]
async fn a_line_that_is_too_long_fails_and_ends_the_command() {
    let (dir, settings) = shell_in("echo $$ >ready; head -c 100000 /dev/zero | tr '\\0' x; sleep 1000");
    let running = start(&exec(ExecSettings { max_line: 99_999, ..settings.clone() }), "");
    let root = pid(&dir, "ready").await;
    let error = running.end().await.1.unwrap_err();
    assert_eq!(error.public(), "The command printed a line of more than 99999 bytes.");
    wait(|| state(root).is_none()).await;

    let fits = ExecSettings { max_line: 100_000, ..shell("head -c 100000 /dev/zero | tr '\\0' x") };
    let (host, result) = run(fits, "").await;
    result.unwrap();
    assert!(host.text() == "x".repeat(100_000));
}

#[tokio::test]
async fn a_command_that_never_stops_printing_is_stopped() {
    let settings = ExecSettings { max_output: 1 << 20, ..ExecSettings::new(["yes"]) };
    let (host, result) = run(settings, "").await;
    assert_eq!(result.unwrap_err().public(), "The command printed more than 1048576 bytes.");
    assert!(host.text().len() <= 1 << 20);
}

#[tokio::test]
async fn output_that_is_not_text_is_marked() {
    let (host, result) = run(shell("printf 'a\\377b\\303\\251\\n\\303'"), "").await;
    result.unwrap();
    assert_eq!(host.text(), "a\u{FFFD}bé\n\u{FFFD}");
    // A character whose bytes come apart in time stays whole.
    let (dir, settings) =
        shell_in("printf 'x\\360\\237'; while [ ! -e gate ]; do sleep 0.01; done; printf '\\214\\215y'");
    let running = start(&exec(settings), "");
    // Longer than anything is gathered: the first half would be out by now.
    tokio::time::sleep(Duration::from_millis(100)).await;
    std::fs::write(dir.path().join("gate"), "").unwrap();
    let (host, result) = running.end().await;
    result.unwrap();
    assert_eq!(host.text(), "x\u{1F30D}y");
}

#[tokio::test]
async fn a_command_may_close_its_output_and_go_on() {
    let (dir, settings) = shell_in("echo all; exec >&- 2>&-; while [ ! -e gate ]; do sleep 0.01; done; exit 4");
    let running = start(&exec(settings), "");
    running.host.until("all").await;
    assert!(!running.run.is_finished());
    std::fs::write(dir.path().join("gate"), "").unwrap();
    let (_, result) = running.end().await;
    assert_eq!(result.unwrap_err().public(), "The command failed with exit code 4.");
}

#[tokio::test]
async fn a_command_need_not_read() {
    let long = "line\n".repeat(200_000);
    run(ExecSettings::new(["true"]), &long).await.1.unwrap();
    run(shell("exec <&-; echo fine"), &long).await.1.unwrap();
    // And one that prints while it is still being told does not wait for itself.
    let (host, result) = run(ExecSettings::new(["cat"]), &long).await;
    result.unwrap();
    assert!(host.text() == long);
}

#[tokio::test]
async fn who_stays_behind_in_the_group_is_not_waited_for() {
    let (dir, settings) = shell_in("sleep 1000 & echo $! >behind; echo done");
    let start = Instant::now();
    let running = super::tests::start(&exec(settings), "");
    let behind = pid(&dir, "behind").await;
    let (host, result) = running.end().await;
    result.unwrap();
    assert_eq!(host.text(), "done\n");
    assert!(start.elapsed() < Duration::from_secs(10));
    wait(|| gone(behind)).await;
}

#[tokio::test]
async fn output_waits_while_the_task_has_no_room() {
    let host = Arc::new(Kept { full: Mutex::new(Some(Vec::new())), ..Kept::default() });
    let settings = ExecSettings { max_output: 100 << 20, ..shell("yes | head -c 2000000") };
    let running = start_on(host.clone(), &exec(settings), vec![]);
    wait(|| host.full.lock().unwrap().as_ref().is_some_and(|wakers| !wakers.is_empty())).await;
    assert!(host.events.lock().unwrap().len() <= 1, "nothing is emitted beyond what found no room");
    let wakers = host.full.lock().unwrap().take().unwrap();
    wakers.into_iter().for_each(Waker::wake);
    let (host, result) = running.end().await;
    result.unwrap();
    assert_eq!(host.text().len(), 2_000_000, "and nothing is lost, though the command is long gone");
}

#[tokio::test]
async fn a_task_that_ended_ends_its_command() {
    let (dir, settings) = shell_in("echo $$ >ready; while :; do echo more; sleep 0.01; done");
    let running = start(&exec(settings), "");
    let root = pid(&dir, "ready").await;
    running.host.until("more").await;
    *running.host.ended.lock().unwrap() = true;
    let (_, result) = running.end().await;
    assert_eq!(result.unwrap_err().refusal(), Some(&EmitError::Ended(TaskState::Canceled)));
    wait(|| state(root).is_none()).await;
}

#[tokio::test]
async fn so_many_run_at_once_and_others_wait() {
    let (dir, settings) = shell_in("echo up; while [ ! -e gate ]; do sleep 0.01; done");
    let agent = exec(ExecSettings { concurrency: 1, ..settings });
    let first = start(&agent, "");
    first.host.until("up").await;
    let (second, third) = (start(&agent, ""), start(&agent, ""));
    third.cancelled.cancel();
    let (host, result) = third.end().await;
    result.unwrap();
    assert_eq!(host.events.lock().unwrap().len(), 0, "cancelled before its turn");
    assert_eq!(second.host.events.lock().unwrap().len(), 0, "waits as submitted");
    std::fs::write(dir.path().join("gate"), "").unwrap();
    first.end().await.1.unwrap();
    let (host, result) = second.end().await;
    result.unwrap();
    assert_eq!(host.text(), "up\n");
}

#[test]
fn a_program_that_is_not_there_is_known_at_the_start() {
    let error = |settings: ExecSettings| Exec::new(settings, Duration::ZERO).unwrap_err();
    assert_eq!(error(ExecSettings::new(Vec::<String>::new())), ExecError::Empty);
    assert_eq!(error(ExecSettings::new([""])), ExecError::NotFound("".into()));
    assert_eq!(error(ExecSettings::new(["no-such-program-here"])), ExecError::NotFound("no-such-program-here".into()));
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plain"), "text").unwrap();
    let here = |name: &str| ExecSettings { directory: Some(dir.path().into()), ..ExecSettings::new([name]) };
    assert_eq!(error(here("./plain")), ExecError::NotExecutable(dir.path().join("./plain")));
    assert_eq!(error(here("./missing")), ExecError::NotFound("./missing".into()));
    // The command's own PATH counts.
    let mut elsewhere = ExecSettings::new(["cat"]);
    elsewhere.environment.insert("PATH".into(), Secret::new(dir.path().to_str().unwrap()));
    assert_eq!(error(elsewhere), ExecError::NotFound("cat".into()));
}

#[tokio::test]
async fn a_program_is_found_where_it_will_run() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("agent.sh");
    std::fs::write(&script, "#!/bin/sh\npwd\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = ExecSettings { directory: Some(dir.path().into()), ..ExecSettings::new(["./agent.sh"]) };
    let agent = exec(settings);
    let (host, result) = start(&agent, "").end().await;
    result.unwrap();
    assert_eq!(host.text().trim_end(), dir.path().canonicalize().unwrap().to_str().unwrap());
    // It was there when the server started; what is public says no more than that.
    std::fs::remove_file(&script).unwrap();
    assert_eq!(start(&agent, "").end().await.1.unwrap_err().public(), "The command could not be started.");
}
