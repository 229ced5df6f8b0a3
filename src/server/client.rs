//! Finds the address of the client for logs: the peer, or the address that a trusted proxy forwards.
//!
//! Nothing else uses a forwarded header.

use std::net::IpAddr;

use http::HeaderMap;

use crate::config::Network;

/// The header to which each proxy appends the address of its own peer.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Returns the address of the client: the first one, going back from the peer, that is not a trusted proxy.
pub(super) fn address(peer: IpAddr, headers: &HeaderMap, proxies: &[Network]) -> IpAddr {
    let trusted = |address: &IpAddr| proxies.iter().any(|network| network.contains(*address));
    let mut client = peer.to_canonical();
    let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok()).collect();
    let mut named = lines.iter().rev().flat_map(|line| line.rsplit(',')).map(str::trim);
    while trusted(&client) {
        // A trusted proxy writes only addresses, so nothing before another text can be trusted.
        match named.next().and_then(parse) {
            Some(address) => client = address,
            None => break,
        }
    }
    client
}

/// Parses an address with or without a port.
fn parse(text: &str) -> Option<IpAddr> {
    let address = text.parse().or_else(|_| text.parse().map(|socket: std::net::SocketAddr| socket.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str]) -> String {
        let proxies = ["127.0.0.1", "10.0.0.0/8"].map(|text| text.parse().unwrap());
        let name: http::HeaderName = FORWARDED_FOR.parse().unwrap();
        let headers = lines.iter().map(|line| (name.clone(), line.parse().unwrap())).collect();
        address(peer.parse().unwrap(), &headers, &proxies).to_string()
    }

    #[test]
    fn a_forwarded_address_counts_only_from_a_trusted_proxy() {
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), "192.0.2.1", "any client can send the header");
        assert_eq!(client("127.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("::ffff:127.0.0.1", &["[2001:db8::1]:443"]), "2001:db8::1");
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
    }

    #[test]
    fn an_address_that_the_client_wrote_is_ignored() {
        assert_eq!(client("127.0.0.1", &["1.1.1.1, 198.51.100.7, 10.0.0.9"]), "198.51.100.7");
        assert_eq!(client("127.0.0.1", &["1.1.1.1", "198.51.100.7"]), "198.51.100.7", "several lines are one list");
        assert_eq!(client("127.0.0.1", &["1.1.1.1, unknown, 10.0.0.9"]), "10.0.0.9");
        assert_eq!(client("127.0.0.1", &["10.0.0.1"]), "10.0.0.1");
    }
}
