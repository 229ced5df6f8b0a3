//! Tricord: an A2A v1.0 server. One schema, three bindings, one durable task service.

pub mod agents;
pub mod card;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
pub mod config;
pub mod engine;
mod launch;
pub mod protocol;
pub mod schema;
pub mod server;
pub mod service;
pub mod store;
pub mod task;
#[cfg(feature = "cli")]
pub mod telemetry;

pub use launch::{Launch, LaunchError, Running, told_to_stop};
