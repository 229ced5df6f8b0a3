//! The body of an HTTP+JSON error: `google.rpc.Status` in JSON, under `error`.

use serde::Serialize;

use crate::details::{Detail, details};
use crate::error::{Error, Protocol};

/// Writes the body of an error.
pub(crate) fn write_error_document(protocol: &Protocol, error: &Error, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct Document<'a> {
        error: Status<'a>,
    }
    #[derive(Serialize)]
    struct Status<'a> {
        code: u16,
        status: &'static str,
        message: &'a str,
        details: Vec<Detail>,
    }
    let kind = error.kind();
    let status = Status {
        code: kind.http,
        status: status_name(kind.grpc),
        message: error.message(),
        details: details(error, protocol),
    };
    // Strings and numbers into a Vec: nothing here can fail.
    let _ = serde_json::to_writer(out, &Document { error: status });
}

/// Returns the name of a gRPC code as `google.rpc.Status` writes it in JSON.
fn status_name(code: tonic::Code) -> &'static str {
    use tonic::Code;
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
