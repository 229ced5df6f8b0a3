//! The gRPC reflection service, in both of its versions. An unknown name is an answer, and the stream goes on.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use prost::Message as _;
use prost::bytes::Bytes;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};
use tonic::{Code, Request, Response, Status, Streaming};

/// Files of descriptors and the names in them.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// The files as they were encoded, custom options included, by name.
    files: HashMap<String, Bytes>,
    /// The file of each symbol.
    symbols: HashMap<String, String>,
    services: Vec<String>,
}

/// A `FileDescriptorSet` whose files stay as they are encoded.
#[derive(Clone, PartialEq, prost::Message)]
struct FileSet {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

impl Descriptors {
    /// Reads encoded descriptor sets.
    ///
    /// # Errors
    /// If one of them is not a descriptor set.
    pub(super) fn read(sets: &[&'static [u8]]) -> Result<Self, prost::DecodeError> {
        let mut all = Self::default();
        for set in sets {
            for encoded in FileSet::decode(Bytes::from_static(set))?.file {
                all.add(&FileDescriptorProto::decode(encoded.clone())?, encoded);
            }
        }
        all.services.sort_unstable();
        Ok(all)
    }

    fn add(&mut self, file: &FileDescriptorProto, encoded: Bytes) {
        let name = file.name();
        if self.files.insert(name.to_owned(), encoded).is_some() {
            return;
        }
        let package = file.package();
        for message in &file.message_type {
            self.add_message(package, message, name);
        }
        for one in &file.enum_type {
            self.add_enum(package, one, name);
        }
        for extension in &file.extension {
            self.add_symbol(package, extension.name(), name);
        }
        for service in &file.service {
            let full = self.add_symbol(package, service.name(), name);
            for method in &service.method {
                self.add_symbol(&full, method.name(), name);
            }
            self.services.push(full);
        }
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto, file: &str) {
        let full = self.add_symbol(scope, message.name(), file);
        for nested in &message.nested_type {
            self.add_message(&full, nested, file);
        }
        for one in &message.enum_type {
            self.add_enum(&full, one, file);
        }
        let fields = message.field.iter().chain(&message.extension).map(|field| field.name());
        for name in fields.chain(message.oneof_decl.iter().map(|oneof| oneof.name())) {
            self.add_symbol(&full, name, file);
        }
    }

    /// The values of an enum are in the scope around it.
    fn add_enum(&mut self, scope: &str, one: &EnumDescriptorProto, file: &str) {
        self.add_symbol(scope, one.name(), file);
        for value in &one.value {
            self.add_symbol(scope, value.name(), file);
        }
    }

    fn add_symbol(&mut self, scope: &str, name: &str, file: &str) -> String {
        let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
        self.symbols.insert(full.clone(), file.to_owned());
        full
    }

    fn file(&self, name: &str) -> Option<Vec<u8>> {
        self.files.get(name).map(|file| file.to_vec())
    }

    fn file_of(&self, symbol: &str) -> Option<Vec<u8>> {
        self.file(self.symbols.get(symbol)?)
    }
}

/// The reflection service of some descriptors.
#[derive(Debug, Clone)]
pub(super) struct Reflection(pub(super) Arc<Descriptors>);

/// Implements one version of the service; their types have the same shape.
macro_rules! version {
    ($version:ident) => {
        mod $version {
            use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
            use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;
            use tonic_reflection::pb::$version::server_reflection_server::ServerReflection;
            use tonic_reflection::pb::$version::{
                ErrorResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
                ServerReflectionResponse, ServiceResponse,
            };

            use super::*;

            impl Reflection {
                fn $version(&self, request: ServerReflectionRequest) -> ServerReflectionResponse {
                    let file = |found: Option<Vec<u8>>, missing: &str| match found {
                        Some(file) => MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
                            file_descriptor_proto: vec![file],
                        }),
                        None => error(Code::NotFound, missing),
                    };
                    let answer = match &request.message_request {
                        Some(MessageRequest::FileByFilename(name)) => file(self.0.file(name), "no such file"),
                        Some(MessageRequest::FileContainingSymbol(symbol)) => {
                            file(self.0.file_of(symbol), "no such symbol")
                        }
                        Some(MessageRequest::ListServices(_)) => {
                            let names = self.0.services.iter().map(|name| ServiceResponse { name: name.clone() });
                            MessageResponse::ListServicesResponse(ListServiceResponse { service: names.collect() })
                        }
                        Some(
                            MessageRequest::FileContainingExtension(_) | MessageRequest::AllExtensionNumbersOfType(_),
                        ) => error(Code::NotFound, "no extension of this type is known"),
                        None => error(Code::InvalidArgument, "the request asks for nothing"),
                    };
                    ServerReflectionResponse {
                        valid_host: request.host.clone(),
                        original_request: Some(request),
                        message_response: Some(answer),
                    }
                }
            }

            fn error(code: Code, message: &str) -> MessageResponse {
                let error_message = message.to_owned();
                MessageResponse::ErrorResponse(ErrorResponse { error_code: code as i32, error_message })
            }

            #[tonic::async_trait]
            impl ServerReflection for Reflection {
                type ServerReflectionInfoStream = BoxStream<'static, Result<ServerReflectionResponse, Status>>;

                async fn server_reflection_info(
                    &self,
                    requests: Request<Streaming<ServerReflectionRequest>>,
                ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
                    let this = self.clone();
                    let answers = requests.into_inner().map(move |request| Ok(this.$version(request?)));
                    Ok(Response::new(answers.boxed()))
                }
            }
        }
    };
}

version!(v1);
version!(v1alpha);
