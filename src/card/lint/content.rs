//! Checks the values in a card: URLs, versions, media types, ids and references.

use std::collections::HashMap;

use http::Uri;
use serde_json::Value;
use tricord_bindings::{Binding, media_type};

use super::{Findings, member};
use crate::card::verify::Header;
use crate::protocol::{BINDING_NAMES, binding_of};
use crate::schema::AgentCardSignature;

pub(super) fn check(card: &Value, findings: &mut Findings) {
    interfaces(&card["supportedInterfaces"], findings);
    skills(&card["skills"], findings);
    for modes in ["defaultInputModes", "defaultOutputModes"] {
        media_types(&card[modes], modes, findings);
    }
    for (path, link) in [
        ("iconUrl", &card["iconUrl"]),
        ("documentationUrl", &card["documentationUrl"]),
        ("provider.url", &card["provider"]["url"]),
    ] {
        if let Some(link) = text(link)
            && web(link).is_none()
        {
            findings.error(path, "is not an absolute http or https URL");
        }
    }
    extensions(&card["capabilities"]["extensions"], findings);
    requirements(&card["securityRequirements"], "securityRequirements", &card["securitySchemes"], findings);
    for (at, skill) in items(&card["skills"]) {
        let path = format!("skills[{at}].securityRequirements");
        requirements(&skill["securityRequirements"], &path, &card["securitySchemes"], findings);
    }
    for (at, signature) in items(&card["signatures"]) {
        let part = |name: &str| signature[name].as_str().unwrap_or_default().to_owned();
        let signature = AgentCardSignature { protected: part("protected"), signature: part("signature"), header: None };
        if let Err(error) = Header::read(&signature) {
            findings.error(format!("signatures[{at}]"), error.to_string());
        }
    }
}

/// Returns the items of a list with their indexes.
fn items(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

/// Returns a string that is not empty. The check of the card's shape reports missing and empty ones.
fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// Parses an absolute `http` or `https` URL.
fn web(url: &str) -> Option<Uri> {
    let uri: Uri = url.parse().ok()?;
    let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    (scheme && uri.host().is_some_and(|host| !host.is_empty())).then_some(uri)
}

fn interfaces(interfaces: &Value, findings: &mut Findings) {
    let mut seen: Vec<&Value> = Vec::new();
    let mut usable = false;
    for (at, interface) in items(interfaces) {
        let path = format!("supportedInterfaces[{at}]");
        if let Some(first) = seen.iter().position(|other| *other == interface) {
            findings.warning(&path, format!("is the same as supportedInterfaces[{first}]"));
        }
        seen.push(interface);
        let binding = text(&interface["protocolBinding"]).unwrap_or_default();
        let url_path = member(&path, "url");
        match (binding_of(binding), text(&interface["url"])) {
            (Some(Binding::Grpc), Some(url)) => grpc_target(url, &url_path, findings),
            (Some(Binding::JsonRpc | Binding::HttpJson), Some(url)) => web_target(url, &url_path, findings),
            (Some(_), None) => {}
            (None, _) if binding.is_empty() || binding.contains(':') => {}
            (None, _) => findings.warning(
                member(&path, "protocolBinding"),
                format!("is not {BINDING_NAMES}; use a URI to name a custom binding"),
            ),
        }
        if let Some(version) = text(&interface["protocolVersion"]) {
            usable |= version.split('.').next() == Some("1");
            protocol_version(version, &member(&path, "protocolVersion"), findings);
        } else {
            usable = true;
        }
    }
    if !usable && interfaces.as_array().is_some_and(|list| !list.is_empty()) {
        findings
            .error("supportedInterfaces", "has no interface of version 1, so A2A 1.0 clients cannot call this agent");
    }
}

fn protocol_version(version: &str, path: &str, findings: &mut Findings) {
    let numbers: Vec<_> = version.split('.').collect();
    let all_numbers = numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    match numbers.as_slice() {
        [_, _] if all_numbers => {}
        [major, minor, _] if all_numbers => {
            findings.warning(path, format!("has a patch number; write {major}.{minor}"));
        }
        _ => findings.error(path, format!("{version:?} is not a version; write it as MAJOR.MINOR, for example 1.0")),
    }
}

fn web_target(url: &str, path: &str, findings: &mut Findings) {
    let Some(uri) = web(url) else { return findings.error(path, "is not an absolute http or https URL") };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        findings.error(path, "contains credentials, and a card is public");
    }
    if uri.query().is_some() || url.contains('#') {
        findings.error(path, "has a query or a fragment, so clients cannot append paths to it");
    } else if url.ends_with('/') {
        findings.warning(path, "ends with a slash; clients append paths that begin with one");
    }
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if uri.scheme_str() == Some("http") && !here {
        findings.warning(path, "does not use TLS");
    }
}

fn grpc_target(url: &str, path: &str, findings: &mut Findings) {
    if url.contains("://") {
        return findings.warning(path, "has a scheme; write a gRPC target as host:port");
    }
    if url.contains('/') {
        return findings.error(path, "has a path; write a gRPC target as host:port");
    }
    let port = url.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none_or(|port| port == 0) {
        findings.error(path, "has no port; write a gRPC target as host:port");
    }
}

fn skills(skills: &Value, findings: &mut Findings) {
    let mut ids: HashMap<&str, usize> = HashMap::new();
    for (at, skill) in items(skills) {
        let path = format!("skills[{at}]");
        if let Some(id) = text(&skill["id"])
            && let Some(first) = ids.insert(id, at)
        {
            findings.error(member(&path, "id"), format!("is also the id of skills[{first}]"));
        }
        for modes in ["inputModes", "outputModes"] {
            media_types(&skill[modes], &member(&path, modes), findings);
        }
    }
}

fn media_types(modes: &Value, path: &str, findings: &mut Findings) {
    let mut seen = Vec::new();
    for (at, mode) in items(modes) {
        let Some(mode) = mode.as_str() else { continue };
        let path = format!("{path}[{at}]");
        match media_type::parse(mode) {
            None => findings.error(path, format!("{mode:?} is not a media type")),
            Some(essence) if seen.contains(&essence) && !mode.contains(';') => {
                findings.warning(path, "is listed twice");
            }
            Some(essence) => seen.push(essence),
        }
    }
}

fn extensions(extensions: &Value, findings: &mut Findings) {
    let mut seen = Vec::new();
    for (at, extension) in items(extensions) {
        let path = format!("capabilities.extensions[{at}].uri");
        match text(&extension["uri"]) {
            None => findings.error(path, "is empty"),
            Some(uri) if seen.contains(&uri) => findings.warning(path, "is listed twice"),
            Some(uri) => seen.push(uri),
        }
    }
}

fn requirements(requirements: &Value, path: &str, schemes: &Value, findings: &mut Findings) {
    for (at, requirement) in items(requirements) {
        for name in requirement["schemes"].as_object().into_iter().flat_map(|schemes| schemes.keys()) {
            if schemes.get(name).is_none() {
                findings.error(format!("{path}[{at}].schemes.{name}"), "is not in securitySchemes");
            }
        }
    }
}
