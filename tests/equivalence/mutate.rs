//! Mutations that make valid requests invalid, odd, or valid in another way.

use serde_json::{Value, json};

use crate::case::{Case, part, text, value};
use crate::random::Random;

/// Timestamps as clients write them, valid and invalid.
pub(crate) const TIMES: &[&str] = &[
    "2020-01-01T00:00:00Z",
    "2020-01-01T00:00:00.123456789Z",
    "2020-01-01T02:00:00+02:00",
    "2999-12-31T23:59:59.999Z",
    "0001-01-01T00:00:00Z",
];

const BAD_TIMES: &[&str] =
    &["", "now", "2020-01-01", "2020-02-30T00:00:00Z", "2020-01-01T00:00:00", "0001-01-01T00:00:00+00:01"];

const IDS: &[&str] = &[
    "@done.id",
    "@failed.id",
    "@canceled.id",
    "@live.id",
    "@foreign.id",
    "@still.id",
    "@upper.id",
    "@done.context",
    "@live.context",
    "",
    " ",
    "nope",
    "é/ü ?#%",
    "x:cancel",
    "018f2f6e-0000-7000-8000-000000000000",
    "00000000-0000-0000-0000-000000000000",
];

const TENANTS: &[&str] = &["", "kit", "other", "strict", "nope", "KIT", "é", "a/b", "tasks", " kit"];

const VERSIONS: &[&str] = &["", " ", "1.0", "1.0.7", " 1.0 ", "1", "0.3", "2.0", "99.0", "abc", "1.0.x", "1.0\u{e9}"];

const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "100",
    "101",
    "2147483647",
    "2147483648",
    "-2147483649",
    "1.5",
    "1e1",
    "100.0",
    "1e400",
    "9223372036854775808",
    "true",
    "null",
    "\"5\"",
    "\"+5\"",
    "\"1e1\"",
    "\" 5\"",
    "\"05\"",
    "\"x\"",
    "\"\"",
    "\"-0\"",
    "[]",
    "{}",
];

const ROLES: &[&str] = &[
    "\"ROLE_AGENT\"",
    "\"ROLE_UNSPECIFIED\"",
    "\"ROLE_USER\"",
    "\"user\"",
    "\"\"",
    "0",
    "1",
    "2",
    "3",
    "7",
    "-1",
    "2147483648",
    "1.0",
    "1.5",
    "\"1\"",
    "null",
    "true",
];

const STATES: &[&str] = &[
    "\"TASK_STATE_INPUT_REQUIRED\"",
    "\"TASK_STATE_CANCELED\"",
    "\"TASK_STATE_CANCELLED\"",
    "\"FOO\"",
    "\"\"",
    "0",
    "3",
    "8",
    "99",
    "-1",
    "1.5",
    "\"3\"",
    "null",
    "[]",
];

/// Applies one mutation.
pub(crate) fn mutate(case: &mut Case, random: &mut Random) {
    match random.below(19) {
        0 | 1 => edit(case, random, |random, node| node.remove(random)),
        2 => edit(case, random, |random, node| {
            node.set(random.pick(&["\"\"", "[]", "{}", "null", "0", "false"]));
        }),
        3 => edit(case, random, |random, node| node.put(value(random, 2))),
        4 => edit(case, random, |random, node| node.put(json!(text(random)))),
        5 => case.params["tenant"] = json!(random.pick(TENANTS)),
        6 => case.headers.retain(|(name, _)| name != "a2a-version"),
        7 => {
            case.headers.retain(|(name, _)| name != "a2a-version");
            case.headers.push(("a2a-version".to_owned(), random.pick(VERSIONS).to_owned()));
        }
        8 => header(case, random),
        9 | 10 => id(case, random),
        11 => number(case, random),
        12 if is_send(case) => set(case, "/message/role", raw(random.pick(ROLES))),
        12 if case.rpc == "ListTasks" => set(case, "/status", raw(random.pick(STATES))),
        13 if is_send(case) => parts(case, random),
        13 if case.rpc == "ListTasks" => {
            let times = if random.below(2) == 0 { TIMES } else { BAD_TIMES };
            set(case, "/statusTimestampAfter", json!(random.pick(times)));
        }
        14 => deep(case, random),
        15 => unknown(case, random),
        16 => snake(case, random),
        17 if is_send(case) && random.below(2) == 0 => {
            let long = random.pick(&["x", "é", "\n"]).repeat(random.pick(&[1_000, 40_000]));
            let places =
                ["/message/parts/0/text", "/message/messageId", "/message/parts/0/mediaType", "/message/taskId"];
            match random.below(places.len() + 1) {
                // A path with a long name.
                4 => set(case, "/metadata", json!({long: deeper(31, true)})),
                at => set(case, places[at], json!(long)),
            }
        }
        17 if case.rpc == "ListTasks" => token(case, random),
        18 => case.second_tenant = Some(random.pick(&["kit", "other", "strict", "nope"]).to_owned()),
        _ => edit(case, random, |random, node| node.put(json!(random.pick(IDS)))),
    }
}

fn is_send(case: &Case) -> bool {
    case.rpc.starts_with("Send")
}

fn raw(json: &str) -> Value {
    // A value cannot hold a number beyond doubles. Other tests cover it.
    serde_json::from_str(json).unwrap_or(Value::Null)
}

fn set(case: &mut Case, pointer: &str, to: Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
    if let Some(Value::Object(members)) = case.params.pointer_mut(parent) {
        members.insert(name.to_owned(), to);
    }
}

fn header(case: &mut Case, random: &mut Random) {
    let (name, value) = match random.below(10) {
        0..=2 => ("a2a-extensions", random.pick(&["urn:one", "urn:two, urn:one", "urn:x", ",, ,", "urn:one,urn:one"])),
        3..=5 => ("last-event-id", random.pick(&["@event", "@event.last", "1.1", "x", "", "99.99", "1.-1", "\u{ff}"])),
        6 => ("a2a-version", random.pick(VERSIONS)),
        7 if case.rpc == "SendMessage" => ("idempotency-key", random.pick(&["@used", "", " "])),
        8 => ("traceparent", random.pick(&["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x"])),
        9 => {
            case.version_in_query = Some(random.pick(VERSIONS).to_owned());
            return;
        }
        _ => return case.headers.push(("idempotency-key".to_owned(), "k".repeat(257))),
    };
    case.headers.push((name.to_owned(), value.to_owned()));
}

fn id(case: &mut Case, random: &mut Random) {
    let place = match case.rpc.as_str() {
        "SendMessage" | "SendStreamingMessage" => random.pick(&["/message/taskId", "/message/contextId"]),
        "ListTasks" => "/contextId",
        rpc if rpc.contains("Push") => random.pick(&["/taskId", "/id"]),
        _ => "/id",
    };
    set(case, place, json!(random.pick(IDS)));
}

fn number(case: &mut Case, random: &mut Random) {
    let place = match case.rpc.as_str() {
        "SendMessage" | "SendStreamingMessage" => {
            if case.params["configuration"].is_null() {
                case.params["configuration"] = json!({});
            }
            "/configuration/historyLength"
        }
        "ListTasks" => random.pick(&["/historyLength", "/pageSize"]),
        "ListTaskPushNotificationConfigs" => "/pageSize",
        _ => "/historyLength",
    };
    set(case, place, raw(random.pick(NUMBERS)));
}

fn parts(case: &mut Case, random: &mut Random) {
    let odd = match random.below(9) {
        0 => json!({}),
        1 => json!({"mediaType": "application/json"}),
        2 => json!({"text": "a", "url": "b"}),
        3 => json!({"data": null}),
        4 => json!({"raw": random.pick(&["_-8=", "_-8", "AAA", "A", "!!", "AA=="])}),
        5 => json!({"text": null}),
        6 => Value::Null,
        7 => json!({"kind": "text", "text": "old"}),
        _ => part(random),
    };
    if let Some(Value::Array(list)) = case.params.pointer_mut("/message/parts") {
        let at = random.below(list.len() + 1);
        list.insert(at, odd);
    }
}

fn deep(case: &mut Case, random: &mut Random) {
    let levels = random.pick(&[5, 29, 30, 31, 32, 33, 34, 40, 61, 62, 70]);
    let object = random.below(2) == 0;
    let nested = deeper(levels, object);
    let place = match case.rpc.as_str() {
        rpc if rpc.starts_with("Send") => random.pick(&[
            "/metadata",
            "/message/metadata",
            "/message/parts/0/data",
            "/message/parts/0/metadata",
            "/zzz",
        ]),
        "CancelTask" => "/metadata",
        _ => "/zzz",
    };
    if place.ends_with("/data") {
        set(case, "/message/parts/0", json!({"data": nested}));
    } else {
        set(case, place, if object { nested } else { json!({"a": nested}) });
    }
}

fn deeper(levels: usize, object: bool) -> Value {
    (1..levels).fold(json!({}), |inner, _| if object { json!({"a": inner}) } else { json!([inner]) })
}

fn unknown(case: &mut Case, random: &mut Random) {
    let place = random.pick(&["/zzz", "/message/zzz", "/configuration/zzz", "/message/parts/0/zzz", "/kind"]);
    set(case, place, value(random, 2));
}

/// Spells a member as in the schema, or in both ways.
fn snake(case: &mut Case, random: &mut Random) {
    let twice = random.below(4) == 0;
    edit(case, random, |_, node| {
        let Node { parent: Value::Object(members), at: At::Member(name) } = node else { return };
        let mut other = String::new();
        for letter in name.chars() {
            if letter.is_ascii_uppercase() {
                other.push('_');
            }
            other.push(letter.to_ascii_lowercase());
        }
        if let Some(value) = members.get(&name).cloned() {
            if !twice {
                members.remove(&name);
            }
            members.insert(other, value);
        }
    });
}

fn token(case: &mut Case, random: &mut Random) {
    let token = random.pick(&["@token", "@token.of-a", "garbage", "", "é", "AAAA", "@done.id"]);
    set(case, "/pageToken", json!(token));
}

/// A position in the request: an object or list, and one of its members.
struct Node<'a> {
    parent: &'a mut Value,
    at: At,
}

#[derive(Clone)]
enum At {
    Member(String),
    Element(usize),
}

impl Node<'_> {
    fn put(self, value: Value) {
        match (self.parent, self.at) {
            (Value::Object(members), At::Member(name)) => drop(members.insert(name, value)),
            (Value::Array(list), At::Element(index)) => list[index] = value,
            _ => {}
        }
    }

    fn set(self, json: &str) {
        self.put(raw(json));
    }

    fn remove(self, _: &mut Random) {
        match (self.parent, self.at) {
            (Value::Object(members), At::Member(name)) => drop(members.remove(&name)),
            (Value::Array(list), At::Element(index)) => drop(list.remove(index)),
            _ => {}
        }
    }
}

/// Changes the request at a random position.
fn edit(case: &mut Case, random: &mut Random, change: impl FnOnce(&mut Random, Node<'_>)) {
    let mut places = places(&case.params);
    // The agent decides which lists change, so it has its own mutation.
    places.retain(|(parent, at)| !(parent.is_empty() && matches!(at, At::Member(name) if name == "tenant")));
    if places.is_empty() {
        return;
    }
    let (pointer, at) = places.swap_remove(random.below(places.len()));
    if let Some(parent) = case.params.pointer_mut(&pointer) {
        change(random, Node { parent, at });
    }
}

fn places(root: &Value) -> Vec<(String, At)> {
    fn walk(value: &Value, pointer: &str, found: &mut Vec<(String, At)>) {
        match value {
            Value::Object(members) => {
                for (name, inner) in members {
                    found.push((pointer.to_owned(), At::Member(name.clone())));
                    walk(inner, &format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), found);
                }
            }
            Value::Array(list) => {
                for (index, inner) in list.iter().enumerate() {
                    found.push((pointer.to_owned(), At::Element(index)));
                    walk(inner, &format!("{pointer}/{index}"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(root, "", &mut found);
    found
}

/// Returns every case that lacks one member, element or header of this one.
pub(crate) fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for (pointer, at) in places(&case.params) {
        let mut less = case.clone();
        if let Some(parent) = less.params.pointer_mut(&pointer) {
            Node { parent, at }.remove(&mut Random::new(0));
            all.push(less);
        }
    }
    for index in 0..case.headers.len() {
        let mut less = case.clone();
        less.headers.remove(index);
        all.push(less);
    }
    all.push(Case {
        tenant_in_path: false,
        by_get: false,
        version_in_query: None,
        second_tenant: None,
        ..case.clone()
    });
    all
}
