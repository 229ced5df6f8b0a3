//! Generates the request validator from `field_behavior`, enums and required oneofs.

use proc_macro2::TokenStream;
use prost_reflect::{Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use quote::quote;

use crate::messages::{
    enum_type, field_ident, message_type, oneof, oneof_ident, optional, own, reachable, required, variant,
};
use crate::model::{Service, refuse};
use crate::{Config, Error};

/// Writes `Validate` for every message that can be part of a request of the service.
///
/// # Errors
/// When [`Config::required_oneofs`] names a oneof that the schema does not have, or a rule cannot be expressed.
pub fn generate(pool: &DescriptorPool, service: &Service, config: &Config) -> Result<TokenStream, Error> {
    for name in &config.required_oneofs {
        let known = own(pool).any(|m| m.oneofs().any(|oneof| is_named(&oneof, name)));
        if !known {
            return Err(refuse(name, "no such oneof"));
        }
    }
    let in_requests = reachable(service.rpcs.iter().map(|rpc| rpc.input.clone()));
    let mut impls = Vec::new();
    for message in own(pool).filter(|m| in_requests.contains(m.full_name())) {
        impls.push(validator(pool, config, &message)?);
    }
    Ok(quote! {
        use ::tricord_bindings::proto_json::{At, Findings, Validate, rules};

        #(#impls)*
    })
}

fn is_named(oneof: &OneofDescriptor, name: &str) -> bool {
    name.strip_prefix('.') == Some(oneof.full_name())
}

fn validator(pool: &DescriptorPool, config: &Config, message: &MessageDescriptor) -> Result<TokenStream, Error> {
    let ty = message_type(message, config);
    let mut checks = Vec::new();
    for field in message.fields().filter(|field| oneof(field).is_none()) {
        checks.extend(field_checks(pool, config, &field)?);
    }
    for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
        checks.push(oneof_check(config, &oneof));
    }
    Ok(quote! {
        #[allow(deprecated, unused_variables)]
        impl Validate for #ty {
            fn check(&self, at: &At<'_>, findings: &mut Findings) {
                #(#checks)*
            }
        }
    })
}

/// Returns the checks of a field outside a oneof.
fn field_checks(pool: &DescriptorPool, config: &Config, field: &FieldDescriptor) -> Result<Vec<TokenStream>, Error> {
    let (source, name) = (field_ident(field), field.json_name());
    let at = quote!(at.field(#name));
    let required = required(pool, field);
    let repeated = field.cardinality() == Cardinality::Repeated;
    let mut checks = Vec::new();
    match field.kind() {
        _ if required && repeated => checks.push(quote!(rules::not_empty(self.#source.is_empty(), #at, findings);)),
        Kind::Message(_) if required => checks.push(quote!(rules::present(&self.#source, #at, findings);)),
        _ if required && optional(field) => checks.push(quote!(rules::present(&self.#source, #at, findings);)),
        Kind::String | Kind::Bytes if required => {
            checks.push(quote!(rules::not_empty(self.#source.is_empty(), #at, findings);));
        }
        // Zero and false are valid values, so there is nothing to check for required numbers and booleans.
        _ => {}
    }
    match field.kind() {
        Kind::Message(_) if field.is_map() => {
            let holds_messages = field
                .kind()
                .as_message()
                .is_some_and(|entry| matches!(entry.map_entry_value_field().kind(), Kind::Message(_)));
            if holds_messages {
                checks.push(quote!(rules::each_entry(&self.#source, #at, findings);));
            }
        }
        Kind::Message(_) if repeated => checks.push(quote!(rules::each(&self.#source, #at, findings);)),
        Kind::Message(_) => checks.push(quote!(rules::message(&self.#source, #at, findings);)),
        Kind::Enum(_) if repeated || optional(field) => {
            return Err(refuse(field.full_name(), "a repeated or optional enum in a request is not supported"));
        }
        Kind::Enum(descriptor) => {
            let ty = enum_type(&descriptor, config);
            let rule = if required { quote!(chosen) } else { quote!(known) };
            checks.push(quote!(rules::#rule::<#ty>(self.#source, #at, findings);));
        }
        _ => {}
    }
    Ok(checks)
}

/// Returns the check of a oneof: that its member is valid, and that it has one if it needs one.
fn oneof_check(config: &Config, oneof: &OneofDescriptor) -> TokenStream {
    let source = oneof_ident(oneof);
    let mut arms = Vec::new();
    for field in oneof.fields() {
        let (variant, name) = (variant(&field, oneof, config), field.json_name());
        match field.kind() {
            Kind::Message(_) => arms.push(quote!(Some(#variant(value)) => value.check(&at.field(#name), findings))),
            Kind::Enum(descriptor) => {
                let ty = enum_type(&descriptor, config);
                arms.push(quote!(Some(#variant(value)) => rules::known::<#ty>(*value, at.field(#name), findings)));
            }
            _ => {}
        }
    }
    if config.required_oneofs.iter().any(|name| is_named(oneof, name)) {
        let names: Vec<_> = oneof.fields().map(|field| field.json_name().to_owned()).collect();
        let problem = format!("has none of {}", names.join(", "));
        arms.push(quote!(None => findings.add(at, #problem)));
    }
    if arms.is_empty() { quote!() } else { quote!(match &self.#source { #(#arms,)* _ => {} }) }
}
