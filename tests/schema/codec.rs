//! A table of all messages of the protocol, so that tests can iterate over them.

use std::fmt::Debug;

use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tricord::schema;
use tricord_bindings::{Error, proto_json};

/// One message type. Tests hold messages as protobuf bytes, which all types share.
pub(crate) struct Codec {
    pub(crate) name: &'static str,
    /// Converts JSON to protobuf.
    pub(crate) read: fn(&[u8]) -> Result<Vec<u8>, Error>,
    /// Converts protobuf to JSON.
    pub(crate) print: fn(&[u8]) -> String,
}

/// Reads JSON, and checks that neither protobuf nor the message's own JSON changes it.
fn read<T: Message + Default + PartialEq + Debug + Serialize + DeserializeOwned>(
    json: &[u8],
) -> Result<Vec<u8>, Error> {
    let message: T = proto_json::decode(json)?;
    let bytes = message.encode_to_vec();
    assert_eq!(T::decode(bytes.as_slice()).expect("our own protobuf can be read"), message, "protobuf changed it");
    let printed = serde_json::to_vec(&message).expect("a message prints");
    assert_eq!(proto_json::decode::<T>(&printed).expect("our own JSON can be read"), message, "JSON changed it");
    Ok(bytes)
}

fn print<T: Message + Default + Serialize>(protobuf: &[u8]) -> String {
    let message = T::decode(protobuf).expect("protobuf is read");
    serde_json::to_string(&message).expect("a message prints")
}

macro_rules! messages {
    ($($name:literal $type:ident),* $(,)?) => {
        /// All messages in the protocol's package.
        pub(crate) const MESSAGES: &[Codec] = &[$(
            Codec { name: $name, read: read::<schema::$type>, print: print::<schema::$type> }
        ),*];
    };
}

messages! {
    "SendMessageConfiguration" SendMessageConfiguration, "Task" Task, "TaskStatus" TaskStatus, "Part" Part,
    "Message" Message, "Artifact" Artifact, "TaskStatusUpdateEvent" TaskStatusUpdateEvent,
    "TaskArtifactUpdateEvent" TaskArtifactUpdateEvent, "AuthenticationInfo" AuthenticationInfo,
    "AgentInterface" AgentInterface, "AgentCard" AgentCard, "AgentProvider" AgentProvider,
    "AgentCapabilities" AgentCapabilities, "AgentExtension" AgentExtension, "AgentSkill" AgentSkill,
    "AgentCardSignature" AgentCardSignature, "TaskPushNotificationConfig" TaskPushNotificationConfig,
    "StringList" StringList, "SecurityRequirement" SecurityRequirement, "SecurityScheme" SecurityScheme,
    "APIKeySecurityScheme" ApiKeySecurityScheme, "HTTPAuthSecurityScheme" HttpAuthSecurityScheme,
    "OAuth2SecurityScheme" OAuth2SecurityScheme, "OpenIdConnectSecurityScheme" OpenIdConnectSecurityScheme,
    "MutualTlsSecurityScheme" MutualTlsSecurityScheme, "OAuthFlows" OAuthFlows,
    "AuthorizationCodeOAuthFlow" AuthorizationCodeOAuthFlow,
    "ClientCredentialsOAuthFlow" ClientCredentialsOAuthFlow, "ImplicitOAuthFlow" ImplicitOAuthFlow,
    "PasswordOAuthFlow" PasswordOAuthFlow, "DeviceCodeOAuthFlow" DeviceCodeOAuthFlow,
    "SendMessageRequest" SendMessageRequest, "GetTaskRequest" GetTaskRequest, "ListTasksRequest" ListTasksRequest,
    "ListTasksResponse" ListTasksResponse, "CancelTaskRequest" CancelTaskRequest,
    "GetTaskPushNotificationConfigRequest" GetTaskPushNotificationConfigRequest,
    "DeleteTaskPushNotificationConfigRequest" DeleteTaskPushNotificationConfigRequest,
    "SubscribeToTaskRequest" SubscribeToTaskRequest,
    "ListTaskPushNotificationConfigsRequest" ListTaskPushNotificationConfigsRequest,
    "GetExtendedAgentCardRequest" GetExtendedAgentCardRequest, "SendMessageResponse" SendMessageResponse,
    "StreamResponse" StreamResponse,
    "ListTaskPushNotificationConfigsResponse" ListTaskPushNotificationConfigsResponse,
}

/// Returns the codec of a message.
pub(crate) fn codec(name: &str) -> &'static Codec {
    MESSAGES.iter().find(|codec| codec.name == name).unwrap_or_else(|| panic!("no message {name}"))
}

/// Returns the descriptors of the schema, including options.
pub(crate) fn pool() -> DescriptorPool {
    DescriptorPool::decode(schema::DESCRIPTORS).expect("our descriptors are consistent")
}

/// Returns the messages in the protocol's package, without map entries.
pub(crate) fn messages(pool: &DescriptorPool) -> Vec<MessageDescriptor> {
    pool.all_messages().filter(|m| m.package_name() == "lf.a2a.v1" && !m.is_map_entry()).collect()
}

/// Returns whether the schema marks a field as required.
pub(crate) fn required(field: &prost_reflect::FieldDescriptor) -> bool {
    let pool = field.parent_pool();
    let behavior = pool.get_extension_by_name("google.api.field_behavior").expect("the option is in the schema");
    let options = field.options();
    let list = options.get_extension(&behavior);
    list.as_list().unwrap_or_default().iter().any(|value| value.as_enum_number() == Some(2))
}

#[test]
fn every_message_of_the_schema_is_in_the_table() {
    let pool = pool();
    let mut in_schema: Vec<_> = messages(&pool).iter().map(|m| m.name().to_owned()).collect();
    let mut in_table: Vec<_> = MESSAGES.iter().map(|codec| codec.name.to_owned()).collect();
    in_schema.sort();
    in_table.sort();
    assert_eq!(in_table, in_schema);
}
