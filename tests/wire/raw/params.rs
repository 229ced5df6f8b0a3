//! Parameters that many tests send.

use serde_json::{Value, json};

/// A message of one text part, with an id of its own.
pub(crate) fn message(words: &str) -> Value {
    json!({"messageId": fresh(), "role": "ROLE_USER", "parts": [{"text": words}]})
}

/// Parameters of SendMessage with such a message.
pub(crate) fn say(words: &str) -> Value {
    json!({"message": message(words)})
}

/// The same, answered at once.
pub(crate) fn say_at_once(words: &str) -> Value {
    json!({"message": message(words), "configuration": {"returnImmediately": true}})
}

/// The same, for a task that exists.
pub(crate) fn say_to(task: &str, words: &str) -> Value {
    let mut params = say(words);
    params["message"]["taskId"] = json!(task);
    params
}

/// An id that nothing has.
pub(crate) fn fresh() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Copies `patch` into a value, key by key; null removes the key.
pub(crate) fn with(mut value: Value, patch: Value) -> Value {
    merge(&mut value, patch);
    value
}

fn merge(value: &mut Value, patch: Value) {
    match patch {
        Value::Object(patch) if value.is_object() => {
            let object = value.as_object_mut().unwrap();
            for (key, patch) in patch {
                if patch.is_null() {
                    object.remove(&key);
                } else {
                    merge(object.entry(key).or_insert(Value::Null), patch);
                }
            }
        }
        patch => *value = patch,
    }
}
