//! Cards and keys of other servers.

use tricord::card::{Form, Jwk, JwkSet, SignedCard, canonicalize, lint};

/// Lints a card and checks its signatures with a key.
pub fn card(data: &[u8]) -> bool {
    let findings = lint(data);
    let Ok(card) = SignedCard::read(data) else {
        assert!(!findings.is_empty(), "a document that is not a card has findings");
        return false;
    };
    let key = Jwk {
        kty: "OKP".to_owned(),
        crv: Some("Ed25519".to_owned()),
        x: Some("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo".to_owned()),
        ..Jwk::default()
    };
    let _ = card.has_unknown_keys();
    for signature in &card.card().signatures {
        assert!(card.check(signature, &key).is_err(), "no input was signed with this key");
    }
    for form in [Form::Protocol, Form::WithoutEmpty] {
        let payload = form.of(card.card());
        let value: serde_json::Value = serde_json::from_slice(&payload).expect("the canonical form is JSON");
        assert_eq!(canonicalize(&value), payload, "the canonical form is stable");
    }
    true
}

/// Reads keys as JSON and as PEM.
pub fn keys(data: &[u8]) -> bool {
    let mut keys = Vec::new();
    keys.extend(JwkSet::from_json(data).map(|set| set.keys).unwrap_or_default());
    keys.extend(Jwk::from_pem(data));
    for key in &keys {
        let _ = key.thumbprint();
        for algorithm in ["ES256", "ES384", "EdDSA", "RS256", "PS512", "none"] {
            assert_ne!(key.verifies(algorithm, b"message", &[7; 64]), Ok(true));
        }
    }
    !keys.is_empty()
}
