//! The gRPC names of the service.

use proc_macro2::TokenStream;
use quote::quote;

use crate::model::Service;

/// Writes the service's full name and the beginning of its paths.
pub fn generate(service: &Service) -> TokenStream {
    let full_name = &service.full_name;
    let prefix = format!("/{full_name}/");
    quote! {
        /// The service's full name.
        pub const NAME: &str = #full_name;

        /// What the paths of the service begin with.
        pub const PREFIX: &str = #prefix;
    }
}
