//! A2A as values of what the bindings know by type: its errors, headers, media type, and the names of its bindings.

mod describe;
#[macro_use]
mod names;

use http::HeaderName;
use tonic::Code;
use tricord_bindings::{Binding, Kind, Protocol};

use crate::schema::codec::SchemaCodec;

pub use names::{ABSENT_VERSION, MEDIA_TYPE, VERSION, VERSION_HEADER};

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
        version_header: HeaderName::from_static("a2a-version"),
        version_header_label: VERSION_HEADER,
        codecs: &[&SchemaCodec],
        absent_version,
        extensions_header: HeaderName::from_static("a2a-extensions"),
        media_type: MEDIA_TYPE,
        version_not_supported: &VERSION_NOT_SUPPORTED,
        content_type_not_supported: &CONTENT_TYPE_NOT_SUPPORTED,
        describe: describe::describe,
    }
}

macro_rules! define {
    ($(#[doc = $about:literal] $name:ident $jsonrpc:literal $grpc:ident $http:literal)*) => {
        $(#[doc = $about] pub static $name: Kind = Kind::new(stringify!($name), $jsonrpc, Code::$grpc, $http);)*
    };
}

a2a_errors!(define);

/// Returns the name of a binding in cards (§5.3).
pub fn binding_name(binding: Binding) -> &'static str {
    match binding {
        Binding::Grpc => "GRPC",
        Binding::JsonRpc => "JSONRPC",
        Binding::HttpJson => "HTTP+JSON",
    }
}

/// The names of all bindings in cards, for messages.
pub(crate) const BINDING_NAMES: &str = "GRPC, JSONRPC or HTTP+JSON";

/// Returns the binding of this name in cards; `None` for one that is not A2A's own.
pub fn binding_of(name: &str) -> Option<Binding> {
    Binding::ALL.into_iter().find(|binding| binding_name(*binding) == name)
}
