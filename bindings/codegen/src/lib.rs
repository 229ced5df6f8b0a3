//! Generates Rust from a protobuf service: types, ProtoJSON, a trait, three bindings, a client and documents.
//!
//! The input is descriptors, the output is files. This crate knows nothing about a particular service: a build script
//! names the schema files, the service and the field that selects a scope, and includes the generated files.

#[macro_use]
#[path = "../../src/error/table.rs"]
mod error_table;

pub mod client;
pub mod codec;
pub mod grpc;
pub mod http_rules;
pub mod json_schema;
pub mod messages;
pub mod model;
pub mod openapi;
pub mod openrpc;
pub mod proto_json;
pub mod requests;
pub mod schema;
pub mod service;
pub mod shapes;
pub mod validate;

use std::fs;
use std::path::PathBuf;

use proc_macro2::TokenStream;

/// The configuration of the generator.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder in which imports are looked up.
    pub include: PathBuf,
    /// The `.proto` files, relative to `include`.
    pub files: Vec<String>,
    /// The full name of the service, as `package.Service`.
    pub service: String,
    /// The string field of every request that names the scope (the tenant).
    pub scope_field: String,
    /// The Rust path of the module that the generated code is included into: `crate::schema`.
    pub root: String,
    /// The bytes fields to hold as `bytes::Bytes`, so that large ones are not copied: full names with a leading dot.
    pub bytes: Vec<String>,
    /// The oneofs that need a member in every request, for which protobuf has no option: full names with a leading dot.
    pub required_oneofs: Vec<String>,
    /// Additional names under which a field is read, in JSON and in queries: its full name with a leading dot, and the
    /// name.
    pub aliases: Vec<(String, String)>,
    /// Optional parts of the service, by name, and the rpcs that need each.
    pub capabilities: Vec<(String, Vec<String>)>,
    /// The rpcs that may be called without credentials where the service asks for them.
    pub anonymous: Vec<String>,
    /// Facts for the OpenAPI and OpenRPC documents that are not in the schema.
    pub document: Document,
    /// The folder to write to.
    pub out_dir: PathBuf,
}

/// Facts for the generated documents that are not in the schema.
#[derive(Debug, Clone)]
pub struct Document {
    /// The title.
    pub title: String,
    /// The version of the protocol.
    pub version: String,
    /// The protocol's own JSON media type.
    pub media_type: String,
    /// The header that names the version.
    pub version_header: String,
    /// The JSON-RPC errors: code, reason and message.
    pub errors: Vec<(i32, String, String)>,
}

/// The reason why the generator failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `.proto` files do not compile.
    #[error("the schema does not compile: {0:?}")]
    Compile(protox::Error),
    /// The descriptors are inconsistent.
    #[error("the descriptors are invalid: {0}")]
    Descriptors(#[from] prost_reflect::DescriptorError),
    /// The bindings cannot express a part of the schema.
    #[error("{rpc}: {problem}")]
    Unsupported {
        /// The rpc or message.
        rpc: String,
        /// What cannot be expressed.
        problem: String,
    },
    /// A generator wrote invalid Rust, which is a bug in this crate.
    #[error("{file}.rs is not Rust: {problem}")]
    Generated {
        /// The module.
        file: String,
        /// The parser's message.
        problem: String,
    },
    /// A file cannot be written.
    #[error("cannot write generated code: {0}")]
    Io(#[from] std::io::Error),
}

/// Writes all files into [`Config::out_dir`]: `tricord.rs` (one tree of modules, to be included in [`Config::root`]),
/// the files that it includes, `descriptors.bin`, `openapi.json` and `openrpc.json`.
///
/// # Errors
/// When the schema does not compile, a binding cannot express it, or a file cannot be written.
pub fn generate(config: &Config) -> Result<(), Error> {
    let schema = schema::Schema::compile(config)?;
    fs::write(config.out_dir.join("descriptors.bin"), schema.bytes())?;
    schema.write_types(config)?;
    let service = model::Service::read(schema.pool(), config)?;
    let mut tree = fs::read_to_string(config.out_dir.join("tricord.rs"))?;
    for (name, about, tokens) in [
        ("proto_json", "The ProtoJSON of every message.", proto_json::generate(schema.pool(), config)?),
        ("validate", "The validation of requests.", validate::generate(schema.pool(), &service, config)?),
        ("shapes", "Which fields of requests are messages.", shapes::generate(schema.pool(), &service)),
        ("service", "The service as a trait.", service::generate(&service)),
        ("requests", "Requests as the bindings see them.", requests::generate(&service, config)?),
        ("grpc", "The gRPC names of the service.", grpc::generate(&service)),
        ("http_json", "The paths of the service.", http_rules::generate(&service)?),
        ("codec", "The codec of the schema's version.", codec::generate(&service, config)),
    ] {
        write_module(config, &mut tree, name, about, tokens)?;
    }
    tree.push_str("#[cfg(feature = \"client\")]\n");
    write_module(config, &mut tree, "client", "A typed client of the service.", client::generate(&service))?;
    fs::write(config.out_dir.join("tricord.rs"), tree)?;
    fs::write(config.out_dir.join("openapi.json"), openapi::generate(schema.pool(), &service, config)?)?;
    fs::write(config.out_dir.join("openrpc.json"), openrpc::generate(schema.pool(), &service, config)?)?;
    Ok(())
}

/// Writes one generated file, formatted, and adds it to the tree as a module of that name.
fn write_module(config: &Config, tree: &mut String, name: &str, about: &str, tokens: TokenStream) -> Result<(), Error> {
    let file = syn::parse2(tokens).map_err(|e| Error::Generated { file: name.to_owned(), problem: e.to_string() })?;
    fs::write(config.out_dir.join(format!("{name}.rs")), prettyplease::unparse(&file))?;
    tree.push_str(&format!("/// {about}\npub mod {name} {{\n    include!(\"{name}.rs\");\n}}\n"));
    Ok(())
}
