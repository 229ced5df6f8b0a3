//! The service trait, the table of its rpcs, and what connects both to the pipeline.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::model::{Rpc, Service, doc, ident};

/// Writes the trait that one type implements, `Handlers`, through which the pipeline calls it, and `RPCS`.
pub fn generate(service: &Service) -> TokenStream {
    let name = &service.trait_name;
    let docs = doc(&service.comment);
    let scope = &service.scope_field;
    let agent = doc(&format!("What `{scope}` names."));
    let authorize = doc(&format!(
        "Finds what `scope` names (the value of `{scope}`, empty where the request has none), checks what is asked of the\n\
         caller there and whether `call.rpc` is offered, and leaves in `call.extensions` those in use."
    ));
    let methods = service.rpcs.iter().map(method);
    let arms = service.rpcs.iter().enumerate().map(arm);
    let table = service.rpcs.iter().enumerate().map(entry);
    let count = service.rpcs.len();
    let capabilities = capabilities(service);
    let imports = service.import_types();
    quote! {
        use ::std::sync::Arc;
        #imports
        use ::tricord_bindings::{
            Authenticator, Binding, BindingSettings, Body, Call, Capability, Error, Events, HttpRule, Pipeline, Protocol, Reply,
            Rpc,
        };
        use ::tricord_bindings::pipeline::{self, Exchange, PendingCall};

        #docs
        ///
        /// Every binding authorizes a call first, then validates the request, then calls the method; so an
        /// implementation can rely on required fields being there.
        pub trait #name: Send + Sync + 'static {
            #agent
            type Agent: AsRef<str> + Send + Sync + 'static;

            #authorize
            ///
            /// # Errors
            /// If the client may not call this, or not like this.
            fn authorize(&self, call: &mut Call, scope: &str) -> Result<Arc<Self::Agent>, Error>;
            #(#methods)*
        }

        /// A service as the pipeline calls it.
        #[derive(Debug)]
        pub struct Handlers<S>(Arc<S>);

        impl<S: #name> Handlers<S> {
            /// Makes the pipeline of a service.
            pub fn pipeline(
                service: Arc<S>,
                protocol: &'static Protocol,
                authenticator: impl Authenticator,
                settings: BindingSettings,
            ) -> Pipeline<Self> {
                Pipeline::new(Self(service), protocol, authenticator, settings)
            }
        }

        impl<S: #name> pipeline::Service for Handlers<S> {
            type Agent = S::Agent;

            fn authorize(&self, call: &mut Call, scope: &str) -> Result<Arc<S::Agent>, Error> {
                self.0.authorize(call, scope)
            }

            async fn dispatch<X: Exchange>(
                pipeline: &Pipeline<Self>,
                exchange: &mut X,
                call: PendingCall<'_>,
            ) -> ::http::Response<Body> {
                match call.rpc().index {
                    #(#arms)*
                    _ => pipeline.fail(exchange, call),
                }
            }
        }

        #capabilities

        /// The rpcs of the service, in the schema's order.
        pub static RPCS: [Rpc; #count] = [#(#table),*];
    }
}

fn method(rpc: &Rpc) -> TokenStream {
    let Rpc { method, input_type, output_type, .. } = rpc;
    let docs = doc(&rpc.comment);
    let answer = if rpc.streaming { quote!(Events<#output_type>) } else { quote!(Reply<#output_type>) };
    quote! {
        #docs
        fn #method(
            &self,
            call: Call<Arc<Self::Agent>>,
            request: #input_type,
        ) -> impl Future<Output = Result<#answer, Error>> + Send;
    }
}

fn arm((index, rpc): (usize, &Rpc)) -> TokenStream {
    let Rpc { method, .. } = rpc;
    let answer = if rpc.streaming { quote!(stream) } else { quote!(reply) };
    quote! {
        #index => pipeline.#answer(exchange, call, |s: &Self, call, request| s.0.#method(call, request)).await,
    }
}

fn entry((index, rpc): (usize, &Rpc)) -> TokenStream {
    let Rpc { name, path, streaming, anonymous, .. } = rpc;
    let rules = rpc.rules.iter().map(|rule| {
        let (verb, template, body) = (&rule.verb, &rule.template, !rule.body.is_empty());
        quote!(HttpRule { verb: #verb, template: #template, body: #body })
    });
    let bindings = if rpc.rules.is_empty() {
        quote!(&[Binding::Grpc, Binding::JsonRpc])
    } else {
        quote!(&[Binding::Grpc, Binding::JsonRpc, Binding::HttpJson])
    };
    let capability = match &rpc.capability {
        Some(capability) => {
            let constant = constant(capability);
            quote!(Some(capability::#constant))
        }
        None => quote!(None),
    };
    quote! {
        Rpc {
            index: #index,
            name: #name,
            path: #path,
            streaming: #streaming,
            bindings: #bindings,
            capability: #capability,
            anonymous: #anonymous,
            rules: &[#(#rules),*],
        }
    }
}

fn capabilities(service: &Service) -> TokenStream {
    let names: BTreeSet<&String> = service.rpcs.iter().filter_map(|rpc| rpc.capability.as_ref()).collect();
    let constants = names.iter().map(|name| {
        let (constant, docs) = (constant(name), doc(&format!("`{name}`.")));
        quote!(#docs pub const #constant: Capability = Capability(#name);)
    });
    quote! {
        /// What must be offered for some of the rpcs to be called.
        pub mod capability {
            use ::tricord_bindings::Capability;

            #(#constants)*
        }
    }
}

fn constant(capability: &str) -> Ident {
    ident(&capability.to_uppercase())
}
