//! How the bindings behave.

use std::sync::Arc;
use std::time::Duration;

use crate::body::BodyLimits;
use crate::budget::Budget;
use crate::offload::Offload;

/// How the bindings behave.
#[derive(Debug, Clone)]
pub struct BindingSettings {
    /// How request bodies are read.
    pub body: BodyLimits,
    /// After how much silence a stream of server-sent events gets a comment; `None` for never.
    pub ping: Option<Duration>,
    /// Where large messages are decoded and encoded.
    pub offload: Offload,
    /// What answers and events may hold until they are sent.
    pub answers: Arc<Budget>,
}

impl Default for BindingSettings {
    /// [`BodyLimits::default`], a ping after 4 s (some clients give up after 5), and 256 MiB of answers.
    fn default() -> Self {
        Self {
            body: BodyLimits::default(),
            ping: Some(Duration::from_secs(4)),
            offload: Offload::default(),
            answers: Budget::new("answers", 256 << 20),
        }
    }
}
