//! Why a server does not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use tricord_bindings::server::TlsError;

use crate::card::SigningError;
use crate::engine::EngineError;
use crate::store::OpenError;

/// Why a server does not start. Each is one line that says what is in the way.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The store cannot be opened.
    #[error("store: {0}")]
    Store(#[from] OpenError),
    /// The store was opened and cannot be read.
    #[error("store: {0}")]
    Engine(#[from] EngineError),
    /// The port cannot be had.
    #[error("{key}: cannot listen on {address}: {source}")]
    Listen {
        /// The key that names it.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file of the TLS configuration cannot be read.
    #[error("{key}: {}: {source}", .path.display())]
    File {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("server.tls: {0}")]
    Tls(#[from] TlsError),
    /// A key cannot sign cards.
    #[error("server.card_keys[{at}].key: {source}")]
    CardKey {
        /// Its place in the list.
        at: usize,
        /// What is wrong with it.
        source: SigningError,
    },
    /// A card would name an address that the server answers otherwise.
    #[error(
        "server.base_path: the card of {agent} would name {url}, where the server has something else; choose another"
    )]
    NotServed {
        /// The agent.
        agent: String,
        /// The address.
        url: String,
    },
    /// An agent cannot be started, or is named wrongly.
    #[error("agent: {0}")]
    Agent(String),
    /// The schema's own descriptors are refused by the reflection service.
    #[error("reflection: {0}")]
    Reflection(String),
}
