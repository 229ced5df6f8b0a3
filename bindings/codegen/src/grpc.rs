//! The gRPC service.

use proc_macro2::TokenStream;
use quote::quote;

use crate::model::{Rpc, Service, doc};

/// Writes `serve`, which knows every rpc by its gRPC path.
pub fn generate(service: &Service) -> TokenStream {
    let name = &service.trait_name;
    let full_name = &service.full_name;
    let prefix = format!("/{full_name}/");
    let arms = service.rpcs.iter().map(arm);
    let docs = doc(&format!("Answers a gRPC request of `{full_name}`."));
    quote! {
        use ::std::sync::Arc;
        use ::tricord_bindings::{Body, Host};
        use ::tricord_bindings::body::BoxError;
        use ::tricord_bindings::grpc;
        use super::service::#name;

        /// The service's full name.
        pub const NAME: &str = #full_name;

        /// What the paths of the service begin with.
        pub const PREFIX: &str = #prefix;

        #docs
        pub async fn serve<S, B>(host: &Arc<Host<S>>, request: ::http::Request<B>) -> ::http::Response<Body>
        where
            S: #name,
            B: ::http_body::Body<Data = ::bytes::Bytes> + Send + Unpin + 'static,
            B::Error: Into<BoxError> + Send,
        {
            match request.uri().path() {
                #(#arms)*
                _ => grpc::unknown(host, request),
            }
        }
    }
}

fn arm(rpc: &Rpc) -> TokenStream {
    let Rpc { name, method, path, .. } = rpc;
    let kind = if rpc.streaming { quote!(streaming) } else { quote!(unary) };
    quote!(#path => grpc::#kind(host, #name, request, S::#method).await,)
}
