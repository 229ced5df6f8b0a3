//! The typed details of an error (`google.rpc.ErrorInfo`, `BadRequest`, `RetryInfo`), as JSON and as protobuf.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;
use serde_json::Value;

use super::error::{Code, ServerError};
use crate::error::Violation;

const ERROR_INFO: &str = "google.rpc.ErrorInfo";
const BAD_REQUEST: &str = "google.rpc.BadRequest";
const RETRY_INFO: &str = "google.rpc.RetryInfo";

impl ServerError {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            reason: None,
            code,
            message: message.into(),
            metadata: BTreeMap::new(),
            violations: Vec::new(),
            retry_after: None,
        }
    }

    /// Takes what the details of a JSON error say; those of unknown types are passed over.
    pub(super) fn read_json(&mut self, details: &[Value]) {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        for detail in details {
            // `type.googleapis.com/google.rpc.ErrorInfo`; some peers leave the host out.
            match detail["@type"].as_str().map(|name| name.rsplit('/').next().unwrap_or(name)) {
                Some(ERROR_INFO) => {
                    self.reason = detail["reason"].as_str().map(str::to_owned);
                    let metadata = detail["metadata"].as_object().into_iter().flatten();
                    self.metadata.extend(metadata.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))));
                }
                Some(BAD_REQUEST) => {
                    let violations = detail["fieldViolations"].as_array().into_iter().flatten();
                    self.violations.extend(
                        violations.map(|v| Violation { field: text(v, "field"), description: text(v, "description") }),
                    );
                }
                Some(RETRY_INFO) => {
                    let seconds = detail["retryDelay"].as_str().and_then(|d| d.strip_suffix('s')?.parse().ok());
                    self.retry_after = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).or(self.retry_after);
                }
                _ => {}
            }
        }
    }

    /// Takes what `grpc-status-details-bin` says; broken bytes say nothing.
    pub(super) fn read_protobuf(&mut self, status: &[u8]) {
        let Ok(status) = Status::decode(status) else { return };
        for detail in status.details {
            match detail.type_url.rsplit('/').next() {
                Some(ERROR_INFO) => {
                    let Ok(info) = ErrorInfo::decode(detail.value.as_slice()) else { continue };
                    self.reason = Some(info.reason).filter(|reason| !reason.is_empty());
                    self.metadata = info.metadata;
                }
                Some(BAD_REQUEST) => {
                    let Ok(bad) = BadRequest::decode(detail.value.as_slice()) else { continue };
                    let violation = |v: FieldViolation| Violation { field: v.field, description: v.description };
                    self.violations.extend(bad.field_violations.into_iter().map(violation));
                }
                Some(RETRY_INFO) => {
                    let delay = RetryInfo::decode(detail.value.as_slice()).ok().and_then(|info| info.retry_delay);
                    let after = delay.map(|d| {
                        let nanos = u32::try_from(d.nanos).unwrap_or(0).min(999_999_999);
                        Duration::new(u64::try_from(d.seconds).unwrap_or(0), nanos)
                    });
                    self.retry_after = after.or(self.retry_after);
                }
                _ => {}
            }
        }
    }

    /// Takes a `Retry-After` of whole seconds; a date is passed over.
    pub(super) fn read_retry_after(&mut self, value: Option<&str>) {
        if let Some(seconds) = value.and_then(|value| value.trim().parse().ok()) {
            self.retry_after = Some(Duration::from_secs(seconds));
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct BadRequest {
    #[prost(message, repeated, tag = "1")]
    field_violations: Vec<FieldViolation>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FieldViolation {
    #[prost(string, tag = "1")]
    field: String,
    #[prost(string, tag = "2")]
    description: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, tag = "1")]
    retry_delay: Option<RetryDelay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, prost::Message)]
struct RetryDelay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn expected(code: Code) -> ServerError {
        ServerError {
            reason: Some("INVALID_PARAMS".into()),
            metadata: BTreeMap::from([("k".into(), "v".into())]),
            violations: vec![Violation { field: "a.b[1]".into(), description: "wrong".into() }],
            retry_after: Some(Duration::from_millis(1500)),
            ..ServerError::new(code, "m")
        }
    }

    #[test]
    fn json_details_are_read_and_unknown_ones_passed_over() {
        let details = [
            json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "INVALID_PARAMS", "metadata": {"k": "v"}}),
            json!({"@type": "type.googleapis.com/google.rpc.Help"}),
            json!(5),
            json!({"@type": "google.rpc.BadRequest", "fieldViolations": [{"field": "a.b[1]", "description": "wrong"}]}),
            json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}),
        ];
        let mut error = ServerError::new(Code::Http(400), "m");
        error.read_json(&details);
        assert_eq!(error, expected(Code::Http(400)));
    }

    #[test]
    fn protobuf_details_are_read_and_broken_ones_passed_over() {
        let any = |name: &str, value: Vec<u8>| Any { type_url: format!("type.googleapis.com/{name}"), value };
        let info = ErrorInfo { reason: "INVALID_PARAMS".into(), metadata: BTreeMap::from([("k".into(), "v".into())]) };
        let violation = FieldViolation { field: "a.b[1]".into(), description: "wrong".into() };
        let retry = RetryInfo { retry_delay: Some(RetryDelay { seconds: 1, nanos: 500_000_000 }) };
        let details = vec![
            any(ERROR_INFO, info.encode_to_vec()),
            any(BAD_REQUEST, vec![0xff]),
            any(BAD_REQUEST, BadRequest { field_violations: vec![violation] }.encode_to_vec()),
            any(RETRY_INFO, retry.encode_to_vec()),
        ];
        let status = Status { code: 3, message: "m".into(), details };
        let code = Code::Grpc(tonic::Code::InvalidArgument);
        let mut error = ServerError::new(code, "m");
        error.read_protobuf(&status.encode_to_vec());
        assert_eq!(error, expected(code));
        let before = error.clone();
        error.read_protobuf(b"\xff\xff");
        assert_eq!(error, before);
    }
}
