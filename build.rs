//! Generates code and documents from the schema.

use std::path::PathBuf;

#[allow(dead_code, unreachable_pub)]
#[macro_use]
#[path = "src/protocol/names.rs"]
mod names;

/// A2A's errors as JSON-RPC numbers them: code, reason, and a sentence for people.
macro_rules! rows {
    ($(#[doc = $about:literal] $name:ident $jsonrpc:literal $grpc:ident $http:literal)*) => {
        vec![$(($jsonrpc, stringify!($name).into(), $about.trim().into())),*]
    };
}

fn main() {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=src/protocol/names.rs");
    let config = tricord_codegen::Config {
        include: PathBuf::from("proto"),
        files: vec!["lf/a2a/v1/a2a.proto".into(), "tricord/store/v1/store.proto".into()],
        service: "lf.a2a.v1.A2AService".into(),
        scope_field: "tenant".into(),
        root: "crate::schema::tree".into(),
        bytes: vec![".lf.a2a.v1.Part.raw".into()],
        required_oneofs: vec![".lf.a2a.v1.Part.content".into()],
        // The name in drafts of the protocol, which a client still uses.
        aliases: vec![(".lf.a2a.v1.ListTasksRequest.status_timestamp_after".into(), "lastUpdatedAfter".into())],
        capabilities: [
            ("streaming", &["SendStreamingMessage", "SubscribeToTask"][..]),
            (
                "push_notifications",
                &[
                    "CreateTaskPushNotificationConfig",
                    "GetTaskPushNotificationConfig",
                    "ListTaskPushNotificationConfigs",
                    "DeleteTaskPushNotificationConfig",
                ],
            ),
            ("extended_agent_card", &["GetExtendedAgentCard"]),
        ]
        .map(|(capability, rpcs)| (capability.into(), rpcs.iter().map(|rpc| (*rpc).into()).collect()))
        .to_vec(),
        anonymous: Vec::new(),
        document: tricord_codegen::Document {
            title: "Agent2Agent (A2A) protocol".into(),
            version: names::VERSION.into(),
            media_type: names::MEDIA_TYPE.into(),
            version_header: names::VERSION_HEADER.into(),
            errors: a2a_errors!(rows),
        },
        out_dir: PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")),
    };
    if let Err(error) = tricord_codegen::generate(&config) {
        println!("cargo::error={error}");
        std::process::exit(1);
    }
}
