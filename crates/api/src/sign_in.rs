use aide::OperationOutput;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use identity::cookies;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::Service;
use service::sign_in::{Confirmation, SignIn};
use service::users::User;

use crate::codes::Code;
use crate::http::access::{Person, PublicRequest};
use crate::http::body::Body;
use crate::http::cookies::{WithCookies, session_cookie};
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::path::{Id, Token};
use crate::http::reply::{NoContent, Reply, View};
use crate::http::routing::{Routes, post};
use crate::user::UserView;

const TAG: &str = "Sign-in";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/login/",
            post(sign_in, operation("login", TAG, "Sign in with a password")),
        )
        .route(
            "/api/login/token/",
            post(
                second_factor,
                operation("login_token", TAG, "Complete a sign-in with a two-factor code"),
            ),
        )
        .route(
            "/api/login/precheck/",
            post(
                precheck,
                operation(
                    "login_precheck",
                    TAG,
                    "Look up how an email address signs in, by its domain only",
                ),
            ),
        )
        .route(
            "/api/login/recovery/",
            post(
                recovery,
                operation("login_recovery", TAG, "Sign in as an owner with a recovery code"),
            ),
        )
        .route(
            "/api/login/confirm/",
            post(
                confirm,
                operation("login_confirm", TAG, "Reauthenticate before sensitive changes"),
            ),
        )
        .route("/api/logout/", post(sign_out, operation("logout", TAG, "Sign out")))
        .route(
            "/api/reset/",
            post(ask_for_reset, operation("reset", TAG, "Request a password reset email")),
        )
        .route(
            "/api/reset/{token}/",
            post(
                reset,
                operation("reset_password", TAG, "Reset a password with a reset link"),
            ),
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

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "email": "olga@example.com" }]))]
struct Address {
    #[schemars(length(min = 1, max = 254))]
    email: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "email": "olga@example.com", "code": "k7mw-3q9d-x2hf-8vbn-2c4m-p0rt" }]))]
struct Recovery {
    #[schemars(length(min = 1, max = 254))]
    email: String,
    #[schemars(length(min = 1, max = 60))]
    code: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "password": "correct horse battery" }]))]
struct Password {
    #[schemars(length(min = 1, max = 256), extend("format" = "password"))]
    password: String,
}

/// The signed-in user. The session is in the cookie.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignedIn")]
#[schemars(extend("examples" = [{ "success": true, "user": {
        "id": 1, "uuid": "01a1dd53-efb7-7ca7-9d85-3211db872bca", "distinct_id": "8nR3zL65veJ", "first_name": "Olga",
        "last_name": "Owner", "email": "olga@example.com", "is_email_verified": false, "hedgehog_config": {}
    } }]))]
pub(crate) struct SignedInView<'a> {
    success: bool,
    user: UserView<'a>,
}

impl View for SignedInView<'_> {
    type Doc = SignedInView<'static>;
}

/// How an email address signs in.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Precheck")]
struct PrecheckView {
    /// The enforced sign-in method; null if none is enforced.
    sso_enforcement: Option<&'static str>,
    saml_available: bool,
    oidc_available: bool,
}

impl View for PrecheckView {
    type Doc = Self;
}

async fn sign_in(
    State(service): State<Service>,
    PublicRequest { request, .. }: PublicRequest,
    Body(Credentials { email, password }): Body<Credentials>,
) -> Result<WithCookies<Reply<SignedInView<'static>>>, Refused> {
    let is_dry_run = request.is_dry_run;
    match service
        .sign_in(&email, &password, request)
        .await
        .map_err(Problem::from)?
    {
        SignIn::Done { user, session } => Ok(signed_in(&user, &session, is_dry_run)),
        SignIn::SecondFactor { challenge } => Err(Refused {
            problem: Problem::CodeNeeded,
            cookie: (!is_dry_run).then(|| cookies::set(cookies::CHALLENGE, &challenge)),
        }),
    }
}

async fn second_factor(
    State(service): State<Service>,
    PublicRequest { request, challenge, .. }: PublicRequest,
    Body(Code { token }): Body<Code>,
) -> Result<WithCookies<Reply<SignedInView<'static>>>, Problem> {
    let challenge = challenge.unwrap_or_default();
    let is_dry_run = request.is_dry_run;
    let (user, session) = service.sign_in_with_code(&challenge, &token, request).await?;
    Ok(signed_in(&user, &session, is_dry_run))
}

async fn recovery(
    State(service): State<Service>,
    PublicRequest { request, .. }: PublicRequest,
    Body(Recovery { email, code }): Body<Recovery>,
) -> Result<WithCookies<Reply<SignedInView<'static>>>, Problem> {
    let is_dry_run = request.is_dry_run;
    let (user, session) = service.sign_in_with_recovery_code(&email, &code, request).await?;
    Ok(signed_in(&user, &session, is_dry_run))
}

async fn precheck(
    State(service): State<Service>,
    _: PublicRequest,
    Body(Address { email }): Body<Address>,
) -> Result<Reply<PrecheckView>, Problem> {
    let found = service.precheck(&email).await?;
    Ok(Reply::new(&PrecheckView {
        sso_enforcement: found.enforced.map(service::sso::Sso::as_str),
        saml_available: found.has_saml,
        oidc_available: found.has_oidc,
    }))
}

async fn ask_for_reset(
    State(service): State<Service>,
    PublicRequest { request, .. }: PublicRequest,
    Body(Address { email }): Body<Address>,
) -> Result<NoContent, Problem> {
    service.ask_for_reset(&email, request).await?;
    Ok(NoContent)
}

async fn reset(
    State(service): State<Service>,
    PublicRequest { request, .. }: PublicRequest,
    Id(Token(token)): Id<Token>,
    Body(Password { password }): Body<Password>,
) -> Result<NoContent, Problem> {
    service.reset_password(&token, &password, request).await?;
    Ok(NoContent)
}

async fn confirm(
    State(service): State<Service>,
    Person(person): Person,
    Body(proof): Body<Confirmation>,
) -> Result<WithCookies<NoContent>, Problem> {
    let is_dry_run = person.actor.request.is_dry_run;
    let session = service.confirm_person(&person, &proof).await?;
    let cookie = (!is_dry_run).then(|| session_cookie(&session));
    Ok(WithCookies(NoContent, cookie.into_iter().collect()))
}

async fn sign_out(
    State(service): State<Service>,
    PublicRequest { request, session, .. }: PublicRequest,
) -> Result<WithCookies<NoContent>, Problem> {
    let ended = (!request.is_dry_run).then(|| cookies::end(cookies::SESSION));
    if let Some(session) = session {
        service.sign_out(&session, request).await?;
    }
    Ok(WithCookies(NoContent, ended.into_iter().collect()))
}

/// A dry run leaves no session, so the browser keeps what it has.
fn signed_in(user: &User, session: &str, is_dry_run: bool) -> WithCookies<Reply<SignedInView<'static>>> {
    let reply = Reply::new(&SignedInView {
        success: true,
        user: UserView::from(user),
    });
    if is_dry_run {
        return WithCookies(reply, Vec::new());
    }
    WithCookies(reply, vec![session_cookie(session), cookies::end(cookies::CHALLENGE)])
}

/// A refusal that the browser must remember something of.
struct Refused {
    problem: Problem,
    cookie: Option<String>,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self { problem, cookie: None }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        WithCookies(self.problem, self.cookie.into_iter().collect()).into_response()
    }
}

impl OperationOutput for Refused {
    type Inner = ();
}
