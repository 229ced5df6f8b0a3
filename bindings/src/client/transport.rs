//! Pooled HTTP/1.1 and HTTP/2 connections, with and without TLS.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::options::Deadline;
use super::{ClientError, MAX_ANSWER};

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The idle time after which a connection is probed.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(30);

/// Makes HTTP requests over pooled connections. Cheap to clone. For `https` it trusts the certificates of the operating
/// system, or those that `SSL_CERT_FILE` names.
#[derive(Clone)]
pub struct HttpClient {
    web: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl HttpClient {
    /// Creates a client. It opens connections when it needs them.
    pub fn new() -> Self {
        let connector = connector(false);
        let web = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Self { web }
    }

    /// Reads a document and returns its bytes and media type.
    ///
    /// # Errors
    /// When no answer comes in time, or its status is not 200.
    pub async fn get(&self, url: &str, headers: HeaderMap, wait: Option<Duration>) -> Result<Bytes, ClientError> {
        let options = super::CallOptions::new();
        let deadline = wait.map_or(options.clone(), |wait| options.timeout(wait)).deadline();
        let mut request =
            Request::get(uri(url)?).body(Bytes::new()).map_err(|e| ClientError::Request(e.to_string()))?;
        request.headers_mut().extend(headers);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let (parts, body) = self.whole(request, deadline).await?;
        match parts.status {
            StatusCode::OK => Ok(body),
            status => {
                let mut error = super::ServerError::new(super::Code::Http(status.as_u16()), format!("{url}: {status}"));
                error.read_retry_after(retry_after(&parts.headers));
                Err(error.into())
            }
        }
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn whole(
        &self,
        request: Request<Bytes>,
        deadline: Deadline,
    ) -> Result<(http::response::Parts, Bytes), ClientError> {
        let (parts, body) = self.open(request, deadline).await?.into_parts();
        let body = deadline.bound(collect(body)).await??;
        Ok((parts, body))
    }

    /// Sends a request and returns the answer, with its body not read yet.
    pub(super) async fn open(
        &self,
        request: Request<Bytes>,
        deadline: Deadline,
    ) -> Result<Response<Incoming>, ClientError> {
        let url = origin(request.uri());
        let response =
            deadline.bound(self.web.request(request.map(Full::new))).await?.map_err(|e| send_error(&url, &e))?;
        if response.status().is_redirection() && response.status() != StatusCode::NOT_MODIFIED {
            let to = response.headers().get(LOCATION).and_then(|l| l.to_str().ok()).unwrap_or("nowhere");
            let status = response.status().as_u16();
            return Err(ClientError::BadAnswer(format!(
                "{url} answered {status}, a redirect to {to}; redirects are not followed: use that URL if you trust it"
            )));
        }
        Ok(response)
    }
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new()
    }
}

/// Creates a connector for `http` and `https`.
pub(super) fn connector(http2_only: bool) -> HttpsConnector<HttpConnector> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    // Ends a stream whose server has vanished without closing the connection.
    http.set_keepalive(Some(KEEPALIVE));
    let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls()).https_or_http();
    if http2_only {
        builder.enable_http2().wrap_connector(http)
    } else {
        builder.enable_all_versions().wrap_connector(http)
    }
}

fn tls() -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    // Certificates that cannot be read are left out. A server that needs one of them fails with its own error.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has suites for TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Reads a body to its end, at most [`MAX_ANSWER`] bytes.
pub(super) async fn collect(mut body: Incoming) -> Result<Bytes, ClientError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|e| ClientError::Broken(root_cause(&e)))?.into_data() else { continue };
        if first.len() + rest.len() + data.len() > MAX_ANSWER {
            return Err(ClientError::BadAnswer(format!("the answer is larger than {MAX_ANSWER} bytes")));
        }
        match first.is_empty() {
            // Most answers are one frame, which needs no copy.
            true if body.is_end_stream() => return Ok(data),
            true => first = data,
            false => rest.extend_from_slice(&data),
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    Ok([first, rest.freeze()].concat().into())
}

/// Parses an `http` or `https` URL.
pub(super) fn uri(url: &str) -> Result<Uri, ClientError> {
    let wrong = || ClientError::Request(format!("{url:?} is not an http or https URL"));
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(wrong()),
    }
}

/// Builds a request with a JSON body.
pub(super) fn json_request(
    method: Method,
    url: &str,
    headers: HeaderMap,
    body: Option<(&'static str, Vec<u8>)>,
) -> Result<Request<Bytes>, ClientError> {
    let (mut parts, ()): (Parts, ()) = Request::new(()).into_parts();
    parts.method = method;
    parts.uri = uri(url)?;
    parts.headers = headers;
    let body = match body {
        Some((media_type, body)) => {
            parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            Bytes::from(body)
        }
        None => Bytes::new(),
    };
    Ok(Request::from_parts(parts, body))
}

/// Returns the media type of an answer, without parameters and in lower case.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    crate::media_type::normalize(value)
}

/// Returns the `Retry-After` header of an answer.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<&str> {
    headers.get(RETRY_AFTER)?.to_str().ok()
}

/// Converts the error of a request that got no answer.
fn send_error(url: &str, error: &hyper_util::client::legacy::Error) -> ClientError {
    let why = root_cause(error);
    if error.is_connect() { ClientError::Unreachable { url: url.to_owned(), why } } else { ClientError::Broken(why) }
}

/// Converts the error of a request that got no answer, where another layer has wrapped it.
pub(super) fn wrapped_send_error(url: &str, error: &(dyn StdError + 'static)) -> ClientError {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return send_error(url, error);
        }
        next = error.source();
    }
    ClientError::Broken(root_cause(error))
}

/// Returns the text of the innermost error: "Connection refused" instead of "client error (Connect)".
pub(super) fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    let text = last.to_string();
    // Drops the number in "Connection refused (os error 111)".
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Returns scheme, host and port, for error messages.
pub(super) fn origin(uri: &Uri) -> String {
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    // Leaves out the credentials that a URL may contain.
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!("{}://{host}", uri.scheme_str().unwrap_or("http"))
}

/// Returns the beginning of a body, for error messages.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().to_owned()
}
