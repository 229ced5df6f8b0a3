//! A protocol, rpcs and a request head for unit tests.

use http::request::Parts;

use crate::codec::Codec;
use crate::error::{Kind, Protocol};
use crate::query::Route;
use crate::{Binding, HttpRule, Rpc};

/// A version without rpcs.
#[derive(Debug)]
struct NoMethods;

impl Codec for NoMethods {
    fn version(&self) -> &'static str {
        "1.0"
    }

    fn slot(&self) -> usize {
        0
    }

    fn grpc_rpc(&self, _: &str) -> Option<&'static Rpc> {
        None
    }

    fn jsonrpc_rpc(&self, _: &str) -> Option<&'static Rpc> {
        None
    }

    fn http_route<'p>(&self, _: &http::Method, _: &'p str) -> Route<'p> {
        Route::NotFound
    }
}

static VERSION: Kind = Kind::new("VERSION_NOT_SUPPORTED", -32009, tonic::Code::FailedPrecondition, 400);
static CONTENT_TYPE: Kind = Kind::new("CONTENT_TYPE_NOT_SUPPORTED", -32005, tonic::Code::InvalidArgument, 400);

pub(crate) static PROTOCOL: Protocol = Protocol {
    error_domain: "test.example",
    version_header: http::HeaderName::from_static("x-version"),
    version_header_label: "X-Version",
    codecs: &[&NoMethods],
    absent_version: "0.3",
    extensions_header: http::HeaderName::from_static("x-extensions"),
    media_type: "application/x+json",
    version_not_supported: &VERSION,
    content_type_not_supported: &CONTENT_TYPE,
    describe: |_, _| {},
};

pub(crate) fn head(verb: &str, uri: &str, headers: &[(&'static str, &str)]) -> Parts {
    let mut request = http::Request::builder().method(verb).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

/// An rpc that answers once.
pub(crate) const fn rpc(name: &'static str, path: &'static str, rules: &'static [HttpRule]) -> Rpc {
    Rpc { index: 0, name, path, streaming: false, bindings: &Binding::ALL, capability: None, anonymous: false, rules }
}
