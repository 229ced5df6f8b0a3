//! A port: accepting connections, TLS, limits, and a quiet end. It speaks HTTP and knows nothing of what is asked.

mod accept;
mod drain;
mod first_bytes;
mod limits;
mod progress;
mod strict_http1;
mod tls;

pub use accept::Port;
pub use drain::Drain;
pub use limits::{ConnectionLimits, open_files, raise_open_files};
pub use tls::{TlsError, acceptor};
