//! Rules of our JSON that the corpus does not cover: exact texts, and the paths in errors.

use serde::de::DeserializeOwned;
use tricord::schema::*;
use tricord_bindings::{Error, Violation, proto_json};

fn decode<T: DeserializeOwned>(json: &str) -> Result<T, Error> {
    proto_json::decode(json.as_bytes())
}

/// Returns the only violation of a text that is refused.
#[track_caller]
fn violation<T: DeserializeOwned>(json: &str) -> Violation {
    let Err(error) = decode::<T>(json) else { panic!("read: {json}") };
    assert_eq!(error.kind().reason, "INVALID_PARAMS", "{json}: {error}");
    assert_eq!(error.field_violations().len(), 1, "{json}");
    error.field_violations()[0].clone()
}

#[track_caller]
fn reprinted<T: DeserializeOwned + serde::Serialize>(json: &str) -> String {
    let message: T = decode(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    serde_json::to_string(&message).expect("a message prints")
}

#[test]
fn numbers_print_in_their_shortest_form() {
    for (read, printed) in [
        ("5.0", "5"),
        ("-1", "-1"),
        ("1e3", "1000"),
        ("0.1", "0.1"),
        ("1.5", "1.5"),
        ("-0.0", "-0"),
        ("1700000000000", "1700000000000"),
        ("9007199254740993", "9007199254740992"),
        ("1e21", "1e+21"),
        ("1e16", "1e+16"),
        ("5e-324", "5e-324"),
    ] {
        assert_eq!(reprinted::<Part>(&format!("{{\"data\":{read}}}")), format!("{{\"data\":{printed}}}"));
    }
}

#[test]
fn empty_values_inside_a_value_are_kept() {
    let json = r#"{"data":{"e":{},"f":false,"l":[],"n":null,"s":"","z":0}}"#;
    assert_eq!(reprinted::<Part>(json), json);
    assert_eq!(reprinted::<Part>(r#"{"data":null}"#), r#"{"data":null}"#);
}

#[test]
fn timestamps_print_with_three_six_or_nine_digits_in_utc() {
    for (read, printed) in [
        ("2025-10-28T10:30:00Z", "2025-10-28T10:30:00.000Z"),
        ("2025-10-28T10:30:00.1Z", "2025-10-28T10:30:00.100Z"),
        ("2025-10-28T10:30:00.1234Z", "2025-10-28T10:30:00.123400Z"),
        ("2025-10-28T10:30:00.000000001Z", "2025-10-28T10:30:00.000000001Z"),
        ("2025-10-28T00:30:00+02:00", "2025-10-27T22:30:00.000Z"),
    ] {
        let printed = format!(r#"{{"state":"TASK_STATE_WORKING","timestamp":"{printed}"}}"#);
        assert_eq!(reprinted::<TaskStatus>(&format!(r#"{{"state":2,"timestamp":"{read}"}}"#)), printed);
    }
}

#[test]
fn required_fields_are_always_printed_and_other_fields_if_set() {
    let empty = serde_json::to_string(&ListTasksResponse::default()).unwrap();
    assert_eq!(empty, r#"{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}"#);
    assert_eq!(serde_json::to_string(&Task::default()).unwrap(), r#"{"id":""}"#);
    let flow = r#"{"tokenUrl":"t","scopes":{}}"#;
    assert_eq!(reprinted::<ClientCredentialsOAuthFlow>(flow), flow);
    assert_eq!(reprinted::<AgentCapabilities>(r#"{"streaming":false}"#), r#"{"streaming":false}"#);
}

#[test]
fn an_unknown_enum_number_is_printed_as_a_number() {
    let status = TaskStatus { state: 99, ..Default::default() };
    assert_eq!(serde_json::to_string(&status).unwrap(), r#"{"state":99}"#);
}

#[test]
fn values_that_json_cannot_represent_are_printed_as_null() {
    use tricord_bindings::wkt::{Timestamp, Value, value::Kind};
    let print = |value: &Value| serde_json::to_string(value).unwrap();
    assert_eq!(print(&Value { kind: None }), "null");
    assert_eq!(print(&Kind::NumberValue(f64::NAN).into()), "null");
    let late = Timestamp { seconds: i64::MAX, nanos: -1 };
    assert_eq!(serde_json::to_string(&late).unwrap(), r#""9999-12-31T23:59:59.000Z""#);
}

#[test]
fn errors_name_the_field() {
    for (json, field) in [
        (r#"{"message":"hi"}"#, "message"),
        (r#"{"message":{"parts":[{"text":"a"},{"text":5}]}}"#, "message.parts[1].text"),
        (r#"{"message":{"role":"user"}}"#, "message.role"),
        (r#"{"message":{"role":99}}"#, "message.role"),
        (r#"{"message":{"parts":[{"raw":"***"}]}}"#, "message.parts[0].raw"),
        (r#"{"message":{"parts":[null]}}"#, "message.parts[0]"),
        (r#"{"message":{"parts":[{"text":"a","url":"b"}]}}"#, "message.parts[0].url"),
        (r#"{"message":{"messageId":"a","message_id":"b"}}"#, "message.message_id"),
        (r#"{"message":{"metadata":{"a":{"b":1,"b":2}}}}"#, "message.metadata.a.b"),
        (r#"{"message":{"metadata":{"http://x/y":{"b":1e999}}}}"#, r#"message.metadata["http://x/y"].b"#),
        (r#"{"configuration":{"historyLength":3000000000}}"#, "configuration.historyLength"),
        (r#"{"configuration":{"historyLength":"x"}}"#, "configuration.historyLength"),
    ] {
        assert_eq!(violation::<SendMessageRequest>(json).field, field, "{json}");
    }
    assert_eq!(violation::<TaskStatus>(r#"{"timestamp":"yesterday"}"#).field, "timestamp");
    assert_eq!(violation::<Task>("[]").field, "");
}

#[test]
fn errors_about_enums_list_the_names() {
    for json in [r#"{"role":"user"}"#, r#"{"role":7}"#, r#"{"role":-1}"#, r#"{"role":99999999999}"#] {
        let description = violation::<Message>(json).description;
        assert!(description.contains("ROLE_UNSPECIFIED, ROLE_USER, ROLE_AGENT"), "{description}");
        assert!(!description.contains(" at line "), "{description}");
    }
}

#[test]
fn whole_numbers_are_read_in_every_spelling_up_to_their_limits() {
    for (json, length) in [("2147483647", i32::MAX), ("\"-2147483648\"", i32::MIN), ("1e2", 100), ("\"1.0e1\"", 10)] {
        let read: SendMessageConfiguration = decode(&format!(r#"{{"historyLength":{json}}}"#)).expect(json);
        assert_eq!(read.history_length, Some(length), "{json}");
    }
    for json in ["2147483648", "1e10", "0.5", "\"\"", "\"1 \"", "\"+1\"", "\"\\\"1\\\"\"", "\"[1]\"", "[1]", "\"0x1\""]
    {
        violation::<SendMessageConfiguration>(&format!(r#"{{"historyLength":{json}}}"#));
    }
}

#[test]
fn null_means_absent_for_optional_fields() {
    let read: SendMessageConfiguration = decode(r#"{"historyLength":null}"#).unwrap();
    assert_eq!(read.history_length, None);
    let read: SendMessageConfiguration = decode(r#"{"historyLength":0}"#).unwrap();
    assert_eq!(read.history_length, Some(0));
}

#[test]
fn a_null_member_of_a_oneof_counts_as_absent() {
    assert_eq!(reprinted::<Part>(r#"{"text":null,"url":"u"}"#), r#"{"url":"u"}"#);
    violation::<Part>(r#"{"data":null,"text":"t"}"#);
}

#[test]
fn metadata_and_data_have_the_same_depth_limit() {
    let nested = |levels: usize| "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels);
    decode::<Message>(&format!(r#"{{"metadata":{}}}"#, nested(30))).expect("30 levels are read");
    let deep = violation::<Message>(&format!(r#"{{"metadata":{}}}"#, nested(31)));
    assert_eq!(deep.field, format!("metadata{}", ".a".repeat(30)));
    assert!(deep.description.contains("30 levels"), "{}", deep.description);
}
