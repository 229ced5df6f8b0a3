//! The admin port: metrics, resuming tasks, and the test routes of conformance agents. Loopback only.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tricord_bindings::server::{ConnectionLimits, Drain, Port};
use uuid::Uuid;

use super::hosts::Hosts;
use super::metrics::{self, Metrics};
use super::origin::OriginPolicy;
use crate::agents::TestHooks;
use crate::engine::{Engine, EngineError, Resumption};
use crate::schema::TaskState;

/// The state of the admin port.
pub(crate) struct Admin {
    /// The engine.
    pub(crate) engine: Engine,
    /// What the agents offer to tests. Without any there are no `/test` routes.
    pub(crate) test_hooks: Vec<Arc<dyn TestHooks>>,
    /// What `/metrics` answers.
    pub(crate) metrics: Metrics,
    /// The host names that the port answers to.
    pub(crate) hosts: Hosts,
}

/// Serves the admin port, with the limits of the public one, until the drain begins. Pages of other origins may not call it.
pub(crate) async fn serve(listener: TcpListener, admin: Admin, limits: ConnectionLimits, drain: Drain) {
    // A segment of a path is a parameter or text, not both: `{action}` is `<id>:resume`.
    let mut routes = Router::new().route("/metrics", get(read_metrics)).route("/tasks/{action}", post(act_on_task));
    if !admin.test_hooks.is_empty() {
        routes = routes.route("/test/ticks/{task}", get(ticks)).route("/test/resume/{task}", post(resume_in_test));
    }
    let (hosts, origins) = (admin.hosts.clone(), OriginPolicy::default());
    let check_source = from_fn(move |request: Request, next: Next| {
        let (head, body) = request.into_parts();
        let checked = hosts.check(&head).and_then(|()| origins.check(&head));
        async move {
            match checked {
                Ok(()) => next.run(Request::from_parts(head, body)).await,
                Err(error) => {
                    let status = StatusCode::from_u16(error.kind().http).unwrap_or(StatusCode::FORBIDDEN);
                    refused(status, error.message())
                }
            }
        }
    });
    let routes = routes.with_state(Arc::new(admin)).layer(check_source);
    Port::new(None, limits, drain).serve(listener, routes).await;
}

/// The metrics, in the text format of Prometheus.
async fn read_metrics(State(admin): State<Arc<Admin>>) -> Response {
    match admin.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn ticks(State(admin): State<Arc<Admin>>, Path(task): Path<String>) -> Response {
    match admin.test_hooks.iter().find_map(|agent| agent.ticks(&task)) {
        Some(ticks) => ticks.to_string().into_response(),
        None => (StatusCode::NOT_FOUND, "no slow run of this task is known\n").into_response(),
    }
}

/// `POST /tasks/{id}:resume`: resumes a task that waits in AUTH_REQUIRED, once what it waits for was granted.
async fn act_on_task(State(admin): State<Arc<Admin>>, Path(action): Path<String>) -> Response {
    let Some(id) = action.strip_suffix(":resume") else {
        return refused(StatusCode::NOT_FOUND, "unknown action: the only one is /tasks/{id}:resume");
    };
    match resume(&admin.engine, id).await {
        Ok(Resumption::Resumed) => {
            tracing::info!(task = id, "an operator resumed a task");
            state(StatusCode::OK, id, TaskState::AuthRequired, None)
        }
        Ok(Resumption::NotWaiting(found)) => {
            state(StatusCode::CONFLICT, id, found, Some("the task does not wait for an authorisation"))
        }
        Err(EngineError::NotFound) => refused(StatusCode::NOT_FOUND, "no task has this id"),
        Err(error) => refused(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
    }
}

async fn resume(engine: &Engine, id: &str) -> Result<Resumption, EngineError> {
    let id = Uuid::try_parse(id).map_err(|_| EngineError::NotFound)?;
    engine.resume(id).await
}

/// Answers with the state in which the task was found.
fn state(status: StatusCode, id: &str, state: TaskState, error: Option<&str>) -> Response {
    let mut body = serde_json::json!({"id": id, "state": state.as_str_name()});
    if let Some(error) = error {
        body["error"] = error.into();
    }
    json(status, &body)
}

fn refused(status: StatusCode, error: &str) -> Response {
    json(status, &serde_json::json!({ "error": error }))
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// `POST /test/resume/{task}`: the same for conformance tests, which look at the status only.
async fn resume_in_test(State(admin): State<Arc<Admin>>, Path(task): Path<String>) -> StatusCode {
    match resume(&admin.engine, &task).await {
        Ok(Resumption::Resumed) => StatusCode::NO_CONTENT,
        Ok(Resumption::NotWaiting(_)) => StatusCode::CONFLICT,
        Err(EngineError::NotFound) => StatusCode::NOT_FOUND,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
