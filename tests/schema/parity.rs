//! Compares our schema with the published one in the A2A SDK for Python, in every fact that a peer can observe.

use std::collections::BTreeMap;

use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Value};

use crate::codec::{pool, required};
use crate::venv;

const PACKAGE: &str = "lf.a2a.v1";

/// Additions to the published schema: the text of the protocol has POST for SubscribeToTask, and its schema does not.
/// Options that no peer can observe (`google.api.method_signature`) are not compared.
const OURS_ALONE: &[&str] = &[
    "http SubscribeToTask POST /tasks/{id=*}:subscribe",
    "http SubscribeToTask POST /{tenant}/tasks/{id=*}:subscribe",
];

#[test]
fn our_schema_is_the_published_one() {
    let published = DescriptorPool::decode(venv::run("descriptors.py", b"").as_slice()).expect("descriptors are read");
    let (ours, theirs) = (facts(&pool()), facts(&published));
    assert!(theirs.len() > 250, "only {} facts: the published schema was not read", theirs.len());
    let mut differences = Vec::new();
    for (fact, value) in &ours {
        match theirs.get(fact) {
            Some(other) if other == value => {}
            Some(other) => differences.push(format!("{fact}\n    ours      {value}\n    published {other}")),
            None if OURS_ALONE.contains(&fact.as_str()) => {}
            None => differences.push(format!("{fact}: ours alone: {value}")),
        }
    }
    differences
        .extend(theirs.iter().filter(|(fact, _)| !ours.contains_key(*fact)).map(|(f, v)| format!("{f}: missing: {v}")));
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    for fact in OURS_ALONE {
        assert!(ours.contains_key(*fact), "{fact} is not in our schema: remove it from the list");
        assert!(!theirs.contains_key(*fact), "{fact} is in the published schema now: remove it from the list");
    }
}

/// Returns every fact of a schema, one line each.
fn facts(pool: &DescriptorPool) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for message in pool.all_messages().filter(|m| m.package_name() == PACKAGE) {
        facts.insert(format!("message {}", message.full_name()), format!("map entry {}", message.is_map_entry()));
        for field in message.fields() {
            facts.insert(format!("field {}", field.full_name()), field_facts(&field));
        }
        for oneof in message.oneofs() {
            let members: Vec<_> = oneof.fields().map(|f| f.name().to_owned()).collect();
            facts.insert(format!("oneof {}", oneof.full_name()), members.join(" "));
        }
    }
    for descriptor in pool.all_enums().filter(|e| e.package_name() == PACKAGE) {
        for value in descriptor.values() {
            facts.insert(format!("value {}.{}", descriptor.full_name(), value.name()), value.number().to_string());
        }
    }
    for service in pool.services().filter(|s| s.package_name() == PACKAGE) {
        for method in service.methods() {
            let (input, output) = (method.input(), method.output());
            let streams = (method.is_client_streaming(), method.is_server_streaming());
            let what = format!("({}) -> ({}) streams {streams:?}", input.full_name(), output.full_name());
            facts.insert(format!("rpc {}", method.full_name()), what);
            let option = pool.get_extension_by_name("google.api.http").expect("the option is in the schema");
            let options = method.options();
            let rule = options.get_extension(&option);
            http_facts(method.name(), rule.as_message().expect("the rule is a message"), &mut facts);
        }
    }
    facts
}

fn field_facts(field: &FieldDescriptor) -> String {
    let oneof = field.containing_oneof();
    format!(
        "{} = {} {:?} {:?} presence {} packed {} json {} oneof {} required {} default {:?}",
        field.name(),
        field.number(),
        field.kind(),
        field.cardinality(),
        field.supports_presence(),
        field.is_packed(),
        field.json_name(),
        oneof.map(|o| o.name().to_owned()).unwrap_or_default(),
        required(field),
        field.default_value(),
    )
}

/// Adds verbs and paths with their bodies. The order of HTTP rules has no meaning.
fn http_facts(rpc: &str, rule: &DynamicMessage, facts: &mut BTreeMap<String, String>) {
    let text =
        |name: &str| rule.get_field_by_name(name).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    for verb in ["get", "put", "post", "delete", "patch"] {
        if rule.has_field_by_name(verb) {
            let fact = format!("http {rpc} {} {}", verb.to_uppercase(), text(verb));
            facts.insert(fact, format!("body {:?} response {:?}", text("body"), text("response_body")));
        }
    }
    assert!(!rule.has_field_by_name("custom"), "{rpc}: a custom verb, which this test does not compare");
    let more = rule.get_field_by_name("additional_bindings");
    for more in more.iter().filter_map(|v| v.as_list()).flatten().filter_map(Value::as_message) {
        http_facts(rpc, more, facts);
    }
}
