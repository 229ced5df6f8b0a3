//! The service trait, and the table of its rpcs.

use proc_macro2::TokenStream;
use quote::quote;

use crate::model::{Rpc, Service, doc};

/// Writes the trait that every wire calls and that one type implements, and `RPCS`.
pub fn generate(service: &Service) -> TokenStream {
    let name = &service.trait_name;
    let docs = doc(&service.comment);
    let scope = &service.scope_field;
    let authorize = doc(&format!(
        "Admits a call to the part of the service that `{scope}` names, before its parameters are judged: resolves `scope`\n\
         (the value of `{scope}`, empty where the request has none) into `call.agent`, checks what is asked of the caller\n\
         and whether `call.rpc` is offered there, and leaves in `call.extensions` those in use."
    ));
    let methods = service.rpcs.iter().map(method);
    let table = service.rpcs.iter().map(entry);
    let imports = service.import_types();
    quote! {
        use ::std::sync::Arc;
        #imports
        use ::tricord_bindings::{Call, Authenticator, Error, Events, Host, HttpRule, Protocol, Reply, Rpc, BindingSettings};

        #docs
        ///
        /// Every wire admits a call first, then validates the request, then calls the method; so an implementation can rely
        /// on required fields being there.
        pub trait #name: Send + Sync + 'static {
            #authorize
            ///
            /// # Errors
            /// What a client that may not call this, or not like this, is told.
            fn authorize(&self, call: &mut Call, scope: &str) -> Result<(), Error>;
            #(#methods)*
        }

        /// Puts a service behind the door, ready for its wires.
        pub fn host<S: #name>(
            service: Arc<S>,
            protocol: &'static Protocol,
            door: impl Authenticator,
            settings: BindingSettings,
        ) -> Arc<Host<S>> {
            Host::new(service, S::authorize, protocol, door, settings)
        }

        /// The rpcs of the service, in the schema's order.
        pub const RPCS: &[Rpc] = &[#(#table),*];
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
            call: Call,
            request: #input_type,
        ) -> impl Future<Output = Result<#answer, Error>> + Send;
    }
}

fn entry(rpc: &Rpc) -> TokenStream {
    let Rpc { name, path, streaming, .. } = rpc;
    let rules = rpc.rules.iter().map(|rule| {
        let (verb, template, body) = (&rule.verb, &rule.template, !rule.body.is_empty());
        quote!(HttpRule { verb: #verb, template: #template, body: #body })
    });
    quote! {
        Rpc { name: #name, path: #path, streaming: #streaming, rules: &[#(#rules),*] }
    }
}
