//! Parameters that many tests use.

use serde_json::{Value, json};

/// Returns a message with a new id and one text part.
pub(crate) fn message(words: &str) -> Value {
    json!({"messageId": fresh(), "role": "ROLE_USER", "parts": [{"text": words}]})
}

/// Returns parameters of SendMessage with a message of one text part.
pub(crate) fn say(words: &str) -> Value {
    json!({"message": message(words)})
}

/// Returns parameters of SendMessage with `returnImmediately` set.
pub(crate) fn say_at_once(words: &str) -> Value {
    json!({"message": message(words), "configuration": {"returnImmediately": true}})
}

/// Returns parameters of SendMessage for an existing task.
pub(crate) fn say_to(task: &str, words: &str) -> Value {
    let mut params = say(words);
    params["message"]["taskId"] = json!(task);
    params
}

/// A task id that does not exist.
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
