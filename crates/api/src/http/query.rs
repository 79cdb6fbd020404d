//! Query parameters, checked against the schema that is published for them.

use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::Operation;
use aide::operation::{ParamLocation, add_parameters, parameters_from_schema};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::http::error::Problem;
use crate::http::schema;

/// The checked query parameters. Unknown ones are ignored; of repeated ones the first counts.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: JsonSchema + DeserializeOwned + 'static> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        read(query).map(Self)
    }
}

pub(crate) fn read<T: JsonSchema + DeserializeOwned + 'static>(query: &str) -> Result<T, Problem> {
    let pairs: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes())
        .map(|(name, text)| (name.into_owned(), text.into_owned()))
        .collect();
    if let Some((name, _)) = pairs
        .iter()
        .find(|(name, text)| name.contains('\0') || text.contains('\0'))
    {
        return Err(Problem::invalid(
            name.clone(),
            "invalid_input",
            "Must not contain NUL characters.",
        ));
    }
    schema::read(schema::coerce(pairs.into_iter(), &schema::checker::<T>().schema))
}

impl<T: JsonSchema + 'static> OperationInput for Query<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        let parameters = parameters_from_schema(context, schema::of_input::<T>(), ParamLocation::Query);
        add_parameters(context, operation, parameters);
    }
}
