use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use service::invites::{Invited, NewAccount};
use service::sessions::SignedIn;
use service::{Level, Service};
use uuid::Uuid;

use crate::http::access::PublicRequest;
use crate::http::body::Body;
use crate::http::cookies::{WithCookies, session_cookie};
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::path::{Id, Token};
use crate::http::reply::{Created, Reply, View};
use crate::http::routing::{Routes, get};
use crate::user::UserView;

const TAG: &str = "Invites";

pub(crate) fn routes() -> Routes {
    Routes::new().route(
        "/api/signup/{token}/",
        get(
            retrieve,
            operation("signup_retrieve", TAG, "Retrieve an invite by its link"),
        )
        .post(accept, operation("signup_create", TAG, "Accept an invite")),
    )
}

async fn retrieve(
    State(service): State<Service>,
    public: PublicRequest,
    Id(Token(token)): Id<Token>,
) -> Result<Reply<InvitedView>, Problem> {
    let person = person(&service, &public).await?;
    let invited = service.invitation(&token, person.as_ref()).await?;
    Ok(Reply::new(&InvitedView::from(&invited)))
}

async fn accept(
    State(service): State<Service>,
    public: PublicRequest,
    Id(Token(token)): Id<Token>,
    Body(new): Body<NewAccount>,
) -> Result<WithCookies<Created<AcceptedView<'static>>>, Problem> {
    let is_dry_run = public.request.is_dry_run;
    let accepted = match person(&service, &public).await? {
        Some(person) => service.accept_invite(&token, &person).await?,
        None => service.accept_invite_anew(&token, &new, public.request).await?,
    };
    let view = AcceptedView {
        user: UserView::from(&accepted.user),
        redirect_url: "/",
    };
    // A dry run leaves no session.
    let session = accepted.session.filter(|_| !is_dry_run);
    let cookies = session.iter().map(|session| session_cookie(session)).collect();
    Ok(WithCookies(Created::new(&view), cookies))
}

/// Whoever is signed in; a session that has ended is none.
async fn person(service: &Service, public: &PublicRequest) -> Result<Option<SignedIn>, Problem> {
    let Some(session) = &public.session else {
        return Ok(None);
    };
    match service.signed_in(session, public.request.clone()).await {
        Ok(person) => Ok(Some(person)),
        Err(service::Error::BadCredential) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// An invite, as seen by the holder of its link.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Invitation")]
struct InvitedView {
    id: Uuid,
    #[schemars(email)]
    target_email: String,
    first_name: String,
    organization_name: String,
    level: Level,
}

impl View for InvitedView {
    type Doc = Self;
}

impl From<&Invited> for InvitedView {
    fn from(invited: &Invited) -> Self {
        Self {
            id: invited.invite.id.0,
            target_email: invited.invite.target_email.clone(),
            first_name: invited.invite.first_name.clone(),
            organization_name: invited.organization_name.clone(),
            level: invited.invite.level,
        }
    }
}

/// The user who joined.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Accepted")]
struct AcceptedView<'a> {
    #[serde(flatten)]
    user: UserView<'a>,
    /// The URL to open next.
    redirect_url: &'static str,
}

impl View for AcceptedView<'_> {
    type Doc = AcceptedView<'static>;
}
