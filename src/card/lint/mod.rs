//! Finds mistakes in any agent card, so that its author sees them before clients do.

mod content;
mod shape;

use std::fmt;

use serde_json::Value;
use tricord_bindings::proto_json;

use crate::schema::AgentCard;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The protocol forbids it, or clients cannot use the card.
    Error,
    /// It is allowed, but it is probably a mistake or some clients do not handle it.
    Warning,
}

/// A mistake in a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The path of the value, such as `skills[0].id`; empty for the card as a whole.
    pub path: String,
    /// What is wrong, as a phrase that follows the path.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::Error => "error: ",
            Level::Warning => "warning: ",
        })?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.text)
    }
}

/// Returns all findings in the JSON of a card, errors first.
pub fn lint(json: &[u8]) -> Vec<Finding> {
    let mut findings = Findings::default();
    match serde_json::from_slice::<Value>(json) {
        Ok(card) if card.is_object() => {
            shape::check(&card, &mut findings);
            content::check(&card, &mut findings);
            if !findings.0.iter().any(|finding| finding.level == Level::Error)
                && let Err(error) = proto_json::decode::<AgentCard>(json)
            {
                // Only the strict reader notices some mistakes, such as a key that is given twice.
                findings.error("", error.to_string());
            }
        }
        Ok(_) => findings.error("", "is JSON but not an object"),
        Err(error) => findings.error("", format!("is not JSON: {error}")),
    }
    let mut findings = findings.0;
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// The findings so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn error(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push(Finding { level: Level::Error, path: path.into(), text: text.into() });
    }

    fn warning(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push(Finding { level: Level::Warning, path: path.into(), text: text.into() });
    }
}

/// Returns the path of a member.
fn member(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns the JSON type of a value as a phrase.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({
            "name": "Support", "description": "Answers", "version": "1.2.0",
            "supportedInterfaces": [
                {"url": "https://a.example/v1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": "a.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
                {"url": "https://a.example/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "tenant": "x"},
                {"url": "wss://a.example", "protocolBinding": "https://example.com/websocket", "protocolVersion": "1.0"},
            ],
            "capabilities": {"streaming": true},
            "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
            "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
            "defaultInputModes": ["text/plain", "image/*"], "defaultOutputModes": ["application/a2a+json; x=1"],
            "skills": [{"id": "a", "name": "A", "description": "Does", "tags": ["t"]}],
            "signatures": [{"protected": "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsiLCJ0eXAiOiJKT1NFIn0", "signature": "AA"}],
        })
    }

    fn found(card: &Value) -> Vec<String> {
        lint(&serde_json::to_vec(card).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_card_has_no_findings() {
        assert_eq!(found(&good()), Vec::<String>::new());
    }

    /// Each case makes one change to a good card and expects one finding.
    #[test]
    fn each_mistake_is_reported_at_its_path() {
        let cases: &[(&str, Value, &str)] = &[
            ("/name", json!(null), "error: name: is missing"),
            ("/name", json!(""), "error: name: is empty"),
            ("/name", json!(5), "error: name: must be a string, not a number"),
            ("/capabilities", json!([]), "error: capabilities: must be an object, not a list"),
            (
                "/capabilities/streaming",
                json!("yes"),
                "error: capabilities.streaming: must be true or false, not a string",
            ),
            ("/colour", json!("red"), "warning: colour: is not a field of a card"),
            ("/protocolVersion", json!("0.3.0"), "warning: protocolVersion: is a field of A2A 0.3"),
            ("/skills/0/tag", json!([]), "warning: skills[0].tag: is not a field of a skill; did you mean `tags`?"),
            (
                "/icon_url",
                json!("https://a.example/i.svg"),
                "warning: icon_url: is not read by all clients; write `iconUrl`",
            ),
            ("/iconUrl", json!("/icon.svg"), "error: iconUrl: is not an absolute http or https URL"),
            ("/skills", json!([]), "error: skills: is empty; at least one is required"),
            ("/skills/0/tags", json!([]), "error: skills[0].tags: is empty; at least one is required"),
            (
                "/skills/1",
                json!({"id": "a", "name": "B", "description": "B", "tags": ["t"]}),
                "error: skills[1].id: is also the id of skills[0]",
            ),
            ("/skills/0/inputModes", json!(["text"]), "error: skills[0].inputModes[0]: \"text\" is not a media type"),
            ("/defaultInputModes/0", json!("text/"), "error: defaultInputModes[0]: \"text/\" is not a media type"),
            ("/defaultInputModes/1", json!("TEXT/plain"), "warning: defaultInputModes[1]: is listed twice"),
            ("/supportedInterfaces", json!([]), "error: supportedInterfaces: is empty; at least one is required"),
            (
                "/supportedInterfaces/0/url",
                json!("/v1"),
                "error: supportedInterfaces[0].url: is not an absolute http or https URL",
            ),
            (
                "/supportedInterfaces/0/url",
                json!("https://a.example/v1/"),
                "warning: supportedInterfaces[0].url: ends with a slash; clients append paths that begin with one",
            ),
            (
                "/supportedInterfaces/0/url",
                json!("http://a.example/v1"),
                "warning: supportedInterfaces[0].url: does not use TLS",
            ),
            (
                "/supportedInterfaces/0/url",
                json!("https://u:p@a.example"),
                "error: supportedInterfaces[0].url: contains credentials, and a card is public",
            ),
            (
                "/supportedInterfaces/0/url",
                json!("https://a.example/?x=1"),
                "error: supportedInterfaces[0].url: has a query or a fragment, so clients cannot append paths to it",
            ),
            (
                "/supportedInterfaces/1/url",
                json!("https://a.example:443"),
                "warning: supportedInterfaces[1].url: has a scheme; write a gRPC target as host:port",
            ),
            (
                "/supportedInterfaces/1/url",
                json!("a.example"),
                "error: supportedInterfaces[1].url: has no port; write a gRPC target as host:port",
            ),
            (
                "/supportedInterfaces/1/url",
                json!("a.example:443/v1"),
                "error: supportedInterfaces[1].url: has a path; write a gRPC target as host:port",
            ),
            (
                "/supportedInterfaces/1/url",
                json!("a.example:99999"),
                "error: supportedInterfaces[1].url: has no port; write a gRPC target as host:port",
            ),
            (
                "/supportedInterfaces/0/protocolBinding",
                json!("JSON-RPC"),
                "warning: supportedInterfaces[0].protocolBinding: is not GRPC, JSONRPC or HTTP+JSON; use a URI to name a custom binding",
            ),
            (
                "/supportedInterfaces/0/protocolVersion",
                json!("1.0.0"),
                "warning: supportedInterfaces[0].protocolVersion: has a patch number; write 1.0",
            ),
            (
                "/supportedInterfaces/0/protocolVersion",
                json!("one"),
                "error: supportedInterfaces[0].protocolVersion: \"one\" is not a version; write it as MAJOR.MINOR, for example 1.0",
            ),
            (
                "/supportedInterfaces/4",
                json!({"url": "https://a.example/v1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}),
                "warning: supportedInterfaces[4]: is the same as supportedInterfaces[0]",
            ),
            (
                "/securityRequirements/0",
                json!({"schemes": {"basic": {"list": []}}}),
                "error: securityRequirements[0].schemes.basic: is not in securitySchemes",
            ),
            (
                "/securitySchemes/bearer",
                json!({}),
                "error: securitySchemes.bearer: needs one of apiKeySecurityScheme, httpAuthSecurityScheme, oauth2SecurityScheme, openIdConnectSecurityScheme, mtlsSecurityScheme",
            ),
            (
                "/capabilities/extensions",
                json!([{"description": "x"}]),
                "error: capabilities.extensions[0].uri: is empty",
            ),
            ("/signatures/0/protected", json!("e30"), "error: signatures[0]: its protected header has no `alg`"),
            ("/provider", json!({"organization": "x"}), "error: provider.url: is missing"),
        ];
        for (pointer, value, expected) in cases {
            let mut card = good();
            set(&mut card, pointer, value.clone());
            assert_eq!(found(&card), [*expected], "{pointer} = {value}");
        }
    }

    /// Sets the value that a JSON pointer names, and adds missing members and items.
    fn set(card: &mut Value, pointer: &str, value: Value) {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match card.pointer_mut(parent).unwrap() {
            Value::Object(members) => drop(members.insert(name.to_owned(), value)),
            Value::Array(items) if name.parse() == Ok(items.len()) => items.push(value),
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
            other => panic!("{pointer} is in {other}"),
        }
    }

    #[test]
    fn a_document_that_is_not_a_card_is_reported() {
        for (json, expected) in [
            ("[]", "error: is JSON but not an object"),
            ("<html>", "error: is not JSON: expected value at line 1 column 1"),
        ] {
            assert_eq!(lint(json.as_bytes()).iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        }
        let twice = serde_json::to_string(&good()).unwrap().replacen('{', "{\"name\":\"x\",", 1);
        let found = lint(twice.as_bytes());
        assert!(found.len() == 1 && found[0].text.contains("name"), "{found:?}");
        let old = json!({"name": "x", "description": "x", "url": "https://a.example", "version": "1", "preferredTransport": "JSONRPC"});
        let found = self::found(&old);
        assert!(found.contains(&"error: supportedInterfaces: is missing".to_owned()), "{found:?}");
        assert!(found.contains(&"warning: url: is a field of A2A 0.3".to_owned()), "{found:?}");
    }
}
