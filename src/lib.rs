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
//! [`agents`] is where agents' authors look, [`client`] calls agents, [`schema`] holds the generated code. The other
//! modules are the server itself, public for its tests and for readers.

pub mod agents;
pub mod card;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
mod clock;
pub mod config;
pub mod engine;
mod launch;
mod limits;
pub mod protocol;
pub mod schema;
pub mod server;
pub mod service;
mod settings;
pub mod store;
pub mod task;
#[cfg(feature = "cli")]
pub mod telemetry;

pub use launch::{Launch, LaunchError, Running, shutdown_signal};
