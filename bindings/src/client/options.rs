//! What a caller says beside the request.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::ClientError;
use crate::error::Protocol;

/// What a caller says beside the request: how long to wait, and headers (metadata on gRPC).
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    timeout: Option<Duration>,
    headers: HeaderMap,
    extensions: Vec<String>,
}

impl CallOptions {
    /// No deadline, no further headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the wait after this long: for the answer, or for the end of the stream.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Adds a header given as text.
    ///
    /// # Errors
    /// When the text has no place in a header.
    pub fn text_header(self, name: &str, value: &str) -> Result<Self, ClientError> {
        let wrong =
            |what: &str| ClientError::Request(format!("{name:?}: {value:?} is no header: the {what} is not allowed"));
        let name = HeaderName::try_from(name).map_err(|_| wrong("name"))?;
        let value = HeaderValue::try_from(value).map_err(|_| wrong("value"))?;
        Ok(self.header(name, value))
    }

    /// Names an extension that the caller uses.
    #[must_use]
    pub fn extension(mut self, uri: impl Into<String>) -> Self {
        self.extensions.push(uri.into());
        self
    }

    /// Makes the call safe to repeat: the server answers a repeated key with the first answer.
    ///
    /// # Errors
    /// When the key has no place in a header.
    pub fn idempotency_key(self, key: &str) -> Result<Self, ClientError> {
        self.text_header("idempotency-key", key)
    }

    /// Goes on after the event of this id.
    ///
    /// # Errors
    /// When the id has no place in a header.
    pub fn last_event_id(mut self, id: &str) -> Result<Self, ClientError> {
        self.headers.remove("last-event-id");
        self.text_header("last-event-id", id)
    }

    /// How long the caller waits.
    pub fn wait(&self) -> Option<Duration> {
        self.timeout
    }

    /// The moment at which the wait ends, if it began now.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline(self.timeout.and_then(|wait| Some((Instant::now().checked_add(wait)?, wait))))
    }

    /// All headers of a call, the protocol's own included.
    pub(super) fn headers(&self, protocol: &Protocol) -> Result<HeaderMap, ClientError> {
        let mut headers = self.headers.clone();
        let version = protocol.versions.first().copied().unwrap_or_default();
        if !headers.contains_key(protocol.version_header) {
            headers.insert(HeaderName::from_static(protocol.version_header), HeaderValue::from_static(version));
        }
        if !self.extensions.is_empty() {
            let list = self.extensions.join(", ");
            let value = HeaderValue::try_from(&list)
                .map_err(|_| ClientError::Request(format!("{list:?} is no list of extension URIs")))?;
            headers.append(HeaderName::from_static(protocol.extensions_header), value);
        }
        Ok(headers)
    }
}

/// When a call's wait ends, if ever.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Option<(Instant, Duration)>);

impl Deadline {
    /// Waits for something at most until then.
    pub(super) async fn bound<T>(self, what: impl Future<Output = T>) -> Result<T, ClientError> {
        match self.0 {
            None => Ok(what.await),
            Some((at, wait)) => tokio::time::timeout_at(at, what).await.map_err(|_| ClientError::Deadline(wait)),
        }
    }
}
