//! The registry of agent kinds: what a configuration can name, and what each kind brings.
//!
//! A kind is one folder. Its `KIND` holds the name, the defaults for cards and a reader for its settings; the settings
//! make the agent. Configuration, `check-config`, help texts and error messages read the list [`KINDS`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{BoxAgent, KINDS};
use crate::settings::Section;

/// A kind of agent that a configuration can name.
pub(crate) struct Kind {
    /// The value of `kind` in the configuration. It is also the default name of an agent of this kind.
    pub(crate) name: &'static str,
    /// What the card of such an agent says unless it is configured.
    pub(crate) card: CardDefaults,
    /// Reads the settings that only this kind has. Returns `None` if one is wrong and was reported.
    pub(crate) read: fn(&mut Section<'_>) -> Option<Arc<dyn KindSettings>>,
}

impl Kind {
    /// Returns the kind of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Kind> {
        KINDS.iter().copied().find(|kind| kind.name == name)
    }

    /// Returns the names of all kinds, separated by commas.
    pub(crate) fn names() -> String {
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
pub(crate) struct CardDefaults {
    /// What such an agent does, in one line.
    pub(crate) description: &'static str,
    /// The media types that it reads.
    pub(crate) input_modes: &'static [&'static str],
    /// The media types that it writes.
    pub(crate) output_modes: &'static [&'static str],
}

/// The checked settings of one agent of a kind.
pub(crate) trait KindSettings: Any + fmt::Debug + Send + Sync {
    /// Makes the agent. `cancel_grace` is how long one of its runs may take to end after a cancellation.
    ///
    /// # Errors
    /// A line that says why the agent cannot work.
    fn build(&self, cancel_grace: Duration) -> Result<BuiltAgent, String>;
}

/// An agent that was made from settings.
#[derive(Debug)]
pub(crate) struct BuiltAgent {
    /// The agent.
    pub(crate) agent: BoxAgent,
    /// What the admin port offers to tests of this agent.
    pub(crate) test_hooks: Option<Arc<dyn TestHooks>>,
}

impl From<BoxAgent> for BuiltAgent {
    fn from(agent: BoxAgent) -> Self {
        Self { agent, test_hooks: None }
    }
}

/// What tests can ask an agent through the admin port.
pub(crate) trait TestHooks: fmt::Debug + Send + Sync {
    /// Returns how often a run of this task has ticked, or `None` if none did.
    fn ticks(&self, task: &str) -> Option<u64>;
}

/// What does the work of a configured agent: a kind of the registry with its settings, or a Rust value that the program
/// gives to [`Launch`](crate::Launch).
#[derive(Debug, Clone)]
pub struct AgentKind(Source);

#[derive(Debug, Clone)]
enum Source {
    Configured(&'static Kind, Arc<dyn KindSettings>),
    Program,
}

impl AgentKind {
    /// An agent that the program gives. A configuration file cannot name it.
    pub(crate) const RUST: Self = Self(Source::Program);

    /// Combines a kind with the settings of one agent.
    pub(crate) fn configured(kind: &'static Kind, settings: Arc<dyn KindSettings>) -> Self {
        Self(Source::Configured(kind, settings))
    }

    /// Returns the value of `kind` in the configuration, or `rust` for an agent that the program gives.
    pub fn name(&self) -> &'static str {
        match &self.0 {
            Source::Configured(kind, _) => kind.name,
            Source::Program => "rust",
        }
    }

    /// Returns what the card says unless it is configured.
    pub(crate) fn card_defaults(&self) -> CardDefaults {
        match &self.0 {
            Source::Configured(kind, _) => kind.card,
            Source::Program => CardDefaults {
                description: "Answers messages",
                input_modes: &["text/plain"],
                output_modes: &["text/plain"],
            },
        }
    }

    /// Returns the settings of a kind, or `None` for an agent that the program gives.
    pub(crate) fn settings(&self) -> Option<&dyn KindSettings> {
        match &self.0 {
            Source::Configured(_, settings) => Some(&**settings),
            Source::Program => None,
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
