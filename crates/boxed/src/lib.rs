//! `#[boxed]`: an `async fn` that is compiled once.
//!
//! The compiler generates the code of an `async fn` wherever it is awaited, with that of everything it awaits in turn. So each of
//! our crates compiled the use cases of the crates below it again, and then the binary did. What is awaited from another crate
//! returns a boxed future instead, at the price of one allocation for a call.

use proc_macro::TokenStream;
use quote::quote;
use syn::visit_mut::{self, VisitMut};
use syn::{
    FnArg, GenericParam, ItemFn, Lifetime, ParenthesizedGenericArguments, ReturnType, Signature, TypeBareFn,
    TypeReference, parse_macro_input, parse_quote,
};

/// Lets an `async fn` return a boxed future. What it borrows without a name for the lifetime, the future borrows.
#[proc_macro_attribute]
pub fn boxed(_: TokenStream, function: TokenStream) -> TokenStream {
    expand(parse_macro_input!(function as ItemFn)).into()
}

fn expand(function: ItemFn) -> proc_macro2::TokenStream {
    let ItemFn {
        attrs,
        vis,
        mut sig,
        block,
    } = function;
    if sig.asyncness.take().is_none() {
        return syn::Error::new_spanned(sig.fn_token, "only an `async fn` returns a future").to_compile_error();
    }
    let lifetime: Lifetime = parse_quote!('boxed);
    let mut name = NameLifetimes(&lifetime);
    for input in &mut sig.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                if let Some((_, of_self)) = &mut receiver.reference {
                    of_self.get_or_insert_with(|| lifetime.clone());
                }
                name.visit_type_mut(&mut receiver.ty);
            }
            FnArg::Typed(argument) => name.visit_type_mut(&mut argument.ty),
        }
    }
    name.visit_return_type_mut(&mut sig.output);
    outlive(&mut sig, &lifetime);
    let output = match &sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, output) => quote!(#output),
    };
    sig.output = parse_quote!(
        -> ::std::pin::Pin<::std::boxed::Box<dyn ::std::future::Future<Output = #output> + ::std::marker::Send + #lifetime>>
    );
    let statements = block.stmts;
    quote! {
        #(#attrs)*
        #vis #sig {
            ::std::boxed::Box::pin(async move {
                // The type of the block is known from the start, so that a result becomes it, as in an `async fn`.
                if let ::std::option::Option::Some(output) = ::std::option::Option::None::<#output> {
                    return output;
                }
                #(#statements)*
            })
        }
    }
}

/// Everything that the function was given lives as long as its future.
fn outlive(signature: &mut Signature, lifetime: &Lifetime) {
    for parameter in &mut signature.generics.params {
        match parameter {
            GenericParam::Lifetime(named) => named.bounds.push(lifetime.clone()),
            GenericParam::Type(generic) => generic.bounds.push(parse_quote!(#lifetime)),
            GenericParam::Const(_) => {}
        }
    }
    signature.generics.params.insert(0, parse_quote!(#lifetime));
}

/// Names the lifetimes that have none.
struct NameLifetimes<'a>(&'a Lifetime);

impl VisitMut for NameLifetimes<'_> {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        reference.lifetime.get_or_insert_with(|| self.0.clone());
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = self.0.clone();
        }
    }

    // What a function takes is for its caller to name.
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}

    fn visit_type_bare_fn_mut(&mut self, _: &mut TypeBareFn) {}
}
