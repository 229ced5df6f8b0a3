//! The typed client: one method per rpc, over any transport.

use heck::ToUpperCamelCase;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::model::{Rpc, Service, doc};

/// Writes the client. It needs the feature `client` of the crate that includes it.
pub fn generate(service: &Service) -> TokenStream {
    let name = format_ident!("{}Client", service.trait_name.to_string().to_upper_camel_case());
    let docs = doc(&format!("A typed client of the service over any transport.\n\n{}", service.comment));
    let methods = service.rpcs.iter().enumerate().map(|(at, rpc)| method(at, rpc));
    let imports = service.import_types();
    quote! {
        use super::service::RPCS;
        #imports
        use ::tricord_bindings::client::{CallOptions, ClientError, EventStream, Transport};

        #docs
        #[derive(Debug, Clone)]
        pub struct #name<T> {
            transport: T,
        }

        impl<T: Transport> #name<T> {
            /// Creates a client over a transport.
            pub fn new(transport: T) -> Self {
                Self { transport }
            }

            /// Returns the transport.
            pub fn transport(&self) -> &T {
                &self.transport
            }

            #(#methods)*
        }
    }
}

fn method(at: usize, rpc: &Rpc) -> TokenStream {
    let Rpc { method, input_type, output_type, .. } = rpc;
    let docs = doc(&rpc.comment);
    let (answer, call) = if rpc.streaming {
        (quote!(EventStream<#output_type>), quote!(stream))
    } else {
        (quote!(#output_type), quote!(unary))
    };
    quote! {
        #docs
        ///
        /// # Errors
        /// When the server refuses the call, cannot be reached or sends an invalid answer.
        pub async fn #method(&self, request: &#input_type, options: &CallOptions) -> Result<#answer, ClientError> {
            self.transport.#call(&RPCS[#at], request, options).await
        }
    }
}
