//! Generates the gRPC names of the service.

use proc_macro2::TokenStream;
use quote::quote;

use crate::model::Service;

/// Generates the constants for the full name of the service and the prefix of its paths.
pub fn generate(service: &Service) -> TokenStream {
    let full_name = &service.full_name;
    let prefix = format!("/{full_name}/");
    quote! {
        /// The full name of the service.
        pub const NAME: &str = #full_name;

        /// The prefix of the paths of the service's rpcs.
        pub const PREFIX: &str = #prefix;
    }
}
