//! The admin port as operators use it: resuming tasks that wait for an authorisation, and what is not there.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tricord::Launch;
use tricord::agents::{Agent, AgentError, TaskContext, text_part};
use tricord::client::Binding;
use tricord::config::StoreUrl;
use tricord::schema::TaskState;

use crate::raw::http;
use crate::streams::gists;
use crate::support::Server;

const WIRE: Binding = Binding::HttpJson;

/// Calls `POST /tasks/{id}:resume`; returns the status and the body.
async fn resume(admin: &str, id: &str) -> (u16, Value) {
    let answer = http(admin, "POST", &format!("/tasks/{id}:resume"), &[], "").await;
    (answer.status, serde_json::from_slice(&answer.body).unwrap())
}

#[tokio::test]
async fn an_operator_resumes_a_task_that_waits_for_an_authorisation() {
    let server = Server::shared();
    let id = server.make(WIRE, "auth").await["id"].as_str().unwrap().to_owned();
    let mut stream = server.ask(WIRE, "SubscribeToTask", json!({"id": id})).stream().await;
    stream.event().await;
    assert_eq!(resume(&server.admin, &id).await, (200, json!({"id": id, "state": "TASK_STATE_AUTH_REQUIRED"})));
    assert_eq!(gists(&stream.rest().await), ["working", "completed"]);
    let refused = json!({
        "id": id,
        "state": "TASK_STATE_COMPLETED",
        "error": "the task does not wait for an authorisation",
    });
    assert_eq!(resume(&server.admin, &id).await, (409, refused));
}

#[tokio::test]
async fn other_tasks_and_actions_are_refused() {
    let server = Server::shared();
    let asked = server.make(WIRE, "ask").await;
    let (status, body) = resume(&server.admin, asked["id"].as_str().unwrap()).await;
    assert_eq!((status, &body["state"]), (409, &"TASK_STATE_INPUT_REQUIRED".into()));
    for id in ["00000000-0000-7000-8000-000000000000", "none"] {
        assert_eq!(resume(&server.admin, id).await, (404, json!({"error": "no task has this id"})));
    }
    assert_eq!(http(&server.admin, "POST", "/tasks/none:start", &[], "").await.status, 404);
    assert_eq!(http(&server.admin, "GET", "/tasks/none:resume", &[], "").await.status, 405);
}

#[tokio::test]
async fn the_test_routes_exist_only_beside_a_conformance_agent() {
    let server = Server::start("[[agents]]\nkind = \"echo\"\n");
    for (verb, path) in [("GET", "/test/ticks/none"), ("POST", "/test/resume/none")] {
        let answer = http(&server.admin, verb, path, &[], "").await;
        assert_eq!((answer.status, answer.body.is_empty()), (404, true), "{path}");
    }
    assert_eq!(http(&server.admin, "GET", "/metrics", &[], "").await.status, 200);
}

/// Completes a task if the authorisation was granted. Otherwise it ends the run in AUTH_REQUIRED, without waiting.
struct NeedsGrant {
    granted: bool,
}

impl Agent for NeedsGrant {
    async fn run(&self, task: TaskContext) -> Result<(), AgentError> {
        if self.granted {
            return task.complete(task.text()).await;
        }
        task.status(TaskState::AuthRequired, vec![text_part("Please authorise.")]).await
    }
}

/// Serves [`NeedsGrant`] on a store of this directory, from start to shutdown.
async fn live<T>(dir: &TempDir, granted: bool, life: impl AsyncFnOnce(String, String) -> T) -> T {
    let server = Launch::new()
        .agent("asks", NeedsGrant { granted })
        .listen("127.0.0.1:0".parse().unwrap())
        .store(StoreUrl::sqlite(dir.path().join("t.db")))
        .configure(|config| config.admin.listen = Some("127.0.0.1:0".parse().unwrap()));
    let running = server.bind().await.unwrap();
    let (url, admin) = (running.public_url().to_owned(), format!("http://{}", running.admin_address().unwrap()));
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(running.serve(async { drop(stopped.await) }));
    let result = life(url, admin).await;
    drop(stop);
    serving.await.unwrap();
    result
}

async fn call(url: &str, verb: &str, path: &str, body: &Value) -> Value {
    let headers = [("a2a-version", "1.0"), ("content-type", "application/json")];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    serde_json::from_slice(&http(url, verb, path, &headers, body).await.body).unwrap()
}

#[tokio::test]
async fn a_task_whose_run_ended_before_a_restart_runs_again_when_it_is_resumed() {
    let dir = TempDir::new().unwrap();
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]});
    let id = live(&dir, false, async |url, _| {
        let task = call(&url, "POST", "/message:send", &json!({ "message": message })).await["task"].clone();
        assert_eq!(task["status"]["state"], "TASK_STATE_AUTH_REQUIRED", "{task}");
        task["id"].as_str().unwrap().to_owned()
    })
    .await;
    live(&dir, true, async |url, admin| {
        assert_eq!(resume(&admin, &id).await.0, 200);
        let completed = async {
            loop {
                let task = call(&url, "GET", &format!("/tasks/{id}"), &Value::Null).await;
                if task["status"]["state"] == "TASK_STATE_COMPLETED" {
                    return task;
                }
            }
        };
        let task = tokio::time::timeout(Duration::from_secs(20), completed).await.unwrap();
        assert_eq!(task["status"]["message"]["parts"][0]["text"], "go", "{task}");
        assert_eq!(resume(&admin, &id).await.0, 409);
    })
    .await;
}

#[tokio::test]
async fn a_name_that_is_taken_stops_the_start_before_the_store_is_opened() {
    use tricord::agents::from_fn;

    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tricord.db");
    let echo = || from_fn(|task: TaskContext| async move { task.reply(task.text()).await });
    let launch = || Launch::new().store(StoreUrl::sqlite(&path)).agent("echo", echo());
    let taken = || tricord::axum::Router::new().route("/tasks", tricord::axum::routing::get(|| async { "mine" }));
    for (launch, told) in [
        (launch().agent("echo", echo()), "two agents have this name"),
        (launch().configure(|config| config.default_agent = "other".into()), "the default agent is not served"),
        (launch().routes(taken()), "/tasks"),
    ] {
        let error = launch.listen(([127, 0, 0, 1], 0).into()).bind().await.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        assert!(!path.exists(), "{error}");
    }
}
