//! Turns a protobuf service into Rust: types, ProtoJSON, a trait, three bindings, three clients, documents.
//!
//! Descriptors go in, files come out. Nothing here knows what the service is about; a build script names the files, the
//! service and the field that selects a scope, and includes what was written.

pub mod schema;

use std::fs;
use std::path::PathBuf;

/// What to generate, and where to.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder that imports are found in.
    pub include: PathBuf,
    /// The `.proto` files, relative to `include`.
    pub files: Vec<String>,
    /// The full name of the service, as `package.Service`.
    pub service: String,
    /// The string field of every request that names the scope (the tenant) that is meant.
    pub scope_field: String,
    /// The Rust path of the module that the generated code is included into: `crate::schema`.
    pub root: String,
    /// Bytes fields held as `bytes::Bytes`, so that big ones are not copied: full field names with a leading dot.
    pub bytes: Vec<String>,
    /// Where the files are written.
    pub out_dir: PathBuf,
}

/// Why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `.proto` files do not compile.
    #[error("the schema does not compile: {0:?}")]
    Compile(protox::Error),
    /// The descriptors do not hold together.
    #[error("the descriptors are refused: {0}")]
    Descriptors(#[from] prost_reflect::DescriptorError),
    /// The schema asks for something that the wires cannot express.
    #[error("{rpc}: {problem}")]
    Unsupported {
        /// The rpc or message concerned.
        rpc: String,
        /// What cannot be expressed.
        problem: String,
    },
    /// A file cannot be written.
    #[error("writing generated code: {0}")]
    Io(#[from] std::io::Error),
}

/// Writes everything into [`Config::out_dir`]: `tricord.rs` (one tree of modules, to be included in
/// [`Config::root`]) and the files that it includes.
///
/// # Errors
/// When the schema does not compile, asks for something that a wire cannot express, or a file cannot be written.
pub fn generate(config: &Config) -> Result<(), Error> {
    let schema = schema::Schema::compile(config)?;
    fs::write(config.out_dir.join("descriptors.bin"), schema.bytes())?;
    schema.write_types(config)?;
    Ok(())
}
