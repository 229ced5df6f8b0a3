//! Clients that abandon a request with an idempotency key and retry it.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tricord::agents::{BoxAgent, Conformance};
use tricord::internals::engine::{AgentSpec, Engine, EngineLimits, OnRestart};
use tricord::internals::server::{Anonymous, Server};
use tricord::internals::service::{AgentProfile, Service};
use tricord::internals::store::{Options, Store, StoreUrl};
use tricord_bindings::Peer;

static PEER: LazyLock<Peer> = LazyLock::new(|| IpAddr::V4(Ipv4Addr::LOCALHOST).into());

/// A server without a port, so that the test controls how far each request gets.
async fn server() -> Server<Service> {
    let store = Store::open(&Options::new(StoreUrl::memory())).unwrap();
    let spec = AgentSpec {
        name: "kit".into(),
        agent: BoxAgent::new(Conformance::default()),
        on_restart: OnRestart::Fail,
        cancel_grace: Duration::from_secs(1),
    };
    let engine = Engine::start(store, vec![spec], EngineLimits::default()).await.unwrap();
    let card = serde_json::from_value(json!({"defaultInputModes": ["*/*"]})).unwrap();
    let offer = AgentProfile { name: "kit".into(), card, dedupe_message_id: false };
    Server::builder(Arc::new(Service::new(engine, vec![offer], "kit"))).build(Anonymous).unwrap()
}

fn send(key: &str, words: &str) -> Request<Full<Bytes>> {
    let message = json!({"messageId": key, "role": "ROLE_USER", "parts": [{"text": words}]});
    Request::post("/message:send")
        .header("a2a-version", "1.0")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(json!({ "message": message }).to_string().into())
        .unwrap()
}

async fn read(response: Response<impl http_body::Body<Data = Bytes, Error: Debug>>) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

/// Returns the answer to a request that is not abandoned.
async fn answer(server: &Server<Service>, key: &str, words: &str) -> Value {
    let answered = tokio::time::timeout(Duration::from_secs(10), server.answer(send(key, words), &PEER));
    read(answered.await.expect("an answer in time")).await
}

/// Polls a request this many times and then drops it.
fn give_up_after(server: &Server<Service>, polls: usize, key: &str, words: &str) {
    let mut request = Box::pin(server.answer(send(key, words), &PEER));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if request.poll_unpin(&mut cx).is_ready() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_a_request_abandoned_at_any_moment_gets_the_same_answer() {
    let server = server().await;
    for polls in 1..8 {
        for words in ["echo hi", "msg hi"] {
            let key = format!("{words} {polls}");
            give_up_after(&server, polls, &key, words);
            let first = answer(&server, &key, words).await;
            let second = answer(&server, &key, words).await;
            assert!(first.get("error").is_none(), "{first}");
            assert_eq!(first, second, "{key}");
        }
    }
    let listed = Request::get("/tasks?pageSize=100").header("a2a-version", "1.0").body(Full::default()).unwrap();
    let listed = read(server.answer(listed, &PEER).await).await;
    assert_eq!(listed["totalSize"], 7, "each request was run once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_follow_up_is_run_once() {
    let server = server().await;
    let asked = answer(&server, "first", "ask").await;
    let task = asked["task"]["id"].as_str().unwrap();
    let follow_up = || {
        let message = json!({"messageId": "2", "taskId": task, "role": "ROLE_USER", "parts": [{"text": "42"}]});
        let request = Request::post("/message:send")
            .header("a2a-version", "1.0")
            .header("content-type", "application/json")
            .header("idempotency-key", "second");
        request.body(Full::from(json!({ "message": message }).to_string())).unwrap()
    };
    drop(server.answer(follow_up(), &PEER).now_or_never());
    let (one, two) = tokio::join!(server.answer(follow_up(), &PEER), server.answer(follow_up(), &PEER));
    let (one, two) = (read(one).await, read(two).await);
    assert_eq!(one["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{one}");
    assert_eq!(one, two);
    assert_eq!(one["task"]["history"].as_array().unwrap().len(), 3, "{one}");
}
