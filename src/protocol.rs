//! The names of A2A: its errors, headers, media type and well-known paths, each written once.

use tonic::Code;
use tricord_bindings::{Kind, Protocol};

use crate::schema::codec::SchemaCodec;

/// The protocol version that this server speaks and writes, without a patch number (§3.6).
pub const VERSION: &str = "1.0";
/// The version of a request that names none (§3.6.2).
pub const ABSENT_VERSION: &str = "0.3";
/// The media type of the HTTP+JSON binding.
pub const MEDIA_TYPE: &str = "application/a2a+json";
/// The path of an agent's card (§8.2).
pub const CARD_PATH: &str = "/.well-known/agent-card.json";
/// The path of an agent's card in older protocol versions.
pub const OLD_CARD_PATH: &str = "/.well-known/agent.json";
/// The path of the public keys that cards are signed with.
pub const KEYS_PATH: &str = "/.well-known/jwks.json";
/// Answers while the process runs.
pub const LIVE_PATH: &str = "/livez";
/// Answers whether the server accepts work.
pub const READY_PATH: &str = "/readyz";
/// Where the OpenAPI document is served.
pub const OPENAPI_PATH: &str = "/openapi.json";
/// Where the OpenRPC document is served.
pub const OPENRPC_PATH: &str = "/openrpc.json";
/// Every path that is not in the schema. An agent cannot have the name of a first segment.
pub const SERVER_PATHS: &[&str] =
    &[CARD_PATH, OLD_CARD_PATH, KEYS_PATH, LIVE_PATH, READY_PATH, OPENAPI_PATH, OPENRPC_PATH];

/// The protocol as this server speaks it.
pub static PROTOCOL: Protocol = protocol(ABSENT_VERSION);
/// The protocol with the current version assumed for a request that names none, for gateways that drop the header.
pub static PROTOCOL_ASSUMING_CURRENT: Protocol = protocol(VERSION);

const fn protocol(absent_version: &'static str) -> Protocol {
    Protocol {
        error_domain: "a2a-protocol.org",
        version_header: "a2a-version",
        version_header_label: "A2A-Version",
        codecs: &[&SchemaCodec],
        absent_version,
        extensions_header: "a2a-extensions",
        media_type: MEDIA_TYPE,
        version_not_supported: &VERSION_NOT_SUPPORTED,
        content_type_not_supported: &CONTENT_TYPE_NOT_SUPPORTED,
    }
}

const fn kind(reason: &'static str, jsonrpc: i32, grpc: Code, http: u16) -> Kind {
    Kind { reason, jsonrpc, grpc, http, jsonrpc_keeps_http_status: false }
}

/// The task does not exist, or is not the caller's (§3.3.2).
pub static TASK_NOT_FOUND: Kind = kind("TASK_NOT_FOUND", -32001, Code::NotFound, 404);
/// The task has ended and cannot be canceled.
pub static TASK_NOT_CANCELABLE: Kind = kind("TASK_NOT_CANCELABLE", -32002, Code::FailedPrecondition, 400);
/// The agent sends no push notifications.
pub static PUSH_NOTIFICATION_NOT_SUPPORTED: Kind =
    kind("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, Code::FailedPrecondition, 400);
/// The agent, or the state of the task, does not allow the operation.
pub static UNSUPPORTED_OPERATION: Kind = kind("UNSUPPORTED_OPERATION", -32004, Code::FailedPrecondition, 400);
/// Neither the server nor the agent reads this media type.
pub static CONTENT_TYPE_NOT_SUPPORTED: Kind = kind("CONTENT_TYPE_NOT_SUPPORTED", -32005, Code::InvalidArgument, 400);
/// The agent's answer does not follow the protocol.
pub static INVALID_AGENT_RESPONSE: Kind = kind("INVALID_AGENT_RESPONSE", -32006, Code::Internal, 500);
/// No extended agent card is configured.
pub static EXTENDED_AGENT_CARD_NOT_CONFIGURED: Kind =
    kind("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, Code::FailedPrecondition, 400);
/// The request does not name an extension that the agent requires.
pub static EXTENSION_SUPPORT_REQUIRED: Kind = kind("EXTENSION_SUPPORT_REQUIRED", -32008, Code::FailedPrecondition, 400);
/// The server does not support the protocol version.
pub static VERSION_NOT_SUPPORTED: Kind = kind("VERSION_NOT_SUPPORTED", -32009, Code::FailedPrecondition, 400);
