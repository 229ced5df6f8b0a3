//! The table of JSON-RPC methods.

use proc_macro2::TokenStream;
use quote::quote;

use crate::model::{Rpc, Service, doc};

/// Writes `methods`, which registers every rpc by its name in the schema.
pub fn generate(service: &Service) -> TokenStream {
    let name = &service.trait_name;
    let methods = service.rpcs.iter().map(register);
    let docs = doc(&format!("The rpcs of `{}` as JSON-RPC methods, named as in the schema.", service.full_name));
    let imports = service.import_requests();
    quote! {
        use ::std::sync::Arc;
        use ::tricord_bindings::{Call, Host};
        use ::tricord_bindings::jsonrpc::JsonRpc;
        use super::service::#name;
        #imports

        #docs
        pub fn methods<S: #name>(host: &Arc<Host<S>>) -> JsonRpc<S> {
            let mut methods = JsonRpc::new(host.clone());
            #(#methods)*
            methods
        }
    }
}

fn register(rpc: &Rpc) -> TokenStream {
    let Rpc { name, method, input_type, .. } = rpc;
    let kind = if rpc.streaming { quote!(streaming) } else { quote!(unary) };
    quote! {
        methods.#kind(#name, |service: Arc<S>, call: Call, request: #input_type| async move {
            service.#method(call, request).await
        });
    }
}
