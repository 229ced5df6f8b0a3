//! Properties of a task's log: a fold does not depend on how its records were cut into batches, or written at all.

use proptest::prelude::*;
use prost::Message as _;
use tricord_bindings::wkt::{Struct, value};

use super::event::{Ids, LogEvent};
use super::{fold, lifecycle};
use crate::schema::part::Content;
use crate::schema::store::record::Event;
use crate::schema::store::{ArtifactPiece, Created, RecordBatch, StatusChange};
use crate::schema::{Artifact, Message, Part, Role, Task, TaskState};

/// What may be admitted, as numbers that proptest can shrink.
#[derive(Debug, Clone)]
enum Step {
    Message(u8),
    Status(i32, Option<u8>),
    Piece { artifact: u8, append: bool, last: bool, text: u8, metadata: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u8>().prop_map(Step::Message),
        (prop::sample::select(vec![2, 6, 8]), any::<Option<u8>>()).prop_map(|(state, said)| Step::Status(state, said)),
        (0..3u8, any::<bool>(), any::<bool>(), any::<u8>(), any::<bool>()).prop_map(
            |(artifact, append, last, text, metadata)| Step::Piece { artifact, append, last, text, metadata }
        ),
    ]
}

fn message(n: u8, role: Role) -> Message {
    let part = Part { content: Some(Content::Text(format!("text {n}"))), ..Part::default() };
    Message { message_id: format!("m{n}"), role: role.into(), parts: vec![part], ..Message::default() }
}

fn event(step: &Step) -> Event {
    match step {
        Step::Message(n) => Event::Message(message(*n, Role::User)),
        Step::Status(state, said) => {
            let message = said.map(|n| message(n, Role::Agent));
            Event::Status(StatusChange { state: *state, message, metadata: None })
        }
        Step::Piece { artifact, append, last, text, metadata } => {
            let metadata = metadata.then(|| {
                let value = value::Kind::NumberValue(f64::from(*text)).into();
                Struct { fields: [(format!("k{text}"), value)].into() }
            });
            let part = Part { content: Some(Content::Text(format!("piece {text}"))), ..Part::default() };
            let artifact =
                Artifact { artifact_id: format!("a{artifact}"), parts: vec![part], metadata, ..Artifact::default() };
            let artifact = Some(artifact);
            Event::Artifact(ArtifactPiece { artifact, append: *append, last_chunk: *last, metadata: None })
        }
    }
}

fn ids() -> Ids {
    Ids { task: "task".into(), context: "context".into() }
}

/// Logs the steps as a run would: created, the first message, then each; a batch ends where `cuts` say.
fn log(steps: &[Step], cuts: &[bool]) -> (Task, Vec<Vec<u8>>) {
    let ids = ids();
    let (mut batches, mut batch, mut task) = (Vec::new(), Vec::new(), fold::empty(&ids));
    let first = [Event::Created(Created { metadata: None }), Event::Message(message(0, Role::User))];
    for (n, event) in first.into_iter().chain(steps.iter().map(event)).enumerate() {
        let event = LogEvent::append(&ids, n as u64 + 1, 1_700_000_000_000_000 + n as i64, event, &mut batch);
        fold::apply(&mut task, &event);
        if cuts.get(n).copied().unwrap_or(false) {
            batches.push(std::mem::take(&mut batch));
        }
    }
    batches.push(batch);
    (task, batches)
}

/// Reads the batches back and folds them from `task`, which holds everything up to `after`.
fn replay(batches: &[Vec<u8>], mut task: Task, after: u64) -> Task {
    let records = batches.iter().flat_map(|batch| RecordBatch::decode(batch.as_slice()).expect("a batch").records);
    for event in records.filter_map(|record| LogEvent::from_record(&ids(), record)).filter(|event| event.seq > after) {
        fold::apply(&mut task, &event);
    }
    task
}

proptest! {
    #[test]
    fn a_fold_is_the_same_however_its_records_were_batched(
        steps in prop::collection::vec(step(), 0..40),
        cuts in prop::collection::vec(any::<bool>(), 42),
        at in 0..42u64,
    ) {
        let (live, batches) = log(&steps, &cuts);
        let stored = replay(&batches, fold::empty(&ids()), 0);
        prop_assert_eq!(&stored, &live);
        // From a checkpoint anywhere it is the same again.
        let upto = at.min(steps.len() as u64 + 2);
        let mut checkpoint = fold::empty(&ids());
        let records = batches.iter().flat_map(|batch| RecordBatch::decode(batch.as_slice()).expect("a batch").records);
        for event in records.filter_map(|record| LogEvent::from_record(&ids(), record)).take_while(|e| e.seq <= upto) {
            fold::apply(&mut checkpoint, &event);
        }
        let bytes = checkpoint.encode_to_vec();
        let checkpoint = Task::decode(bytes.as_slice()).expect("a checkpoint");
        prop_assert_eq!(replay(&batches, checkpoint, upto), live);
    }

    #[test]
    fn nothing_that_was_said_is_lost(steps in prop::collection::vec(step(), 0..40)) {
        let (task, _) = log(&steps, &[]);
        let said = 1 + steps.iter().filter(|s| matches!(s, Step::Message(_) | Step::Status(_, Some(_)))).count();
        let standing = usize::from(task.status.as_ref().is_some_and(|status| status.message.is_some()));
        prop_assert_eq!(task.history.len() + standing, said);
        let users = task.history.iter().filter(|message| message.role() == Role::User).count();
        prop_assert_eq!(users, 1 + steps.iter().filter(|s| matches!(s, Step::Message(_))).count());
    }

    #[test]
    fn the_first_terminal_state_wins(states in prop::collection::vec(0..9i32, 0..30)) {
        let mut state = lifecycle::next(None, lifecycle::Transition::Created).expect("created");
        let mut ended: Option<TaskState> = None;
        for wanted in states.into_iter().filter_map(|n| TaskState::try_from(n).ok()) {
            match lifecycle::next(Some(state), lifecycle::Transition::Status(wanted)) {
                Ok(next) => state = next,
                Err(lifecycle::Illegal::Ended(end)) => prop_assert_eq!(Some(end), ended),
                Err(_) => {}
            }
            if let Some(end) = ended {
                prop_assert_eq!(state, end);
            } else if lifecycle::is_terminal(state) {
                ended = Some(state);
            }
        }
    }
}
