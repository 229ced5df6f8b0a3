//! The schema and what is generated from it: ProtoJSON, the validator, parity with the published protocol, documents.

mod codec;
mod corpus;
mod json_rules;
mod requests;
