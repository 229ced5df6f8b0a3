//! Signed cards: this library and those of others verify each other's signatures.

use prost::Message as _;
use serde_json::{Value, json};
use tricord::card::{Coverage, Form, Jwk, SignedCard, Signer, SigningKey};
use tricord::config::{CardKey, Secret};
use tricord::schema::AgentCard;

use crate::codec::pool;
use crate::random::{self, Random};
use crate::venv;

/// Made for this test by `openssl genpkey`.
const ED25519: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIEy3x0MqbCrfogNYyKvHLfL82uIJwR1eFzTGMsj9CNgZ
-----END PRIVATE KEY-----
";

fn p256() -> String {
    rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key is made").serialize_pem()
}

fn signer(keys: &[(&str, &str)]) -> Signer {
    let key = |(kid, pem): &(&str, &str)| CardKey { key: Secret::new(*pem), kid: Some((*kid).to_owned()) };
    let keys: Vec<_> = keys.iter().map(key).collect();
    Signer::from_config(&keys, Some("https://agents.example/.well-known/jwks.json".into())).expect("the keys are read")
}

/// Returns random cards with empty values, explicit defaults, any text, numbers and nesting in `params`.
fn cards(count: u64) -> Vec<AgentCard> {
    let descriptor = pool().get_message_by_name("lf.a2a.v1.AgentCard").expect("there are cards");
    let card = |seed| {
        let message = random::complete(&descriptor, &mut Random::new(seed));
        let card = AgentCard::decode(message.encode_to_vec().as_slice()).expect("it is a card");
        AgentCard { signatures: Vec::new(), name: format!("card {seed}"), ..card }
    };
    (1000..1000 + count).map(card).collect()
}

fn json_of(card: &AgentCard) -> Value {
    serde_json::to_value(card).expect("a card prints")
}

/// Changes a card.
fn changed(mut card: Value) -> Value {
    card["description"] = "does something else".into();
    card
}

#[test]
fn other_libraries_verify_our_signatures_and_we_theirs() {
    let p256 = p256();
    let signers = [signer(&[("p", &p256)]), signer(&[("e", ED25519)]), signer(&[("p", &p256), ("e", ED25519)])];
    let mut ours = Vec::new();
    for (at, card) in cards(60).into_iter().enumerate() {
        let mut card = card;
        signers[at % signers.len()].sign(&mut card).expect("it is signed");
        ours.push(json_of(&card));
    }
    let wrong: Vec<_> = ours.iter().take(6).cloned().map(changed).collect();
    let verify = [ours.as_slice(), &wrong].concat();
    let unsigned: Vec<_> = cards(60).iter().map(json_of).collect();
    for script in ["card_signing.py", "card_signing.mjs"] {
        for (pem, alg, kid) in [(p256.as_str(), "ES256", "p"), (ED25519, "EdDSA", "e")] {
            let task = json!({
                "jwks": signers[2].public(), "verify": verify, "sign": unsigned,
                "key": pem, "header": {"alg": alg, "kid": kid, "typ": "JOSE"},
            });
            let output = venv::run(script, task.to_string().as_bytes());
            let output: Value = serde_json::from_slice(&output).expect("JSON");
            let verified = output["verified"].as_array().expect("a list");
            for (at, verdict) in verified.iter().enumerate() {
                let whole = at < ours.len();
                assert_eq!(*verdict == true, whole, "{script} card {at}: {verdict}\n{}", task["verify"][at]);
            }
            let key = SigningKey::from_pem(pem.as_bytes(), Some(kid)).expect("the key is read");
            for theirs in output["signed"].as_array().expect("a list") {
                let check = |card: &Value| {
                    let card = SignedCard::read(card.to_string().as_bytes()).expect("it is a card");
                    card.check(&card.card().signatures[0], key.public())
                };
                let coverage = check(theirs);
                assert!(matches!(coverage, Ok(Coverage::Card(_))), "{script} {alg}: {coverage:?}\n{theirs}");
                assert!(check(&changed(theirs.clone())).is_err(), "{script} {alg}: {theirs}");
            }
        }
    }
}

#[test]
fn signatures_by_algorithms_that_only_others_use_are_verified() {
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key is made");
    let (p384, p384_public) = (p384.serialize_pem(), p384.public_key_pem());
    let (rsa, rsa_public) = (include_str!("rsa.pem"), include_str!("rsa_public.pem"));
    let unsigned: Vec<_> = cards(2).iter().map(json_of).collect();
    for script in ["card_signing.py", "card_signing.mjs"] {
        for (alg, key, public) in [
            ("ES384", p384.as_str(), p384_public.as_str()),
            ("RS256", rsa, rsa_public),
            ("RS512", rsa, rsa_public),
            ("PS256", rsa, rsa_public),
            ("PS384", rsa, rsa_public),
        ] {
            let task = json!({
                "jwks": {"keys": []}, "verify": [], "sign": unsigned, "key": key,
                "header": {"alg": alg, "kid": "k", "typ": "JOSE"},
            });
            let output = venv::run(script, task.to_string().as_bytes());
            let output: Value = serde_json::from_slice(&output).expect("JSON");
            let public = Jwk::from_pem(public.as_bytes()).expect("the key is read");
            let signed = output["signed"].as_array().expect("a list");
            assert_eq!(signed.len(), unsigned.len());
            for card in signed {
                let check = |card: &Value| {
                    let card = SignedCard::read(card.to_string().as_bytes()).expect("it is a card");
                    card.check(&card.card().signatures[0], &public)
                };
                assert!(check(card).is_ok(), "{script} {alg}: {:?}", check(card));
                assert!(check(&changed(card.clone())).is_err(), "{script} {alg}");
            }
        }
    }
}

#[test]
fn a_card_gets_one_signature_for_each_key_or_two_if_it_has_empty_values() {
    let signer = signer(&[("e", ED25519), ("p", &p256())]);
    let kinds = |card: &str| {
        let mut card: AgentCard = tricord_bindings::proto_json::decode(card.as_bytes()).expect("it is a card");
        signer.sign(&mut card).expect("it is signed");
        let signed = SignedCard::read(json_of(&card).to_string().as_bytes()).expect("it is a card");
        let keys = signer.public().keys;
        let kinds: Vec<_> =
            card.signatures.iter().map(|s| keys.iter().find_map(|key| signed.check(s, key).ok())).collect();
        kinds.into_iter().map(|kind| kind.expect("each signature holds")).collect::<Vec<_>>()
    };
    let full = r#"{"name":"a","description":"b","version":"1","capabilities":{"streaming":false},"defaultInputModes":["a/b"],
        "defaultOutputModes":["a/b"],"skills":[{"id":"a","name":"a","description":"a","tags":["a"]}],
        "supportedInterfaces":[{"url":"u","protocolBinding":"p","protocolVersion":"1.0"}]}"#;
    assert_eq!(kinds(full), [Coverage::Card(Form::Protocol); 2]);
    let (protocol, without) = (Coverage::Card(Form::Protocol), Coverage::Card(Form::WithoutEmpty));
    assert_eq!(kinds(&full.replace(r#"["a"]"#, "[]")), [protocol, without, protocol, without]);
}

#[test]
fn a_signature_over_the_json_itself_covers_unknown_fields() {
    let key = SigningKey::from_pem(ED25519.as_bytes(), None).expect("the key is read");
    let card = br#"{"name":"a","mood":{"b":2,"a":[1.50]},"description":""}"#;
    let payload = r#"{"description":"","mood":{"a":[1.5],"b":2},"name":"a"}"#;
    let pair = ring::signature::Ed25519KeyPair::from_pkcs8_maybe_unchecked(
        rustls::pki_types::pem::PemObject::from_pem_slice(ED25519.as_bytes())
            .map(|der: rustls::pki_types::PrivatePkcs8KeyDer<'_>| der.secret_pkcs8_der().to_vec())
            .expect("the key is PEM")
            .as_slice(),
    )
    .expect("the key is read");
    let url = base64_simd::URL_SAFE_NO_PAD;
    let protected = url.encode_to_string(r#"{"typ":"JOSE","kid":"k","alg":"EdDSA"}"#);
    let input = format!("{protected}.{}", url.encode_to_string(payload));
    let signature = url.encode_to_string(pair.sign(input.as_bytes()).as_ref());
    let mut card: Value = serde_json::from_slice(card).expect("JSON");
    card["signatures"] = json!([{"protected": protected, "signature": signature}]);
    let signed = SignedCard::read(card.to_string().as_bytes()).expect("it is a card");
    assert!(signed.has_unknown_keys());
    assert_eq!(signed.check(&signed.card().signatures[0], key.public()), Ok(Coverage::Received));
    card["mood"]["b"] = 3.into();
    let signed = SignedCard::read(card.to_string().as_bytes()).expect("it is a card");
    assert!(signed.check(&signed.card().signatures[0], key.public()).is_err());
}
