//! Compiles `.proto` files to descriptors and prost types.

use prost::Message as _;
use prost_reflect::DescriptorPool;
use protox::file::{ChainFileResolver, GoogleFileResolver, IncludeFileResolver};

use crate::{Config, Error};

/// The compiled schema: descriptors to generate from, and their bytes.
#[derive(Debug)]
pub struct Schema {
    pool: DescriptorPool,
    bytes: Vec<u8>,
}

impl Schema {
    /// Compiles the files that the configuration names, and their imports.
    ///
    /// # Errors
    /// When a file is missing or does not compile.
    pub fn compile(config: &Config) -> Result<Self, Error> {
        let mut resolver = ChainFileResolver::new();
        resolver.add(IncludeFileResolver::new(config.include.clone()));
        resolver.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(resolver);
        compiler.include_imports(true).include_source_info(true);
        for file in &config.files {
            compiler.open_file(file).map_err(Error::Compile)?;
        }
        // Only the bytes keep options that prost_types does not know.
        let bytes = compiler.encode_file_descriptor_set();
        let pool = DescriptorPool::decode(bytes.as_slice())?;
        Ok(Self { pool, bytes })
    }

    /// Returns the descriptors, including options.
    pub fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// Returns the encoded `FileDescriptorSet`, including options.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the prost types and the module tree.
    ///
    /// # Errors
    /// When prost refuses the descriptors or a file cannot be written.
    pub fn write_types(&self, config: &Config) -> Result<(), Error> {
        let mut set = prost_types::FileDescriptorSet::decode(self.bytes.as_slice())
            .map_err(|e| Error::Io(std::io::Error::other(e)))?;
        // Options are read from the pool, so their types are not generated.
        set.file.retain(|file| !file.package().starts_with("google.api"));
        let mut prost = prost_build::Config::new();
        prost
            .compile_well_known_types()
            .out_dir(&config.out_dir)
            .include_file("tricord.rs")
            .btree_map(["."])
            .bytes(config.bytes.iter())
            .extern_path(".google.protobuf", "::tricord_bindings::wkt");
        prost.compile_fds(set)?;
        Ok(())
    }
}
