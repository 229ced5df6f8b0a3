//! Generates the messages of the schema with prost and their ProtoJSON with pbjson.

use std::error::Error;

use prost::Message as _;
use prost_types::FileDescriptorSet;

const INCLUDE: &str = "../../proto";
const FILE: &str = "lf/a2a/v1/a2a.proto";
const PACKAGE: &str = "lf.a2a.v1";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={INCLUDE}");
    let descriptors = protox::compile([FILE], [INCLUDE])?;
    let mut types = descriptors.clone();
    // The options' own types are not wanted.
    types.file.retain(|file| !file.package().starts_with("google.api"));
    prost_build::Config::new()
        .compile_well_known_types()
        .extern_path(".google.protobuf", "::pbjson_types")
        .compile_fds(types)?;
    pbjson_build::Builder::new()
        .register_descriptors(&FileDescriptorSet::encode_to_vec(&descriptors))?
        .build(&[format!(".{PACKAGE}")])?;
    Ok(())
}
