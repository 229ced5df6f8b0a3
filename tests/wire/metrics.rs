//! What `/metrics` on the operators' port says, in the text format of Prometheus.

use std::collections::BTreeMap;

use crate::raw::{http, say};
use crate::support::Server;

/// Reads all metrics: names with labels, and values.
async fn read(server: &Server) -> BTreeMap<String, f64> {
    let reply = http(&server.admin, "GET", "/metrics", &[], "").await;
    assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let text = reply.text();
    let mut metrics = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(text.contains(&format!("# TYPE {} ", family(name))), "{line} has no type");
        let known = metrics.insert(name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")));
        assert_eq!(known, None, "{line} is there twice");
    }
    metrics
}

/// The name that a sample's type is declared under.
fn family(sample: &str) -> &str {
    let name = sample.split('{').next().unwrap();
    ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

#[tokio::test]
async fn operators_see_calls_tasks_commits_and_the_process() {
    let server = Server::start("[[agents]]\nname = \"kit\"\nkind = \"conformance\"\n");
    let send = |text: &'static str| http_send(&server, text);
    assert_eq!(send("echo hi").await, 200);
    assert_eq!(send("fail").await, 200);
    let unknown = http(&server.url, "GET", "/tasks/none", &[("a2a-version", "1.0")], "").await;
    assert_eq!(unknown.status, 404);

    let metrics = read(&server).await;
    let value = |name: &str| *metrics.get(name).unwrap_or_else(|| panic!("no {name} in {metrics:#?}"));
    assert_eq!(value("tricord_calls_total{rpc=\"SendMessage\",binding=\"http\",code=\"OK\"}"), 2.0);
    assert_eq!(value("tricord_calls_total{rpc=\"GetTask\",binding=\"http\",code=\"TASK_NOT_FOUND\"}"), 1.0);
    let labels = "rpc=\"SendMessage\",binding=\"http\"";
    assert_eq!(value(&format!("tricord_call_duration_seconds_count{{{labels}}}")), 2.0);
    assert_eq!(value(&format!("tricord_call_duration_seconds_bucket{{{labels},le=\"+Inf\"}}")), 2.0);
    assert!(value(&format!("tricord_call_duration_seconds_sum{{{labels}}}")) > 0.0);
    for (state, count) in [("completed", 1.0), ("failed", 1.0), ("canceled", 0.0), ("rejected", 0.0)] {
        assert_eq!(value(&format!("tricord_tasks_ended_total{{agent=\"kit\",state=\"{state}\"}}")), count, "{state}");
    }
    let commits = value("tricord_commits_total");
    assert!(commits >= 2.0 && value("tricord_commit_seconds_total") > 0.0);
    assert_eq!(value("tricord_commit_duration_seconds_count"), commits);
    assert_eq!(value("tricord_commit_batch_size_count"), commits);
    assert_eq!(value("tricord_commit_batch_size_sum"), value("tricord_commit_tasks_total"));
    assert!(value("tricord_store_bytes") > 0.0);
    for gauge in ["tricord_runs", "tricord_streams", "tricord_cells", "tricord_connections"] {
        assert!(value(gauge) >= 0.0);
    }
    assert_eq!(value("tricord_ready"), 1.0);
    assert_eq!(value(&format!("tricord_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))), 1.0);
    for figure in ["process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"] {
        assert!(value(figure) > 1.0, "{figure}");
    }
    assert!(value("process_cpu_seconds_total") >= 0.0);
}

async fn http_send(server: &Server, text: &str) -> u16 {
    let headers = [("a2a-version", "1.0"), ("content-type", "application/json")];
    http(&server.url, "POST", "/message:send", &headers, say(text).to_string()).await.status
}
