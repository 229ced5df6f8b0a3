//! A2A's own names, each once: also for the build script, which generates the documents from them.

/// The protocol version that this server speaks and writes, without a patch number (§3.6).
pub const VERSION: &str = "1.0";
/// The version that a request without one means (§3.6.2).
pub const ABSENT_VERSION: &str = "0.3";
/// The header that names the version, as people write it.
pub const VERSION_HEADER: &str = "A2A-Version";
/// The media type of the HTTP+JSON binding.
pub const MEDIA_TYPE: &str = "application/a2a+json";

/// Calls a macro with the table of A2A's errors (§3.3.2, §5.4): the documentation of each, its reason, its JSON-RPC code,
/// its gRPC status and its HTTP status.
macro_rules! a2a_errors {
    ($define:ident) => {
        $define! {
            /// There is no such task, or it belongs to another caller.
            TASK_NOT_FOUND -32001 NotFound 404
            /// The task has ended.
            TASK_NOT_CANCELABLE -32002 FailedPrecondition 400
            /// The agent sends no push notifications.
            PUSH_NOTIFICATION_NOT_SUPPORTED -32003 FailedPrecondition 400
            /// The agent, or the state of the task, does not allow the operation.
            UNSUPPORTED_OPERATION -32004 FailedPrecondition 400
            /// The server or the agent does not read this media type.
            CONTENT_TYPE_NOT_SUPPORTED -32005 InvalidArgument 400
            /// The agent answered what the protocol does not allow.
            INVALID_AGENT_RESPONSE -32006 Internal 500
            /// No extended agent card is configured.
            EXTENDED_AGENT_CARD_NOT_CONFIGURED -32007 FailedPrecondition 400
            /// The agent requires an extension that the request does not name.
            EXTENSION_SUPPORT_REQUIRED -32008 FailedPrecondition 400
            /// The protocol version is not served.
            VERSION_NOT_SUPPORTED -32009 FailedPrecondition 400
        }
    };
}
