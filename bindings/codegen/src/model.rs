//! The service as the generators see it: rpcs with their names in every binding, their types and their HTTP rules.

use std::collections::BTreeMap;

use heck::{ToSnakeCase, ToUpperCamelCase};
use proc_macro2::{Ident, Span, TokenStream};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, Value};
use quote::quote;

use crate::{Config, Error};

/// The service to generate for.
#[derive(Debug)]
pub struct Service {
    /// The full name: `package.Service`.
    pub full_name: String,
    /// The trait's name in Rust.
    pub trait_name: Ident,
    /// The service's comment in the schema.
    pub comment: String,
    /// Its rpcs, in the schema's order.
    pub rpcs: Vec<Rpc>,
    /// The proto name of the scope field.
    pub scope_field: String,
    /// The types that generated files import, and whether each is a request.
    imports: Vec<(String, bool)>,
}

/// One rpc.
#[derive(Debug)]
pub struct Rpc {
    /// The name in the schema.
    pub name: String,
    /// The method's name in Rust.
    pub method: Ident,
    /// The gRPC path.
    pub path: String,
    /// The comment in the schema.
    pub comment: String,
    /// The request.
    pub input: MessageDescriptor,
    /// The answer, or one event of it.
    pub output: MessageDescriptor,
    /// The request's Rust type, as named in a file that imports it.
    pub input_type: TokenStream,
    /// The answer's Rust type, as named in a file that imports it.
    pub output_type: TokenStream,
    /// Whether it answers with a stream.
    pub streaming: bool,
    /// What must be offered for it to be called.
    pub capability: Option<String>,
    /// Whether it may be called without credentials.
    pub anonymous: bool,
    /// The HTTP rules, the main one first.
    pub rules: Vec<HttpRule>,
}

/// One `google.api.http` rule, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRule {
    /// `GET`, `POST`, ...
    pub verb: String,
    /// The path template.
    pub template: String,
    /// The content of the body: empty, `*` or a field.
    pub body: String,
    /// The only field of the response to send, or empty.
    pub response_body: String,
}

impl Service {
    /// Reads the configured service from the descriptors.
    ///
    /// # Errors
    /// When there is no such service, or the bindings cannot express one of its rpcs.
    pub fn read(pool: &DescriptorPool, config: &Config) -> Result<Self, Error> {
        let descriptor =
            pool.get_service_by_name(&config.service).ok_or_else(|| refuse(&config.service, "no such service"))?;
        let mut types = Types::default();
        let mut rpcs = Vec::new();
        for method in descriptor.methods() {
            types.add(&rust_type(&method.input(), config), true);
            types.add(&rust_type(&method.output(), config), false);
        }
        for method in descriptor.methods() {
            rpcs.push(Rpc::read(pool, config, &types, &method)?);
        }
        let told = config.capabilities.iter().flat_map(|(_, rpcs)| rpcs).chain(&config.anonymous);
        if let Some(unknown) = told.into_iter().find(|told| !rpcs.iter().any(|rpc: &Rpc| rpc.name == **told)) {
            return Err(refuse(unknown, "the service has no such rpc"));
        }
        Ok(Self {
            full_name: descriptor.full_name().to_owned(),
            trait_name: ident(&descriptor.name().to_upper_camel_case()),
            comment: comment(descriptor.parent_file().file_descriptor_proto(), descriptor.path()),
            rpcs,
            scope_field: config.scope_field.clone(),
            imports: types.imports(),
        })
    }

    /// Returns `use` items for the types of all requests and answers.
    pub fn import_types(&self) -> TokenStream {
        import(self.imports.iter().map(|(path, _)| path))
    }

    /// Returns `use` items for the types of all requests.
    pub fn import_requests(&self) -> TokenStream {
        import(self.imports.iter().filter(|(_, is_request)| *is_request).map(|(path, _)| path))
    }
}

impl Rpc {
    fn read(pool: &DescriptorPool, config: &Config, types: &Types, method: &MethodDescriptor) -> Result<Self, Error> {
        if method.is_client_streaming() {
            return Err(refuse(method.name(), "client streaming has no HTTP form"));
        }
        let scope = method.input().get_field_by_name(&config.scope_field);
        if !scope.is_some_and(|f| f.kind() == prost_reflect::Kind::String && !f.is_list() && !f.supports_presence()) {
            let problem = format!("its request has no plain string field `{}`", config.scope_field);
            return Err(refuse(method.name(), problem));
        }
        let named = |rpcs: &[String]| rpcs.iter().any(|rpc| rpc == method.name());
        Ok(Self {
            name: method.name().to_owned(),
            method: ident(&method.name().to_snake_case()),
            path: format!("/{}/{}", method.parent_service().full_name(), method.name()),
            comment: comment(method.parent_file().file_descriptor_proto(), method.path()),
            input: method.input(),
            output: method.output(),
            input_type: types.name(&rust_type(&method.input(), config)),
            output_type: types.name(&rust_type(&method.output(), config)),
            streaming: method.is_server_streaming(),
            capability: config.capabilities.iter().find(|(_, rpcs)| named(rpcs)).map(|(name, _)| name.clone()),
            anonymous: named(&config.anonymous),
            rules: http_rules(pool, method)?,
        })
    }
}

/// Names that generated files import from elsewhere, or that have a meaning in Rust.
const TAKEN: &[&str] = &[
    "Arc",
    "Authenticator",
    "Binding",
    "BindingSettings",
    "Body",
    "Call",
    "CallOptions",
    "Capability",
    "ClientError",
    "Err",
    "Error",
    "EventStream",
    "Events",
    "Exchange",
    "FromQuery",
    "Handlers",
    "HttpRule",
    "None",
    "Ok",
    "Option",
    "PendingCall",
    "Pipeline",
    "Protocol",
    "Reply",
    "Request",
    "Result",
    "Rpc",
    "Scope",
    "Send",
    "Set",
    "Shape",
    "Some",
    "String",
    "Sync",
    "Transport",
    "Vec",
    "Violation",
];

/// The types of requests and answers: full paths, and whether each is a request.
#[derive(Default)]
struct Types(BTreeMap<String, bool>);

impl Types {
    fn add(&mut self, path: &str, is_request: bool) {
        *self.0.entry(path.to_owned()).or_default() |= is_request;
    }

    /// Returns whether a file can import this type and use its bare name.
    fn is_importable(&self, path: &str) -> bool {
        let name = last(path);
        !TAKEN.contains(&name) && self.0.keys().filter(|other| last(other) == name).count() == 1
    }

    fn name(&self, path: &str) -> TokenStream {
        tokens(if self.is_importable(path) { last(path) } else { path })
    }

    fn imports(&self) -> Vec<(String, bool)> {
        let imports = self.0.iter().filter(|(path, _)| self.is_importable(path));
        imports.map(|(path, is_request)| (path.clone(), *is_request)).collect()
    }
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// Converts a path of identifiers to tokens.
pub fn tokens(path: &str) -> TokenStream {
    path.parse().expect("a path of identifiers is tokens")
}

/// Returns one `use` item for each module.
fn import<'a>(paths: impl Iterator<Item = &'a String>) -> TokenStream {
    let mut modules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths {
        if let Some((module, name)) = path.rsplit_once("::") {
            modules.entry(module).or_default().push(name);
        }
    }
    let uses = modules.iter().map(|(module, names)| tokens(&format!("use {module}::{{{}}};", names.join(", "))));
    quote!(#(#uses)*)
}

/// Returns the full Rust path of a message's type.
pub fn rust_type(message: &MessageDescriptor, config: &Config) -> String {
    let mut names = vec![message.name().to_upper_camel_case()];
    let mut parent = message.parent_message();
    while let Some(outer) = parent {
        names.push(outer.name().to_snake_case());
        parent = outer.parent_message();
    }
    names.reverse();
    let package = message.package_name();
    if package == "google.protobuf" {
        return format!("::tricord_bindings::wkt::{}", names.join("::"));
    }
    let package = package.split('.').map(ToSnakeCase::to_snake_case).collect::<Vec<_>>().join("::");
    format!("{}::{package}::{}", config.root, names.join("::"))
}

/// Returns an identifier, raw if the name is a Rust keyword.
pub fn ident(name: &str) -> Ident {
    syn::parse_str::<Ident>(name).unwrap_or_else(|_| Ident::new_raw(name, Span::call_site()))
}

/// Returns `#[doc]` attributes for a comment, one for each line.
pub fn doc(comment: &str) -> TokenStream {
    let lines = comment.lines().map(|line| format!(" {}", line.trim()));
    quote!(#(#[doc = #lines])*)
}

/// Returns an error that names the rpc.
pub fn refuse(rpc: &str, problem: impl Into<String>) -> Error {
    Error::Unsupported { rpc: rpc.to_owned(), problem: problem.into() }
}

/// Returns the comment before the element at `path` in its file.
pub fn comment(file: &prost_types::FileDescriptorProto, path: &[i32]) -> String {
    let info = file.source_code_info.as_ref();
    let location = info.and_then(|info| info.location.iter().find(|l| l.path == path));
    location.map(|l| l.leading_comments().trim().to_owned()).unwrap_or_default()
}

fn http_rules(pool: &DescriptorPool, method: &MethodDescriptor) -> Result<Vec<HttpRule>, Error> {
    let Some(extension) = pool.get_extension_by_name("google.api.http") else { return Ok(Vec::new()) };
    let options = method.options();
    if !options.has_extension(&extension) {
        return Ok(Vec::new());
    }
    let option = options.get_extension(&extension);
    let Some(rule) = option.as_message() else { return Ok(Vec::new()) };
    let mut rules = vec![http_rule(method.name(), rule)?];
    for more in rule.get_field_by_name("additional_bindings").iter().filter_map(|v| v.as_list()).flatten() {
        let Some(more) = more.as_message() else { continue };
        if more.has_field_by_name("additional_bindings") {
            return Err(refuse(method.name(), "additional_bindings inside additional_bindings"));
        }
        rules.push(http_rule(method.name(), more)?);
    }
    Ok(rules)
}

fn http_rule(rpc: &str, rule: &DynamicMessage) -> Result<HttpRule, Error> {
    let text = |name: &str| {
        let value = rule.get_field_by_name(name);
        value.as_deref().and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut found = None;
    for verb in ["get", "put", "post", "delete", "patch"] {
        if rule.has_field_by_name(verb) {
            found = Some((verb.to_uppercase(), text(verb)));
        }
    }
    if let Some(custom) = rule.get_field_by_name("custom").filter(|_| rule.has_field_by_name("custom")) {
        let custom = custom.as_message().map(|m| {
            let part = |name| m.get_field_by_name(name).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
            (part("kind"), part("path"))
        });
        found = custom;
    }
    let (verb, template) = found.ok_or_else(|| refuse(rpc, "an HTTP rule without verb"))?;
    Ok(HttpRule { verb, template, body: text("body"), response_body: text("response_body") })
}
