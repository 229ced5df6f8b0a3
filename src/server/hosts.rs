//! The host names that a server answers to.
//!
//! A web page can make a browser send requests to a server on the same machine by pointing a name of its own at a loopback
//! address (DNS rebinding). To the browser that server then has the page's origin. What the page cannot choose is the
//! `Host` of these requests: it is the page's name. So a server that listens on a loopback address answers only to the
//! names of loopback addresses and to those that are configured.

use std::net::{IpAddr, SocketAddr};

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use tonic::Code;
use tricord_bindings::error::kinds;
use tricord_bindings::{Error, Kind};

/// A request for a host that the server does not answer to (RFC 9110, section 15.5.20).
static MISDIRECTED: Kind =
    Kind { jsonrpc_keeps_http_status: true, ..Kind::new("MISDIRECTED_REQUEST", -32600, Code::FailedPrecondition, 421) };

/// The host names that a server answers to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    /// The names beside those of loopback addresses, without the dot of the root; `None` for every name.
    names: Option<Vec<String>>,
}

impl Hosts {
    /// Answers to every name.
    pub(crate) fn any() -> Self {
        Self { names: None }
    }

    /// Returns the names of a server that listens on this address, with these configured names and this public URL. A
    /// name `*` stands for all.
    pub(crate) fn of(listen: SocketAddr, configured: &[String], public_url: Option<&str>) -> Self {
        if !listen.ip().is_loopback() || configured.iter().any(|name| name == "*") {
            return Self::any();
        }
        let public = public_url.and_then(|url| url.parse::<http::Uri>().ok());
        let public = public.as_ref().and_then(http::Uri::host);
        let names = configured.iter().map(String::as_str).chain(public);
        Self { names: Some(names.map(|name| without_root(name).to_owned()).collect()) }
    }

    /// Checks the host that a request names. One without a host, which HTTP/1.0 and HTTP/2 allow, names none to refuse.
    ///
    /// # Errors
    /// [`kinds::INVALID_REQUEST`] with several hosts (RFC 9112, section 3.2), and `MISDIRECTED_REQUEST`, HTTP status 421.
    pub(crate) fn check(&self, head: &Parts) -> Result<(), Error> {
        let mut hosts = head.headers.get_all(HOST).iter();
        let (host, another) = (hosts.next(), hosts.next());
        if another.is_some() {
            return Err(Error::new(&kinds::INVALID_REQUEST, "the request has more than one Host"));
        }
        let Some(names) = &self.names else { return Ok(()) };
        let answers = |host: &str| {
            let host = without_root(host);
            is_loopback(host) || names.iter().any(|name| name.eq_ignore_ascii_case(host))
        };
        // A target in absolute form replaces the header (RFC 9112, section 3.2.2), but both are there to be seen.
        let header = host.map(|host| host.to_str().ok()?.parse::<Authority>().ok());
        for authority in header.into_iter().chain(head.uri.authority().cloned().map(Some)) {
            let Some(authority) = authority else { return Err(misdirected("that cannot be read")) };
            if !answers(authority.host()) {
                return Err(misdirected(authority.host()));
            }
        }
        Ok(())
    }
}

fn misdirected(host: &str) -> Error {
    let host: String = host.chars().take(100).collect();
    let message = format!(
        "this server does not answer to the host {host}: it listens on a loopback address; set server.public_url or \
         server.hosts to answer to another name"
    );
    Error::new(&MISDIRECTED, message)
}

/// Returns whether a host is a loopback address or one of its names (RFC 6761, section 6.3).
fn is_loopback(host: &str) -> bool {
    let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    match address {
        Some(address) => address.to_canonical().is_loopback(),
        None => host.rsplit('.').next().is_some_and(|label| label.eq_ignore_ascii_case("localhost")),
    }
}

/// Returns a name without the dot of the root.
fn without_root(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(hosts: &Hosts, host: &str) -> u16 {
        let request = http::Request::builder().uri("/").header(HOST, host).body(()).unwrap();
        hosts.check(&request.into_parts().0).map_or_else(|error| error.kind().http, |()| 200)
    }

    #[test]
    fn a_loopback_listener_answers_to_loopback_and_configured_names_only() {
        let configured = ["Agents.internal".to_owned(), "192.0.2.7".to_owned()];
        let hosts = Hosts::of(([127, 0, 0, 1], 80).into(), &configured, Some("https://agents.example.com/x"));
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "localhost.",
            "kit.localhost:1",
            "127.0.0.1:8080",
            "127.8.9.1",
            "[::1]:8080",
            "agents.internal:99",
            "192.0.2.7",
            "agents.example.com",
        ] {
            assert_eq!(status(&hosts, host), 200, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.8", "a b", "[::2]"] {
            assert_eq!(status(&hosts, host), 421, "{host}");
        }
    }

    #[test]
    fn a_request_names_one_host_at_most() {
        let of = |hosts: &[&str]| {
            let request =
                hosts.iter().fold(http::Request::builder().uri("/"), |request, host| request.header(HOST, *host));
            let head = request.body(()).unwrap().into_parts().0;
            Hosts::any().check(&head).map_or_else(|error| error.kind().http, |()| 200)
        };
        assert_eq!([of(&[]), of(&["a"]), of(&["a", "a"])], [200, 200, 400]);
    }

    #[test]
    fn other_listeners_and_the_star_answer_to_every_name() {
        for hosts in [
            Hosts::of(([0, 0, 0, 0], 80).into(), &[], None),
            Hosts::of(([127, 0, 0, 1], 80).into(), &["*".to_owned()], None),
            Hosts::any(),
        ] {
            assert_eq!(status(&hosts, "evil.example"), 200, "{hosts:?}");
        }
    }
}
