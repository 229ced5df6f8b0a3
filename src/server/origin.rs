//! Requests that a web page makes: which origins may call at all.
//!
//! A browser sends a page's requests also to servers that have nothing to do with the page. CORS keeps the page from
//! reading the answers, but a request that needs no preflight has run by then. So a request of another origin is refused
//! before anything is done for it. What tells such a request from others are `Sec-Fetch-Site`, or `Origin` where a browser
//! sends only that; clients that are not browsers send neither.

use http::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use http::request::Parts;
use http::{Method, Uri};
use tricord_bindings::Error;
use tricord_bindings::error::kinds;

use super::cors::Origins;

const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";

/// The web origins whose pages may send requests.
#[derive(Debug, Clone, Default)]
pub(super) struct OriginPolicy {
    /// Those that are configured; `None` for no other than the server's own.
    allowed: Option<Origins>,
    /// The origin of the server's public URL, if it is configured.
    own: Option<String>,
}

impl OriginPolicy {
    /// Allows these origins, that of the public URL, and that of the `Host` of each request.
    pub(super) fn new(allowed: &[String], public_url: Option<&str>) -> Self {
        Self { allowed: Origins::new(allowed), own: public_url.and_then(origin_of) }
    }

    /// Checks where a request comes from. A link on any page may lead to this server, so navigation is not refused.
    ///
    /// # Errors
    /// [`kinds::PERMISSION_DENIED`].
    pub(super) fn check(&self, head: &Parts) -> Result<(), Error> {
        if self.is_allowed(head) {
            return Ok(());
        }
        let message = match head.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()) {
            Some(origin) => {
                let origin: String = origin.chars().take(200).collect();
                format!(
                    "pages of {origin} may not call this server: add the origin to server.cors_origins to allow them"
                )
            }
            None => "this request was made by a page of another site, which may not call this server".to_owned(),
        };
        Err(Error::new(&kinds::PERMISSION_DENIED, message))
    }

    fn is_allowed(&self, head: &Parts) -> bool {
        let mut origins = head.headers.get_all(ORIGIN).iter();
        let (origin, another) = (origins.next(), origins.next());
        if another.is_some() {
            return false;
        }
        if origin.is_some_and(|origin| self.allowed.as_ref().is_some_and(|allowed| allowed.allow(origin))) {
            return true;
        }
        match head.headers.get(FETCH_SITE).map(HeaderValue::as_bytes) {
            Some(b"same-origin" | b"none") => true,
            Some(_) => origin.is_none() && is_navigation(head),
            None => origin.is_none_or(|origin| self.is_own(origin, head)),
        }
    }

    /// Returns whether an origin is the server's: that of its public URL, or that of the host which the request names. A
    /// proxy in front may have spoken TLS, so the scheme is not compared with the connection's.
    fn is_own(&self, origin: &HeaderValue, head: &Parts) -> bool {
        let Some(origin) = origin.to_str().ok().and_then(origin_of) else { return false };
        if self.own.as_ref() == Some(&origin) {
            return true;
        }
        let Some((scheme, _)) = origin.split_once("://") else { return false };
        let host = host(&head.uri, &head.headers);
        host.and_then(|host| origin_of(&format!("{scheme}://{host}"))).is_some_and(|own| own == origin)
    }
}

fn is_navigation(head: &Parts) -> bool {
    let mode = head.headers.get(FETCH_MODE).map(HeaderValue::as_bytes);
    matches!(head.method, Method::GET | Method::HEAD) && mode == Some(b"navigate")
}

/// Returns the host and port that a request names.
fn host<'h>(uri: &'h Uri, headers: &'h HeaderMap) -> Option<&'h str> {
    let header = || headers.get(HOST)?.to_str().ok();
    uri.authority().map(http::uri::Authority::as_str).or_else(header)
}

/// Returns the origin of an http or https URL in the form in which browsers write it: in lower case, without the scheme's
/// own port.
fn origin_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let host = authority.host().to_ascii_lowercase();
    Some(match (scheme, authority.port_u16()) {
        ("http" | "https", None) | ("http", Some(80)) | ("https", Some(443)) => format!("{scheme}://{host}"),
        ("http" | "https", Some(port)) => format!("{scheme}://{host}:{port}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "https://app.example";

    fn allows(policy: &OriginPolicy, method: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = http::Request::builder().method(method).uri("/tasks/x:cancel");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        policy.check(&request.body(()).unwrap().into_parts().0).is_ok()
    }

    #[test]
    fn clients_that_are_not_browsers_are_not_refused() {
        let policy = OriginPolicy::new(&[], None);
        assert!(allows(&policy, "POST", &[("host", "localhost:8080")]));
        assert!(allows(&policy, "POST", &[("host", "localhost:8080"), (FETCH_MODE, "cors")]), "as Node's fetch does");
    }

    #[test]
    fn pages_of_the_server_itself_may_call() {
        let policy = OriginPolicy::new(&[], Some("https://Agents.example.com:443/x"));
        for (host, origin) in [
            ("localhost:8080", "http://localhost:8080"),
            ("agents.internal", "https://agents.internal"),
            ("agents.internal:443", "https://agents.internal"),
            ("backend:8080", "https://agents.example.com"),
        ] {
            assert!(allows(&policy, "POST", &[("host", host), ("origin", origin)]), "{host} {origin}");
        }
        assert!(allows(&policy, "POST", &[("host", "backend"), ("origin", APP), (FETCH_SITE, "same-origin")]));
        assert!(allows(&policy, "GET", &[("host", "backend"), (FETCH_SITE, "none"), (FETCH_MODE, "navigate")]));
    }

    #[test]
    fn pages_of_other_origins_may_call_only_if_they_are_listed() {
        let policy = OriginPolicy::new(&[APP.to_owned()], None);
        for site in [None, Some("cross-site"), Some("same-site")] {
            let site = site.map(|site| (FETCH_SITE, site));
            let call = |method, origin: Option<&'static str>| {
                let headers = [Some(("host", "a.example:8080")), origin.map(|origin| ("origin", origin)), site];
                allows(&policy, method, &headers.into_iter().flatten().collect::<Vec<_>>())
            };
            for method in ["POST", "GET", "DELETE", "OPTIONS"] {
                assert!(call(method, Some(APP)), "{method} {site:?}");
                for other in ["https://other.example", "null", "http://a.example", "http://a.example:80801", "x", ""] {
                    assert!(!call(method, Some(other)), "{method} {other:?} {site:?}");
                }
                assert_eq!(call(method, None), site.is_none(), "{method} {site:?}");
            }
        }
        assert!(!allows(&policy, "POST", &[("origin", APP), ("origin", "https://other.example")]));
        assert!(allows(&OriginPolicy::new(&["*".to_owned()], None), "POST", &[("origin", "null")]));
    }

    #[test]
    fn a_link_on_another_site_may_lead_here() {
        let policy = OriginPolicy::new(&[], None);
        let link = [(FETCH_SITE, "cross-site"), (FETCH_MODE, "navigate")];
        assert!(allows(&policy, "GET", &link));
        assert!(!allows(&policy, "POST", &link), "a form is no link");
        assert!(!allows(&policy, "GET", &[(FETCH_SITE, "cross-site"), (FETCH_MODE, "no-cors")]));
    }
}
