//! Generates the HTTP+JSON binding: the HTTP rules as one `match` on verb, segments and action.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use prost_reflect::Kind;
use quote::quote;

use crate::Error;
use crate::model::{HttpRule, Rpc, Service, doc, refuse};

/// The most segments that the runtime splits a path into.
const MAX_SEGMENTS: usize = 8;

/// The most variables that the runtime keeps of a path.
const MAX_VARIABLES: usize = 4;

/// Writes `route`, which finds an rpc by its verb and path, and the words that no scope may be named.
///
/// # Errors
/// If a rule asks for something that cannot be expressed; the error names the rpc and the rule.
pub fn generate(service: &Service) -> Result<TokenStream, Error> {
    let mut rules = Vec::new();
    for (index, rpc) in service.rpcs.iter().enumerate() {
        for rule in &rpc.rules {
            rules.push(Rule::read(index, rpc, rule)?);
        }
    }
    // In each segment, literals come before variables, so that a variable never matches a literal of another rule.
    rules.sort_by(|a, b| a.path.shape().cmp(&b.path.shape()));
    refuse_twins(&rules)?;

    let actions: BTreeSet<&str> =
        rules.iter().map(|rule| rule.path.action.as_str()).filter(|a| !a.is_empty()).collect();
    let words: BTreeSet<&str> = rules.iter().filter_map(|rule| rule.path.segments.first()?.literal()).collect();
    let arms = rules.iter().map(Rule::arm);
    let other_verbs = other_verbs(&rules);
    let docs = doc(&format!("Finds what a verb and a raw path of `{}` mean.", service.full_name));
    let actions = actions.into_iter();
    let words = words.into_iter();
    Ok(quote! {
        use ::tricord_bindings::query::{Path, Route};
        use super::service::RPCS;

        /// The words that may follow the last `:` of a path.
        pub const ACTIONS: &[&str] = &[#(#actions),*];

        /// The words that paths begin with. A scope with one of these names could not be reached.
        pub const WORDS: &[&str] = &[#(#words),*];

        #docs
        pub fn route<'p>(verb: &str, path: &'p str) -> Route<'p> {
            let Some(path) = Path::split(path, ACTIONS) else { return Route::NotFound };
            let segments = path.segments();
            match (verb, &segments[..path.len()], path.action()) {
                #(#arms)*
                #(#other_verbs)*
                _ => Route::NotFound,
            }
        }
    })
}

/// One parsed HTTP rule of an rpc.
struct Rule<'a> {
    /// The place of the rpc in the table.
    index: usize,
    rpc: &'a Rpc,
    written: &'a HttpRule,
    path: Template,
    body: bool,
}

impl<'a> Rule<'a> {
    fn read(index: usize, rpc: &'a Rpc, written: &'a HttpRule) -> Result<Self, Error> {
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
        if seen.len() > MAX_VARIABLES {
            return cannot("more than 4 variables");
        }
        Ok(Self { index, rpc, written, path, body: body == "*" })
    }

    fn arm(&self) -> TokenStream {
        let verb = match (self.written.verb.as_str(), self.rpc.streaming) {
            ("GET", false) => quote!("GET" | "HEAD"),
            (verb, _) => quote!(#verb),
        };
        let (index, body, action) = (self.index, self.body, &self.path.action);
        let segments = self.path.pattern();
        let variables = self.path.segments.iter().enumerate().filter_map(|(at, segment)| match segment {
            Segment::Variable(name) => Some(quote!((#name, #at))),
            Segment::Literal(_) => None,
        });
        quote! {
            (#verb, [#(#segments),*], #action) => {
                Route::rpc(&RPCS[#index], #body, path.into_variables([#(#variables),*]))
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
        let (segments, action) = (rule.path.pattern(), &rule.path.action);
        arms.push(quote!((_, [#(#segments),*], #action) => Route::OtherVerbs(#allow),));
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
            Segment::Variable(_) => quote!(_),
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
