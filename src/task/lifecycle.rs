//! The life of a task as a pure function: which event is legal in which state, and the state after it.

use crate::schema::TaskState;

/// What can happen to a task, as far as its life is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The task comes to be.
    Created,
    /// A message joins the history.
    Message,
    /// A state is entered.
    Status(TaskState),
    /// An artifact, or a piece of one, is made.
    Artifact,
}

/// Why an event is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// The task does not exist yet.
    #[error("the task does not exist yet")]
    NotCreated,
    /// The task exists already.
    #[error("the task exists already")]
    AlreadyCreated,
    /// The task has ended; its state is final.
    #[error("the task has ended in {}", .0.as_str_name())]
    Ended(TaskState),
    /// A state that cannot be entered from the present one.
    #[error("a task in {} cannot enter {}", .from.as_str_name(), .to.as_str_name())]
    NoSuchStep {
        /// The present state.
        from: TaskState,
        /// The state that was to be entered.
        to: TaskState,
    },
}

/// The state after `event` in `state`; `None` is a task that does not exist yet.
///
/// A terminal state is final: the first one wins, whoever brings it. SUBMITTED is only where a task begins.
///
/// # Errors
/// When the event is not legal in that state.
pub fn next(state: Option<TaskState>, event: Transition) -> Result<TaskState, Illegal> {
    match (state, event) {
        (None, Transition::Created) => Ok(TaskState::Submitted),
        (None, _) => Err(Illegal::NotCreated),
        (Some(_), Transition::Created) => Err(Illegal::AlreadyCreated),
        (Some(state), _) if is_terminal(state) => Err(Illegal::Ended(state)),
        (Some(state), Transition::Message | Transition::Artifact) => Ok(state),
        (Some(TaskState::Submitted), Transition::Status(TaskState::Submitted)) => Ok(TaskState::Submitted),
        (Some(from), Transition::Status(to @ (TaskState::Submitted | TaskState::Unspecified))) => {
            Err(Illegal::NoSuchStep { from, to })
        }
        (Some(_), Transition::Status(to)) => Ok(to),
    }
}

/// Whether nothing can happen to the task any more (§3.1.5: completed, failed, canceled, rejected).
pub fn is_terminal(state: TaskState) -> bool {
    matches!(state, TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected)
}

/// Whether the task waits for the client: the states a blocking send returns on, beside the terminal ones (§3.2.2).
pub fn is_interrupted(state: TaskState) -> bool {
    matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// Whether a blocking send returns on this state.
pub fn is_pause(state: TaskState) -> bool {
    is_terminal(state) || is_interrupted(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use TaskState::*;

    const STATES: [TaskState; 9] =
        [Unspecified, Submitted, Working, Completed, Failed, Canceled, InputRequired, Rejected, AuthRequired];

    #[test]
    fn every_state_meets_every_event() {
        for state in [None].into_iter().chain(STATES[1..].iter().copied().map(Some)) {
            let events = [Transition::Created, Transition::Message, Transition::Artifact];
            for event in events.into_iter().chain(STATES.iter().copied().map(Transition::Status)) {
                let expected = match state {
                    None if event == Transition::Created => Ok(Submitted),
                    None => Err(Illegal::NotCreated),
                    Some(_) if event == Transition::Created => Err(Illegal::AlreadyCreated),
                    Some(s @ (Completed | Failed | Canceled | Rejected)) => Err(Illegal::Ended(s)),
                    Some(s) => match event {
                        Transition::Status(Unspecified) => Err(Illegal::NoSuchStep { from: s, to: Unspecified }),
                        Transition::Status(Submitted) if s != Submitted => {
                            Err(Illegal::NoSuchStep { from: s, to: Submitted })
                        }
                        Transition::Status(to) => Ok(to),
                        _ => Ok(s),
                    },
                };
                assert_eq!(next(state, event), expected, "{state:?} then {event:?}");
            }
        }
    }

    #[test]
    fn pauses_are_the_terminal_and_the_interrupted_states() {
        let pauses: Vec<_> = STATES.into_iter().filter(|s| is_pause(*s)).collect();
        assert_eq!(pauses, [Completed, Failed, Canceled, InputRequired, Rejected, AuthRequired]);
    }
}
