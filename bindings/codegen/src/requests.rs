//! Generates what the bindings need from requests: the scope, and reading fields from a query string.

use proc_macro2::TokenStream;
use prost_reflect::{Cardinality, FieldDescriptor, Kind};
use quote::quote;

use crate::messages::{enum_type, field_ident, names};
use crate::model::{Rpc, Service, ident, refuse};
use crate::shapes;
use crate::{Config, Error};

/// Writes `Request` for every request, and `FromQuery` for those that an HTTP rule reads from a query string.
///
/// # Errors
/// When a request that is read from a query string has a field that a query string cannot hold.
pub fn generate(service: &Service, config: &Config) -> Result<TokenStream, Error> {
    let mut requests = TokenStream::new();
    for (index, rpc) in service.rpcs.iter().enumerate() {
        let same = |other: &&Rpc| other.input.full_name() == rpc.input.full_name();
        if !service.rpcs[..index].iter().any(|other| same(&other)) {
            let paths = service.rpcs.iter().filter(same).flat_map(|rpc| rpc.rules.iter().map(|rule| &*rule.template));
            requests.extend(request(rpc, &paths.collect::<Vec<_>>(), config));
            let reads_query = |rpc: &&Rpc| rpc.rules.iter().any(|rule| rule.body.is_empty());
            requests.extend(match service.rpcs.iter().filter(same).find(reads_query) {
                Some(rpc) => from_query(rpc, config)?,
                None => {
                    let input = &rpc.input_type;
                    quote!(impl FromQuery for #input {})
                }
            });
        }
    }
    let imports = service.import_requests();
    Ok(quote! {
        use ::tricord_bindings::Violation;
        #imports
        use ::tricord_bindings::request::{Request, Scope};
        use ::tricord_bindings::query::{self, FromQuery, Set};
        use ::tricord_bindings::weight::Shape;

        #requests
    })
}

fn request(rpc: &Rpc, paths: &[&str], config: &Config) -> TokenStream {
    let name = &config.scope_field;
    let (Some(field), input) = (rpc.input.get_field_by_name(name), &rpc.input_type) else { return TokenStream::new() };
    let (json, number, member) = (field.json_name(), field.number(), field_ident(&field));
    let in_path = |field: &FieldDescriptor| {
        let variable = |path: &&str| {
            [format!("{{{}}}", field.name()), format!("{{{}=", field.name())].iter().any(|v| path.contains(v))
        };
        paths.iter().any(variable)
    };
    let path_fields = rpc.input.fields().filter(in_path).map(|field| {
        let (name, json, member) = (field.name(), field.json_name(), field_ident(&field));
        quote!(#name => Some((#json, &mut self.#member)),)
    });
    let shape = shapes::name(&rpc.input);
    quote! {
        impl Request for #input {
            const SCOPE: Scope = Scope { json: #json, name: #name, number: #number };
            const SHAPE: &'static Shape = &super::shapes::#shape;

            fn scope(&self) -> &str {
                &self.#member
            }

            fn scope_mut(&mut self) -> &mut String {
                &mut self.#member
            }

            fn path_field(&mut self, name: &str) -> Option<(&'static str, &mut String)> {
                match name {
                    #(#path_fields)*
                    _ => None,
                }
            }
        }
    }
}

fn from_query(rpc: &Rpc, config: &Config) -> Result<TokenStream, Error> {
    let input = &rpc.input_type;
    let fields = rpc.input.fields().enumerate();
    let arms = fields.map(|(index, field)| arm(rpc, &field, index, config)).collect::<Result<Vec<_>, _>>()?;
    Ok(quote! {
        impl FromQuery for #input {
            fn set(&mut self, name: &str, value: &str) -> Result<Set, Violation> {
                match name {
                    #(#arms)*
                    _ => Ok(Set::Unknown),
                }
            }
        }
    })
}

fn arm(rpc: &Rpc, field: &FieldDescriptor, index: usize, config: &Config) -> Result<TokenStream, Error> {
    let member = field_ident(field);
    let value = value(rpc, field, config)?;
    let assign = if field.is_list() {
        quote!(self.#member.push(#value); Ok(Set::Added))
    } else {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let value = if field.cardinality() == Cardinality::Optional && field.supports_presence() {
            quote!(Some(#value))
        } else {
            value
        };
        quote!(self.#member = #value; Ok(Set::Once(#index)))
    };
    let names = names(field, config);
    Ok(quote!(#(#names)|* => { #assign }))
}

/// Returns the expression that parses the field's value from `value`.
fn value(rpc: &Rpc, field: &FieldDescriptor, config: &Config) -> Result<TokenStream, Error> {
    let json = field.json_name();
    let cannot = |what: &str| {
        let problem = format!("its HTTP rule has no body, and a query string cannot hold {what} `{}`", field.name());
        Err(refuse(&rpc.name, problem))
    };
    if field.is_map() {
        return cannot("the map");
    }
    if field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic()) {
        return cannot("the oneof member");
    }
    let parse = |rust: &str, expected: &str| {
        let rust = ident(rust);
        quote!(query::parse::<#rust>(#json, value, #expected)?)
    };
    let whole = |format: &str, rust: &str| {
        let (format, rust) = (ident(format), ident(rust));
        quote!(query::parse_whole::<::tricord_bindings::proto_json::#format, #rust>(#json, value)?)
    };
    Ok(match field.kind() {
        Kind::String => quote!(value.to_owned()),
        Kind::Bool => parse("bool", "true or false"),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => whole("Number", "i32"),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => whole("Quoted", "i64"),
        Kind::Uint32 | Kind::Fixed32 => whole("Number", "u32"),
        Kind::Uint64 | Kind::Fixed64 => whole("Quoted", "u64"),
        Kind::Float => parse("f32", "a number"),
        Kind::Double => parse("f64", "a number"),
        Kind::Enum(known) => {
            let known = enum_type(&known, config);
            quote!(query::parse_enum::<#known>(#json, value)?)
        }
        Kind::Message(message) if message.full_name() == "google.protobuf.Timestamp" => {
            quote!(query::parse_json_string::<::tricord_bindings::wkt::Timestamp>(#json, value)?)
        }
        Kind::Message(_) => return cannot("the message"),
        Kind::Bytes => return cannot("the bytes field"),
    })
}
