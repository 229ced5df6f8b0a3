//! The HTTP+JSON wire as an OpenAPI 3.1 document: paths from the HTTP rules, schemas from the messages.

use heck::{ToLowerCamelCase, ToUpperCamelCase};
use prost_reflect::{Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use crate::messages::{oneof, own_enums, reachable, required};
use crate::model::{HttpRule, Rpc, Service, comment, refuse};
use crate::{Config, Error};

/// The component that describes errors; no message may have this name.
const ERROR: &str = "Error";

/// Writes the document.
///
/// # Errors
/// When a rule or a field cannot be said in OpenAPI, or two operations would share an id.
pub fn generate(pool: &DescriptorPool, service: &Service, config: &Config) -> Result<String, Error> {
    let document = Document { pool, service, config };
    let json = json!({
        "openapi": "3.1.0",
        "info": {
            "title": config.document.title,
            "version": config.document.version,
            "description": service.comment,
        },
        "paths": document.paths()?,
        "components": {
            "parameters": {"Version": document.version_header()},
            "responses": {ERROR: error_response()},
            "schemas": document.schemas()?,
        },
    });
    Ok(format!("{json:#}\n"))
}

struct Document<'a> {
    pool: &'a DescriptorPool,
    service: &'a Service,
    config: &'a Config,
}

impl Document<'_> {
    fn paths(&self) -> Result<Value, Error> {
        let mut paths: Map<String, Value> = Map::new();
        let mut ids = Vec::new();
        for rpc in &self.service.rpcs {
            for rule in &rpc.rules {
                let template = Template::read(rpc, rule)?;
                let operation = self.operation(rpc, rule, &template)?;
                if ids.contains(&operation["operationId"]) {
                    return Err(refuse(&rpc.name, "two HTTP rules that OpenAPI would give the same operationId"));
                }
                ids.push(operation["operationId"].clone());
                let verbs = paths.entry(template.path).or_insert_with(|| json!({}));
                verbs[rule.verb.to_lowercase()] = operation;
            }
        }
        Ok(paths.into())
    }

    fn operation(&self, rpc: &Rpc, rule: &HttpRule, template: &Template) -> Result<Value, Error> {
        let mut parameters: Vec<Value> = template.fields.iter().map(|field| parameter(field, "path", true)).collect();
        let rest: Vec<_> = rpc.input.fields().filter(|field| !template.fields.contains(field)).collect();
        let mut operation = json!({
            "operationId": self.operation_id(rpc, rule, template),
            "summary": rpc.comment.lines().next().unwrap_or_default(),
            "description": rpc.comment,
            "responses": {
                "200": self.answer(rpc),
                "default": {"$ref": format!("#/components/responses/{ERROR}")},
            },
        });
        match rule.body.as_str() {
            "" => {
                for field in rest {
                    if matches!(field.kind(), Kind::Message(kind) if kind.full_name() != "google.protobuf.Timestamp") {
                        return Err(refuse(&rpc.name, format!("the message `{}` in a query string", field.name())));
                    }
                    parameters.push(parameter(&field, "query", required(self.pool, &field)));
                }
            }
            "*" => operation["requestBody"] = self.body(&rest)?,
            _ => return Err(refuse(&rpc.name, "a body that is one field")),
        }
        parameters.push(json!({"$ref": "#/components/parameters/Version"}));
        operation["parameters"] = parameters.into();
        Ok(operation)
    }

    /// The rpc's name, and what tells this rule from the others: its verb, and whether the scope is in the path.
    fn operation_id(&self, rpc: &Rpc, rule: &HttpRule, template: &Template) -> String {
        let mut id = rpc.name.to_lower_camel_case();
        if rpc.rules.first().is_some_and(|first| first.verb != rule.verb) {
            id += &format!("By{}", rule.verb.to_upper_camel_case());
        }
        if template.fields.iter().any(|field| field.name() == self.service.scope_field) {
            id += &format!("For{}", self.service.scope_field.to_upper_camel_case());
        }
        id
    }

    fn answer(&self, rpc: &Rpc) -> Value {
        let schema = message_schema(&rpc.output);
        if rpc.streaming {
            return json!({
                "description": "A stream of server-sent events; the data of each is one such document. A stream that \
                    fails ends with an event of the type `error`, whose data is an error.",
                "content": {"text/event-stream": {"schema": schema}},
            });
        }
        let about = comment_of_message(&rpc.output);
        let about = if about.is_empty() { "Done.".to_owned() } else { about };
        json!({"description": about, "content": self.as_json(&schema)})
    }

    /// The content that can be had under the protocol's own media type and under the common one.
    fn as_json(&self, schema: &Value) -> Value {
        let mut content = Map::new();
        for media_type in [self.config.document.media_type.as_str(), "application/json"] {
            content.insert(media_type.to_owned(), json!({"schema": schema}));
        }
        content.into()
    }

    /// What the body holds beyond the path. Nothing at all will do if nothing of it is required.
    fn body(&self, fields: &[FieldDescriptor]) -> Result<Value, Error> {
        let schema = self.object(fields.iter())?;
        let required = schema.get("required").is_some();
        Ok(json!({"required": required, "content": self.as_json(&schema)}))
    }

    fn version_header(&self) -> Value {
        let name = &self.config.document.version_header;
        json!({
            "name": name,
            "in": "header",
            "description": format!("The protocol version that is spoken. A query parameter `{name}` does as well."),
            "schema": {"type": "string"},
            "example": self.config.document.version,
        })
    }

    fn schemas(&self) -> Result<Value, Error> {
        let rpcs = &self.service.rpcs;
        let names = reachable(rpcs.iter().flat_map(|rpc| [rpc.input.clone(), rpc.output.clone()]));
        let mut schemas = Map::new();
        schemas.insert(ERROR.to_owned(), error_schema());
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
        Ok(schemas.into())
    }

    fn object<'f>(&self, fields: impl Iterator<Item = &'f FieldDescriptor>) -> Result<Value, Error> {
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

    /// At most one member of each oneof, or exactly one where requests need it.
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

/// A path template as OpenAPI writes it, and the fields in it.
struct Template {
    path: String,
    fields: Vec<FieldDescriptor>,
}

impl Template {
    fn read(rpc: &Rpc, rule: &HttpRule) -> Result<Self, Error> {
        let (mut path, mut fields, mut rest) = (String::new(), Vec::new(), rule.template.as_str());
        while let Some((literal, after)) = rest.split_once('{') {
            let (variable, after) =
                after.split_once('}').ok_or_else(|| refuse(&rpc.name, "a brace that stays open"))?;
            let (name, pattern) = variable.split_once('=').unwrap_or((variable, "*"));
            let field = rpc.input.get_field_by_name(name).filter(|_| pattern == "*");
            let field = field.ok_or_else(|| refuse(&rpc.name, format!("`{variable}` in a path")))?;
            path += &format!("{literal}{{{}}}", field.json_name());
            fields.push(field);
            rest = after;
        }
        path += rest;
        Ok(Self { path, fields })
    }
}

fn parameter(field: &FieldDescriptor, place: &str, required: bool) -> Value {
    // What cannot be said was refused before: the fields here are scalars, enums, times and lists of these.
    let schema = field_schema(field).unwrap_or_default();
    json!({
        "name": field.json_name(),
        "in": place,
        "required": required,
        "description": comment_of_field(field),
        "schema": schema,
    })
}

fn insert(schemas: &mut Map<String, Value>, name: &str, full_name: &str, schema: Value) -> Result<(), Error> {
    match schemas.insert(name.to_owned(), schema) {
        None => Ok(()),
        Some(_) => Err(refuse(full_name, "a name that the document has already")),
    }
}

fn describe(schema: &mut Value, field: &FieldDescriptor) {
    schema["description"] = comment_of_field(field).into();
    if field.field_descriptor_proto().options.as_ref().is_some_and(prost_types::FieldOptions::deprecated) {
        schema["deprecated"] = true.into();
    }
}

fn field_schema(field: &FieldDescriptor) -> Result<Value, Error> {
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
        Kind::Float | Kind::Double => return Err(refuse(field.full_name(), "a float field")),
    })
}

fn message_schema(message: &MessageDescriptor) -> Value {
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

fn comment_of_message(message: &MessageDescriptor) -> String {
    if is_well_known(message) {
        return String::new();
    }
    comment(message.parent_file().file_descriptor_proto(), message.path())
}

fn comment_of_field(field: &FieldDescriptor) -> String {
    let text = comment(field.parent_file().file_descriptor_proto(), field.path());
    match oneof(field) {
        Some(oneof) => format!("{text} At most one member of `{}` is set.", oneof.name()),
        None => text,
    }
}

fn error_response() -> Value {
    json!({
        "description": "What went wrong, with the HTTP status that the body repeats.",
        "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{ERROR}")}}},
    })
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "description": "An error, in the form of `google.rpc.Status`.",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "status", "message", "details"],
                "properties": {
                    "code": {"type": "integer", "description": "The HTTP status."},
                    "status": {"type": "string", "description": "The name of the gRPC status, such as NOT_FOUND."},
                    "message": {"type": "string", "description": "What went wrong, for people."},
                    "details": {
                        "type": "array",
                        "description": "`google.rpc.ErrorInfo` with the reason first, then others such as \
                            `google.rpc.BadRequest` with the fields that are wrong.",
                        "items": {
                            "type": "object",
                            "required": ["@type"],
                            "properties": {"@type": {"type": "string"}},
                            "additionalProperties": true,
                        },
                    },
                },
            },
        },
    })
}
