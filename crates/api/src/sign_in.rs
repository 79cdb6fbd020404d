use aide::axum::ApiRouter;
use aide::axum::routing::post_with;
use aide::{OperationInput, OperationOutput};
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::Service;
use service::access::Request;

use crate::Api;
use crate::access::{SESSION_COOKIE, note, refuse_cross_origin, session_token};
use crate::body::Body;
use crate::edge::Notes;
use crate::error::Problem;
use crate::openapi::operation;
use crate::reply::{NoContent, Reply, View};
use crate::user::UserView;

const TAG: &str = "Sign-in";

pub(crate) fn routes() -> ApiRouter<Api> {
    ApiRouter::new()
        .api_route(
            "/api/login/",
            post_with(sign_in, operation("login", TAG, "Sign in with a password")),
        )
        .api_route(
            "/api/logout/",
            post_with(sign_out, operation("logout", TAG, "End your session")),
        )
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "email": "olga@example.com", "password": "correct horse" }]))]
struct Credentials {
    #[schemars(length(min = 1, max = 254))]
    email: String,
    #[schemars(length(min = 1, max = 256), extend("format" = "password"))]
    password: String,
}

/// A request from a browser that is not signed in yet: counted by address, and not on behalf of another site.
struct Anyone {
    request: Request,
    token: Option<String>,
}

impl FromRequestParts<Api> for Anyone {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        refuse_cross_origin(parts)?;
        let request = Request {
            id: Notes::of(parts).request_id.clone(),
            ..Request::default()
        };
        Ok(Self {
            request,
            token: session_token(&parts.headers).map(str::to_owned),
        })
    }
}

/// One more attempt of this address.
struct Attempt;

impl FromRequestParts<Api> for Attempt {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        api.limits
            .sign_in(api.settings.client_address(parts))
            .map_err(Problem::Throttled)?;
        Ok(Self)
    }
}

impl OperationInput for Anyone {
    fn operation_input(_: &mut aide::generate::GenContext, operation: &mut aide::openapi::Operation) {
        note(operation, crate::access::CREDENTIAL, "none");
    }
}

impl OperationInput for Attempt {}

/// Who has signed in. The session itself is in the cookie.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignedIn")]
#[schemars(extend("examples" = [{ "success": true, "user": {
        "id": 1, "uuid": "01a1dd53-efb7-7ca7-9d85-3211db872bca", "distinct_id": "8nR3zL65veJ", "first_name": "Olga",
        "last_name": "Owner", "email": "olga@example.com", "is_email_verified": false, "hedgehog_config": {}
    } }]))]
struct SignedInView<'a> {
    success: bool,
    user: UserView<'a>,
}

impl View for SignedInView<'_> {
    type Doc = SignedInView<'static>;
}

async fn sign_in(
    State(service): State<Service>,
    Anyone { request, .. }: Anyone,
    _: Attempt,
    Body(Credentials { email, password }): Body<Credentials>,
) -> Result<WithCookie<Reply<SignedInView<'static>>>, Problem> {
    let (user, token) = service.sign_in(&email, &password, request).await?;
    let reply = Reply::new(&SignedInView {
        success: true,
        user: UserView::from(&user),
    });
    Ok(WithCookie(
        reply,
        format!("{SESSION_COOKIE}={token}; Path=/; Secure; HttpOnly; SameSite=Lax"),
    ))
}

async fn sign_out(
    State(service): State<Service>,
    Anyone { request, token }: Anyone,
) -> Result<WithCookie<NoContent>, Problem> {
    if let Some(token) = token {
        service.sign_out(&token, request).await?;
    }
    Ok(WithCookie(
        NoContent,
        format!("{SESSION_COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0"),
    ))
}

struct WithCookie<R>(R, String);

impl<R: IntoResponse> IntoResponse for WithCookie<R> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        if let Ok(cookie) = HeaderValue::try_from(self.1) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }
}

impl<R: OperationOutput> OperationOutput for WithCookie<R> {
    type Inner = R::Inner;

    fn inferred_responses(
        context: &mut aide::generate::GenContext,
        operation: &mut aide::openapi::Operation,
    ) -> Vec<(Option<aide::openapi::StatusCode>, aide::openapi::Response)> {
        R::inferred_responses(context, operation)
    }
}
