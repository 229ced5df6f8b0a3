//! Generates the HTTP+JSON binding: the HTTP rules as one `match` on verb, segments and action.

use std::collections::BTreeSet;

use heck::ToSnakeCase;
use proc_macro2::{Ident, TokenStream};
use prost_reflect::Kind;
use quote::quote;

use crate::Error;
use crate::model::{HttpRule, Rpc, Service, doc, ident, refuse};

/// The most segments that the runtime splits a path into.
const MAX_SEGMENTS: usize = 8;

/// Writes `serve`, which finds the rpc of a verb and path, and the list of words that are reserved in paths.
///
/// # Errors
/// When a rule cannot be expressed. The error names the rpc and the rule.
pub fn generate(service: &Service) -> Result<TokenStream, Error> {
    let mut rules = Vec::new();
    for rpc in &service.rpcs {
        for rule in &rpc.rules {
            rules.push(Rule::read(rpc, rule)?);
        }
    }
    // In each segment, literals come before variables, so that a variable never matches a literal of another rule.
    rules.sort_by(|a, b| a.path.shape().cmp(&b.path.shape()));
    refuse_twins(&rules)?;

    let name = &service.trait_name;
    let actions: BTreeSet<&str> =
        rules.iter().map(|rule| rule.path.action.as_str()).filter(|a| !a.is_empty()).collect();
    let words: BTreeSet<&str> = rules.iter().filter_map(|rule| rule.path.segments.first()?.literal()).collect();
    let arms = rules.iter().map(|rule| rule.arm(&service.scope_field));
    let other_verbs = other_verbs(&rules);
    let docs = doc(&format!(
        "Answers an HTTP+JSON request of `{}`. Ignores the first `skip` bytes of its path.",
        service.full_name
    ));
    let actions = actions.into_iter();
    let words = words.into_iter();
    let imports = service.import_requests();
    Ok(quote! {
        use ::std::sync::Arc;
        use ::tricord_bindings::{Body, Error, Host};
        use ::tricord_bindings::host::bind;
        use ::tricord_bindings::http_json::Exchange;
        use ::tricord_bindings::query::Path;
        use super::service::#name;
        #imports

        /// The words that may follow the last `:` of a path.
        pub const ACTIONS: &[&str] = &[#(#actions),*];

        /// The words that paths begin with. A scope with one of these names could not be reached.
        pub const WORDS: &[&str] = &[#(#words),*];

        #docs
        pub async fn serve<S, B>(
            host: &Arc<Host<S>>,
            head: ::http::request::Parts,
            body: B,
            skip: usize,
        ) -> ::http::Response<Body>
        where
            S: #name,
            B: ::http_body::Body<Data = ::bytes::Bytes> + Send + Unpin + 'static,
        {
            let exchange = match Exchange::request_in(host, head, body).await {
                Ok(exchange) => exchange,
                Err(response) => return response,
            };
            match route(&exchange, &**host.service(), skip).await {
                Ok(response) => response,
                Err(error) => exchange.error_out(&error),
            }
        }

        async fn route<S: #name>(
            exchange: &Exchange<'_, S>,
            service: &S,
            skip: usize,
        ) -> Result<::http::Response<Body>, Error> {
            let Some(path) = Path::split(exchange.path(skip), ACTIONS) else { return Err(exchange.not_found()) };
            let segments = path.segments();
            match (exchange.verb(), &segments[..path.len()], path.action()) {
                #(#arms)*
                #(#other_verbs)*
                _ => Err(exchange.not_found()),
            }
        }
    })
}

/// One parsed HTTP rule of an rpc.
struct Rule<'a> {
    rpc: &'a Rpc,
    written: &'a HttpRule,
    path: Template,
    body: bool,
}

impl<'a> Rule<'a> {
    fn read(rpc: &'a Rpc, written: &'a HttpRule) -> Result<Self, Error> {
        let HttpRule { verb, template, body, response_body } = written;
        let cannot = |problem: &str| Err(refuse(&rpc.name, format!("the HTTP rule `{verb} {template}`: {problem}")));
        if !matches!(verb.as_str(), "GET" | "POST" | "PUT" | "DELETE" | "PATCH") {
            return cannot("only GET, POST, PUT, DELETE and PATCH can be served");
        }
        if !response_body.is_empty() {
            return cannot("response_body is not supported");
        }
        if !matches!(body.as_str(), "" | "*") {
            return cannot("a body is the whole message, `*`, or nothing");
        }
        if body == "*" && matches!(verb.as_str(), "GET" | "DELETE") {
            return cannot("this verb has no body");
        }
        let path = match Template::parse(template) {
            Ok(path) => path,
            Err(problem) => return cannot(problem),
        };
        let mut seen = BTreeSet::new();
        for variable in path.variables() {
            let field = rpc.input.get_field_by_name(variable);
            if !field.is_some_and(|f| f.kind() == Kind::String && !f.is_list() && !f.supports_presence()) {
                return cannot(&format!("the variable `{variable}` is not a plain string field of the request"));
            }
            if !seen.insert(variable) {
                return cannot(&format!("the variable `{variable}` is used twice"));
            }
        }
        Ok(Self { rpc, written, path, body: body == "*" })
    }

    fn arm(&self, scope_field: &str) -> TokenStream {
        let Rpc { name, method, input_type, streaming, .. } = self.rpc;
        let verb = match (self.written.verb.as_str(), streaming) {
            ("GET", false) => quote!("GET" | "HEAD"),
            (verb, _) => quote!(#verb),
        };
        let (segments, action) = (self.path.pattern(), &self.path.action);
        let scope = match self.path.variables().find(|variable| *variable == scope_field) {
            Some(variable) => {
                let variable = member(variable);
                quote!(Some(*#variable))
            }
            None => quote!(None),
        };
        let binds = self.path.variables().map(|variable| {
            let json = self.rpc.input.get_field_by_name(variable).map(|f| f.json_name().to_owned()).unwrap_or_default();
            let variable = member(variable);
            quote!(bind(&mut request.#variable, #json, #variable)?;)
        });
        let binds: Vec<_> = binds.collect();
        let bind = if binds.is_empty() {
            quote!(|_: &mut #input_type| Ok(()))
        } else {
            quote!(|request: &mut #input_type| { #(#binds)* Ok(()) })
        };
        let source = if self.body { quote!(body) } else { quote!(query) };
        let answer = if *streaming { quote!(stream_out) } else { quote!(reply_out) };
        quote! {
            (#verb, [#(#segments),*], #action) => {
                let (authorized, call, request) = exchange.#source(#name, #scope, #bind)?;
                exchange.#answer(authorized, service.#method(call, request)).await
            }
        }
    }
}

fn refuse_twins(rules: &[Rule<'_>]) -> Result<(), Error> {
    for (index, rule) in rules.iter().enumerate() {
        let twin =
            |other: &&Rule<'_>| other.written.verb == rule.written.verb && other.path.shape() == rule.path.shape();
        if let Some(other) = rules[..index].iter().find(twin) {
            let HttpRule { verb, template, .. } = rule.written;
            let problem = format!("the HTTP rule `{verb} {template}` is also one of {}", other.rpc.name);
            return Err(refuse(&rule.rpc.name, problem));
        }
    }
    Ok(())
}

/// Returns an arm for every path, which matches the verbs that the path does not support.
fn other_verbs(rules: &[Rule<'_>]) -> Vec<TokenStream> {
    let mut arms = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let shape = rule.path.shape();
        if rules[..index].iter().any(|other| other.path.shape() == shape) {
            continue;
        }
        let mut verbs = BTreeSet::new();
        for same in rules.iter().filter(|other| other.path.shape() == shape) {
            verbs.insert(same.written.verb.as_str());
            if same.written.verb == "GET" && !same.rpc.streaming {
                verbs.insert("HEAD");
            }
        }
        let allow = verbs.into_iter().collect::<Vec<_>>().join(", ");
        let segments = rule.path.segments.iter().map(|segment| match segment {
            Segment::Literal(word) => quote!(#word),
            Segment::Variable(_) => quote!(_),
        });
        let action = &rule.path.action;
        arms.push(quote!((_, [#(#segments),*], #action) => Err(exchange.not_allowed(#allow)),));
    }
    arms
}

/// A path template.
#[derive(Debug, PartialEq, Eq)]
struct Template {
    segments: Vec<Segment>,
    action: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Variable(String),
}

impl Segment {
    fn literal(&self) -> Option<&str> {
        match self {
            Segment::Literal(word) => Some(word),
            Segment::Variable(_) => None,
        }
    }
}

impl Template {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let path = text.strip_prefix('/').ok_or("a path begins with `/`")?;
        // The action follows the last `:`. There is no `:` inside the braces of a variable.
        let (path, action) = match path.rsplit_once(':') {
            Some((_, "")) => return Err("nothing follows the `:`"),
            Some((_, action)) if action.contains(['/', '{', '}']) => {
                return Err("only the last segment may contain a `:`");
            }
            Some((path, action)) => (path, action),
            None => (path, ""),
        };
        let segments = path.split('/').map(Segment::parse).collect::<Result<Vec<_>, _>>()?;
        if segments.len() > MAX_SEGMENTS {
            return Err("more than 8 segments");
        }
        Ok(Self { segments, action: action.to_owned() })
    }

    fn variables(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Variable(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// The key by which templates are compared and ordered. Templates with equal keys match the same paths.
    fn shape(&self) -> (Vec<(bool, &str)>, &str) {
        let segments = self.segments.iter().map(|segment| match segment {
            Segment::Literal(word) => (false, word.as_str()),
            Segment::Variable(_) => (true, ""),
        });
        (segments.collect(), &self.action)
    }

    fn pattern(&self) -> Vec<TokenStream> {
        let segments = self.segments.iter().map(|segment| match segment {
            Segment::Literal(word) => quote!(#word),
            Segment::Variable(name) => {
                let name = member(name);
                quote!(#name)
            }
        });
        segments.collect()
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(inside) = text.strip_prefix('{') {
            let variable = inside.strip_suffix('}').ok_or("a variable is a whole segment")?;
            let name = variable.strip_suffix("=*").unwrap_or(variable);
            return match name {
                _ if name.contains(['=', '*', '/']) => Err("a variable is one segment, `{name}` or `{name=*}`"),
                _ if name.contains('.') => Err("a variable is a field of the request itself"),
                "" => Err("a variable without a name"),
                _ => Ok(Segment::Variable(name.to_owned())),
            };
        }
        match text {
            "" => Err("an empty segment"),
            "*" | "**" => Err("a wildcard outside a variable"),
            _ if text.contains(['{', '}', ':', '*', '%']) => Err("a segment is a word or a variable"),
            _ => Ok(Segment::Literal(text.to_owned())),
        }
    }
}

fn member(field: &str) -> Ident {
    ident(&field.to_snake_case())
}
