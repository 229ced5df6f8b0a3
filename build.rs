//! Generates everything that follows from the schema.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=proto");
    let config = tricord_codegen::Config {
        include: PathBuf::from("proto"),
        files: vec!["lf/a2a/v1/a2a.proto".into(), "tricord/store/v1/store.proto".into()],
        service: "lf.a2a.v1.A2AService".into(),
        scope_field: "tenant".into(),
        root: "crate::schema::tree".into(),
        bytes: vec![".lf.a2a.v1.Part.raw".into()],
        required_oneofs: vec![".lf.a2a.v1.Part.content".into()],
        // What drafts of the protocol called it, and a client still does.
        aliases: vec![(".lf.a2a.v1.ListTasksRequest.status_timestamp_after".into(), "lastUpdatedAfter".into())],
        document: tricord_codegen::Document {
            title: "Agent2Agent (A2A) protocol".into(),
            version: "1.0".into(),
            media_type: "application/a2a+json".into(),
            version_header: "A2A-Version".into(),
        },
        out_dir: PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")),
    };
    if let Err(error) = tricord_codegen::generate(&config) {
        println!("cargo::error={error}");
        std::process::exit(1);
    }
}
