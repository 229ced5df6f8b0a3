//! The registry of agent kinds: what a configuration can name, and what each kind brings.
//!
//! A kind is one folder. Its `KIND` holds the name, the defaults for cards and a reader for its settings; the settings
//! make the agent. To add a kind, write its folder and add one line to [`KINDS`]: configuration, `check-config`, help
//! texts and error messages read this list.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{BoxAgent, conformance, echo, exec};
use crate::settings::Section;

/// Every kind of agent that a configuration can name.
pub(crate) static KINDS: &[&Kind] = &[&echo::KIND, &exec::KIND, &conformance::KIND];

/// A kind of agent that a configuration can name.
pub struct Kind {
    /// The value of `kind` in the configuration. It is also the default name of an agent of this kind.
    pub name: &'static str,
    /// What the card of such an agent says unless it is configured.
    pub card: CardDefaults,
    /// Reads the settings that only this kind has. Returns `None` if one is wrong and was reported.
    pub(crate) read: fn(&mut Section<'_>) -> Option<Arc<dyn KindSettings>>,
}

impl Kind {
    /// Returns the kind of this name.
    pub fn find(name: &str) -> Option<&'static Kind> {
        KINDS.iter().copied().find(|kind| kind.name == name)
    }

    /// Returns the names of all kinds, separated by commas.
    pub fn names() -> String {
        KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}

/// What a card says about an agent of a kind unless the configuration says something else.
#[derive(Debug, Clone, Copy)]
pub struct CardDefaults {
    /// What such an agent does, in one line.
    pub description: &'static str,
    /// The media types that it reads.
    pub input_modes: &'static [&'static str],
    /// The media types that it writes.
    pub output_modes: &'static [&'static str],
}

/// The checked settings of one agent of a kind.
pub trait KindSettings: Any + fmt::Debug + Send + Sync {
    /// Makes the agent. `cancel_grace` is how long one of its runs may take to end after a cancellation.
    ///
    /// # Errors
    /// A line that says why the agent cannot work.
    fn build(&self, cancel_grace: Duration) -> Result<BuiltAgent, String>;
}

/// An agent that was made from settings.
#[derive(Debug)]
pub struct BuiltAgent {
    /// The agent.
    pub agent: BoxAgent,
    /// What the admin port offers to tests of this agent.
    pub test_hooks: Option<Arc<dyn TestHooks>>,
}

impl From<BoxAgent> for BuiltAgent {
    fn from(agent: BoxAgent) -> Self {
        Self { agent, test_hooks: None }
    }
}

/// What tests can ask an agent through the admin port.
pub trait TestHooks: fmt::Debug + Send + Sync {
    /// Returns how often a run of this task has ticked, or `None` if none did.
    fn ticks(&self, task: &str) -> Option<u64>;
}

/// What does the work of a configured agent.
#[derive(Debug, Clone)]
pub enum AgentKind {
    /// A kind of the registry, with its settings.
    BuiltIn(&'static Kind, Arc<dyn KindSettings>),
    /// A Rust value that the program gives to [`Launch`](crate::Launch). A configuration file cannot name it.
    Rust,
}

impl AgentKind {
    /// Returns the value of `kind` in the configuration, or `rust`.
    pub fn name(&self) -> &'static str {
        match self {
            AgentKind::BuiltIn(kind, _) => kind.name,
            AgentKind::Rust => "rust",
        }
    }

    /// Returns what the card says unless it is configured.
    pub fn card_defaults(&self) -> CardDefaults {
        match self {
            AgentKind::BuiltIn(kind, _) => kind.card,
            AgentKind::Rust => CardDefaults {
                description: "Answers messages",
                input_modes: &["text/plain"],
                output_modes: &["text/plain"],
            },
        }
    }

    /// Returns the settings if they are of this type, such as [`ExecSettings`](super::exec::ExecSettings).
    pub fn settings<T: KindSettings>(&self) -> Option<&T> {
        match self {
            AgentKind::BuiltIn(_, settings) => (&**settings as &dyn Any).downcast_ref(),
            AgentKind::Rust => None,
        }
    }
}

/// What happens to a task whose run was under way when the server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRestart {
    /// The task fails with a message that says why.
    #[default]
    Fail,
    /// The run starts again with everything the task has so far, at most three times in all.
    Resume,
}
