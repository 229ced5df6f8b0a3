//! Options of a call: headers and a deadline.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::ClientError;
use crate::error::Protocol;

/// Options of a call: how long to wait, and headers (gRPC metadata).
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    timeout: Option<Duration>,
    headers: HeaderMap,
    extensions: Vec<String>,
}

impl CallOptions {
    /// Returns options without a deadline and without headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long to wait for the answer, or for the end of the stream.
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
    /// When the name or the value has characters that a header cannot hold.
    pub fn text_header(self, name: &str, value: &str) -> Result<Self, ClientError> {
        let wrong =
            // Never the value: it may be a secret.
            |what: &str| ClientError::Request(format!("invalid header {name:?}: its {what} has forbidden characters"));
        let name = HeaderName::try_from(name).map_err(|_| wrong("name"))?;
        let value = HeaderValue::try_from(value).map_err(|_| wrong("value"))?;
        Ok(self.header(name, value))
    }

    /// Adds an extension that the caller uses.
    #[must_use]
    pub fn extension(mut self, uri: impl Into<String>) -> Self {
        self.extensions.push(uri.into());
        self
    }

    /// Makes the call safe to repeat: the server answers a repeated key with the first answer.
    ///
    /// # Errors
    /// When the key has characters that a header cannot hold.
    pub fn idempotency_key(self, key: &str) -> Result<Self, ClientError> {
        self.text_header("idempotency-key", key)
    }

    /// Resumes a stream after the event with this id.
    ///
    /// # Errors
    /// When the id has characters that a header cannot hold.
    pub fn last_event_id(mut self, id: &str) -> Result<Self, ClientError> {
        self.headers.remove("last-event-id");
        self.text_header("last-event-id", id)
    }

    /// Returns how long the caller waits.
    pub fn wait(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the moment at which the wait ends if it begins now.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline(self.timeout.and_then(|wait| Some((Instant::now().checked_add(wait)?, wait))))
    }

    /// Returns all headers of a call, including those of the protocol.
    pub(super) fn headers(&self, protocol: &Protocol) -> Result<HeaderMap, ClientError> {
        let mut headers = self.headers.clone();
        let version = protocol.codecs.first().map(|codec| codec.version()).unwrap_or_default();
        if !headers.contains_key(&protocol.version_header) {
            headers.insert(&protocol.version_header, HeaderValue::from_static(version));
        }
        if !self.extensions.is_empty() {
            let list = self.extensions.join(", ");
            let value = HeaderValue::try_from(&list).map_err(|_| {
                ClientError::Request(format!("invalid extension URIs {list:?}: a header cannot hold them"))
            })?;
            headers.append(&protocol.extensions_header, value);
        }
        Ok(headers)
    }
}

/// The moment at which the wait for a call ends, if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Option<(Instant, Duration)>);

impl Deadline {
    /// Waits for a future, at most until the deadline.
    pub(super) async fn bound<T>(self, what: impl Future<Output = T>) -> Result<T, ClientError> {
        match self.0 {
            None => Ok(what.await),
            Some((at, wait)) => tokio::time::timeout_at(at, what).await.map_err(|_| ClientError::Deadline(wait)),
        }
    }
}
