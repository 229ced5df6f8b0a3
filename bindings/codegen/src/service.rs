//! Generates the service trait, the table of its rpcs, and the adapter that the call pipeline uses.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::model::{Rpc, Service, doc, ident};

/// Generates the service trait, `Handlers`, through which the pipeline calls an implementation, and the table `RPCS`.
pub fn generate(service: &Service) -> TokenStream {
    let name = &service.trait_name;
    let docs = doc(&service.comment);
    let scope = &service.scope_field;
    let agent = doc(&format!("The type of what `{scope}` names."));
    let authorize = doc(&format!(
        "Resolves `scope`, the value of the request's `{scope}` (empty if absent). Checks that the caller meets its\n\
         requirements and that it offers `call.rpc`. Reduces `call.extensions` to the extensions in use."
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
        /// Every binding first authorizes a call, then validates the request, then calls the method. An
        /// implementation can therefore rely on required fields.
        pub trait #name: Send + Sync + 'static {
            #agent
            type Agent: AsRef<str> + Send + Sync + 'static;

            #authorize
            ///
            /// # Errors
            /// Returns an error if the caller is refused.
            fn authorize(&self, call: &mut Call, scope: &str) -> Result<Arc<Self::Agent>, Error>;
            #(#methods)*
        }

        /// Adapts an implementation of the service to the call pipeline.
        #[derive(Debug)]
        pub struct Handlers<S>(Arc<S>);

        impl<S: #name> Handlers<S> {
            /// Creates the call pipeline for an implementation.
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

        /// The rpcs of the service, in the order of the schema.
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
        /// The capabilities that some rpcs require.
        pub mod capability {
            use ::tricord_bindings::Capability;

            #(#constants)*
        }
    }
}

fn constant(capability: &str) -> Ident {
    ident(&capability.to_uppercase())
}
