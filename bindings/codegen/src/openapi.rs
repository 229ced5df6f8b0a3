//! Generates the OpenAPI 3.1 document of the HTTP+JSON binding: paths from the HTTP rules, schemas from the messages.

use heck::{ToLowerCamelCase, ToUpperCamelCase};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind};
use serde_json::{Map, Value, json};

use crate::json_schema::{Schemas, comment_of_field, comment_of_message, field_schema, message_schema};
use crate::messages::required;
use crate::model::{HttpRule, Rpc, Service, refuse};
use crate::{Config, Error};

/// The name of the component that describes errors. No message may have this name.
const ERROR: &str = "Error";

/// Writes the document.
///
/// # Errors
/// When OpenAPI cannot express a rule or a field, or two operations would have the same id.
pub fn generate(pool: &DescriptorPool, service: &Service, config: &Config) -> Result<String, Error> {
    let schemas = Schemas { pool, config };
    let document = Document { pool, service, config, schemas };
    let mut components = schemas.of(service)?;
    if components.insert(ERROR.to_owned(), error_schema()).is_some() {
        return Err(refuse(ERROR, "the document already has a schema with this name"));
    }
    document.add_bodies(&mut components)?;
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
            "responses": {ERROR: document.error_response()},
            "schemas": components,
        },
    });
    Ok(format!("{json:#}\n"))
}

struct Document<'a> {
    pool: &'a DescriptorPool,
    service: &'a Service,
    config: &'a Config,
    schemas: Schemas<'a>,
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
                    return Err(refuse(&rpc.name, "two HTTP rules would have the same operationId in OpenAPI"));
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
                        return Err(refuse(
                            &rpc.name,
                            format!("a query string cannot hold the message `{}`", field.name()),
                        ));
                    }
                    parameters.push(parameter(&field, "query", required(self.pool, &field)));
                }
            }
            "*" => operation["requestBody"] = self.body(rpc)?,
            _ => return Err(refuse(&rpc.name, "a body of one field is not supported")),
        }
        parameters.push(json!({"$ref": "#/components/parameters/Version"}));
        operation["parameters"] = parameters.into();
        Ok(operation)
    }

    /// Returns a unique id: the rpc's name, the verb if the rule has another one than the main rule, and whether the
    /// scope is in the path.
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

    /// Returns content with this schema under the protocol's own media type and under `application/json`.
    fn as_json(&self, schema: &Value) -> Value {
        let mut content = Map::new();
        for media_type in [self.config.document.media_type.as_str(), "application/json"] {
            content.insert(media_type.to_owned(), json!({"schema": schema}));
        }
        content.into()
    }

    /// Returns the body of an rpc, by reference: generators of clients make one type of it for all paths. It is optional if
    /// none of its fields is required.
    fn body(&self, rpc: &Rpc) -> Result<Value, Error> {
        let in_path = self.path_fields(rpc)?;
        let is_in_body = |field: &FieldDescriptor| !in_path.contains(field) && required(self.pool, field);
        let required = rpc.input.fields().any(|field| is_in_body(&field));
        let schema = if in_path.is_empty() {
            message_schema(&rpc.input)
        } else {
            json!({"$ref": format!("#/components/schemas/{}", body_name(rpc))})
        };
        Ok(json!({"required": required, "content": self.as_json(&schema)}))
    }

    /// Returns the fields in the path of the main rule, which every path of the rpc has.
    fn path_fields(&self, rpc: &Rpc) -> Result<Vec<FieldDescriptor>, Error> {
        rpc.rules.first().map_or(Ok(Vec::new()), |main| Template::read(rpc, main).map(|template| template.fields))
    }

    /// Adds the schemas of bodies that have not all fields of their message, because the path has the others.
    fn add_bodies(&self, components: &mut Map<String, Value>) -> Result<(), Error> {
        for rpc in self.service.rpcs.iter().filter(|rpc| rpc.rules.iter().any(|rule| rule.body == "*")) {
            let in_path = self.path_fields(rpc)?;
            if in_path.is_empty() {
                continue;
            }
            let rest: Vec<_> = rpc.input.fields().filter(|field| !in_path.contains(field)).collect();
            let name = body_name(rpc);
            if components.insert(name.clone(), self.schemas.object(rest.iter())?).is_some() {
                return Err(refuse(&name, "the document already has a schema with this name"));
            }
        }
        Ok(())
    }

    fn version_header(&self) -> Value {
        let name = &self.config.document.version_header;
        json!({
            "name": name,
            "in": "header",
            "required": true,
            "description": format!("The protocol version of the request. A query parameter `{name}` is accepted too."),
            "schema": {"type": "string", "default": self.config.document.version},
        })
    }

    fn error_response(&self) -> Value {
        let schema = json!({"$ref": format!("#/components/schemas/{ERROR}")});
        json!({"description": "An error. The body repeats the HTTP status.", "content": self.as_json(&schema)})
    }
}

/// Returns the name of the schema of a body without the fields of the path.
fn body_name(rpc: &Rpc) -> String {
    format!("{}Body", rpc.name)
}

/// A path template in OpenAPI's notation, and its fields.
struct Template {
    path: String,
    fields: Vec<FieldDescriptor>,
}

impl Template {
    fn read(rpc: &Rpc, rule: &HttpRule) -> Result<Self, Error> {
        let (mut path, mut fields, mut rest) = (String::new(), Vec::new(), rule.template.as_str());
        while let Some((literal, after)) = rest.split_once('{') {
            let (variable, after) =
                after.split_once('}').ok_or_else(|| refuse(&rpc.name, "a brace in the path is not closed"))?;
            let (name, pattern) = variable.split_once('=').unwrap_or((variable, "*"));
            let field = rpc.input.get_field_by_name(name).filter(|_| pattern == "*");
            let field = field.ok_or_else(|| refuse(&rpc.name, format!("a path cannot hold `{variable}`")))?;
            path += &format!("{literal}{{{}}}", field.json_name());
            fields.push(field);
            rest = after;
        }
        path += rest;
        Ok(Self { path, fields })
    }
}

fn parameter(field: &FieldDescriptor, place: &str, required: bool) -> Value {
    // Other fields were refused before: these are scalars, enums, timestamps and lists of them.
    let schema = field_schema(field).unwrap_or_default();
    json!({
        "name": field.json_name(),
        "in": place,
        "required": required,
        "description": comment_of_field(field),
        "schema": schema,
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
                    "message": {"type": "string", "description": "A description of the error for people."},
                    "details": {
                        "type": "array",
                        "description": "`google.rpc.ErrorInfo` with the reason first, then others such as \
                            `google.rpc.BadRequest` with the invalid fields.",
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
