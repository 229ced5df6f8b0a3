//! What a service offers, as a table: for the pipeline, for tests and for documents.

use crate::Binding;

/// One rpc of a service. The table of them is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rpc {
    /// Its place in the table.
    pub index: usize,
    /// Its name in the schema.
    pub name: &'static str,
    /// The gRPC path: `/package.Service/Name`.
    pub path: &'static str,
    /// Whether it answers with a stream of events.
    pub streaming: bool,
    /// The bindings by which it is reached.
    pub bindings: &'static [Binding],
    /// What must be offered for this rpc to be called; `None` if it is always offered.
    pub capability: Option<Capability>,
    /// Whether it may be called without credentials where the service asks for them.
    pub anonymous: bool,
    /// How it is reached over HTTP+JSON, the schema's own rule first.
    pub rules: &'static [HttpRule],
}

/// An optional part of a service, by its name. The constants are generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capability(pub &'static str);

/// One verb and path of an rpc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpRule {
    /// `GET`, `POST`, ...
    pub verb: &'static str,
    /// The path template as the schema has it: `/tasks/{id=*}:cancel`.
    pub template: &'static str,
    /// Whether the request is read from the body; otherwise it is read from path and query.
    pub body: bool,
}
