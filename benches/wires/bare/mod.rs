//! The bare servers: axum and tonic with the schema's types and no task engine. Their cost is that of the bindings
//! themselves, so the difference to our server is the cost of everything else.

mod agent;
mod grpc;
mod http;

use std::net::SocketAddr;
use std::process::ExitCode;

use axum::Router;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

/// Serves until killed, with the runtime of the real server.
pub fn serve() -> ExitCode {
    let served = tokio::runtime::Builder::new_multi_thread().enable_all().build().and_then(|runtime| {
        runtime.block_on(async {
            let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
            println!("card http://{}/.well-known/agent-card.json", listener.local_addr()?);
            let listener = listener.tap_io(|socket| {
                let _ = socket.set_nodelay(true);
            });
            axum::serve(listener, router()).await
        })
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn router() -> Router {
    Router::new()
        .route("/.well-known/agent-card.json", get(async || "{}"))
        .route("/", post(http::jsonrpc))
        .route("/message:send", post(http::send))
        .route("/message:stream", post(http::stream))
        .route("/tasks/{id}", get(http::task))
        .route("/lf.a2a.v1.A2AService/{rpc}", post(grpc::call))
        .with_state(agent::Agent::default())
}
