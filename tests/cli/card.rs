//! `tricord card verify` and `tricord card lint`, for the cards of any server.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tempfile::TempDir;
use tricord::card::Signer;
use tricord::config::{CardKey, Secret};
use tricord::schema::AgentCard;

use crate::commands::{run, run_with_input};
use crate::peer::{Peer, json_answer};

fn card() -> Value {
    json!({
        "name": "Peer", "description": "Plays a script", "version": "1",
        "supportedInterfaces": [{"url": "https://a.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
    })
}

/// Signs the card with a new key. Returns the card and its key set; `jku` is the URL of the keys.
fn signed(jku: Option<&str>) -> (Value, Value) {
    let pem = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem();
    let key = CardKey { key: Secret::new(pem), kid: Some("k".into()) };
    let signer = Signer::from_config(&[key], jku.map(str::to_owned)).unwrap();
    let mut card: AgentCard = serde_json::from_value(card()).unwrap();
    signer.sign(&mut card).unwrap();
    (serde_json::to_value(card).unwrap(), serde_json::to_value(signer.public()).unwrap())
}

/// Serves a card and a key set, which `documents` makes from the URL of the server.
fn peer(documents: impl Fn(&str) -> (Value, Value)) -> Peer {
    let served: Arc<OnceLock<(Value, Value)>> = Arc::default();
    let answers = Arc::clone(&served);
    let peer = Peer::http(move |request, _| {
        let (card, keys) = answers.get().unwrap();
        match request.line.as_str() {
            "GET /card.json" => json_answer(200, card),
            "GET /keys.json" => json_answer(200, keys),
            _ => json_answer(404, &json!({})),
        }
    });
    served.set(documents(&peer.url)).unwrap();
    peer
}

#[test]
fn a_card_is_verified_with_the_keys_of_its_own_server() {
    let peer = peer(|url| signed(Some(&format!("{url}/keys.json"))));
    let at = format!("{}/card.json", peer.url);
    let ran = run(&["card", "verify", &at, "--token", "secret"]);
    // `capabilities` is empty, so some libraries sign without it: there are two signatures.
    let form = "signature 2: EdDSA by \"k\" is valid, over the card without its empty values\n";
    let expected =
        format!("signature 1: EdDSA by \"k\" is valid\n{form}verified: 2 of 2 signatures of {at} are valid\n");
    assert_eq!((ran.code, ran.out), (0, expected), "{}", ran.err);
    assert!(peer.seen().iter().all(|request| request.header("authorization") == Some("Bearer secret")));
    let document: Value = serde_json::from_str(&run(&["card", "verify", "--json", &at]).out).unwrap();
    assert_eq!(document["verified"], true);
    let contents = ["card", "card without empty values"];
    let signatures = &document["signatures"];
    assert_eq!([&signatures[0]["signedContent"], &signatures[1]["signedContent"]], contents);
    assert_eq!((&signatures[0]["valid"], &signatures[0]["reason"]), (&Value::Bool(true), &Value::Null));
}

#[test]
fn keys_of_another_server_are_not_trusted_and_credentials_do_not_go_there() {
    let (card, keys) = (OnceLock::new(), OnceLock::new());
    let other = peer(|url| {
        let (signed, published) = signed(Some(&format!("{url}/keys.json")));
        card.set(signed).unwrap();
        keys.set(published.clone()).unwrap();
        (Value::Null, published)
    });
    let peer = peer(|_| (card.get().unwrap().clone(), keys.get().unwrap().clone()));
    let at = format!("{}/card.json", peer.url);
    let ran = run(&["card", "verify", &at, "--token", "secret"]);
    let why = format!(
        "it names {0}/keys.json for its key, which is on another server; --jwks {0}/keys.json trusts that server",
        other.url
    );
    assert_eq!((ran.code, ran.out.contains(&why)), (1, true), "{}", ran.out);
    assert!(other.seen().is_empty(), "the other server got a request");
    let ran = run(&["card", "verify", &at, "--token", "secret", "--jwks", &format!("{}/keys.json", other.url)]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(other.seen()[0].header("authorization"), None);
}

/// A change to a signed card.
type Edit<'a> = &'a dyn Fn(&mut Value);

#[test]
fn a_signature_that_is_not_valid_is_reported_with_its_reason() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, value: &Value| {
        let path = dir.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (good, keys) = signed(None);
    let keys = file("keys.json", &keys);
    let change = |edit: &dyn Fn(&mut Value)| {
        let mut card = good.clone();
        card["signatures"].as_array_mut().unwrap().truncate(1);
        edit(&mut card);
        file("card.json", &card)
    };
    let header = |text: &str| Value::from(base64_simd::URL_SAFE_NO_PAD.encode_to_string(text));
    let cases: [(Edit<'_>, &str); 8] = [
        (
            &|card| card["version"] = "2".into(),
            "is not valid: the card is not what was signed, or another key signed it",
        ),
        (&|card| card["signatures"] = json!([]), "not verified: "),
        (&|card| card["signatures"][0]["signature"] = "*".into(), "its signature is not base64url"),
        (&|card| card["signatures"][0]["protected"] = header("{"), "its protected header is not JSON"),
        (
            &|card| card["signatures"][0]["protected"] = header("{\"alg\":\"none\",\"kid\":\"k\"}"),
            "\"none\" is not one of ES256",
        ),
        (
            &|card| card["signatures"][0]["protected"] = header("{\"alg\":\"ES256\",\"kid\":\"k\"}"),
            "the key cannot be used with ES256",
        ),
        (
            &|card| card["signatures"][0]["protected"] = header("{\"alg\":\"EdDSA\",\"kid\":\"x\"}"),
            "no key is named \"x\"",
        ),
        (
            &|card| card["signatures"][0]["protected"] = header("{\"alg\":\"EdDSA\",\"kid\":\"k\",\"crit\":[\"b64\"]}"),
            "has `crit`",
        ),
    ];
    for (edit, told) in cases {
        let card = change(edit);
        let ran = run(&["card", "verify", &card, "--jwks", &keys]);
        assert_eq!((ran.code, ran.out.contains(told)), (1, true), "{told}: {}{}", ran.out, ran.err);
    }
    let ran = run(&["card", "verify", &change(&|_| {})]);
    assert_eq!((ran.code, ran.out.contains("--jwks or --key set one")), (1, true), "{}", ran.out);
    let ran = run(&["card", "verify", &change(&|card| card["mood"] = "good".into()), "--jwks", &keys]);
    assert_eq!((ran.code, ran.out.contains("note: the card has fields that")), (0, true), "{}", ran.out);
    let ran = run(&["card", "verify", &keys, "--jwks", &keys]);
    assert_eq!((ran.code, ran.out.as_str()), (1, format!("not verified: {keys} is not signed\n").as_str()));
    for wrong in [
        &["card", "verify", "no-such-file"][..],
        &["card", "verify", &keys, "--jwks", "absent"],
        &["card", "verify", &keys, "--key", &keys],
    ] {
        assert_eq!(run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn lint_reports_problems_and_exits_with_1_only_for_errors() {
    let ran = run_with_input(&["card", "lint", "-"], &card().to_string());
    assert_eq!((ran.code, ran.out.as_str()), (0, "-: no problems\n"), "{}", ran.err);
    let mut odd = card();
    odd["supportedInterfaces"][0]["url"] = "https://a.example/".into();
    let ran = run_with_input(&["card", "lint", "-"], &odd.to_string());
    assert_eq!((ran.code, ran.out.lines().last()), (0, Some("-: 0 errors, 1 warning")), "{}", ran.out);
    odd["skills"][0]["id"] = Value::Null;
    let ran = run_with_input(&["card", "lint", "-", "--json"], &odd.to_string());
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((ran.code, lines.len()), (1, 2));
    assert_eq!(lines[0], json!({"level": "error", "path": "skills[0].id", "text": "is missing"}));
    let peer = peer(|_| (json!({"name": "x"}), Value::Null));
    assert_eq!(run(&["card", "lint", &format!("{}/card.json", peer.url)]).code, 1);
    assert_eq!(run(&["card", "lint", &format!("{}/none.json", peer.url)]).code, 3);
    assert_eq!(run(&["card", "lint", "http://127.0.0.1:1/card.json"]).code, 4);
}
