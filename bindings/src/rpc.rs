//! What a service offers, as a table: for tests, documents and whoever lists routes.

/// One rpc of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rpc {
    /// Its name in the schema; the JSON-RPC method.
    pub name: &'static str,
    /// The gRPC path: `/package.Service/Name`.
    pub path: &'static str,
    /// Whether it answers with a stream of events.
    pub streaming: bool,
    /// How it is reached over HTTP+JSON, the schema's own rule first.
    pub rules: &'static [HttpRule],
}

/// One verb and path of an rpc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpRule {
    /// `GET`, `POST`, ...
    pub verb: &'static str,
    /// The path template as the schema has it: `/tasks/{id=*}:cancel`.
    pub template: &'static str,
    /// Whether the request is read from the body; else from path and query.
    pub body: bool,
}
