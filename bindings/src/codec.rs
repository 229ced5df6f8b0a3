//! Codecs: what one version of a protocol looks like on JSON-RPC and HTTP+JSON.
//!
//! The types of the schema are those of one version, and the service speaks only that. Another version is another codec
//! over the same service: it knows its own names of methods and paths, and turns its own JSON into the schema's messages
//! and back. The pipeline chooses the codec by the version that a request asks for.

use std::any::Any;
use std::fmt;

use http::Method;
use serde::Serialize;

use crate::error::{Error, Protocol};
use crate::output::Output;
use crate::query::Route;
use crate::request::Request;
use crate::{Rpc, http_json, jsonrpc, proto_json, query};

/// How many codecs one process can use. An [`Encoded`](crate::Encoded) message has room for the JSON of each.
pub const MAX_CODECS: usize = 2;

/// One version of a protocol, as bytes.
///
/// The pipeline calls [`Codec::jsonrpc_rpc`], [`Codec::http_route`] or [`Codec::grpc_rpc`] once per request, then one of
/// the `read` functions, then one of the `write` functions once per answer or event. What is not overridden is the
/// schema's own: ProtoJSON, and errors with `google.rpc` details.
pub trait Codec: fmt::Debug + Send + Sync + 'static {
    /// Returns the version, `Major.Minor`.
    fn version(&self) -> &'static str;

    /// Returns the place of this codec's bytes in an [`Encoded`](crate::Encoded) message: below [`MAX_CODECS`], and
    /// another one for each codec of a process.
    fn slot(&self) -> usize;

    /// Finds the rpc of a gRPC path. gRPC messages are always those of the schema.
    fn grpc_rpc(&self, path: &str) -> Option<&'static Rpc>;

    /// Finds the rpc of a JSON-RPC method.
    fn jsonrpc_rpc(&self, method: &str) -> Option<&'static Rpc>;

    /// Finds the rpc of a verb and a raw path.
    fn http_route<'p>(&self, verb: &Method, path: &'p str) -> Route<'p>;

    /// Reads the parameters of `rpc` from a JSON object.
    ///
    /// # Errors
    /// If it is not JSON, or not the JSON of the request message; violations name the fields as the client spelled them.
    fn read_json(&self, rpc: &'static Rpc, json: &[u8], params: &mut dyn Params) -> Result<(), Error> {
        let _ = rpc;
        params.read_json(json)
    }

    /// Reads the parameters of `rpc` from a query string.
    ///
    /// # Errors
    /// A violation for the first parameter that cannot be read.
    fn read_query(&self, rpc: &'static Rpc, query: &str, params: &mut dyn Params) -> Result<(), Error> {
        let _ = rpc;
        params.read_query(query)
    }

    /// Writes a reply or one event of a stream.
    ///
    /// # Errors
    /// If the message holds what JSON cannot, such as an infinite number.
    fn write_json(&self, message: &dyn JsonMessage, out: &mut Vec<u8>) -> Result<(), Error> {
        message.write_json(out)
    }

    /// Writes a reply or an event that consists of one field alone. `content` writes the value of the field with
    /// [`Codec::write_json`], or copies what that wrote earlier.
    ///
    /// # Errors
    /// Those of `content`.
    fn write_wrapper_json(&self, field: &'static str, out: &mut Output, content: Content<'_>) -> Result<(), Error> {
        out.extend_from_slice(b"{\"");
        out.extend_from_slice(field.as_bytes());
        out.extend_from_slice(b"\":");
        content(out)?;
        out.push(b'}');
        Ok(())
    }

    /// Writes the error object of a JSON-RPC response.
    fn write_jsonrpc_error(&self, protocol: &Protocol, error: &Error, out: &mut Vec<u8>) {
        jsonrpc::write_error_object(protocol, error, out);
    }

    /// Writes the body of an HTTP+JSON error.
    fn write_http_error(&self, protocol: &Protocol, error: &Error, out: &mut Vec<u8>) {
        http_json::write_error_document(protocol, error, out);
    }
}

/// Writes the value of a field.
pub type Content<'a> = &'a mut dyn FnMut(&mut Output) -> Result<(), Error>;

/// A request message that a codec fills in. A codec of another version finds its type by downcasting.
pub trait Params: Any {
    /// Reads the message from ProtoJSON.
    ///
    /// # Errors
    /// Those of [`proto_json::decode`].
    fn read_json(&mut self, json: &[u8]) -> Result<(), Error>;

    /// Reads the message from a query string.
    ///
    /// # Errors
    /// Those of [`query::read`].
    fn read_query(&mut self, query: &str) -> Result<(), Error>;
}

impl<Q: Request> Params for Q {
    fn read_json(&mut self, json: &[u8]) -> Result<(), Error> {
        *self = proto_json::decode(json)?;
        Ok(())
    }

    fn read_query(&mut self, query: &str) -> Result<(), Error> {
        query::read(self, query)
    }
}

/// A reply or an event that a codec writes. A codec of another version finds its type by downcasting.
pub trait JsonMessage: Any {
    /// Writes the message as ProtoJSON.
    ///
    /// # Errors
    /// [`INTERNAL`](crate::error::kinds::INTERNAL) if the message holds what JSON cannot; the cause is logged.
    fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Error>;
}

impl<T: Serialize + Any> JsonMessage for T {
    fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        serde_json::to_writer(out, self).map_err(|error| {
            tracing::error!(%error, "an answer cannot be written as JSON");
            Error::internal()
        })
    }
}
