//! Generated documents: golden copies show a change of the API in review, and validators check the OpenAPI and OpenRPC
//! documents and the JSON that we print.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use prost::Message as _;
use tricord::protocol;
use tricord::schema::{OPENAPI, OPENRPC, RPCS};
use tricord_bindings::error::kinds;

use crate::codec::{codec, messages, pool};
use crate::random::{self, Random};
use crate::venv;

/// Compares a text with its golden copy, or updates the copy.
#[track_caller]
fn golden(name: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, generated).expect("the golden copy is written");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let first = kept.lines().zip(generated.lines()).enumerate().find(|(_, (kept, new))| kept != new);
    let place = first.map_or("its length".to_owned(), |(line, (kept, new))| {
        format!("line {}:\n  kept      {kept}\n  generated {new}", line + 1)
    });
    assert!(
        kept == generated,
        "tests/golden/{name} differs from what is generated now, first in {place}\n\
         If the change is intended, update the copy with: UPDATE_GOLDEN=1 cargo test --test schema golden"
    );
}

#[test]
fn the_openapi_document_is_the_golden_one() {
    golden("openapi.json", OPENAPI);
}

#[test]
fn the_openrpc_document_is_the_golden_one() {
    golden("openrpc.json", OPENRPC);
}

#[test]
fn the_openrpc_document_has_every_rpc_and_the_errors_that_are_answered() {
    let document: serde_json::Value = serde_json::from_str(OPENRPC).expect("the document is JSON");
    let names: Vec<_> = document["methods"].as_array().expect("a list").iter().map(|m| m["name"].clone()).collect();
    assert_eq!(names, RPCS.iter().map(|rpc| rpc.name).collect::<Vec<_>>());
    let answered = [
        &kinds::PARSE_ERROR,
        &kinds::INVALID_REQUEST,
        &kinds::METHOD_NOT_FOUND,
        &kinds::INVALID_PARAMS,
        &kinds::INTERNAL,
        &protocol::TASK_NOT_FOUND,
        &protocol::TASK_NOT_CANCELABLE,
        &protocol::PUSH_NOTIFICATION_NOT_SUPPORTED,
        &protocol::UNSUPPORTED_OPERATION,
        &protocol::CONTENT_TYPE_NOT_SUPPORTED,
        &protocol::INVALID_AGENT_RESPONSE,
        &protocol::EXTENDED_AGENT_CARD_NOT_CONFIGURED,
        &protocol::EXTENSION_SUPPORT_REQUIRED,
        &protocol::VERSION_NOT_SUPPORTED,
    ];
    let answered: BTreeMap<_, _> = answered.map(|kind| (kind.reason.to_owned(), i64::from(kind.jsonrpc))).into();
    let errors = document["components"]["errors"].as_object().expect("errors");
    let told = errors.iter().map(|(reason, error)| (reason.clone(), error["code"].as_i64().expect("a code")));
    assert_eq!(told.collect::<BTreeMap<_, _>>(), answered);
}

#[test]
fn the_openrpc_document_is_valid() {
    let output = String::from_utf8(venv::run("openrpc.py", OPENRPC.as_bytes())).expect("text");
    assert_eq!(output.trim(), format!("valid, with {} methods", RPCS.len()));
}

#[test]
fn the_service_trait_is_the_golden_one() {
    golden("service.rs.txt", include_str!(concat!(env!("OUT_DIR"), "/service.rs")));
}

#[test]
fn every_http_rule_is_an_operation_of_the_document() {
    let document: serde_json::Value = serde_json::from_str(OPENAPI).expect("the document is JSON");
    let paths = document["paths"].as_object().expect("it has paths");
    let mut operations: BTreeMap<&str, usize> = BTreeMap::new();
    for verbs in paths.values() {
        for operation in verbs.as_object().expect("a path has verbs").values() {
            let id = operation["operationId"].as_str().expect("an operation has an id").to_lowercase();
            let rpc = RPCS.iter().filter(|rpc| id.starts_with(&rpc.name.to_lowercase()));
            let rpc = rpc.max_by_key(|rpc| rpc.name.len()).expect("the id begins with an rpc's name");
            *operations.entry(rpc.name).or_default() += 1;
        }
    }
    for rpc in RPCS {
        assert_eq!(operations.get(rpc.name), Some(&rpc.rules.len()), "{}", rpc.name);
    }
}

#[test]
fn the_openapi_document_is_valid_and_describes_the_json_that_we_print() {
    let mut input = String::new();
    // The first line is the document, and the others are messages with their names.
    let document: serde_json::Value = serde_json::from_str(OPENAPI).expect("the document is JSON");
    writeln!(input, "{document}").unwrap();
    for descriptor in messages(&pool()) {
        for seed in 0..20 {
            let message = random::complete(&descriptor, &mut Random::new(seed));
            let json = (codec(descriptor.name()).print)(&message.encode_to_vec());
            writeln!(input, "{}\t{json}", descriptor.name()).unwrap();
        }
    }
    let output = String::from_utf8(venv::run("openapi.py", input.as_bytes())).expect("text");
    assert_eq!(output.trim(), format!("valid, and {} messages", messages(&pool()).len() * 20));
}
