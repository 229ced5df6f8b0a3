//! The errors that every protocol has, once: for the runtime, and for the documents that `tricord-codegen` generates.

/// Calls a macro with the table: the documentation of each error, its name, its reason, its JSON-RPC code, its gRPC
/// status and its HTTP status. Of those with one JSON-RPC code, the first gives the code its meaning.
macro_rules! standard_errors {
    ($define:ident) => {
        $define! {
            /// The request is not JSON.
            PARSE_ERROR "PARSE_ERROR" -32700 InvalidArgument 400
            /// The request is not a JSON-RPC 2.0 request.
            INVALID_REQUEST "INVALID_REQUEST" -32600 InvalidArgument 400
            /// There is no such method.
            METHOD_NOT_FOUND "METHOD_NOT_FOUND" -32601 Unimplemented 404
            /// The path exists, but not with this verb; carries `Allow`.
            METHOD_NOT_ALLOWED "METHOD_NOT_FOUND" -32601 Unimplemented 405
            /// The parameters are wrong; the data names the fields.
            INVALID_PARAMS "INVALID_PARAMS" -32602 InvalidArgument 400
            /// The server failed.
            INTERNAL "INTERNAL_ERROR" -32603 Internal 500
            /// The request is larger than the server reads.
            TOO_LARGE "TOO_LARGE" -32600 ResourceExhausted 413
            /// There are no credentials, or wrong ones.
            UNAUTHENTICATED "UNAUTHENTICATED" -32000 Unauthenticated 401
            /// The caller is known, but not allowed to do this.
            PERMISSION_DENIED "PERMISSION_DENIED" -32000 PermissionDenied 403
            /// The caller sent too many requests.
            RATE_LIMITED "RATE_LIMITED" -32000 ResourceExhausted 429
            /// The server is overloaded, stopping or without its store; try again later.
            UNAVAILABLE "UNAVAILABLE" -32000 Unavailable 503
            /// The deadline that the client set has passed.
            DEADLINE_EXCEEDED "DEADLINE_EXCEEDED" -32000 DeadlineExceeded 504
        }
    };
}
