//! The generated validator: the rules for a decoded request, over any binding.

use prost::Message as _;
use tricord::schema::part::Content;
use tricord::schema::*;
use tricord_bindings::Validate;
use tricord_bindings::wkt::value::Kind;
use tricord_bindings::wkt::{ListValue, Struct, Timestamp, Value};

fn text(text: &str) -> Part {
    Part { content: Some(Content::Text(text.into())), ..Default::default() }
}

fn data(value: Value) -> Part {
    Part { content: Some(Content::Data(value)), ..Default::default() }
}

fn message(parts: Vec<Part>) -> Message {
    Message { message_id: "m".into(), role: Role::User.into(), parts, ..Default::default() }
}

fn send(message: Message) -> SendMessageRequest {
    SendMessageRequest { message: Some(message), ..Default::default() }
}

/// Returns the paths of the violations.
fn wrong(request: &impl Validate) -> Vec<String> {
    match request.validate() {
        Ok(()) => Vec::new(),
        Err(error) => {
            assert_eq!(error.kind().reason, "INVALID_PARAMS");
            error.field_violations().iter().map(|v| v.field.clone()).collect()
        }
    }
}

#[test]
fn a_valid_request_passes() {
    assert!(wrong(&send(message(vec![text("hi"), text("")]))).is_empty());
    assert!(wrong(&ListTasksRequest::default()).is_empty());
    assert!(wrong(&GetExtendedAgentCardRequest::default()).is_empty());
}

#[test]
fn every_missing_field_is_named() {
    assert_eq!(wrong(&SendMessageRequest::default()), ["message"]);
    assert_eq!(wrong(&send(Message::default())), ["message.messageId", "message.role", "message.parts"]);
    assert_eq!(wrong(&send(message(vec![text("a"), Part::default()]))), ["message.parts[1]"]);
    assert_eq!(wrong(&GetTaskRequest::default()), ["id"]);
    assert_eq!(wrong(&GetTaskPushNotificationConfigRequest::default()), ["taskId", "id"]);
    let webhook =
        TaskPushNotificationConfig { authentication: Some(AuthenticationInfo::default()), ..Default::default() };
    assert_eq!(wrong(&webhook), ["url", "authentication.scheme"]);
    let mut request = send(message(vec![text("hi")]));
    request.configuration =
        Some(SendMessageConfiguration { task_push_notification_config: Some(webhook), ..Default::default() });
    let inline = "configuration.taskPushNotificationConfig";
    assert_eq!(wrong(&request), [format!("{inline}.url"), format!("{inline}.authentication.scheme")]);
}

#[test]
fn enum_numbers_must_be_known_and_required_ones_specified() {
    assert_eq!(wrong(&send(Message { role: 7, ..message(vec![text("hi")]) })), ["message.role"]);
    assert_eq!(wrong(&send(Message { role: 0, ..message(vec![text("hi")]) })), ["message.role"]);
    assert_eq!(wrong(&ListTasksRequest { status: 99, ..Default::default() }), ["status"]);
    let error = ListTasksRequest { status: -1, ..Default::default() }.validate().unwrap_err();
    assert!(error.message().contains("TASK_STATE_WORKING"), "{error}");
}

#[test]
fn values_that_json_cannot_represent_are_refused() {
    let inside = |value: Value| Value::from(Kind::ListValue(ListValue { values: vec![value] }));
    assert_eq!(wrong(&send(message(vec![data(Value { kind: None })]))), ["message.parts[0].data"]);
    assert_eq!(wrong(&send(message(vec![data(inside(Value { kind: None }))]))), ["message.parts[0].data[0]"]);
    let nan = Value::from(Kind::NumberValue(f64::INFINITY));
    assert_eq!(wrong(&send(message(vec![data(nan)]))), ["message.parts[0].data"]);
    let after = Some(Timestamp { seconds: i64::MIN, nanos: 0 });
    assert_eq!(
        wrong(&ListTasksRequest { status_timestamp_after: after, ..Default::default() }),
        ["statusTimestampAfter"]
    );
}

#[test]
fn the_depth_limit_of_json_also_applies_to_protobuf_with_the_same_path() {
    let nested = |levels: usize| {
        (0..levels).fold(Value::from(Kind::BoolValue(true)), |value, _| {
            Kind::StructValue(Struct { fields: [("a".to_owned(), value)].into() }).into()
        })
    };
    assert!(wrong(&send(message(vec![data(nested(30))]))).is_empty());
    let request = send(message(vec![data(nested(31))]));
    let request = SendMessageRequest::decode(request.encode_to_vec().as_slice()).expect("31 levels are protobuf");
    let json = format!(r#"{{"message":{{"parts":[{{"data":{}1{}}}]}}}}"#, "{\"a\":".repeat(31), "}".repeat(31));
    let by_json = tricord_bindings::proto_json::decode::<SendMessageRequest>(json.as_bytes()).unwrap_err();
    let by_protobuf = request.validate().unwrap_err();
    assert_eq!(by_protobuf.field_violations(), by_json.field_violations());
}

#[test]
fn a_value_of_the_greatest_depth_can_be_stored_and_read_back_anywhere() {
    let deepest = (0..30).fold(Value::from(Kind::BoolValue(true)), |value, _| {
        Kind::StructValue(Struct { fields: [("a".to_owned(), value)].into() }).into()
    });
    let task = Task { history: vec![message(vec![data(deepest)])], ..Default::default() };
    let page = ListTasksResponse { tasks: vec![task.clone()], ..Default::default() };
    assert_eq!(ListTasksResponse::decode(page.encode_to_vec().as_slice()).expect("a page is read"), page);
    let fold = store::Checkpoint { seq: 1, task: Some(task.clone()) };
    assert_eq!(store::Checkpoint::decode(fold.encode_to_vec().as_slice()).expect("a checkpoint is read"), fold);
    let change = store::StatusChange { message: task.history.first().cloned(), ..Default::default() };
    let event = Some(store::record::Event::Status(change));
    let batch = store::RecordBatch { records: vec![store::Record { event, ..Default::default() }] };
    assert_eq!(store::RecordBatch::decode(batch.encode_to_vec().as_slice()).expect("a batch is read"), batch);
}

#[test]
fn at_most_twenty_violations_are_reported() {
    let request = send(message(vec![Part::default(); 1000]));
    assert_eq!(wrong(&request).len(), 20);
}
