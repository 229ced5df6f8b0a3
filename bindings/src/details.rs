//! The details of an error as `google.rpc` has them: small messages of our own, as protobuf and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;
use serde::{Deserialize, Serialize};

use crate::{Error, Protocol};

/// `google.rpc.Status`: what `grpc-status-details-bin` holds.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// The gRPC code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The message, for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Packed details.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.protobuf.Any`: an encoded message and its type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Any {
    /// `type.googleapis.com/<full name>`.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The encoded message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `google.rpc.ErrorInfo`: the reason for machines.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// The error's name, `UPPER_SNAKE_CASE`.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// Who gives the reason its meaning.
    #[prost(string, tag = "2")]
    #[serde(default)]
    pub domain: String,
    /// More about it.
    #[prost(btree_map = "string, string", tag = "3")]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// `google.rpc.BadRequest`: which fields are wrong.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
pub struct BadRequest {
    /// One entry a field.
    #[prost(message, repeated, tag = "1")]
    #[serde(default, rename = "fieldViolations")]
    pub field_violations: Vec<FieldViolation>,
}

/// A field that is wrong.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
pub struct FieldViolation {
    /// Its path in JSON names.
    #[prost(string, tag = "1")]
    #[serde(default)]
    pub field: String,
    /// What is wrong with it.
    #[prost(string, tag = "2")]
    #[serde(default)]
    pub description: String,
}

/// `google.rpc.RetryInfo`: when to try again.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RetryInfo {
    /// How long to wait first.
    #[prost(message, optional, tag = "1")]
    pub retry_delay: Option<Delay>,
}

/// `google.protobuf.Duration`, as far as a delay needs it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Delay {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds after that.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// One detail of an error, as JSON has it: an object with `@type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "@type")]
pub enum Detail {
    /// The reason.
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo(ErrorInfo),
    /// The wrong fields.
    #[serde(rename = "type.googleapis.com/google.rpc.BadRequest")]
    BadRequest(BadRequest),
    /// When to try again.
    #[serde(rename = "type.googleapis.com/google.rpc.RetryInfo")]
    RetryInfo {
        /// Seconds with an `s`: `2s`.
        #[serde(rename = "retryDelay")]
        retry_delay: String,
    },
    /// A detail that this crate does not know.
    #[serde(other)]
    Unknown,
}

/// The whole seconds that `Retry-After` says, rounded up and at least 1.
pub fn retry_seconds(after: Duration) -> u64 {
    (after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1)
}

/// The details of an error, the reason first, because some clients read no more.
pub fn details(error: &Error, protocol: &Protocol) -> Vec<Detail> {
    let mut details = vec![Detail::ErrorInfo(error_info(error, protocol))];
    if let Some(bad) = bad_request(error) {
        details.push(Detail::BadRequest(bad));
    }
    if let Some(after) = error.retry_after() {
        details.push(Detail::RetryInfo { retry_delay: format!("{}s", retry_seconds(after)) });
    }
    details
}

/// The error as `google.rpc.Status`, for `grpc-status-details-bin`.
pub fn status(error: &Error, protocol: &Protocol) -> Status {
    let mut details = vec![pack("google.rpc.ErrorInfo", &error_info(error, protocol))];
    if let Some(bad) = bad_request(error) {
        details.push(pack("google.rpc.BadRequest", &bad));
    }
    if let Some(after) = error.retry_after() {
        let delay = Delay { seconds: retry_seconds(after).cast_signed(), nanos: 0 };
        details.push(pack("google.rpc.RetryInfo", &RetryInfo { retry_delay: Some(delay) }));
    }
    Status { code: error.kind().grpc as i32, message: error.message().to_owned(), details }
}

impl Status {
    /// The details that this crate knows, in order.
    pub fn unpack(&self) -> Vec<Detail> {
        self.details.iter().map(Any::unpack).collect()
    }
}

impl Any {
    fn unpack(&self) -> Detail {
        let value = self.value.as_slice();
        let detail = match self.type_url.rsplit('/').next() {
            Some("google.rpc.ErrorInfo") => ErrorInfo::decode(value).ok().map(Detail::ErrorInfo),
            Some("google.rpc.BadRequest") => BadRequest::decode(value).ok().map(Detail::BadRequest),
            Some("google.rpc.RetryInfo") => RetryInfo::decode(value).ok().map(|info| Detail::RetryInfo {
                retry_delay: format!("{}s", info.retry_delay.map_or(0, |delay| delay.seconds)),
            }),
            _ => None,
        };
        detail.unwrap_or(Detail::Unknown)
    }
}

fn pack(name: &str, message: &impl prost::Message) -> Any {
    Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
}

fn error_info(error: &Error, protocol: &Protocol) -> ErrorInfo {
    ErrorInfo {
        reason: error.kind().reason.to_owned(),
        domain: protocol.error_domain.to_owned(),
        metadata: error.metadata().iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
    }
}

fn bad_request(error: &Error) -> Option<BadRequest> {
    let violations = error.field_violations();
    let field_violations = violations
        .iter()
        .map(|v| FieldViolation { field: v.field.clone(), description: v.description.clone() })
        .collect::<Vec<_>>();
    (!field_violations.is_empty()).then_some(BadRequest { field_violations })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::kinds;

    #[test]
    fn the_reason_is_the_first_detail_and_wrong_fields_the_second() {
        let error = Error::invalid("message.parts", "is required").with_retry_after(Duration::from_millis(1200));
        let json = serde_json::to_value(details(&error, &crate::testing::PROTOCOL)).unwrap();
        assert_eq!(
            json,
            serde_json::json!([
                {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "INVALID_PARAMS", "domain": "test.example"},
                {"@type": "type.googleapis.com/google.rpc.BadRequest",
                 "fieldViolations": [{"field": "message.parts", "description": "is required"}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"},
            ])
        );
        let status = status(&error, &crate::testing::PROTOCOL);
        assert_eq!(serde_json::to_value(status.unpack()).unwrap(), json);
        assert_eq!(status.code, tonic::Code::InvalidArgument as i32);
    }

    #[test]
    fn metadata_is_written_and_unknown_details_are_passed_over() {
        let error = Error::new(&kinds::INTERNAL, "x").with("k", "v");
        let json = serde_json::to_string(&details(&error, &crate::testing::PROTOCOL)).unwrap();
        assert!(json.contains(r#""metadata":{"k":"v"}"#), "{json}");
        let read: Vec<Detail> = serde_json::from_str(r#"[{"@type":"type.googleapis.com/x.Y","a":1}]"#).unwrap();
        assert_eq!(read, [Detail::Unknown]);
    }
}
