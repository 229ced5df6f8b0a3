//! Verifying the signatures of any card (A2A 8.4.3).

use serde_json::Value;
use tricord_bindings::proto_json;

use super::canonical::{Form, canonicalize};
use super::jwk::{ALGORITHMS, Jwk, KeyError, from_base64url};
use super::sign::signing_input;
use crate::schema::{AgentCard, AgentCardSignature};

/// A card as it was received, whose signatures can be checked.
#[derive(Debug)]
pub struct SignedCard {
    card: AgentCard,
    /// What signers may have signed, and what that says about the card.
    payloads: Vec<(Coverage, Vec<u8>)>,
}

/// What a signature that holds is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// All that the protocol knows of the card, in one of the forms that are signed.
    Card(Form),
    /// The very JSON that was received, keys that the protocol does not know included.
    Received,
}

/// The protected header of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The algorithm.
    pub alg: String,
    /// The key's name.
    pub kid: String,
    /// Where the signer says the key is published.
    pub jku: Option<String>,
}

/// Why a signature does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The protected header is no header.
    #[error("its protected header {0}")]
    Header(String),
    /// The signature is no base64url.
    #[error("its signature is not base64url")]
    Signature,
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The signature is not by this key over this card.
    #[error("the card is not what was signed, or another key signed it")]
    Bad,
}

impl SignedCard {
    /// Reads a card.
    ///
    /// # Errors
    /// When it is none, with what is wrong.
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

    /// The card.
    pub fn card(&self) -> &AgentCard {
        &self.card
    }

    /// Whether the card holds keys that the protocol does not know, which a signature of [`Coverage::Card`] is not over.
    pub fn has_unknown_keys(&self) -> bool {
        let known = serde_json::to_value(AgentCard { signatures: Vec::new(), ..self.card.clone() }).unwrap_or_default();
        let received = self.payloads.last().and_then(|(_, json)| serde_json::from_slice(json).ok());
        received.is_some_and(|received: Value| !is_within(&received, &known))
    }

    /// Checks one signature with one key, and tells what it is over.
    ///
    /// # Errors
    /// When it does not hold.
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

/// Whether every key of `received` is one of `known`, or holds what is left out as a default.
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
    /// When it is none, or lacks what the protocol asks for, or asks for what this program does not know.
    pub fn read(signature: &AgentCardSignature) -> Result<Self, VerifyError> {
        let wrong = |text: &str| VerifyError::Header(text.to_owned());
        let json = from_base64url(&signature.protected).ok_or_else(|| wrong("is not base64url"))?;
        let header: Value = serde_json::from_slice(&json).map_err(|_| wrong("is not JSON"))?;
        let text = |name: &str| header[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let alg = text("alg").ok_or_else(|| wrong("has no `alg`"))?;
        if !header["crit"].is_null() {
            return Err(wrong("has `crit`, extensions that this program does not know"));
        }
        if !ALGORITHMS.contains(&alg.as_str()) {
            return Err(KeyError::Algorithm(alg).into());
        }
        Ok(Self { alg, kid: text("kid").ok_or_else(|| wrong("has no `kid`"))?, jku: text("jku") })
    }
}
