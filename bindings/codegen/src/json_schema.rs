//! Generates the JSON Schema of the messages, which all documents share.

use prost_reflect::{Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use crate::messages::{oneof, own_enums, reachable, required};
use crate::model::{Service, comment, refuse};
use crate::{Config, Error};

/// Generates schemas, which refer to each other as `#/components/schemas/…`.
#[derive(Clone, Copy)]
pub struct Schemas<'a> {
    /// The descriptors.
    pub pool: &'a DescriptorPool,
    /// The configuration, which says which oneofs need a member.
    pub config: &'a Config,
}

impl std::fmt::Debug for Schemas<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Schemas")
    }
}

impl Schemas<'_> {
    /// Returns the schemas of all messages in the service's requests and answers, and of all enums, by name.
    pub fn of(&self, service: &Service) -> Result<Map<String, Value>, Error> {
        let rpcs = &service.rpcs;
        let names = reachable(rpcs.iter().flat_map(|rpc| [rpc.input.clone(), rpc.output.clone()]));
        let mut schemas = Map::new();
        for name in names {
            let message = self.pool.get_message_by_name(&name).filter(|m| !m.is_map_entry() && !is_well_known(m));
            let Some(message) = message else { continue };
            let mut schema = self.object(message.fields().collect::<Vec<_>>().iter())?;
            schema["description"] = comment_of_message(&message).into();
            self.choices(&message, &mut schema);
            insert(&mut schemas, message.name(), message.full_name(), schema)?;
        }
        for descriptor in own_enums(self.pool) {
            insert(&mut schemas, descriptor.name(), descriptor.full_name(), enum_schema(&descriptor))?;
        }
        Ok(schemas)
    }

    /// Returns the schema of an object with these fields.
    pub fn object<'f>(&self, fields: impl Iterator<Item = &'f FieldDescriptor>) -> Result<Value, Error> {
        let mut properties = Map::new();
        let mut needed = Vec::new();
        for field in fields {
            let mut schema = field_schema(field)?;
            describe(&mut schema, field);
            properties.insert(field.json_name().to_owned(), schema);
            if required(self.pool, field) {
                needed.push(field.json_name().to_owned());
            }
        }
        let mut object = json!({"type": "object", "properties": properties});
        if !needed.is_empty() {
            object["required"] = needed.into();
        }
        Ok(object)
    }

    /// Adds rules for oneofs: at most one member, or exactly one where requests need it.
    fn choices(&self, message: &MessageDescriptor, schema: &mut Value) {
        let mut rules = Vec::new();
        for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
            let mut ways: Vec<_> = oneof.fields().map(|field| json!({"required": [field.json_name()]})).collect();
            if !self.config.required_oneofs.contains(&format!(".{}", oneof.full_name())) {
                ways.push(json!({"not": {"anyOf": ways.clone()}}));
            }
            rules.push(json!({"oneOf": ways}));
        }
        if !rules.is_empty() {
            schema["allOf"] = rules.into();
        }
    }
}

fn insert(schemas: &mut Map<String, Value>, name: &str, full_name: &str, schema: Value) -> Result<(), Error> {
    match schemas.insert(name.to_owned(), schema) {
        None => Ok(()),
        Some(_) => Err(refuse(full_name, "the document already has a schema with this name")),
    }
}

/// Adds the field's comment, and its deprecation, to the schema of a property.
pub fn describe(schema: &mut Value, field: &FieldDescriptor) {
    schema["description"] = comment_of_field(field).into();
    if field.field_descriptor_proto().options.as_ref().is_some_and(prost_types::FieldOptions::deprecated) {
        schema["deprecated"] = true.into();
    }
}

/// Returns the schema of a field.
///
/// # Errors
/// When the field has a type without a schema.
pub fn field_schema(field: &FieldDescriptor) -> Result<Value, Error> {
    if field.is_map() {
        let kind = field.kind();
        let value = kind.as_message().map(|entry| single_schema(&entry.map_entry_value_field())).transpose()?;
        return Ok(json!({"type": "object", "additionalProperties": value}));
    }
    let one = single_schema(field)?;
    let list = field.cardinality() == Cardinality::Repeated;
    Ok(if list { json!({"type": "array", "items": one}) } else { one })
}

fn single_schema(field: &FieldDescriptor) -> Result<Value, Error> {
    Ok(match field.kind() {
        Kind::String => json!({"type": "string"}),
        Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({"type": "integer", "format": "int32"}),
        Kind::Uint32 | Kind::Fixed32 => json!({"type": "integer", "format": "int64", "minimum": 0}),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => json!({"type": "string", "format": "int64"}),
        Kind::Uint64 | Kind::Fixed64 => json!({"type": "string", "format": "uint64"}),
        Kind::Enum(descriptor) => json!({"$ref": format!("#/components/schemas/{}", descriptor.name())}),
        Kind::Message(message) => message_schema(&message),
        Kind::Float | Kind::Double => return Err(refuse(field.full_name(), "a float field is not supported")),
    })
}

/// Returns the schema of a message: a reference, except for well-known types.
pub fn message_schema(message: &MessageDescriptor) -> Value {
    match message.full_name() {
        "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
        "google.protobuf.Struct" => json!({"type": "object", "additionalProperties": true}),
        "google.protobuf.Empty" => json!({"type": "object"}),
        "google.protobuf.ListValue" => json!({"type": "array", "items": {}}),
        "google.protobuf.Value" => json!({}),
        _ => json!({"$ref": format!("#/components/schemas/{}", message.name())}),
    }
}

fn is_well_known(message: &MessageDescriptor) -> bool {
    message.package_name() == "google.protobuf"
}

fn enum_schema(descriptor: &EnumDescriptor) -> Value {
    let names: Vec<_> = descriptor.values().map(|value| value.name().to_owned()).collect();
    let file = descriptor.parent_file();
    let meanings = descriptor
        .values()
        .map(|value| format!("- `{}`: {}", value.name(), comment(file.file_descriptor_proto(), value.path())));
    let about = comment(file.file_descriptor_proto(), descriptor.path());
    let about = format!("{about}\n\n{}", meanings.collect::<Vec<_>>().join("\n"));
    json!({"type": "string", "enum": names, "description": about})
}

/// Returns the comment of a message.
pub fn comment_of_message(message: &MessageDescriptor) -> String {
    if is_well_known(message) {
        return String::new();
    }
    comment(message.parent_file().file_descriptor_proto(), message.path())
}

/// Returns the comment of a field.
pub fn comment_of_field(field: &FieldDescriptor) -> String {
    let text = comment(field.parent_file().file_descriptor_proto(), field.path());
    match oneof(field) {
        Some(oneof) => format!("{text} At most one member of `{}` is set.", oneof.name()),
        None => text,
    }
}
