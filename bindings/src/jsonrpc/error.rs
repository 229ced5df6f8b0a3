//! The error object of a JSON-RPC response.

use serde::Serialize;

use crate::details::{Detail, details};
use crate::error::{Error, Protocol};

/// Writes an error object: code, message and, as `data`, an array of details.
pub(crate) fn write_error_object(protocol: &Protocol, error: &Error, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct ErrorObject<'a> {
        code: i32,
        message: &'a str,
        data: Vec<Detail>,
    }
    let object = ErrorObject { code: error.kind().jsonrpc, message: error.message(), data: details(error, protocol) };
    // Strings and numbers into a Vec: nothing here can fail.
    let _ = serde_json::to_writer(out, &object);
}
