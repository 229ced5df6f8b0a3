//! The server as its clients see it: the real binary, real sockets, one test body for all three bindings.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "shared by all modules")]
mod raw;
#[allow(unreachable_pub, dead_code, reason = "shared with the crash test")]
mod support;

mod bodies;
mod browser;
mod capabilities;
mod cards;
mod commands;
mod corpus;
mod documents;
mod ended;
mod errors;
mod grpc_web;
mod hostile;
mod json_forms;
mod jsonrpc;
mod layers;
mod left;
mod limits;
mod lists;
mod load;
mod logs;
mod media;
mod messages;
mod metrics;
mod operators;
mod order;
mod parity;
mod pings;
mod probes;
mod proxy;
mod races;
mod resume;
mod retries;
mod security;
mod shutdown;
mod store;
mod streams;
mod tasks;
mod turns;
mod verbs;
mod versions;
