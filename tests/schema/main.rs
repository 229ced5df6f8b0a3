//! The schema and the code generated from it: ProtoJSON, the validator, parity with the published protocol, documents.

mod codec;
mod corpus;
mod documents;
mod google;
mod json_rules;
#[path = "../shared/random.rs"]
mod numbers;
mod parity;
mod pbjson;
mod random;
mod requests;
mod round_trip;
mod signing;
mod venv;
