//! Reasons why a server cannot start.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;

use tricord_bindings::server::TlsError;

use crate::card::SigningError;
use crate::engine::EngineError;
use crate::server::Conflict;
use crate::store::OpenError;

/// The reason why a server cannot start. Displays as one line that starts with the setting concerned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The store cannot be opened.
    #[error("store: {0}")]
    Store(#[source] Box<dyn Error + Send + Sync>),
    /// The store was opened but cannot be read.
    #[error("store: {0}")]
    Recovery(#[source] Box<dyn Error + Send + Sync>),
    /// The address cannot be listened on.
    #[error("{key}: cannot listen on {address}: {source}")]
    Listen {
        /// The configuration key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file of the TLS configuration cannot be read.
    #[error("{key}: cannot read {}: {source}", .path.display())]
    File {
        /// The configuration key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The certificate or the key cannot be used.
    #[error("server.tls: {0}")]
    Tls(#[from] TlsError),
    /// A key cannot sign cards.
    #[error("server.card_keys[{at}].key: {source}")]
    CardKey {
        /// Its index in the list.
        at: usize,
        /// The problem with it.
        source: SigningError,
    },
    /// A card would advertise a URL that the server uses for something else.
    #[error(
        "server.base_path: the card of {agent} would advertise {url}, which the server uses for something else: choose another base path"
    )]
    NotServed {
        /// The agent's name.
        agent: String,
        /// The URL.
        url: String,
    },
    /// An agent cannot be started, or its name is not allowed.
    #[error("agent: {0}")]
    Agent(String),
    /// The program serves something under a name of A2A.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The reflection service refused the descriptors of the schema.
    #[error("reflection: {0}")]
    Reflection(String),
}

impl From<OpenError> for LaunchError {
    fn from(error: OpenError) -> Self {
        Self::Store(error.into())
    }
}

impl From<EngineError> for LaunchError {
    fn from(error: EngineError) -> Self {
        Self::Recovery(error.into())
    }
}
