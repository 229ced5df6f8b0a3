//! Verifies the signatures of any card (A2A 8.4.3).

use serde_json::Value;
use tricord_bindings::proto_json;

use super::canonical::{Form, canonicalize};
use super::jwk::{ALGORITHMS, Jwk, KeyError, from_base64url};
use super::sign::signing_input;
use crate::schema::{AgentCard, AgentCardSignature};

/// A card as it was received, with what its signatures may cover.
#[derive(Debug)]
pub struct SignedCard {
    card: AgentCard,
    /// The payloads that a signer may have signed, with the coverage of each.
    payloads: Vec<(Coverage, Vec<u8>)>,
}

/// What a valid signature covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// All fields that the protocol defines, in this canonical form.
    Card(Form),
    /// The JSON that was received, including keys that the protocol does not define.
    Received,
}

/// The protected header of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The algorithm.
    pub alg: String,
    /// The name of the key.
    pub kid: String,
    /// The URL where the signer publishes the key.
    pub jku: Option<String>,
}

/// Why a signature is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The protected header cannot be used.
    #[error("its protected header {0}")]
    Header(String),
    /// The signature is not base64url.
    #[error("its signature is not base64url")]
    Signature,
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key did not make this signature for this card.
    #[error("the card is not what was signed, or another key signed it")]
    Bad,
}

impl SignedCard {
    /// Reads a card from JSON.
    ///
    /// # Errors
    /// The reason, if the JSON is not an agent card.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let card: AgentCard = proto_json::decode(json).map_err(|error| error.to_string())?;
        let mut payloads: Vec<_> =
            [Form::Protocol, Form::WithoutEmpty].map(|form| (Coverage::Card(form), form.of(&card))).into();
        let mut received: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if let Some(members) = received.as_object_mut() {
            members.remove("signatures");
        }
        payloads.push((Coverage::Received, canonicalize(&received)));
        Ok(Self { card, payloads })
    }

    /// Returns the card.
    pub fn card(&self) -> &AgentCard {
        &self.card
    }

    /// Returns whether the card has keys that the protocol does not define. A signature with [`Coverage::Card`] does
    /// not cover them.
    pub fn has_unknown_keys(&self) -> bool {
        let known = serde_json::to_value(AgentCard { signatures: Vec::new(), ..self.card.clone() }).unwrap_or_default();
        let received = self.payloads.last().and_then(|(_, json)| serde_json::from_slice(json).ok());
        received.is_some_and(|received: Value| !is_within(&received, &known))
    }

    /// Verifies one signature with one key, and returns what the signature covers.
    ///
    /// # Errors
    /// If the signature is not valid.
    pub fn check(&self, signature: &AgentCardSignature, key: &Jwk) -> Result<Coverage, VerifyError> {
        let header = Header::read(signature)?;
        let bytes = from_base64url(&signature.signature).ok_or(VerifyError::Signature)?;
        for (coverage, payload) in &self.payloads {
            if key.verifies(&header.alg, &signing_input(&signature.protected, payload), &bytes)? {
                return Ok(*coverage);
            }
        }
        Err(VerifyError::Bad)
    }
}

/// Returns whether every key of `received` is in `known` or has a default value, which the encoding leaves out.
fn is_within(received: &Value, known: &Value) -> bool {
    match (received, known) {
        (Value::Object(received), Value::Object(known)) => received.iter().all(|(name, value)| match known.get(name) {
            Some(known) => is_within(value, known),
            None => is_default(value),
        }),
        (Value::Array(received), Value::Array(known)) => {
            received.len() == known.len() && received.iter().zip(known).all(|(a, b)| is_within(a, b))
        }
        _ => true,
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_default),
    }
}

impl Header {
    /// Reads the protected header of a signature.
    ///
    /// # Errors
    /// If it cannot be decoded, lacks `alg` or `kid`, or requires an extension or an algorithm that is not supported.
    pub fn read(signature: &AgentCardSignature) -> Result<Self, VerifyError> {
        let wrong = |text: &str| VerifyError::Header(text.to_owned());
        let json = from_base64url(&signature.protected).ok_or_else(|| wrong("is not base64url"))?;
        let header: Value = serde_json::from_slice(&json).map_err(|_| wrong("is not JSON"))?;
        let text = |name: &str| header[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let alg = text("alg").ok_or_else(|| wrong("has no `alg`"))?;
        if !header["crit"].is_null() {
            return Err(wrong("has `crit`, which requires extensions that are not supported"));
        }
        if !ALGORITHMS.contains(&alg.as_str()) {
            return Err(KeyError::Algorithm(alg).into());
        }
        Ok(Self { alg, kid: text("kid").ok_or_else(|| wrong("has no `kid`"))?, jku: text("jku") })
    }
}
