//! Reads the typed details of an error from JSON or protobuf.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;
use serde_json::Value;

use super::error::{Code, ServerError};
use crate::details::{Detail, Status};
use crate::error::Violation;

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

    /// Reads the details of a JSON error and ignores unknown ones.
    pub(super) fn read_json(&mut self, details: &Value) {
        for detail in details.as_array().into_iter().flatten() {
            if let Ok(detail) = serde_json::from_value(detail.clone()) {
                self.take(detail);
            }
        }
    }

    /// Reads `grpc-status-details-bin` and ignores bytes that do not decode.
    pub(super) fn read_protobuf(&mut self, status: &[u8]) {
        if let Ok(status) = Status::decode(status) {
            status.unpack().into_iter().for_each(|detail| self.take(detail));
        }
    }

    /// Reads a `Retry-After` in whole seconds and ignores a date.
    pub(super) fn read_retry_after(&mut self, value: Option<&str>) {
        if let Some(seconds) = value.and_then(|value| value.trim().parse().ok()) {
            self.retry_after = Some(Duration::from_secs(seconds));
        }
    }

    fn take(&mut self, detail: Detail) {
        match detail {
            Detail::ErrorInfo(info) => {
                self.reason = Some(info.reason).filter(|reason| !reason.is_empty());
                self.metadata = info.metadata;
            }
            Detail::BadRequest(bad) => {
                let violations = bad.field_violations.into_iter();
                self.violations.extend(violations.map(|v| Violation { field: v.field, description: v.description }));
            }
            Detail::RetryInfo { retry_delay } => {
                let seconds = retry_delay.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
                self.retry_after = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).or(self.retry_after);
            }
            Detail::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::details;
    use serde_json::json;

    fn expected(code: Code) -> ServerError {
        ServerError {
            reason: Some("INVALID_PARAMS".into()),
            metadata: BTreeMap::from([("k".into(), "v".into())]),
            violations: vec![Violation { field: "a.b[1]".into(), description: "wrong".into() }],
            retry_after: Some(Duration::from_secs(2)),
            ..ServerError::new(code, "m")
        }
    }

    fn sent() -> Error {
        Error::invalid("a.b[1]", "wrong").with("k", "v").with_retry_after(Duration::from_secs(2))
    }

    #[test]
    fn json_details_are_read_and_unknown_ones_ignored() {
        let mut written = json!([5, {"@type": "type.googleapis.com/google.rpc.Help"}, {}]);
        let details = serde_json::to_value(details::details(&sent(), &crate::testing::PROTOCOL)).unwrap();
        written.as_array_mut().unwrap().extend(details.as_array().unwrap().iter().cloned());
        let mut error = ServerError::new(Code::Http(400), "m");
        error.read_json(&written);
        assert_eq!(error, expected(Code::Http(400)));
        error.read_json(&json!("none"));
        assert_eq!(error, expected(Code::Http(400)));
    }

    #[test]
    fn protobuf_details_are_read_and_broken_bytes_ignored() {
        let code = Code::Grpc(tonic::Code::InvalidArgument);
        let mut error = ServerError::new(code, "m");
        error.read_protobuf(&details::status(&sent(), &crate::testing::PROTOCOL).encode_to_vec());
        assert_eq!(error, expected(code));
        error.read_protobuf(b"\xff\xff");
        assert_eq!(error, expected(code));
    }
}
