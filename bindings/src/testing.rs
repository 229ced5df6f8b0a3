//! A protocol and a request head for unit tests.

use http::request::Parts;

use crate::error::{Kind, Protocol};

static VERSION: Kind = Kind {
    reason: "VERSION_NOT_SUPPORTED",
    jsonrpc: -32009,
    grpc: tonic::Code::FailedPrecondition,
    http: 400,
    jsonrpc_keeps_http_status: false,
};
static CONTENT_TYPE: Kind = Kind {
    reason: "CONTENT_TYPE_NOT_SUPPORTED",
    jsonrpc: -32005,
    grpc: tonic::Code::InvalidArgument,
    http: 400,
    jsonrpc_keeps_http_status: false,
};

pub(crate) static PROTOCOL: Protocol = Protocol {
    error_domain: "test.example",
    version_header: "x-version",
    version_header_label: "X-Version",
    versions: &["1.0"],
    absent_version: "0.3",
    extensions_header: "x-extensions",
    media_type: "application/x+json",
    version_not_supported: &VERSION,
    content_type_not_supported: &CONTENT_TYPE,
};

pub(crate) fn head(verb: &str, uri: &str, headers: &[(&'static str, &str)]) -> Parts {
    let mut request = http::Request::builder().method(verb).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}
