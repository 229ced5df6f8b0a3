//! Tricord: an A2A v1.0 server. One schema, three bindings, one durable task service.
//!
//! ```text
//! wire ─► server ─► binding (generated) ─► service ─► engine ─► store
//!                                                      │  ▲        │ after commit only
//!                                                      ▼  │        ▼
//!                                                     agents   streams, waiting senders
//! ```
//!
//! An agent is a type with one method; [`Launch`] serves it on all three bindings from one port:
//!
//! ```no_run
//! use tricord::Launch;
//! use tricord::agents::{Agent, AgentError, TaskContext};
//!
//! struct Shout;
//!
//! impl Agent for Shout {
//!     async fn run(&self, task: TaskContext) -> Result<(), AgentError> {
//!         let mut answer = task.artifact("answer");
//!         for word in task.text().split_inclusive(' ') {
//!             answer.text(word.to_uppercase()).await?;
//!         }
//!         answer.finish().await
//!     }
//! }
//!
//! # async fn example() -> Result<(), tricord::LaunchError> {
//! Launch::new().agent("shout", Shout).run().await
//! # }
//! ```
//!
//! Authors of agents start at [`agents`]. [`client`] calls agents, [`config`] holds every setting, [`card`] verifies and
//! checks agent cards, and [`schema`] is the generated protocol.

pub mod agents;
pub mod card;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
mod clock;
pub mod config;
mod engine;
mod launch;
mod limits;
mod memory;
pub mod protocol;
pub mod schema;
mod server;
mod service;
mod settings;
mod store;
mod task;
#[cfg(feature = "cli")]
mod telemetry;

pub use launch::{Conflict, Embedded, Launch, LaunchError, Running, shutdown_signal};

// What `Launch::routes`, `methods` and `grpc` take, in the versions that they take.
pub use tricord_bindings::{Identity, Principal};
pub use {axum, jsonrpsee, tonic};

/// The layers below the public interface, for the tests, benchmarks and fuzz targets of this repository.
///
/// Nothing in here is stable: it changes without notice in any release.
#[doc(hidden)]
pub mod internals {
    /// The task engine.
    pub mod engine {
        pub use crate::engine::{AgentSpec, Engine, EngineError, EngineLimits, Incoming, OnRestart, Outcome};
    }
    /// The port that serves all bindings.
    pub mod server {
        pub use crate::server::{Additional, Anonymous, Builder, Server};
    }
    /// The implementation of the generated service.
    pub mod service {
        pub use crate::service::{AgentProfile, Service};
    }
    /// Where tasks are kept.
    pub mod store {
        pub use crate::store::{
            Append, Commit, ListQuery, NewTask, Options, PageKey, PageToken, Pending, Row, Store, StoreUrl, TokenError,
            Writer,
        };
    }
    /// The pure rules of tasks.
    pub mod task {
        pub use crate::task::{cursor, lifecycle};
    }
}
