//! Every message of the protocol by its name, so that tests can go over all of them.

use std::fmt::Debug;

use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tricord::schema;
use tricord_bindings::{Error, proto_json};

/// One message type, with protobuf as the common ground: tests hold messages as protobuf bytes.
pub(crate) struct Codec {
    pub(crate) name: &'static str,
    /// JSON in, protobuf out.
    pub(crate) read: fn(&[u8]) -> Result<Vec<u8>, Error>,
    /// Protobuf in, JSON out.
    pub(crate) print: fn(&[u8]) -> String,
}

/// Reads JSON; on the way the message has to survive protobuf and its own JSON unchanged.
fn read<T: Message + Default + PartialEq + Debug + Serialize + DeserializeOwned>(
    json: &[u8],
) -> Result<Vec<u8>, Error> {
    let message: T = proto_json::decode(json)?;
    let bytes = message.encode_to_vec();
    assert_eq!(T::decode(bytes.as_slice()).expect("protobuf of ours is read"), message, "protobuf changed it");
    let printed = serde_json::to_vec(&message).expect("a message prints");
    assert_eq!(proto_json::decode::<T>(&printed).expect("JSON of ours is read"), message, "JSON changed it");
    Ok(bytes)
}

fn print<T: Message + Default + Serialize>(protobuf: &[u8]) -> String {
    let message = T::decode(protobuf).expect("protobuf is read");
    serde_json::to_string(&message).expect("a message prints")
}

macro_rules! messages {
    ($($name:literal $type:ident),* $(,)?) => {
        /// All messages of the protocol's package.
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

/// The codec of a message.
pub(crate) fn codec(name: &str) -> &'static Codec {
    MESSAGES.iter().find(|codec| codec.name == name).unwrap_or_else(|| panic!("no message {name}"))
}

/// The descriptors of the schema, options included.
pub(crate) fn pool() -> DescriptorPool {
    DescriptorPool::decode(schema::DESCRIPTORS).expect("our descriptors hold together")
}

/// Messages of the protocol's package, without those of map entries.
pub(crate) fn messages(pool: &DescriptorPool) -> Vec<MessageDescriptor> {
    pool.all_messages().filter(|m| m.package_name() == "lf.a2a.v1" && !m.is_map_entry()).collect()
}

/// Whether the schema marks a field as required.
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
