//! Generates everything that follows from the schema.

use std::path::PathBuf;

/// The errors as JSON-RPC numbers them; a test holds them against those that the server answers.
const ERRORS: [(i32, &str, &str); 14] = [
    (-32700, "PARSE_ERROR", "The request is not JSON."),
    (-32600, "INVALID_REQUEST", "The request is no JSON-RPC request."),
    (-32601, "METHOD_NOT_FOUND", "There is no such method."),
    (-32602, "INVALID_PARAMS", "The parameters are wrong; the data names the fields."),
    (-32603, "INTERNAL", "The server failed."),
    (-32001, "TASK_NOT_FOUND", "There is no such task."),
    (-32002, "TASK_NOT_CANCELABLE", "The task has ended."),
    (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", "The agent sends no push notifications."),
    (-32004, "UNSUPPORTED_OPERATION", "The agent, or the state of the task, does not allow it."),
    (-32005, "CONTENT_TYPE_NOT_SUPPORTED", "The agent does not read this media type."),
    (-32006, "INVALID_AGENT_RESPONSE", "The agent answered what the protocol does not allow."),
    (-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "There is to be an extended card, and none is configured."),
    (-32008, "EXTENSION_SUPPORT_REQUIRED", "The agent requires an extension that the request does not name."),
    (-32009, "VERSION_NOT_SUPPORTED", "The protocol version is not served."),
];

fn main() {
    println!("cargo:rerun-if-changed=proto");
    let config = tricord_codegen::Config {
        include: PathBuf::from("proto"),
        files: vec!["lf/a2a/v1/a2a.proto".into(), "tricord/store/v1/store.proto".into()],
        service: "lf.a2a.v1.A2AService".into(),
        scope_field: "tenant".into(),
        root: "crate::schema::tree".into(),
        bytes: vec![".lf.a2a.v1.Part.raw".into()],
        required_oneofs: vec![".lf.a2a.v1.Part.content".into()],
        // What drafts of the protocol called it, and a client still does.
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
            version: "1.0".into(),
            media_type: "application/a2a+json".into(),
            version_header: "A2A-Version".into(),
            errors: ERRORS.iter().map(|(code, reason, about)| (*code, (*reason).into(), (*about).into())).collect(),
        },
        out_dir: PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")),
    };
    if let Err(error) = tricord_codegen::generate(&config) {
        println!("cargo::error={error}");
        std::process::exit(1);
    }
}
