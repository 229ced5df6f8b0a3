//! Prints events as they arrive: content on standard output, changes of the task on standard error.
//!
//! The text of an artifact grows piece by piece. After a reconnection the whole task may arrive again. The printer
//! therefore remembers what it printed of each artifact and prints only what is new.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::exit::Exit;
use super::parts;
use super::terminal;
use crate::schema::stream_response::Payload;
use crate::schema::{Artifact, Message, StreamResponse, Task, TaskState, TaskStatus};

/// Prints the events of one command.
pub(super) struct Printer {
    json: bool,
    out: Box<dyn Write>,
    notes: Box<dyn Write>,
    /// Whether content and notes go to the same terminal. An open line is then ended before a note.
    shared_terminal: bool,
    /// What was printed of each artifact, by id.
    artifacts: BTreeMap<String, String>,
    /// The artifact that is being printed.
    current: Option<String>,
    /// Whether the last line of the content has no newline yet.
    line_open: bool,
    state: Option<TaskState>,
    task: Option<String>,
    /// Whether the first event answers a message to an existing task.
    follows_up: bool,
    /// The first event, if it is a task that waits for input: the message may have answered its question already.
    held: Option<Task>,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        Self::to(json, Box::new(terminal::stdout()), Box::new(terminal::stderr()), terminal::is_shared())
    }

    fn to(json: bool, out: Box<dyn Write>, notes: Box<dyn Write>, shared_terminal: bool) -> Self {
        Self {
            json,
            out,
            notes,
            shared_terminal,
            artifacts: BTreeMap::new(),
            current: None,
            line_open: false,
            state: None,
            task: None,
            follows_up: false,
            held: None,
        }
    }

    /// Creates a printer for the answer to a message to an existing task. Some agents send the task as it was before the
    /// message first. Its question is printed only if nothing else arrives.
    pub(super) fn of_follow_up(json: bool) -> Self {
        Self { follows_up: true, ..Self::new(json) }
    }

    /// Prints a JSON document on one line.
    pub(super) fn json(&mut self, document: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, document)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    /// Prints one event.
    pub(super) fn event(&mut self, event: &StreamResponse) -> io::Result<()> {
        if self.json {
            self.note_state(event);
            return self.json(event);
        }
        if let Some(mut before) = self.held.take() {
            before.status = None;
            self.task(&before)?;
        }
        match &event.payload {
            Some(Payload::Task(task)) if self.follows_up && self.task.is_none() && asks(task) => {
                self.held = Some(task.clone());
                Ok(())
            }
            Some(Payload::Task(task)) => self.task(task),
            Some(Payload::Message(message)) => self.content(&parts::text(&message.parts)),
            Some(Payload::StatusUpdate(update)) => self.status(update.status.as_ref()),
            Some(Payload::ArtifactUpdate(update)) => match &update.artifact {
                Some(artifact) => self.artifact(artifact, update.append),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Prints a task: its id once, its state if it changed, and what is new in its artifacts.
    pub(super) fn task(&mut self, task: &Task) -> io::Result<()> {
        if self.task.as_deref() != Some(&task.id) {
            self.task = Some(task.id.clone());
            self.note(&format!("task {} (context {})", task.id, task.context_id))?;
        }
        // While the task runs its text may grow, so the state is printed before it. Otherwise the state comes last.
        let running = task.status.as_ref().is_some_and(|s| is_running(s.state()));
        if running {
            self.status(task.status.as_ref())?;
        }
        for artifact in &task.artifacts {
            self.artifact(artifact, false)?;
        }
        if running { Ok(()) } else { self.status(task.status.as_ref()) }
    }

    /// Ends the output and returns the exit code for the last state.
    pub(super) fn finish(mut self) -> io::Result<Exit> {
        if let Some(task) = self.held.take() {
            self.task(&task)?;
        }
        self.end_line()?;
        self.out.flush()?;
        Ok(self.state.map_or(Exit::Done, Exit::of))
    }

    fn note_state(&mut self, event: &StreamResponse) {
        let status = match &event.payload {
            Some(Payload::Task(task)) => task.status.as_ref(),
            Some(Payload::StatusUpdate(update)) => update.status.as_ref(),
            _ => None,
        };
        if let Some(status) = status {
            self.state = Some(status.state());
        }
    }

    fn status(&mut self, status: Option<&TaskStatus>) -> io::Result<()> {
        let Some(status) = status else { return Ok(()) };
        let state = status.state();
        let changed = self.state.replace(state) != Some(state);
        let name = parts::state_name(state);
        if changed && !is_running(state) {
            // No more content follows, so the line is complete.
            self.end_line()?;
        }
        match &status.message {
            // An answer or a question of the agent is content, not a note.
            Some(message) if changed && is_answer(state) => {
                self.note(&name)?;
                self.content(&parts::text(&message.parts))
            }
            Some(message) if changed || !is_answer(state) => self.note(&labelled(&name, message)),
            None if changed => self.note(&name),
            _ => Ok(()),
        }
    }

    fn artifact(&mut self, artifact: &Artifact, append: bool) -> io::Result<()> {
        let id = &artifact.artifact_id;
        let printed = self.artifacts.entry(id.clone()).or_default();
        let (new, replaced) = if append {
            let before = printed.len();
            artifact.parts.iter().for_each(|part| parts::add(printed, part));
            (printed[before..].to_owned(), false)
        } else {
            let whole = parts::text(&artifact.parts);
            let (new, replaced) = match whole.strip_prefix(printed.as_str()) {
                Some(new) => (new.to_owned(), false),
                None => (whole.clone(), true),
            };
            *printed = whole;
            (new, replaced)
        };
        if new.is_empty() {
            return Ok(());
        }
        if replaced || self.current.as_ref() != Some(id) {
            self.end_line()?;
            self.current = Some(id.clone());
        }
        self.write(&new)
    }

    /// Prints content that belongs to no artifact.
    fn content(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        self.current = None;
        self.write(text)?;
        self.end_line()
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.out.write_all(text.as_bytes())?;
        self.line_open = !text.ends_with('\n');
        self.out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.line_open) {
            self.out.write_all(b"\n")?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        if self.shared_terminal {
            self.end_line()?;
        }
        // Content is still printed if standard error is closed.
        let _ = writeln!(self.notes, "{text}");
        Ok(())
    }
}

fn is_running(state: TaskState) -> bool {
    matches!(state, TaskState::Submitted | TaskState::Working)
}

fn asks(task: &Task) -> bool {
    task.status.as_ref().is_some_and(|status| status.state() == TaskState::InputRequired)
}

/// Returns whether the status message of this state is an answer or a question, and not a report of progress.
fn is_answer(state: TaskState) -> bool {
    matches!(state, TaskState::Completed | TaskState::InputRequired | TaskState::AuthRequired)
}

fn labelled(name: &str, message: &Message) -> String {
    match parts::one_line(message) {
        text if text.is_empty() => name.to_owned(),
        text => format!("{name}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::part::Content;
    use crate::schema::{Part, TaskArtifactUpdateEvent, TaskStatusUpdateEvent};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn printer() -> (Printer, Shared, Shared) {
        let (out, notes) = (Shared::default(), Shared::default());
        (Printer::to(false, Box::new(out.clone()), Box::new(notes.clone()), false), out, notes)
    }

    fn parts(texts: &[&str]) -> Vec<Part> {
        let part = |text: &&str| Part { content: Some(Content::Text((*text).into())), ..Part::default() };
        texts.iter().map(part).collect()
    }

    fn artifact(id: &str, texts: &[&str]) -> Artifact {
        Artifact { artifact_id: id.into(), parts: parts(texts), ..Artifact::default() }
    }

    fn piece(id: &str, text: &str, append: bool) -> StreamResponse {
        let update = TaskArtifactUpdateEvent {
            artifact: Some(artifact(id, &[text])),
            append,
            ..TaskArtifactUpdateEvent::default()
        };
        StreamResponse { payload: Some(Payload::ArtifactUpdate(update)) }
    }

    fn status(state: TaskState, text: Option<&str>) -> TaskStatus {
        let message = text.map(|text| Message { parts: parts(&[text]), ..Message::default() });
        TaskStatus { state: state.into(), message, timestamp: None }
    }

    fn update(state: TaskState, text: Option<&str>) -> StreamResponse {
        let update = TaskStatusUpdateEvent { status: Some(status(state, text)), ..TaskStatusUpdateEvent::default() };
        StreamResponse { payload: Some(Payload::StatusUpdate(update)) }
    }

    fn task(state: TaskState, artifacts: Vec<Artifact>) -> StreamResponse {
        let task = Task {
            id: "t".into(),
            context_id: "c".into(),
            status: Some(status(state, None)),
            artifacts,
            ..Task::default()
        };
        StreamResponse { payload: Some(Payload::Task(task)) }
    }

    #[test]
    fn pieces_are_printed_as_they_come_and_states_beside_them() {
        let (mut printer, out, notes) = printer();
        let events = [
            task(TaskState::Submitted, vec![]),
            update(TaskState::Working, Some("thinking\nhard")),
            piece("a", "one ", false),
            piece("a", "two", true),
            piece("b", "other", false),
            update(TaskState::Completed, None),
        ];
        for event in &events {
            printer.event(event).unwrap();
        }
        assert_eq!(printer.finish().unwrap(), Exit::Done);
        assert_eq!(out.text(), "one two\nother\n");
        assert_eq!(notes.text(), "task t (context c)\nsubmitted\nworking: thinking hard\ncompleted\n");
    }

    #[test]
    fn a_task_that_comes_again_adds_only_what_is_new() {
        let (mut printer, out, notes) = printer();
        let events = [
            task(TaskState::Working, vec![]),
            piece("a", "one ", false),
            task(TaskState::Working, vec![artifact("a", &["one ", "two "])]),
            piece("a", "three", true),
            task(TaskState::Failed, vec![artifact("a", &["one ", "two ", "three"])]),
        ];
        for event in &events {
            printer.event(event).unwrap();
        }
        assert_eq!(printer.finish().unwrap(), Exit::Failed);
        assert_eq!(out.text(), "one two three\n");
        assert_eq!(notes.text(), "task t (context c)\nworking\nfailed\n");
    }

    #[test]
    fn a_replaced_artifact_is_printed_again() {
        let (mut printer, out, _) = printer();
        for event in [piece("a", "draft", false), piece("a", "final", false)] {
            printer.event(&event).unwrap();
        }
        printer.finish().unwrap();
        assert_eq!(out.text(), "draft\nfinal\n");
    }

    #[test]
    fn questions_are_content_and_ask_for_an_answer() {
        let (mut printer, out, notes) = printer();
        printer.event(&update(TaskState::InputRequired, Some("Which one?"))).unwrap();
        assert_eq!(printer.finish().unwrap(), Exit::NeedsClient);
        assert_eq!((out.text().as_str(), notes.text().as_str()), ("Which one?\n", "input-required\n"));
    }

    #[test]
    fn a_question_that_was_answered_is_not_shown_again() {
        let mut asking = task(TaskState::InputRequired, vec![]);
        let Some(Payload::Task(first)) = &mut asking.payload else { unreachable!() };
        first.status = Some(status(TaskState::InputRequired, Some("Which one?")));
        for (then, wanted) in [
            (vec![piece("a", "that one", false), update(TaskState::Completed, None)], "that one\n"),
            (vec![update(TaskState::InputRequired, Some("Really?"))], "Really?\n"),
            (vec![], "Which one?\n"),
        ] {
            let (printer, out, notes) = printer();
            let mut printer = Printer { follows_up: true, ..printer };
            for event in [&[asking.clone()], then.as_slice()].concat() {
                printer.event(&event).unwrap();
            }
            printer.finish().unwrap();
            assert_eq!(out.text(), wanted);
            assert!(notes.text().starts_with("task t (context c)\n"), "{}", notes.text());
        }
    }
}
