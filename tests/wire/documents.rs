//! Documents over HTTP: cards, keys and API descriptions, at all their URLs, with their caching headers.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::raw::{Reply, http};
use crate::support::Server;

const AGENTS: &str =
    "[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n[[agents]]\nname = \"other\"\nkind = \"echo\"\n";

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Reply {
    http(&server.url, "GET", path, headers, "").await
}

/// Runs the command line and returns its exit code and output.
fn tricord(args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tricord")).args(args).env("TRICORD_URL", "").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn s20_documents_are_served_at_every_url_that_clients_try() {
    let server = Server::start(&format!("[server]\nbase_path = \"/v1/a2a\"\ncard_max_age = \"7m\"\n{AGENTS}"));
    let kit = get(&server, "/.well-known/agent-card.json", &[]).await.json();
    let other = get(&server, "/v1/a2a/other/.well-known/agent-card.json", &[]).await.json();
    assert_eq!((&kit["name"], &other["name"]), (&"kit".into(), &"other".into()));
    for (path, card) in [
        ("/.well-known/agent.json", &kit),
        ("/.well-known/agent-card.json/", &kit),
        ("/v1/a2a/.well-known/agent-card.json", &kit),
        ("/v1/a2a/.well-known/agent.json/", &kit),
        ("/v1/a2a/kit/.well-known/agent-card.json", &kit),
        ("/v1/a2a/other/.well-known/agent.json", &other),
        ("/v1/a2a/other/.well-known/agent-card.json/", &other),
    ] {
        assert_eq!(get(&server, path, &[]).await.json(), *card, "{path}");
    }
    assert_eq!(get(&server, "/v1/a2a/openapi.json", &[]).await.json()["openapi"], "3.1.0");
    assert_eq!(get(&server, "/v1/a2a/openrpc.json", &[]).await.json()["openrpc"], "1.3.2");
    for absent in [
        "/other/.well-known/agent.json",
        "/v1/a2a/.well-known/jwks.json",
        "/openapi.json",
        "/v1/.well-known/agent.json",
    ] {
        let reply = get(&server, absent, &[("a2a-version", "1.0")]).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &404.into()), "{absent}");
    }
}

#[tokio::test]
async fn s20_documents_can_be_cached_and_revalidated() {
    let server = Server::start(&format!("[server]\nbase_path = \"/x\"\ncard_max_age = \"7m\"\n{AGENTS}"));
    for path in [
        "/.well-known/agent-card.json",
        "/x/.well-known/agent-card.json",
        "/x/other/.well-known/agent-card.json",
        "/x/openapi.json",
        "/x/openrpc.json",
    ] {
        let first = get(&server, path, &[]).await;
        assert_eq!((first.status, first.header("cache-control")), (200, "public, max-age=420"), "{path}");
        let (tag, modified) = (first.header("etag"), first.header("last-modified"));
        for known in [&[("if-none-match", tag)][..], &[("if-modified-since", modified)]] {
            for verb in ["GET", "HEAD"] {
                let again = http(&server.url, verb, path, known, "").await;
                assert_eq!((again.status, again.text(), again.header("etag")), (304, "", tag), "{path} {known:?}");
                assert_eq!(
                    (again.header("last-modified"), again.header("cache-control")),
                    (modified, "public, max-age=420")
                );
            }
        }
        let before = "Sat, 01 Jan 2000 00:00:00 GMT";
        for unknown in
            [&[("if-modified-since", before)][..], &[("if-modified-since", modified), ("if-none-match", "\"x\"")]]
        {
            assert_eq!(get(&server, path, unknown).await.body, first.body, "{path} {unknown:?}");
        }
        let head = http(&server.url, "HEAD", path, &[], "").await;
        assert_eq!((head.status, head.text(), head.header("etag")), (200, "", tag), "{path}");
        assert_eq!(head.header("content-length"), first.body.len().to_string(), "{path}");
    }
    let never = Server::start(&format!("[server]\ncard_max_age = \"0\"\n{AGENTS}"));
    assert_eq!(get(&never, "/.well-known/agent-card.json", &[]).await.header("cache-control"), "no-cache");
}

#[tokio::test]
async fn s20_signed_cards_verify_with_the_published_keys() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let key = |kind| rcgen::KeyPair::generate_for(kind).unwrap();
    let (p256, ed25519) = (key(&rcgen::PKCS_ECDSA_P256_SHA256), key(&rcgen::PKCS_ED25519));
    let pem = file("p256.pem", &p256.serialize_pem());
    let keys = format!(
        "[[server.card_keys]]\nkey = \"file:{pem}\"\nkid = \"first\"\n[[server.card_keys]]\nkey = \"file:{}\"\n",
        file("ed25519.pem", &ed25519.serialize_pem())
    );
    let server =
        Server::start(&format!("[server]\nbase_path = \"/x\"\npublic_url = \"https://a.example\"\n{keys}{AGENTS}"));
    let published = get(&server, "/x/.well-known/jwks.json", &[]).await;
    assert_eq!(published.header("cache-control"), "public, max-age=300");
    assert_eq!(get(&server, "/.well-known/jwks.json", &[]).await.body, published.body);
    let kids: Vec<_> = published.json()["keys"].as_array().unwrap().iter().map(|key| key["kid"].clone()).collect();
    assert_eq!((kids.len(), &kids[0]), (2, &"first".into()));
    assert_eq!(kids[1].as_str().unwrap().len(), 43, "a thumbprint");
    let text = published.text();
    assert!(!text.contains("\"d\""), "no private key: {text}");

    let jwks = format!("{}/.well-known/jwks.json", server.url);
    for path in ["", "/other"] {
        let url = format!("{}{path}", server.url);
        let (code, said) = tricord(&["card", "verify", &url, "--jwks", &jwks]);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("ES256 by \"first\" is valid\n") && said.contains("verified: 2 of 2"), "{said}");
    }
    let card = get(&server, "/.well-known/agent-card.json", &[]).await.json();
    let protected = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(card["signatures"][0]["protected"].as_str().unwrap());
    let header: Value = serde_json::from_slice(&protected.unwrap()).unwrap();
    let expected = serde_json::json!({
        "alg": "ES256", "kid": "first", "typ": "JOSE", "jku": "https://a.example/x/.well-known/jwks.json",
    });
    assert_eq!(header, expected);
    let (code, said) = tricord(&["card", "lint", &format!("{}/other", server.url)]);
    assert_eq!((code, said.contains("no problems")), (0, true), "{said}");

    let (code, said) = tricord(&["card", "verify", &server.url]);
    assert_eq!((code, said.contains("another server; --jwks https://a.example")), (1, true), "{said}");
    let public = file("public.pem", &p256.public_key_pem());
    let (code, said) = tricord(&["card", "verify", &file("card.json", &card.to_string()), "--key", &public]);
    assert_eq!((code, said.contains("verified: 1 of 2")), (0, true), "{said}");
    let mut forged = card;
    forged["name"] = "somebody else".into();
    let (code, said) = tricord(&["card", "verify", &file("forged.json", &forged.to_string()), "--jwks", &jwks]);
    assert_eq!((code, said.matches("is not valid: the card is not what was signed").count()), (1, 2), "{said}");
}

#[test]
fn s20_an_unusable_signing_key_stops_the_start_and_is_named() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    file("rsa.pem", "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n");
    file("none.pem", "hello\n");
    let good = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem();
    file("good.pem", &good);
    for (keys, told) in [
        ("key = \"file:rsa.pem\"", "server.card_keys[0].key: neither a P-256 nor an Ed25519 key"),
        ("key = \"file:none.pem\"", "server.card_keys[0].key: no private key in PKCS#8 PEM"),
        ("key = \"file:absent.pem\"", "t.toml:2: server.card_keys[0].key: the file absent.pem cannot be read"),
        ("key = \"MC4CAQ\"", "not the key itself"),
        ("kid = \"x\"", "server.card_keys[0].key: is missing"),
        (
            "key = \"env:CARD_KEY\"\n[[server.card_keys]]\nkey = \"file:good.pem\"",
            "server.card_keys[1].key: two keys are named",
        ),
    ] {
        file("t.toml", &format!("[[server.card_keys]]\n{keys}\n"));
        for command in [&["check-config"][..], &["serve", "--listen", "127.0.0.1:0", "--store", "memory:"]] {
            let run = Command::new(env!("CARGO_BIN_EXE_tricord"))
                .args(command)
                .args(["--config", "t.toml"])
                .env("CARD_KEY", &good)
                .current_dir(dir.path())
                .output()
                .unwrap();
            let said = String::from_utf8(run.stderr).unwrap();
            assert_eq!((run.status.code(), said.contains(told)), (Some(2), true), "{keys}: {said}");
        }
    }
}

#[tokio::test]
async fn descriptions_say_where_and_how_the_server_is_called() {
    let server = Server::start(&format!("[server]\nbase_path = \"/v1\"\npublic_url = \"https://a.example\"\n{AGENTS}"));
    let openapi = get(&server, "/v1/openapi.json", &[]).await.json();
    assert_eq!(openapi["servers"], serde_json::json!([{"url": "https://a.example/v1"}]));
    let openrpc = get(&server, "/v1/openrpc.json", &[]).await.json();
    assert_eq!(openrpc["servers"][0]["url"], "https://a.example/v1/");
    let version = &openapi["components"]["parameters"]["Version"];
    assert_eq!((&version["required"], &version["schema"]["default"]), (&true.into(), &"1.0".into()));
    let types: Vec<_> = openapi["components"]["responses"]["Error"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(types, ["application/a2a+json", "application/json"]);
    // Bodies are references, so that generated clients have one type for each.
    for path in ["/message:send", "/{tenant}/message:send", "/tasks/{id}:cancel", "/{tenant}/tasks/{id}:cancel"] {
        let content = &openapi["paths"][path]["post"]["requestBody"]["content"]["application/json"];
        assert!(content["schema"]["$ref"].is_string(), "{path}: {content}");
    }
    // Without a public URL they name the address that the server is bound to.
    let local = Server::start(AGENTS);
    assert_eq!(get(&local, "/openapi.json", &[]).await.json()["servers"][0]["url"], local.url);
}
