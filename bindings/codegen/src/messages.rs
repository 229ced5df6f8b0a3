//! Facts about messages and fields for the generators: Rust names, and options that affect JSON and validation.

use std::collections::BTreeSet;

use heck::{ToSnakeCase, ToUpperCamelCase};
use proc_macro2::{Ident, TokenStream};
use prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor, Value};
use quote::quote;

use crate::model::{ident, refuse, rust_type, tokens};
use crate::{Config, Error};

/// `google.api.FieldBehavior.REQUIRED`.
const REQUIRED: i32 = 2;

/// Returns the messages of the schema itself without map entries, in the order of their declaration.
pub fn own(pool: &DescriptorPool) -> impl Iterator<Item = MessageDescriptor> + '_ {
    pool.all_messages().filter(|m| !m.is_map_entry() && !m.package_name().starts_with("google."))
}

/// Returns the enums of the schema itself.
pub fn own_enums(pool: &DescriptorPool) -> impl Iterator<Item = EnumDescriptor> + '_ {
    pool.all_enums().filter(|e| !e.package_name().starts_with("google."))
}

/// Returns the full names of these messages and of all messages that they can contain.
pub fn reachable(roots: impl Iterator<Item = MessageDescriptor>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<_> = roots.collect();
    while let Some(message) = next.pop() {
        if found.insert(message.full_name().to_owned()) {
            next.extend(message.fields().filter_map(|field| field.kind().as_message().cloned()));
        }
    }
    found
}

/// Returns whether the schema marks the field as required.
pub fn required(pool: &DescriptorPool, field: &FieldDescriptor) -> bool {
    let Some(extension) = pool.get_extension_by_name("google.api.field_behavior") else { return false };
    let options = field.options();
    let behaviors = options.get_extension(&extension);
    let behaviors = behaviors.as_list().unwrap_or_default();
    behaviors.iter().any(|behavior| matches!(behavior, Value::EnumNumber(REQUIRED)))
}

/// Returns the oneof that a field is a member of. The hidden oneof behind `optional` does not count.
pub fn oneof(field: &FieldDescriptor) -> Option<OneofDescriptor> {
    field.containing_oneof().filter(|oneof| !oneof.is_synthetic())
}

/// Returns whether the field is declared `optional`.
pub fn optional(field: &FieldDescriptor) -> bool {
    field.containing_oneof().is_some_and(|oneof| oneof.is_synthetic())
}

/// Returns every name under which a field is read: its JSON name, its name in the schema, and aliases.
pub fn names(field: &FieldDescriptor, config: &Config) -> Vec<String> {
    let mut names = vec![field.json_name().to_owned()];
    if field.name() != field.json_name() {
        names.push(field.name().to_owned());
    }
    let aliases = config.aliases.iter().filter(|(name, _)| is_field(field, name));
    names.extend(aliases.map(|(_, alias)| alias.clone()));
    names
}

/// Checks that every alias names a field of the schema.
///
/// # Errors
/// When an alias does not; the error names the first one.
pub fn refuse_unknown_aliases(pool: &DescriptorPool, config: &Config) -> Result<(), Error> {
    let known = |name: &str| own(pool).any(|message| message.fields().any(|field| is_field(&field, name)));
    match config.aliases.iter().find(|(name, _)| !known(name)) {
        Some((name, _)) => Err(refuse(name, "an alias of a field that the schema does not have")),
        None => Ok(()),
    }
}

/// Returns whether this is the field's full name with a leading dot.
fn is_field(field: &FieldDescriptor, name: &str) -> bool {
    name.strip_prefix('.') == Some(field.full_name())
}

/// Returns the field's name in Rust.
pub fn field_ident(field: &FieldDescriptor) -> Ident {
    ident(&field.name().to_snake_case())
}

/// Returns the name of the oneof's field in Rust.
pub fn oneof_ident(oneof: &OneofDescriptor) -> Ident {
    ident(&oneof.name().to_snake_case())
}

/// Returns the Rust path of the variant for a member of a oneof.
pub fn variant(field: &FieldDescriptor, oneof: &OneofDescriptor, config: &Config) -> TokenStream {
    let module = nested(oneof.parent_message(), config);
    let name = ident(&oneof.name().to_upper_camel_case());
    let variant = ident(&field.name().to_upper_camel_case());
    quote!(#module::#name::#variant)
}

/// Returns the Rust module of the types that are declared inside a message.
fn nested(message: &MessageDescriptor, config: &Config) -> TokenStream {
    let module = ident(&message.name().to_snake_case());
    let outer = match message.parent_message() {
        Some(outer) => nested(&outer, config),
        None => package(message.package_name(), config),
    };
    quote!(#outer::#module)
}

/// Returns the Rust path of an enum's type.
pub fn enum_type(descriptor: &EnumDescriptor, config: &Config) -> TokenStream {
    let name = ident(&descriptor.name().to_upper_camel_case());
    let outer = match descriptor.parent_message() {
        Some(outer) => nested(&outer, config),
        None => package(descriptor.package_name(), config),
    };
    quote!(#outer::#name)
}

fn package(name: &str, config: &Config) -> TokenStream {
    let modules = name.split('.').map(|part| ident(&part.to_snake_case()));
    let root: TokenStream = config.root.parse().expect("the root is a path");
    quote!(#root #(::#modules)*)
}

/// Returns the Rust type of a message, for `impl`.
pub fn message_type(message: &MessageDescriptor, config: &Config) -> TokenStream {
    tokens(&rust_type(message, config))
}

/// Checks that no message can contain itself. prost boxes such messages, and the other generators do not know where.
///
/// # Errors
/// When a message can contain itself; the error names it.
pub fn refuse_cycles(pool: &DescriptorPool) -> Result<(), Error> {
    for message in own(pool) {
        let inside = message.fields().filter_map(|field| field.kind().as_message().cloned());
        if reachable(inside).contains(message.full_name()) {
            return Err(refuse(message.full_name(), "a message that can contain itself"));
        }
    }
    Ok(())
}

/// Returns whether the field has this well-known type.
pub fn is_well_known(field: &FieldDescriptor, name: &str) -> bool {
    matches!(field.kind(), Kind::Message(message) if message.full_name() == name)
}
