//! Cross-origin requests: which web pages may call.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use http::{Method, Response, StatusCode};
use tricord_bindings::Body;

/// Headers of answers that a page may read beside the plain ones.
const EXPOSED: &str = "a2a-version, a2a-extensions, allow, content-length, date, etag, last-modified, retry-after, \
                       www-authenticate, grpc-status, grpc-message, grpc-status-details-bin, grpc-encoding";

/// The origins whose pages may call.
#[derive(Debug, Clone, Default)]
pub(super) struct Cors {
    any: bool,
    origins: Vec<HeaderValue>,
    credentials: bool,
}

impl Cors {
    /// Allows these origins; `*` allows all, and never with credentials. What cannot be an origin is passed over.
    pub(super) fn new(origins: &[String], credentials: bool) -> Self {
        let any = origins.iter().any(|origin| origin == "*");
        let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
        Self { any, origins, credentials: credentials && !any }
    }

    /// What to add to the answer of this request. Nothing is looked at where no origin is allowed.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<Grant> {
        if !self.any && self.origins.is_empty() {
            return None;
        }
        let origin = match headers.get(ORIGIN) {
            Some(_) if self.any => Some(HeaderValue::from_static("*")),
            origin => origin.filter(|origin| self.origins.contains(origin)).cloned(),
        };
        Some(Grant { origin, varies: !self.any, credentials: self.credentials })
    }

    /// The answer to a question before the request, if it is one.
    pub(super) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
        if method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let grant = self.of(headers).filter(|grant| grant.origin.is_some())?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let answer = response.headers_mut();
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, DELETE"));
        answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        if let Some(asked) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
        }
        grant.add(&mut response);
        Some(response)
    }
}

/// Who may read an answer.
pub(super) struct Grant {
    /// The origin that asks, if it may.
    origin: Option<HeaderValue>,
    /// Whether another origin would be told otherwise, which caches have to know even where this one may not.
    varies: bool,
    credentials: bool,
}

impl Grant {
    pub(super) fn add(self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        if self.varies {
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        let Some(origin) = self.origin else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        if self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(origin: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ORIGIN, origin.parse().unwrap());
        headers.insert(ACCESS_CONTROL_REQUEST_METHOD, "POST".parse().unwrap());
        headers.insert(ACCESS_CONTROL_REQUEST_HEADERS, "a2a-version, content-type".parse().unwrap());
        headers
    }

    #[test]
    fn a_page_of_an_allowed_origin_may_ask_and_another_may_not() {
        let cors = Cors::new(&["https://app.example".to_owned()], false);
        let answer = cors.preflight(&Method::OPTIONS, &headers("https://app.example")).unwrap();
        assert_eq!(answer.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
        assert_eq!(answer.headers()[ACCESS_CONTROL_ALLOW_HEADERS], "a2a-version, content-type");
        assert_eq!(answer.headers()[VARY], "origin");
        assert!(answer.headers().get(ACCESS_CONTROL_ALLOW_CREDENTIALS).is_none());
        assert!(cors.preflight(&Method::OPTIONS, &headers("https://other.example")).is_none());
        let granted = |cors: &Cors, origin: &str| {
            let mut response = Response::new(Body::empty());
            cors.of(&headers(origin)).into_iter().for_each(|grant| grant.add(&mut response));
            response
        };
        let other = granted(&cors, "https://other.example");
        assert!(other.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN).is_none());
        assert_eq!(other.headers()[VARY], "origin", "a cache must not give this answer to the page that may");
        assert!(granted(&Cors::new(&[], false), "https://app.example").headers().is_empty());
        assert_eq!(
            granted(&Cors::new(&["*".to_owned()], false), "https://x.example").headers()[ACCESS_CONTROL_ALLOW_ORIGIN],
            "*"
        );
    }

    #[test]
    fn credentials_are_for_named_origins_only() {
        let allows = |origin: &str| {
            let cors = Cors::new(&[origin.to_owned()], true);
            let answer = cors.preflight(&Method::OPTIONS, &headers("https://app.example")).unwrap();
            answer.headers().get(ACCESS_CONTROL_ALLOW_CREDENTIALS).is_some()
        };
        assert!(allows("https://app.example"));
        assert!(!allows("*"));
    }
}
