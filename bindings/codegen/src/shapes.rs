//! Generates the shape of every message that can be part of a request: which of its fields are messages.

use heck::ToShoutySnakeCase as _;
use proc_macro2::{Ident, TokenStream};
use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use quote::quote;

use crate::messages::{own, reachable};
use crate::model::{Service, ident};

/// Writes a static for each message.
pub fn generate(pool: &DescriptorPool, service: &Service) -> TokenStream {
    let in_requests = reachable(service.rpcs.iter().map(|rpc| rpc.input.clone()));
    let statics = own(pool).filter(|message| in_requests.contains(message.full_name())).map(|message| shape(&message));
    quote! {
        use ::tricord_bindings::weight::{self, Shape};

        #(#statics)*
    }
}

/// Returns the name of a message's static.
pub fn name(message: &MessageDescriptor) -> Ident {
    let package = message.package_name();
    ident(&message.full_name()[package.len()..].trim_start_matches('.').to_shouty_snake_case())
}

fn shape(message: &MessageDescriptor) -> TokenStream {
    let name = name(message);
    let fields = message.fields().filter_map(|field| {
        let Kind::Message(inner) = field.kind() else { return None };
        let (number, inner) = (field.number(), reference(&inner)?);
        Some(quote!((#number, #inner)))
    });
    // An entry of a map is not an object of JSON: it counts as a member of the map.
    let is_counted = !message.is_map_entry();
    let doc = format!(" `{}`.", message.full_name());
    quote! {
        #[doc = #doc]
        pub static #name: Shape = Shape { fields: &[#(#fields),*], is_counted: #is_counted };
    }
}

/// Returns a reference to the shape of a field's message, if it can hold anything that counts.
fn reference(message: &MessageDescriptor) -> Option<TokenStream> {
    match message.full_name() {
        "google.protobuf.Struct" => Some(quote!(&weight::STRUCT)),
        "google.protobuf.ListValue" => Some(quote!(&weight::LIST_VALUE)),
        "google.protobuf.Value" => Some(quote!(&weight::VALUE_SHAPE)),
        name if name.starts_with("google.protobuf.") => None,
        _ => {
            let name = name(message);
            Some(quote!(&#name))
        }
    }
}
