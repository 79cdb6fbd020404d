use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use service::sessions::{Listed as Session, SignedIn};
use service::sign_in::NewPassword;
use service::users::{User, UserPatch, UserStatus};
use service::{Page, Service, SessionId};
use uuid::Uuid;

use crate::codes::{Code, CodesView};
use crate::http::access::{AuthenticatedUser, Person};
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::cookies::{WithCookies, session_cookie};
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::reply::{NoContent, Reply, View};
use crate::http::routing::{Routes, delete, get, post};
use crate::user::{Stamp, UserView};

const TAG: &str = "Account";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/users/@me/",
            get(retrieve, operation("users_me_retrieve", TAG, "Retrieve your account"))
                .patch(update, operation("users_me_partial_update", TAG, "Update your account")),
        )
        .route(
            "/api/users/@me/password/",
            post(
                change_password,
                operation(
                    "users_me_password",
                    TAG,
                    "Change your password and revoke your other sessions",
                ),
            ),
        )
        .route(
            "/api/users/@me/two_factor/",
            post(
                begin,
                operation(
                    "users_me_two_factor_create",
                    TAG,
                    "Start setting up an authenticator app",
                ),
            ),
        )
        .route(
            "/api/users/@me/two_factor/confirm/",
            post(
                confirm,
                operation(
                    "users_me_two_factor_confirm",
                    TAG,
                    "Confirm the authenticator app with its first code; backup codes are shown once",
                ),
            ),
        )
        .route(
            "/api/users/@me/two_factor/backup_codes/",
            post(
                backup_codes,
                operation(
                    "users_me_two_factor_backup_codes",
                    TAG,
                    "Regenerate backup codes; the old ones stop working",
                ),
            ),
        )
        .route(
            "/api/users/@me/two_factor/remove/",
            post(
                remove,
                operation(
                    "users_me_two_factor_remove",
                    TAG,
                    "Disable two-factor authentication, with a current code",
                ),
            ),
        )
        .route(
            "/api/users/@me/sessions/",
            get(sessions, operation("users_me_sessions_list", TAG, "List your sessions")).delete(
                end_others,
                operation(
                    "users_me_sessions_end_others",
                    TAG,
                    "Revoke all your sessions except the current one",
                ),
            ),
        )
        .route(
            "/api/users/@me/sessions/{id}/",
            delete(end, operation("users_me_sessions_destroy", TAG, "Revoke a session")),
        )
}

async fn retrieve(
    State(service): State<Service>,
    AuthenticatedUser(user): AuthenticatedUser,
) -> Result<Reply<MeView<'static>>, Problem> {
    let standing = service.standing(user).await?;
    let user = service.user(user).await?;
    Ok(Reply::new(&MeView::new(&user, &standing)))
}

async fn update(
    State(service): State<Service>,
    Person(person): Person,
    if_match: IfMatch,
    Body(patch): Body<UserPatch>,
) -> Result<Reply<MeView<'static>>, Problem> {
    let precondition = |(user, standing): &(User, UserStatus)| if_match.fits(&MeView::new(user, standing));
    let (user, standing) = service.update_user(&person, &patch, &precondition).await?;
    Ok(Reply::new(&MeView::new(&user, &standing)))
}

async fn change_password(
    State(service): State<Service>,
    Person(person): Person,
    Body(new): Body<NewPassword>,
) -> Result<NoContent, Problem> {
    service.change_password(&person, &new).await?;
    Ok(NoContent)
}

async fn begin(State(service): State<Service>, Person(person): Person) -> Result<Reply<SetUpView>, Problem> {
    let set_up = service.begin_second_factor(&person).await?;
    let view = SetUpView {
        secret: set_up.secret,
        uri: set_up.uri,
        qr_svg: set_up.qr_svg,
    };
    Ok(Reply::new(&view).kept_as(&SetUpView::default()))
}

async fn confirm(
    State(service): State<Service>,
    Person(person): Person,
    Body(Code { token }): Body<Code>,
) -> Result<WithCookies<Reply<CodesView>>, Problem> {
    let confirmed = service.confirm_second_factor(&person, &token).await?;
    let reply = shown_once(confirmed.backup_codes);
    Ok(WithCookies(
        reply,
        confirmed
            .session
            .iter()
            .map(|session| session_cookie(session))
            .collect(),
    ))
}

async fn backup_codes(
    State(service): State<Service>,
    Person(person): Person,
    Body(Code { token }): Body<Code>,
) -> Result<Reply<CodesView>, Problem> {
    Ok(shown_once(service.replace_backup_codes(&person, &token).await?))
}

fn shown_once(codes: Vec<String>) -> Reply<CodesView> {
    Reply::new(&CodesView { codes }).kept_as(&CodesView { codes: Vec::new() })
}

async fn remove(
    State(service): State<Service>,
    Person(person): Person,
    Body(Code { token }): Body<Code>,
) -> Result<NoContent, Problem> {
    service.remove_second_factor(&person, &token).await?;
    Ok(NoContent)
}

async fn sessions(
    State(service): State<Service>,
    Person(person): Person,
    paging: Paging,
) -> Result<Listed<SessionView>, Problem> {
    let page = Page::cut(service.sessions(&person).await?, paging.window);
    Ok(paging
        .reply(page.map(|session| SessionView::new(session, &person)))
        .await)
}

async fn end(
    State(service): State<Service>,
    Person(person): Person,
    Id(id): Id<SessionId>,
) -> Result<NoContent, Problem> {
    service.end_session(&person, id).await?;
    Ok(NoContent)
}

async fn end_others(State(service): State<Service>, Person(person): Person) -> Result<NoContent, Problem> {
    service.end_other_sessions(&person).await?;
    Ok(NoContent)
}

/// Your account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Me")]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own")]
struct MeView<'a> {
    #[serde(flatten)]
    user: UserView<'a>,
    has_password: bool,
    is_2fa_enabled: bool,
    has_social_auth: bool,
    /// The number of unused backup codes.
    backup_codes: i64,
    /// The organization that `@current` refers to.
    current_organization: Option<Uuid>,
    /// Whether you are an operator of this instance.
    is_operator: bool,
}

impl View for MeView<'_> {
    type Doc = MeView<'static>;
}

impl<'a> MeView<'a> {
    fn new(user: &'a User, standing: &UserStatus) -> Self {
        Self {
            user: UserView::from(user),
            has_password: standing.has_password,
            is_2fa_enabled: standing.is_2fa_enabled,
            has_social_auth: standing.has_social_auth,
            backup_codes: standing.backup_codes,
            current_organization: standing.current_organization_id.map(|id| id.0),
            is_operator: standing.is_operator,
        }
    }
}

/// The secret to set up an authenticator app.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "TwoFactorSetUp")]
struct SetUpView {
    /// The secret for manual entry.
    secret: String,
    uri: String,
    /// A QR code of the URI, as SVG.
    qr_svg: String,
}

impl View for SetUpView {
    type Doc = Self;
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
struct SessionView {
    id: Uuid,
    /// The sign-in method: `password`, `saml`, `oidc`, `google-oauth2`, `github`, `gitlab` or `recovery_code`.
    method: String,
    has_second_factor: bool,
    address: String,
    user_agent: String,
    is_current: bool,
    created_at: Stamp,
    /// Accurate to ten minutes.
    last_used_at: Stamp,
    expires_at: Stamp,
}

impl View for SessionView {
    type Doc = Self;
}

impl SessionView {
    fn new(session: &Session, person: &SignedIn) -> Self {
        Self {
            id: session.id.0,
            method: session.method.clone(),
            has_second_factor: session.has_second_factor,
            address: session.address.clone(),
            user_agent: session.user_agent.clone(),
            is_current: person.session == Some(session.id),
            created_at: Stamp(session.created_at),
            last_used_at: Stamp(session.last_used_at),
            expires_at: Stamp(session.expires_at),
        }
    }
}
