//! Generates ProtoJSON: serde impls of every message, over `tricord_bindings::proto_json`.

use proc_macro2::TokenStream;
use prost_reflect::{Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use quote::quote;

use crate::messages::{
    self, enum_type, field_ident, is_well_known, message_type, oneof, oneof_ident, optional, own, own_enums, variant,
};
use crate::model::refuse;
use crate::{Config, Error};

/// The most fields of a message. The reader keeps one bit for each field that it has seen.
const MAX_FIELDS: usize = 64;

/// Writes the serde impls of all messages, and the names of all enums.
///
/// # Errors
/// When a field has a type that is not supported yet.
pub fn generate(pool: &DescriptorPool, config: &Config) -> Result<TokenStream, Error> {
    messages::refuse_cycles(pool)?;
    messages::refuse_unknown_aliases(pool, config)?;
    let enums = own_enums(pool).map(|descriptor| enum_names(&descriptor, config));
    let messages = own(pool).map(|descriptor| message(pool, config, &descriptor)).collect::<Result<Vec<_>, _>>()?;
    Ok(quote! {
        use ::serde::de::MapAccess;
        use ::serde::ser::SerializeMap;
        use ::serde::{Deserialize, Deserializer, Serialize, Serializer};
        use ::tricord_bindings::proto_json::{
            self, Any, Base64, Enum, EnumNames, Fields, List, Map, Number, Plain, Quoted, entry, member, optional, skip,
            value,
        };

        #(#enums)*
        #(#messages)*
    })
}

fn enum_names(descriptor: &EnumDescriptor, config: &Config) -> TokenStream {
    let ty = enum_type(descriptor, config);
    let name = descriptor.name();
    let values = descriptor.values().map(|value| {
        let (name, number) = (value.name().to_owned(), value.number());
        quote!((#name, #number))
    });
    quote! {
        impl EnumNames for #ty {
            const NAME: &'static str = #name;
            const VALUES: &'static [(&'static str, i32)] = &[#(#values),*];
        }
    }
}

fn message(pool: &DescriptorPool, config: &Config, message: &MessageDescriptor) -> Result<TokenStream, Error> {
    let fields: Vec<_> = message.fields().collect();
    if fields.len() > MAX_FIELDS {
        return Err(refuse(message.full_name(), format!("a message may have at most {MAX_FIELDS} fields")));
    }
    let mut names = Vec::new();
    let mut reads = Vec::new();
    let mut writes = Vec::new();
    for (index, field) in (0_u8..).zip(&fields) {
        let format = format_of(field, config)?;
        let spellings = messages::names(field, config);
        names.push(quote!(#(#spellings)|* => #index));
        reads.push(read_arm(index, field, &format, config));
        writes.extend(write(pool, field, config)?);
    }
    let ty = message_type(message, config);
    let name = message.name();
    Ok(quote! {
        #[allow(deprecated, unused_variables)]
        impl Fields for #ty {
            const NAME: &'static str = #name;

            fn index(name: &str) -> Option<u8> {
                Some(match name { #(#names,)* _ => return None })
            }

            fn read<'de, A: MapAccess<'de>>(&mut self, index: u8, map: &mut A) -> Result<(), A::Error> {
                match index { #(#reads,)* _ => skip(map) }
            }

            fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                #(#writes)*
                Ok(())
            }
        }

        impl Serialize for #ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                proto_json::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for #ty {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                proto_json::deserialize(deserializer)
            }
        }
    })
}

fn read_arm(index: u8, field: &FieldDescriptor, format: &TokenStream, config: &Config) -> TokenStream {
    if let Some(oneof) = oneof(field) {
        let (target, variant) = (oneof_ident(&oneof), variant(field, &oneof, config));
        return quote!(#index => member::<#format, _, _, _>(map, &mut self.#target, #variant));
    }
    let target = field_ident(field);
    if in_option(field) {
        quote!(#index => optional::<#format, _, _>(map, &mut self.#target))
    } else {
        quote!(#index => value::<#format, _, _>(map, &mut self.#target))
    }
}

/// Returns the statement that writes a field. A oneof is written in place of its first member.
fn write(pool: &DescriptorPool, field: &FieldDescriptor, config: &Config) -> Result<Option<TokenStream>, Error> {
    if let Some(oneof) = oneof(field) {
        let first = oneof.fields().next().is_some_and(|first| first.number() == field.number());
        if !first {
            return Ok(None);
        }
        let mut arms = Vec::new();
        for member in oneof.fields() {
            let (format, variant, name) =
                (format_of(&member, config)?, variant(&member, &oneof, config), member.json_name());
            arms.push(quote!(Some(#variant(value)) => entry::<#format, _, _>(map, #name, value)?));
        }
        let source = oneof_ident(&oneof);
        return Ok(Some(quote!(match &self.#source { #(#arms,)* None => {} })));
    }
    let (format, source, name) = (format_of(field, config)?, field_ident(field), field.json_name());
    Ok(Some(if in_option(field) {
        quote!(if let Some(value) = &self.#source { entry::<#format, _, _>(map, #name, value)?; })
    } else if messages::required(pool, field) {
        quote!(entry::<#format, _, _>(map, #name, &self.#source)?;)
    } else {
        let set = set(field);
        quote!(if #set { entry::<#format, _, _>(map, #name, &self.#source)?; })
    }))
}

/// Returns whether prost holds the field as an `Option`.
fn in_option(field: &FieldDescriptor) -> bool {
    optional(field) || (field.cardinality() != Cardinality::Repeated && matches!(field.kind(), Kind::Message(_)))
}

/// Returns the expression for whether a field without presence differs from its default.
fn set(field: &FieldDescriptor) -> TokenStream {
    let source = field_ident(field);
    match field.kind() {
        _ if field.cardinality() == Cardinality::Repeated => quote!(!self.#source.is_empty()),
        Kind::String | Kind::Bytes => quote!(!self.#source.is_empty()),
        Kind::Bool => quote!(self.#source),
        _ => quote!(self.#source != 0),
    }
}

/// Returns the format of a field, including list or map.
fn format_of(field: &FieldDescriptor, config: &Config) -> Result<TokenStream, Error> {
    if field.is_map() {
        let entry = field.kind();
        let Some(entry) = entry.as_message() else { return Err(refuse(field.full_name(), "a map without entries")) };
        if entry.map_entry_key_field().kind() != Kind::String {
            return Err(refuse(field.full_name(), "a map whose keys are not strings"));
        }
        let format = format_of_one(&entry.map_entry_value_field(), config)?;
        return Ok(quote!(Map<#format>));
    }
    let format = format_of_one(field, config)?;
    Ok(if field.is_list() { quote!(List<#format>) } else { format })
}

fn format_of_one(field: &FieldDescriptor, config: &Config) -> Result<TokenStream, Error> {
    Ok(match field.kind() {
        Kind::Message(_) if is_well_known(field, "google.protobuf.Value") => quote!(Any),
        Kind::Message(_) | Kind::String | Kind::Bool => quote!(Plain),
        Kind::Bytes => quote!(Base64),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Uint32 | Kind::Fixed32 => quote!(Number),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => quote!(Quoted),
        Kind::Enum(descriptor) => {
            let ty = enum_type(&descriptor, config);
            quote!(Enum<#ty>)
        }
        Kind::Float | Kind::Double => {
            return Err(refuse(field.full_name(), "a float field is not supported; use google.protobuf.Value"));
        }
    })
}
