//! The codec of the schema's own version.

use proc_macro2::TokenStream;
use quote::quote;

use crate::Config;
use crate::model::{Service, doc};

/// Writes `SchemaCodec`, which knows the names of methods and paths.
pub fn generate(service: &Service, config: &Config) -> TokenStream {
    let version = &config.document.version;
    let docs = doc(&format!("`{}` as version {version}: names and JSON are the schema's.", service.full_name));
    let names = service.rpcs.iter().enumerate().map(|(index, rpc)| {
        let name = &rpc.name;
        quote!(#name => &RPCS[#index],)
    });
    let paths = service.rpcs.iter().enumerate().map(|(index, rpc)| {
        let path = &rpc.path;
        quote!(#path => &RPCS[#index],)
    });
    quote! {
        use ::tricord_bindings::{Codec, Rpc};
        use ::tricord_bindings::query::Route;
        use super::service::RPCS;
        use super::http_json;

        #docs
        #[derive(Debug, Clone, Copy)]
        pub struct SchemaCodec;

        impl Codec for SchemaCodec {
            fn version(&self) -> &'static str {
                #version
            }

            fn slot(&self) -> usize {
                0
            }

            fn grpc_rpc(&self, path: &str) -> Option<&'static Rpc> {
                Some(match path {
                    #(#paths)*
                    _ => return None,
                })
            }

            fn jsonrpc_rpc(&self, method: &str) -> Option<&'static Rpc> {
                Some(match method {
                    #(#names)*
                    _ => return None,
                })
            }

            fn http_route<'p>(&self, verb: &::http::Method, path: &'p str) -> Route<'p> {
                http_json::route(verb.as_str(), path)
            }
        }
    }
}
