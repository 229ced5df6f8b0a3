//! Cross-origin requests: which web pages may call.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use http::{Method, Response, StatusCode};
use tricord_bindings::Body;

/// Headers of answers that a page may read beside the plain ones.
const EXPOSED: &str = "a2a-version, a2a-extensions, etag, retry-after, www-authenticate, grpc-status, grpc-message, \
                       grpc-status-details-bin";

/// The origins whose pages may call.
#[derive(Debug, Clone, Default)]
pub(super) struct Cors {
    any: bool,
    origins: Vec<HeaderValue>,
}

impl Cors {
    /// Allows these origins; `*` allows all. What cannot be an origin is passed over.
    pub(super) fn new(origins: &[String]) -> Self {
        let any = origins.iter().any(|origin| origin == "*");
        Self { any, origins: origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect() }
    }

    fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        match self.any {
            true => Some(HeaderValue::from_static("*")),
            false => self.origins.contains(origin).then(|| origin.clone()),
        }
    }

    /// What to add to the answer of this request. Nothing is looked at where no origin is allowed.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<Grant> {
        if !self.any && self.origins.is_empty() {
            return None;
        }
        self.allowed(headers).map(|origin| Grant { origin, varies: !self.any })
    }

    /// The answer to a question before the request, if it is one.
    pub(super) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
        if method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let grant = self.of(headers)?;
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

/// An origin that may read an answer.
pub(super) struct Grant {
    origin: HeaderValue,
    varies: bool,
}

impl Grant {
    pub(super) fn add(self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        if self.varies {
            headers.append(VARY, HeaderValue::from_static("origin"));
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
        let cors = Cors::new(&["https://app.example".to_owned()]);
        let answer = cors.preflight(&Method::OPTIONS, &headers("https://app.example")).unwrap();
        assert_eq!(answer.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
        assert_eq!(answer.headers()[ACCESS_CONTROL_ALLOW_HEADERS], "a2a-version, content-type");
        assert_eq!(answer.headers()[VARY], "origin");
        assert!(cors.preflight(&Method::OPTIONS, &headers("https://other.example")).is_none());
        assert!(Cors::new(&[]).of(&headers("https://app.example")).is_none());
        assert!(Cors::new(&["*".to_owned()]).of(&headers("https://any.example")).is_some());
    }
}
