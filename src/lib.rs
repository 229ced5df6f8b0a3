//! Tricord: an A2A v1.0 server. One schema, three bindings, one durable task service.

pub mod config;
pub mod schema;
pub mod store;
