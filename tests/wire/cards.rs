//! Cards: their content, and how clients reach the agents that they describe.

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{ask, fresh, http, on_every_wire, say, with};
use crate::support::Server;

const PUBLIC: &str = r#"
[server]
public_url = "https://agents.example.com/"
base_path = "/v1/a2a"

[[agents]]
name = "kit"
kind = "conformance"

[[agents]]
name = "support"
kind = "echo"
"#;

async fn card(server: &Server, path: &str) -> Value {
    let reply = http(&server.url, "GET", path, &[("x-forwarded-host", "evil.example")], "").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"), "{path}");
    reply.json()
}

#[tokio::test]
async fn s20_a_card_has_every_required_field_and_no_unknown_one() {
    let server = Server::shared();
    for path in
        ["/.well-known/agent-card.json", "/kit/.well-known/agent-card.json", "/other/.well-known/agent-card.json"]
    {
        let card = card(server, path).await;
        crate::raw::check_answer("GetExtendedAgentCard", &card);
        for key in ["supportedInterfaces", "skills", "defaultInputModes", "defaultOutputModes"] {
            assert!(!card[key].as_array().unwrap().is_empty(), "{path}: {key} in {card}");
        }
    }
}

#[tokio::test]
async fn s20_interfaces_come_from_the_configuration_and_never_from_a_request() {
    let server = Server::start(PUBLIC);
    for (path, tenant) in [
        ("/.well-known/agent-card.json", ""),
        ("/v1/a2a/.well-known/agent-card.json", ""),
        ("/v1/a2a/kit/.well-known/agent-card.json", ""),
        ("/v1/a2a/support/.well-known/agent-card.json", "support"),
    ] {
        let card = card(&server, path).await;
        let mut found = Vec::new();
        for interface in card["supportedInterfaces"].as_array().unwrap() {
            let named = if interface["protocolBinding"] == "GRPC" { tenant } else { "" };
            assert_eq!(interface["tenant"].as_str().unwrap_or_default(), named, "{path}: {interface}");
            found.push((interface["protocolBinding"].as_str().unwrap(), interface["url"].as_str().unwrap()));
        }
        let own = if tenant.is_empty() { String::new() } else { format!("/{tenant}") };
        let web = format!("https://agents.example.com/v1/a2a{own}");
        let web = web.as_str();
        assert_eq!(found, [("JSONRPC", web), ("HTTP+JSON", web), ("GRPC", "agents.example.com:443")], "{path}");
    }
    for path in ["/v1/a2a/nobody/.well-known/agent-card.json", "/support/.well-known/agent-card.json"] {
        let reply = http(&server.url, "GET", path, &[("a2a-version", "1.0")], "").await;
        assert_eq!(reply.status, 404, "{path}");
    }
}

#[tokio::test]
async fn s20_every_interface_of_a_card_reaches_its_agent() {
    let server = Server::shared();
    for (agent, words, made) in [("kit", "echo hi", "hi"), ("other", "echo hi", "echo hi")] {
        let card = card(server, &format!("/{agent}/.well-known/agent-card.json")).await;
        let interfaces = card["supportedInterfaces"].as_array().unwrap();
        assert_eq!(interfaces.len(), 3, "{agent}");
        for interface in interfaces {
            let url = interface["url"].as_str().unwrap();
            let (wire, url) = match interface["protocolBinding"].as_str().unwrap() {
                "GRPC" => (Binding::Grpc, format!("http://{url}")),
                "JSONRPC" => (Binding::JsonRpc, url.to_owned()),
                _ => (Binding::HttpJson, url.to_owned()),
            };
            assert!(!url.ends_with('/'), "{url}");
            let params = with(say(words), json!({"tenant": interface.get("tenant").unwrap_or(&json!(""))}));
            let (root, path) = match url.strip_suffix(&format!("/{agent}")) {
                Some(root) => (root, Some(agent)),
                None => (url.as_str(), None),
            };
            let mut call = ask(root, wire, "SendMessage", params);
            if let Some(path) = path {
                call = call.agent(path);
            }
            let task = call.send().await.ok()["task"].take();
            assert_eq!(crate::raw::parts_text(&task["artifacts"][0]["parts"]), made, "{agent} {wire}");
        }
    }
}

#[tokio::test]
async fn s20_c38_an_agent_is_named_by_tenant_or_path_and_two_different_names_are_refused() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let task = server.make(wire, "echo hi").await;
        let get = |tenant: &str| json!({"id": task["id"], "tenant": tenant});
        for tenant in ["", "kit"] {
            assert_eq!(
                server.ask(wire, "GetTask", get(tenant)).send().await.ok(),
                server.task_of(wire, "kit", &task["id"]).await
            );
        }
        server.ask(wire, "GetTask", get("other")).send().await.refused("TASK_NOT_FOUND");
        for nobody in ["nobody", "KIT", "kit "] {
            let params = with(say("echo hi"), json!({"tenant": nobody}));
            if wire != Binding::HttpJson {
                server.ask(wire, "GetTask", get(nobody)).send().await.refused_fields(&["tenant"]);
                server.ask(wire, "SendMessage", params).send().await.refused_fields(&["tenant"]);
            }
        }
        // The path segment is the tenant.
        let here = json!({"id": task["id"]});
        server.ask(wire, "GetTask", here.clone()).agent("kit").send().await.ok();
        server.ask(wire, "GetTask", here.clone()).agent("other").send().await.refused("TASK_NOT_FOUND");
        server.ask(wire, "GetTask", here).agent("nobody").send().await.refused_fields(&["tenant"]);
        let both = |tenant: &str| with(say("echo hi"), json!({"tenant": tenant}));
        match wire {
            Binding::JsonRpc => {
                let mixed = server.ask(wire, "SendMessage", both("other")).agent("kit").send().await;
                mixed.refused_fields(&["tenant"]);
                server.ask(wire, "SendMessage", both("kit")).agent("kit").send().await.ok();
            }
            Binding::HttpJson => {
                let mixed =
                    server.ask(wire, "SendMessage", say("")).agent("kit").params_text(both("other").to_string());
                mixed.send().await.refused_fields(&["tenant"]);
                let same = server.ask(wire, "SendMessage", say("")).agent("kit").params_text(both("kit").to_string());
                same.send().await.ok();
            }
            Binding::Grpc => {}
        }
    })
    .await;
    let mixed = http(&server.url, "GET", "/kit/tasks?tenant=other", &[("a2a-version", "1.0")], "").await;
    assert_eq!(mixed.json()["error"]["details"][1]["fieldViolations"][0]["field"], "tenant", "{}", mixed.text());
    let lost = http(&server.url, "GET", &format!("/nobody/tasks/{}", fresh()), &[("a2a-version", "1.0")], "").await;
    assert_eq!(lost.json()["error"]["details"][1]["fieldViolations"][0]["field"], "tenant", "{}", lost.text());
}

#[tokio::test]
async fn s20_a_card_that_the_client_has_cached_is_not_sent_again() {
    let server = Server::shared();
    let path = "/.well-known/agent-card.json";
    let first = http(&server.url, "GET", path, &[], "").await;
    assert!(first.header("cache-control").contains("max-age="), "{first:?}");
    assert!(first.header("last-modified").ends_with(" GMT"), "{first:?}");
    let tag = first.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
        let again = http(&server.url, "GET", path, &[("if-none-match", &known)], "").await;
        assert_eq!((again.status, again.text(), again.header("etag")), (304, "", tag.as_str()), "{known}");
    }
    for unknown in ["\"x\"", "", "x"] {
        let again = http(&server.url, "GET", path, &[("if-none-match", unknown)], "").await;
        assert_eq!((again.status, again.json()), (200, first.json()), "{unknown:?}");
    }
    let other = http(&server.url, "GET", "/other/.well-known/agent-card.json", &[], "").await;
    assert_ne!(other.header("etag"), tag);
    let wrong = http(&server.url, "POST", path, &[], "").await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, "GET, HEAD"));
}
