//! What a program serves beside A2A on the same port, and A2A on the port of a program.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use axum::extract::ConnectInfo;
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use jsonrpsee::RpcModule;
use jsonrpsee::types::ErrorObjectOwned;
use serde_json::{Value, json};
use tonic::server::NamedService;
use tricord::agents::{TaskContext, from_fn};
use tricord::config::StoreUrl;
use tricord::internals::server::{Additional, Anonymous, Builder, Server};
use tricord::{Launch, LaunchError, Principal};

use crate::authenticate::{KEY, Keys};
use crate::support::{Dummy, Running, serve};

/// Serves these beside A2A to callers with a key.
async fn start(add: impl FnOnce(&mut Additional)) -> Running {
    let mut additional = Additional::default();
    add(&mut additional);
    let change = |builder: Builder<Dummy>| builder.agents(vec!["t1".to_owned()]).additional(additional);
    serve(change, Keys::default()).await
}

#[tokio::test]
async fn routes_are_served_behind_authentication_where_a2a_has_no_path() {
    async fn whoami(Extension(who): Extension<Principal>, ConnectInfo(at): ConnectInfo<SocketAddr>) -> String {
        format!("{} {}", who.owner(), at.ip())
    }
    let nested = Router::new().route("/whoami", get(whoami)).fallback(whoami);
    let running = start(|additional| {
        additional.add_routes(Router::new().route("/whoami", get(whoami)).nest("/api", nested));
        additional
            .add_routes(Router::new().route("/tasks/{id}/notes", get(whoami)).route("/{agent}/notes", get(whoami)));
        additional.add_routes(Router::new().route("/tasks/special", get(whoami)).fallback(whoami));
    })
    .await;
    for path in ["/whoami", "/api/whoami", "/tasks/x/notes", "/t2/notes"] {
        let refused = running.http("GET", path, &[], "").await;
        assert_eq!(
            (refused.status.as_u16(), &refused.headers["www-authenticate"]),
            (401, &"Key".parse().unwrap()),
            "{path}"
        );
        let answered = running.http("GET", path, &[KEY, ("x-request-id", "7")], "").await;
        assert_eq!((answered.status.as_u16(), &answered.body[..]), (200, &b"acme 127.0.0.1"[..]), "{path}");
        assert_eq!(answered.headers["x-request-id"], "7", "{path}");
        assert_eq!(running.http("POST", path, &[KEY], "").await.status, 405, "{path}");
    }
    for path in ["/tasks/special", "/t1/tasks/special", "/tasks/x"] {
        let answered = running.http("GET", path, &[KEY, ("a2a-version", "1.0")], "").await;
        assert!(answered.json()["id"].is_string(), "{path}: {answered:?}");
    }
    // A fallback would be served without authentication, so it is not served at all.
    for path in ["/nothing/at/all", "/api/nothing"] {
        let lost = running.http("GET", path, &[KEY, ("a2a-version", "1.0")], "").await;
        assert_eq!((lost.status.as_u16(), &lost.json()["error"]["code"]), (404, &json!(404)), "{path}");
    }
}

fn methods() -> RpcModule<()> {
    let mut module = RpcModule::new(());
    let owner = |extensions: &http::Extensions| extensions.get::<Principal>().unwrap().owner().to_string();
    module
        .register_method("example/whoami", move |params, (), extensions| {
            let params: Value = params.parse()?;
            Ok::<_, ErrorObjectOwned>(json!({"owner": owner(extensions), "params": params}))
        })
        .unwrap();
    module
        .register_async_method("example/later", move |_, _, extensions| async move {
            tokio::task::yield_now().await;
            Ok::<_, ErrorObjectOwned>(owner(&extensions))
        })
        .unwrap();
    module
        .register_method("example/panic", |_, (), _| -> Result<(), ErrorObjectOwned> { panic!("on purpose") })
        .unwrap();
    module
}

#[tokio::test]
async fn methods_are_served_on_the_json_rpc_endpoint() {
    let running = start(|additional| additional.add_methods(methods())).await;
    let headers = [("content-type", "application/json"), ("a2a-version", "1.0"), KEY];
    let call = async |path: &str, method: &str, headers: &[(&str, &str)]| {
        let body = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": {"x": 1}}).to_string();
        running.http("POST", path, headers, body).await
    };
    for path in ["/", "/t1"] {
        let answered = call(path, "example/whoami", &headers).await.json();
        let result = json!({"owner": "acme", "params": {"x": 1}});
        assert_eq!(answered, json!({"jsonrpc": "2.0", "id": "a", "result": result}), "{path}");
        assert_eq!(call(path, "example/later", &headers).await.json()["result"], "acme", "{path}");
    }
    for id in ["-1.50", "123456789012345678901234567890", "\"\\u0061\"", "null"] {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"example/later\"}}");
        let answered = running.http("POST", "/", &headers, body).await;
        assert_eq!(answered.body, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"acme\"}}"));
    }
    let notified = running.http("POST", "/", &headers, r#"{"jsonrpc":"2.0","method":"example/later"}"#).await;
    assert_eq!((notified.status.as_u16(), notified.body.len()), (204, 0));
    assert_eq!(call("/", "example/panic", &headers).await.json()["error"]["code"], -32603);
    assert_eq!(call("/", "example/none", &headers).await.json()["error"]["code"], -32601);
    assert_eq!(call("/", "example/whoami", &headers[..2]).await.status, 401);
}

/// A gRPC service of which every method answers with the owner of its caller, in a header.
#[derive(Clone)]
struct Whoami<const CONFLICT: bool>;

impl<const CONFLICT: bool> NamedService for Whoami<CONFLICT> {
    const NAME: &'static str = if CONFLICT { "grpc.health.v1.Health" } else { "example.v1.Whoami" };
}

impl<const CONFLICT: bool> tower::Service<http::Request<tonic::body::Body>> for Whoami<CONFLICT> {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let mut response = tonic::Status::ok("").into_http();
        let owner = request.extensions().get::<Principal>().unwrap().owner().parse().unwrap();
        response.headers_mut().insert("x-owner", owner);
        ready(Ok(response))
    }
}

#[tokio::test]
async fn grpc_services_are_served_beside_the_ones_of_the_server() {
    let running = start(|additional| additional.add_service(Whoami::<false>)).await;
    let empty = Bytes::from_static(&[0; 5]);
    let path = "/example.v1.Whoami/Any";
    assert_eq!(running.grpc_bytes(path, &[], empty.clone()).await.grpc_status(), 16);
    let answered = running.grpc_bytes(path, &[KEY], empty.clone()).await;
    assert_eq!((answered.grpc_status(), &answered.headers["x-owner"]), (0, &"acme".parse().unwrap()));
    assert_eq!(running.grpc_bytes("/grpc.health.v1.Health/Check", &[KEY], empty.clone()).await.grpc_status(), 0);
    assert_eq!(running.grpc_bytes("/example.v1.Other/Any", &[KEY], empty).await.grpc_status(), 12);
}

#[test]
fn a_name_of_a2a_is_an_error_at_the_start_that_names_it() {
    let refused = |add: &dyn Fn(&mut Additional)| {
        let mut additional = Additional::default();
        add(&mut additional);
        let server = Server::builder(std::sync::Arc::new(Dummy::default())).base_path("/v1");
        let built = server.agents(vec!["t1".to_owned()]).additional(additional).build(Anonymous);
        built.expect_err("a conflict").to_string()
    };
    for (route, taken) in [
        ("/livez", "/livez"),
        ("/v1/tasks/{id}", "/v1/tasks/example"),
        ("/v1/t1/{*rest}", "/v1/t1/.well-known/agent-card.json"),
        ("/v1/{name}", "/v1/openapi.json"),
    ] {
        let error = refused(&|additional| additional.add_routes(Router::new().route(route, get(|| async {}))));
        let expected = format!("the route {route} would match {taken}, which is a path of A2A");
        assert!(error.starts_with(&expected), "{error}");
    }
    let error = refused(&|additional| {
        let mut module = RpcModule::new(());
        module.register_method("GetTask", |_, (), _| Ok::<_, ErrorObjectOwned>(())).unwrap();
        additional.add_methods(module);
    });
    assert!(error.starts_with("the JSON-RPC method GetTask exists already"), "{error}");
    let error = refused(&|additional| {
        additional.add_methods(methods());
        additional.add_methods(methods());
    });
    assert!(error.starts_with("the JSON-RPC method example/") && error.contains("exists already"), "{error}");
    let error = refused(&|additional| additional.add_service(Whoami::<true>));
    assert!(error.starts_with("the gRPC service grpc.health.v1.Health exists already"), "{error}");
    let error = refused(&|additional| {
        additional.add_service(Whoami::<false>);
        additional.add_service(Whoami::<false>);
    });
    assert!(error.starts_with("the gRPC service example.v1.Whoami exists already"), "{error}");
}

/// Prepares an echo agent in memory.
fn echo() -> Launch {
    let echo = from_fn(|task: TaskContext| async move { task.reply(task.text()).await });
    Launch::new().agent("echo", echo).store(StoreUrl::memory())
}

#[tokio::test]
async fn a_program_mounts_the_router_in_its_own_server() {
    let a2a = echo().router().await.unwrap();
    let app = Router::new().route("/hello", get(|| async { "hello" })).merge(a2a.router());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Running::at(listener.local_addr().unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(
        axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())
            .with_graceful_shutdown(async move {
                let _ = stopped.await;
                a2a.shut_down().await;
            })
            .into_future(),
    );
    assert_eq!(client.http("GET", "/hello", &[], "").await.body, "hello");
    assert_eq!(client.http("GET", "/readyz", &[], "").await.status, 200);
    let card = client.http("HEAD", "/.well-known/agent-card.json", &[], "").await;
    assert!(card.headers["content-length"].to_str().unwrap().parse::<usize>().unwrap() > 0 && card.body.is_empty());
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]});
    let headers = [("content-type", "application/json"), ("a2a-version", "1.0")];
    let answered = client.http("POST", "/message:send", &headers, json!({ "message": message }).to_string()).await;
    assert!(answered.json().to_string().contains("\"hi\""), "{answered:?}");
    let health = client.grpc_bytes("/grpc.health.v1.Health/Check", &[], Bytes::from_static(&[0; 5])).await;
    assert_eq!(health.grpc_status(), 0);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_conflict_prevents_the_start() {
    let taken = Router::new().route("/echo/message:send", get(|| async {}));
    match echo().routes(taken).router().await {
        Err(LaunchError::Conflict(conflict)) => {
            assert!(conflict.to_string().contains("/echo/message:send"), "{conflict}")
        }
        other => panic!("{other:?}"),
    }
}
