//! Generates the OpenRPC 1.3 document of the JSON-RPC binding: a method for every rpc, schemas from the messages.

use prost_reflect::{DescriptorPool, FieldDescriptor};
use serde_json::{Map, Value, json};

use crate::json_schema::{Schemas, comment_of_field, comment_of_message, field_schema, message_schema};
use crate::messages::required;
use crate::model::{Rpc, Service};
use crate::{Config, Error};

/// Writes the document.
///
/// # Errors
/// When a field has no JSON Schema.
pub fn generate(pool: &DescriptorPool, service: &Service, config: &Config) -> Result<String, Error> {
    let mut methods = Vec::new();
    for rpc in &service.rpcs {
        methods.push(method(pool, rpc, config)?);
    }
    let about = format!(
        "{}\n\nRequests are POSTs of `application/json` with the header `{}: {}`, one at a time: batches are refused.",
        service.comment, config.document.version_header, config.document.version
    );
    let errors: Map<_, _> = errors(config)
        .iter()
        .map(|(code, reason, message)| (reason.clone(), json!({"code": code, "message": message})))
        .collect();
    let json = json!({
        "openrpc": "1.3.2",
        "info": {"title": config.document.title, "version": config.document.version, "description": about},
        "methods": methods,
        "components": {"schemas": Schemas { pool, config }.of(service)?, "errors": errors},
    });
    Ok(format!("{json:#}\n"))
}

/// The errors of JSON-RPC itself, then the protocol's own.
fn errors(config: &Config) -> Vec<(i32, String, String)> {
    macro_rules! rows {
        ($(#[doc = $about:literal] $name:ident $reason:literal $jsonrpc:literal $grpc:ident $http:literal)*) => {
            [$(($jsonrpc, $reason, $about)),*]
        };
    }
    let mut errors: Vec<(i32, String, String)> = Vec::new();
    for (code, reason, about) in standard_errors!(rows) {
        if code <= -32600 && errors.iter().all(|(known, ..)| *known != code) {
            errors.push((code, reason.to_owned(), about.trim().to_owned()));
        }
    }
    errors.extend(config.document.errors.iter().cloned());
    errors
}

fn method(pool: &DescriptorPool, rpc: &Rpc, config: &Config) -> Result<Value, Error> {
    let mut fields: Vec<_> = rpc.input.fields().collect();
    // OpenRPC asks for required parameters first.
    fields.sort_by_key(|field| !required(pool, field));
    let params = fields.iter().map(|field| param(pool, field)).collect::<Result<Vec<_>, _>>()?;
    let mut about = comment_of_message(&rpc.output);
    if rpc.streaming {
        about =
            "A stream of server-sent events; the data of each is a whole JSON-RPC response with one such result. A \
                 stream that fails ends with an error response."
                .to_owned();
    } else if about.is_empty() {
        about = "Done.".to_owned();
    }
    let errors = errors(config);
    let errors = errors.iter().map(|(_, reason, _)| json!({"$ref": format!("#/components/errors/{reason}")}));
    let mut method = json!({
        "name": rpc.name,
        "summary": rpc.comment.lines().next().unwrap_or_default(),
        "description": rpc.comment,
        "paramStructure": "by-name",
        "params": params,
        "result": {"name": rpc.output.name(), "description": about, "schema": message_schema(&rpc.output)},
        "errors": errors.collect::<Vec<_>>(),
    });
    if rpc.streaming {
        // OpenRPC has no field for streams, so this is an extension.
        method["x-streaming"] = true.into();
    }
    Ok(method)
}

fn param(pool: &DescriptorPool, field: &FieldDescriptor) -> Result<Value, Error> {
    let mut param = json!({
        "name": field.json_name(),
        "description": comment_of_field(field),
        "required": required(pool, field),
        "schema": field_schema(field)?,
    });
    if field.field_descriptor_proto().options.as_ref().is_some_and(prost_types::FieldOptions::deprecated) {
        param["deprecated"] = true.into();
    }
    Ok(param)
}
