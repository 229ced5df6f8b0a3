//! A request that every binding can send, and the generator of random ones.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::mutate;
use crate::random::Random;

/// One request. Strings that begin with `@` are placeholders for values that the server chose: see `world`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    /// The rpc's name.
    pub(crate) rpc: String,
    /// The request message as JSON, valid or not.
    pub(crate) params: Value,
    /// Headers or metadata. Each character stands for one byte.
    pub(crate) headers: Vec<(String, String)>,
    /// The query parameter `A2A-Version`, which gRPC does not have.
    pub(crate) version_in_query: Option<String>,
    /// Whether the tenant is in the path, for bindings that have one.
    pub(crate) tenant_in_path: bool,
    /// A tenant in the path in addition to the message's; gRPC has no such path.
    pub(crate) second_tenant: Option<String>,
    /// Whether a stream is requested by GET, for the binding that has verbs.
    pub(crate) by_get: bool,
}

/// An rpc and its first HTTP rule.
pub(crate) struct Rpc {
    pub(crate) name: &'static str,
    pub(crate) request: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) path: &'static str,
    /// The relative frequency.
    weight: usize,
}

const fn rpc(name: &'static str, request: &'static str, rule: (&'static str, &'static str), weight: usize) -> Rpc {
    Rpc { name, request, verb: rule.0, path: rule.1, weight }
}

/// All rpcs.
pub(crate) const RPCS: &[Rpc] = &[
    rpc("SendMessage", "SendMessageRequest", ("POST", "/message:send"), 34),
    rpc("SendStreamingMessage", "SendMessageRequest", ("POST", "/message:stream"), 10),
    rpc("GetTask", "GetTaskRequest", ("GET", "/tasks/{id}"), 18),
    rpc("ListTasks", "ListTasksRequest", ("GET", "/tasks"), 14),
    rpc("CancelTask", "CancelTaskRequest", ("POST", "/tasks/{id}:cancel"), 8),
    rpc("SubscribeToTask", "SubscribeToTaskRequest", ("POST", "/tasks/{id}:subscribe"), 7),
    rpc(
        "CreateTaskPushNotificationConfig",
        "TaskPushNotificationConfig",
        ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
        2,
    ),
    rpc(
        "GetTaskPushNotificationConfig",
        "GetTaskPushNotificationConfigRequest",
        ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        2,
    ),
    rpc(
        "ListTaskPushNotificationConfigs",
        "ListTaskPushNotificationConfigsRequest",
        ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
        2,
    ),
    rpc(
        "DeleteTaskPushNotificationConfig",
        "DeleteTaskPushNotificationConfigRequest",
        ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        2,
    ),
    rpc("GetExtendedAgentCard", "GetExtendedAgentCardRequest", ("GET", "/extendedAgentCard"), 1),
];

impl Case {
    /// Returns the case with this number for this seed.
    pub(crate) fn make(seed: u64, number: u64) -> Self {
        let random = &mut Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ number);
        let mut turn = random.below(RPCS.iter().map(|rpc| rpc.weight).sum());
        let chosen = RPCS.iter().find(|rpc| {
            let found = turn < rpc.weight;
            turn = turn.wrapping_sub(rpc.weight);
            found
        });
        let rpc = chosen.expect("the number is below the sum of the frequencies");
        let mut case = Case {
            rpc: rpc.name.to_owned(),
            params: params(rpc.name, random),
            headers: vec![("a2a-version".to_owned(), "1.0".to_owned())],
            version_in_query: None,
            second_tenant: None,
            tenant_in_path: random.below(3) == 0,
            by_get: random.below(2) == 0,
        };
        if case.params["message"]["parts"][0]["text"] == json!("key") {
            case.params["message"]["parts"][0]["text"] = json!("echo once");
            case.headers.push(("idempotency-key".to_owned(), "@key".to_owned()));
        }
        for _ in 0..random.pick(&[0, 0, 1, 1, 1, 2, 3]) {
            mutate::mutate(&mut case, random);
        }
        case
    }

    pub(crate) fn rpc(&self) -> &'static Rpc {
        RPCS.iter().find(|rpc| rpc.name == self.rpc).unwrap_or_else(|| panic!("no rpc {}", self.rpc))
    }

    /// Returns whether the case contains this placeholder.
    pub(crate) fn names(&self, reference: &str) -> bool {
        fn inside(value: &Value, reference: &str) -> bool {
            match value {
                Value::String(text) => text.starts_with(reference),
                Value::Array(list) => list.iter().any(|value| inside(value, reference)),
                Value::Object(members) => members.values().any(|value| inside(value, reference)),
                _ => false,
            }
        }
        inside(&self.params, reference) || self.headers.iter().any(|(_, value)| value.starts_with(reference))
    }
}

fn params(rpc: &str, random: &mut Random) -> Value {
    match rpc {
        "SendMessage" | "SendStreamingMessage" => send(rpc == "SendStreamingMessage", random),
        "GetTask" => {
            let id = random.pick(&["@done.id", "@long.id", "@failed.id", "@canceled.id", "@live.id", "@rejected.id"]);
            let mut params = json!({"id": id});
            maybe(&mut params, random, 2, "historyLength", |random| json!(random.pick(&[0, 1, 2, 3, 100])));
            params
        }
        "ListTasks" => list(random),
        "CancelTask" => {
            let mut params = json!({"id": random.pick(&["@done.id", "@live.id", "@live.id", "@failed.id"])});
            maybe(&mut params, random, 3, "metadata", |random| Value::Object(object(random, 2)));
            params
        }
        "SubscribeToTask" => json!({"id": random.pick(&["@done.id", "@live.id", "@long.id"])}),
        "CreateTaskPushNotificationConfig" => json!({
            "taskId": "@done.id", "url": "https://hooks.example/a", "token": text(random),
            "authentication": {"scheme": "Bearer", "credentials": "abc"},
        }),
        "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig" => {
            json!({"taskId": "@done.id", "id": random.pick(&["a", "none", "é/ü"])})
        }
        "ListTaskPushNotificationConfigs" => json!({"taskId": "@done.id", "pageSize": random.pick(&[0, 1, 50])}),
        _ => json!({}),
    }
}

fn list(random: &mut Random) -> Value {
    let mut params = json!({"tenant": "still"});
    maybe(&mut params, random, 2, "contextId", |random| json!(random.pick(&["still-a", "still-b", "none"])));
    maybe(&mut params, random, 3, "status", |random| {
        json!(random.pick(&[
            "TASK_STATE_COMPLETED",
            "TASK_STATE_FAILED",
            "TASK_STATE_WORKING",
            "TASK_STATE_UNSPECIFIED"
        ]))
    });
    maybe(&mut params, random, 2, "pageSize", |random| json!(random.pick(&[1, 2, 5, 100])));
    maybe(&mut params, random, 4, "pageToken", |random| json!(random.pick(&["@token", "@token.of-a"])));
    maybe(&mut params, random, 3, "historyLength", |random| json!(random.pick(&[0, 1, 5])));
    maybe(&mut params, random, 3, "includeArtifacts", |random| json!(random.below(2) == 0));
    maybe(&mut params, random, 4, "statusTimestampAfter", |random| json!(random.pick(mutate::TIMES)));
    params
}

fn send(streams: bool, random: &mut Random) -> Value {
    let (mut first, mut at_once) = (Vec::new(), false);
    let mut id = format!("m-{}", random.below(1000));
    match random.below(16) {
        0 => first.push(json!({"text": "ask"})),
        1 => first.push(json!({"text": "fail"})),
        2 => first.push(json!({"text": "reject"})),
        3 => first.push(json!({"text": "chunks 3"})),
        4 => first.extend([json!({"text": "data"}), json!({"data": value(random, 3)})]),
        5 => first.push(json!({"text": format!("msg {}", text(random))})),
        6 if !streams => first.push(json!({"text": "key"})),
        7 if random.below(8) == 0 => {
            at_once = true;
            first.push(json!({"text": "slow 0.1"}));
        }
        8 | 9 => {
            let verbs = ["complete-task", "artifact-text", "artifact-file", "artifact-file-url", "artifact-data"];
            let more = ["message-response", "input-required", "reject-task", "task-failure", "stream-001"];
            let last = ["stream-002", "stream-artifact-file", "stream-artifact-chunked", "multi-turn"];
            id = format!("tck-{}-{id}", random.pick(&[&verbs[..], &more, &last].concat()));
        }
        _ => first.push(json!({"text": format!("echo {}", text(random))})),
    }
    let more = if first.is_empty() { 1 + random.below(2) } else { random.below(3) };
    first.extend((0..more).map(|_| part(random)));
    let mut message = json!({"messageId": id, "role": "ROLE_USER", "parts": first});
    match random.below(12) {
        0 => message["taskId"] = json!("@live.id"),
        1 => message["contextId"] = json!(random.pick(&["@done.context", "mine", "é ü/\u{2028}", "a b"])),
        2 => {
            message["taskId"] = json!("@live.id");
            message["contextId"] = json!("@live.context");
        }
        3 => message["taskId"] = json!("@done.id"),
        _ => {}
    }
    maybe(&mut message, random, 4, "metadata", |random| Value::Object(object(random, 3)));
    maybe(&mut message, random, 6, "extensions", |random| json!([random.pick(&["urn:one", "urn:x"])]));
    maybe(&mut message, random, 6, "referenceTaskIds", |_| json!(["@done.id", "nothing"]));
    let mut params = json!({"message": message});
    if at_once || random.below(3) == 0 {
        let mut configuration = json!({});
        maybe(&mut configuration, random, 2, "historyLength", |random| json!(random.pick(&[0, 1, 10])));
        maybe(&mut configuration, random, 3, "acceptedOutputModes", |_| json!(["text/plain", "*/*"]));
        if at_once {
            configuration["returnImmediately"] = json!(true);
        }
        params["configuration"] = configuration;
    }
    maybe(&mut params, random, 6, "metadata", |random| Value::Object(object(random, 2)));
    maybe(&mut params, random, 4, "tenant", |random| json!(random.pick(&["kit", "other", "kit"])));
    params
}

fn maybe(into: &mut Value, random: &mut Random, one_in: usize, name: &str, make: impl FnOnce(&mut Random) -> Value) {
    if random.below(one_in) == 0 {
        into[name] = make(random);
    }
}

/// Returns a part of any kind.
pub(crate) fn part(random: &mut Random) -> Value {
    let mut part = match random.below(5) {
        0 => json!({"raw": random.pick(&["", "dGNr", "AAECAwQ=", "/+8="])}),
        1 => json!({"url": random.pick(&["https://example.com/a", "not a link", "file:///x"])}),
        2 => json!({"data": value(random, 3)}),
        _ => json!({"text": text(random)}),
    };
    maybe(&mut part, random, 5, "mediaType", |random| {
        json!(random.pick(&[
            "text/plain",
            "TEXT/Plain; charset=utf-8",
            "application/json",
            "image/png",
            "nonsense",
            ";"
        ]))
    });
    maybe(&mut part, random, 6, "filename", |random| json!(text(random)));
    maybe(&mut part, random, 8, "metadata", |random| Value::Object(object(random, 2)));
    part
}

/// Returns text of a few pieces, some of them awkward.
pub(crate) fn text(random: &mut Random) -> String {
    let pieces = [
        "hello",
        "a",
        " ",
        "\"",
        "\\",
        "/",
        "\n",
        "\r\n",
        "\t",
        "\0",
        "\u{1f}",
        "\u{7f}",
        "é",
        "漢字",
        "🦀",
        "\u{2028}",
        "\u{feff}",
        "</script>",
        "%2F",
        "+",
        "&",
        "=",
        ":",
        "..",
        "data: x",
        "{}",
        "null",
    ];
    (0..1 + random.below(4)).map(|_| random.pick(&pieces)).collect()
}

pub(crate) fn object(random: &mut Random, depth: usize) -> Map<String, Value> {
    (0..random.below(4)).map(|_| (text(random), value(random, depth.saturating_sub(1)))).collect()
}

/// Returns any JSON value of at most this depth.
pub(crate) fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(random.pick(&[0.1, -1.5, 1e300, 5e-324, 1e15, 1e16, 1e21, -0.0])),
        3 => json!(random.pick(&[0_i64, 3, -1, 1 << 53, i64::MAX, i64::MIN])),
        4 => json!(text(random)),
        5 => Value::Array((0..random.below(3)).map(|_| value(random, depth - 1)).collect()),
        _ => Value::Object(object(random, depth)),
    }
}
