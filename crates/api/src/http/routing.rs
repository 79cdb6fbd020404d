//! Operations and their routes.
//!
//! Handlers become one type here: otherwise the compiler would make the whole way from the router to a handler once for each of them, and for
//! each collection of the pipeline again, which took a large part of a build.

use std::pin::Pin;
use std::sync::Arc;

use aide::axum::ApiRouter;
use aide::axum::routing::{self, ApiMethodRouter};
use aide::generate::{GenContext, in_context};
use aide::openapi::{OpenApi, Operation, ReferenceOr, Response as Described, StatusCode};
use aide::operation::OperationHandler;
use aide::transform::TransformOperation;
use aide::{OperationInput, OperationOutput};
use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;

use crate::http::operation::Named;
use crate::http::state::Api;

/// What a handler of whatever arguments returns.
type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The operations of some paths.
pub(crate) struct Routes(ApiRouter<Api>);

/// The operations of one path.
pub(crate) struct Methods(ApiMethodRouter<Api>);

impl Routes {
    pub(crate) fn new() -> Self {
        Self(ApiRouter::new())
    }

    pub(crate) fn route(self, path: &str, methods: Methods) -> Self {
        Self(self.0.api_route(path, methods.0))
    }

    pub(crate) fn merge(self, others: Self) -> Self {
        Self(self.0.merge(others.0))
    }

    pub(crate) fn router(self) -> Router<Api> {
        self.0.into()
    }

    /// Writes them into the spec.
    pub(crate) fn describe(self, spec: &mut OpenApi) {
        drop(self.0.finish_api(spec));
    }
}

/// A function that begins the operations of a path, and a method that adds one to them.
macro_rules! methods {
    ($($method:ident $method_with:ident)+) => {
        $(
            pub(crate) fn $method<H, I, O, T>(handler: H, named: Named) -> Methods
            where
                H: Handler<T, Api, Future = Answering> + OperationHandler<I, O>,
                I: OperationInput,
                O: OperationOutput,
            {
                let (handler, describe) = (Erased::of(handler), described(describe::<I, O>, named));
                Methods(routing::$method_with(handler, describe))
            }
        )+

        impl Methods {
            $(
                pub(crate) fn $method<H, I, O, T>(self, handler: H, named: Named) -> Self
                where
                    H: Handler<T, Api, Future = Answering> + OperationHandler<I, O>,
                    I: OperationInput,
                    O: OperationOutput,
                {
                    let (handler, describe) = (Erased::of(handler), described(describe::<I, O>, named));
                    Self(self.0.$method_with(handler, describe))
                }
            )+
        }
    };
}

methods! {
    get get_with
    post post_with
    patch patch_with
    delete delete_with
}

/// A handler of which nobody sees any more what it takes and returns.
#[derive(Clone)]
struct Erased(Arc<dyn Fn(Request, Api) -> Answering + Send + Sync>);

impl Erased {
    fn of<T>(handler: impl Handler<T, Api, Future = Answering>) -> Self {
        Self(Arc::new(move |request, api| handler.clone().call(request, api)))
    }
}

impl Handler<(), Api> for Erased {
    type Future = Answering;

    fn call(self, request: Request, api: Api) -> Answering {
        (self.0)(request, api)
    }
}

/// What it takes and returns is described apart from it.
impl OperationHandler<(), Undescribed> for Erased {}

struct Undescribed;

impl OperationOutput for Undescribed {
    type Inner = ();
}

type Describe = fn(&mut GenContext, &mut Operation);

fn described(describe: Describe, named: Named) -> impl FnOnce(TransformOperation<'_>) -> TransformOperation<'_> {
    move |mut operation| {
        in_context(|context| describe(context, operation.inner_mut()));
        named.name(operation)
    }
}

fn describe<I: OperationInput, O: OperationOutput>(context: &mut GenContext, operation: &mut Operation) {
    I::operation_input(context, operation);
    for responses in [O::inferred_responses, I::inferred_early_responses] {
        for (status, response) in responses(context, operation) {
            note(operation, status, response);
        }
    }
}

/// The first one of a status counts.
fn note(operation: &mut Operation, status: Option<StatusCode>, response: Described) {
    let responses = operation.responses.get_or_insert_default();
    match status {
        Some(status) => {
            let entry = responses.responses.entry(status);
            entry.or_insert(ReferenceOr::Item(response));
        }
        None => {
            responses.default.get_or_insert(ReferenceOr::Item(response));
        }
    }
}
