//! Values that TOML has no type for: durations, sizes, secrets, networks and addresses.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// A secret value. Its `Debug` output is `Secret(…)`; configurations write it as `env:NAME` or `file:PATH`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the value itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Reads `env:NAME` or `file:PATH`. A newline at the end of a file is not part of the secret. Returns `None` if the
    /// text is neither.
    pub(crate) fn resolve(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<Result<Self, String>> {
        if let Some(name) = text.strip_prefix("env:") {
            return Some(env(name).map(Self).ok_or_else(|| format!("the environment variable {name} is not set")));
        }
        let path = text.strip_prefix("file:")?;
        Some(match std::fs::read_to_string(Path::new(path)) {
            Ok(text) => Ok(Self(text.strip_suffix('\n').map(|t| t.trim_end_matches('\r')).unwrap_or(&text).to_owned())),
            Err(error) => Err(format!("the file {path} cannot be read: {error}")),
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A network or a single address, such as `10.0.0.0/8` or `::1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// The length of the network prefix in bits.
    bits: u32,
}

impl Network {
    /// Returns whether the network contains the address. An IPv4-mapped IPv6 address counts as the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let masked = |value: u128, width: u32| if self.bits == 0 { 0 } else { value >> (width - self.bits) };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                masked(network.to_bits().into(), 32) == masked(address.to_bits().into(), 32)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                masked(network.to_bits(), 128) == masked(address.to_bits(), 128)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a network: write \"10.0.0.0/8\", \"192.0.2.1\" or \"fd00::/8\"");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
        Ok(Self { address, bits })
    }
}

/// Reads a duration: a whole number and a unit (`250ms`, `4s`, `10m`, `1h`, `30d`), or `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration: write a whole number and ms, s, m, h or d, such as \"30s\"");
    let (number, unit) = split(text);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if number == 0 => 1,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(unit_ms)
        // Longer durations are typing errors, and would overflow sums of times.
        .filter(|ms| *ms <= 36_525 * 86_400_000)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is longer than 100 years"))
}

/// Reads a size: a whole number and a unit (`B`, `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`).
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size: write a whole number and B, KiB, MiB or GiB, such as \"64MiB\"");
    let (number, unit) = split(text);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor: u64 = match unit {
        "B" | "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is too large"))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..at], text[at..].trim_start())
}

/// Reads `address:port`; `localhost` is 127.0.0.1.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let with_name = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    with_name.as_deref().unwrap_or(text).parse().map_err(|_| {
        format!("{text:?} is not an address with a port: write \"127.0.0.1:8080\", \"0.0.0.0:8080\" or \"[::]:8080\"")
    })
}

/// Reads an `http` or `https` URL without changing it.
pub(crate) fn url(text: &str) -> Result<String, String> {
    let uri = text.parse::<http::Uri>().ok();
    match uri.as_ref().and_then(http::Uri::scheme_str) {
        Some("http" | "https") => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not an http or https URL: write it like \"https://example.com/about\"")),
    }
}

/// Reads the `http` or `https` URL of a server and removes trailing slashes.
pub(crate) fn base_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("{text:?} {why}, such as \"https://agents.example.com\"");
    let uri: http::Uri = text.parse().map_err(|_| wrong("is not a URL: write one"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(wrong("needs http:// or https:// and a host"));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(wrong("has a query or a fragment: remove it"));
    }
    if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
        return Err(wrong("contains credentials, which every reader of a card would see: remove them"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "4", "s", "-1s", "1.5s", "4 weeks", "99999999999999999999s", "40000d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_numbers_with_units() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1500"), Ok(1500));
        assert_eq!(size("2 kB"), Ok(2000));
        for wrong in ["", "MiB", "64mib", "-1B", "18446744073709551615GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        let holds =
            |network: &str, address: &str| network.parse::<Network>().unwrap().contains(address.parse().unwrap());
        assert!(holds("10.0.0.0/8", "10.200.1.1") && holds("10.0.0.0/8", "::ffff:10.1.1.1") && holds("::1", "::1"));
        assert!(holds("0.0.0.0/0", "192.0.2.1") && holds("fd00::/8", "fdff::1") && holds("192.0.2.1", "192.0.2.1"));
        assert!(!holds("10.0.0.0/8", "11.0.0.1") && !holds("0.0.0.0/0", "::1") && !holds("192.0.2.1", "192.0.2.2"));
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::/129", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn debug_output_hides_secrets() {
        let secret = Secret::resolve("env:KEY", &|_| Some("hunter2".into())).unwrap().unwrap();
        assert_eq!(secret.reveal(), "hunter2");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert!(Secret::resolve("env:KEY", &|_| None).unwrap().unwrap_err().contains("KEY is not set"));
        assert!(Secret::resolve("hunter2", &|_| None).is_none());
    }

    #[test]
    fn trailing_slashes_of_urls_are_removed() {
        assert_eq!(base_url("https://a.example/").as_deref(), Ok("https://a.example"));
        assert_eq!(base_url("http://[::1]:8080/x").as_deref(), Ok("http://[::1]:8080/x"));
        for wrong in
            ["a.example", "ftp://a.example", "https://", "https://a/?q", "https://u:p@a.example", "http://a/#f"]
        {
            assert!(base_url(wrong).is_err(), "{wrong}");
        }
    }
}
