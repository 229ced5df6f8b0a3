//! Requests as JSON and as protobuf: writing a request that was read does not change it, in either form.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tricord::schema::*;
use tricord_bindings::{Validate, proto_json};

trait Request: prost::Message + Default + PartialEq + Debug + Serialize + DeserializeOwned + Validate {}
impl<T: prost::Message + Default + PartialEq + Debug + Serialize + DeserializeOwned + Validate> Request for T {}

macro_rules! every_request {
    ($function:ident, $data:expr) => {
        [
            $function::<SendMessageRequest>($data),
            $function::<GetTaskRequest>($data),
            $function::<ListTasksRequest>($data),
            $function::<CancelTaskRequest>($data),
            $function::<SubscribeToTaskRequest>($data),
            $function::<TaskPushNotificationConfig>($data),
            $function::<GetTaskPushNotificationConfigRequest>($data),
            $function::<DeleteTaskPushNotificationConfigRequest>($data),
            $function::<ListTaskPushNotificationConfigsRequest>($data),
            $function::<GetExtendedAgentCardRequest>($data),
        ]
        .contains(&true)
    };
}

/// Reads every request as ProtoJSON.
pub fn proto_json(data: &[u8]) -> bool {
    every_request!(from_json, data)
}

/// Reads every request as protobuf.
pub fn protobuf(data: &[u8]) -> bool {
    every_request!(from_protobuf, data)
}

fn from_json<T: Request>(data: &[u8]) -> bool {
    let message: T = match proto_json::decode(data) {
        Ok(message) => message,
        Err(error) => {
            let json = std::str::from_utf8(data).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
            match error.kind().reason {
                "PARSE_ERROR" => assert!(!json, "valid JSON was refused as not JSON: {error}"),
                "INVALID_PARAMS" => assert!(error.field_violations().len() == 1, "{error}"),
                other => panic!("{other}: {error}"),
            }
            return false;
        }
    };
    json_again(&message);
    protobuf_again(&message);
    // The result does not matter, as long as the validator does not panic.
    message.validate().is_ok()
}

fn from_protobuf<T: Request>(data: &[u8]) -> bool {
    let Ok(message) = T::decode(data) else { return false };
    let again = T::decode(message.encode_to_vec().as_slice()).expect("our own protobuf can be read");
    assert_eq!(again.encode_to_vec(), message.encode_to_vec());
    if message.validate().is_err() {
        return false;
    }
    // JSON can represent every valid request.
    json_again(&message);
    true
}

fn json_again<T: Request>(message: &T) {
    let json = serde_json::to_vec(message).expect("a message prints");
    let again: T =
        proto_json::decode(&json).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&json)));
    assert_eq!(&again, message, "JSON changed it: {}", String::from_utf8_lossy(&json));
}

fn protobuf_again<T: Request>(message: &T) {
    let bytes = message.encode_to_vec();
    assert_eq!(&T::decode(bytes.as_slice()).expect("our own protobuf can be read"), message, "protobuf changed it");
}
