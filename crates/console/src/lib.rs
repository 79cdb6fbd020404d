//! Pages for people: getting in, and managing one's account. Asks the service, shows what it says; decides nothing.

mod account;
mod assets;
mod failure;
mod field;
mod login;
mod page;
mod reset;
mod second_step;
mod show;
mod signup;
mod sso;
mod visitor;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::http::{Method, Uri};
use axum::response::{Redirect, Response};
use axum::routing::get;
use identity::Identity;
use service::Service;

use failure::Failure;
use visitor::Visitor;

/// No form of ours needs more.
const MOST_BYTES: usize = 64 * 1024;

/// What handlers share.
#[derive(Debug, Clone)]
pub(crate) struct Console {
    identity: Identity,
}

impl FromRef<Console> for Identity {
    fn from_ref(console: &Console) -> Self {
        console.identity.clone()
    }
}

impl FromRef<Console> for Service {
    fn from_ref(console: &Console) -> Self {
        console.identity.service().clone()
    }
}

/// All pages. What happens to every request, such as its id and the check where it comes from, is for whoever serves
/// them to add.
pub fn router(identity: Identity) -> Router {
    Router::new()
        .route("/", get(home))
        .merge(login::routes())
        .merge(second_step::routes())
        .merge(reset::routes())
        .merge(signup::routes())
        .merge(account::routes())
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        // Has a limit of its own: assertions are long.
        .merge(sso::routes())
        .merge(assets::routes())
        .method_not_allowed_fallback(async || Failure::NoSuchMethod)
        .fallback(elsewhere)
        .layer(axum::middleware::from_fn(page::layer))
        .with_state(Console { identity })
}

/// Paths end with a slash; whoever leaves it out is shown the way.
async fn elsewhere(method: Method, uri: Uri) -> Result<Redirect, Failure> {
    let path = uri.path();
    let is_page = method == Method::GET && !path.ends_with('/') && identity::own_path(path) == path;
    if !is_page {
        return Err(Failure::NoSuchPage);
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Ok(Redirect::permanent(&format!("{path}/{query}")))
}

async fn home(visitor: Visitor) -> Response {
    page::go_to(if visitor.session.is_some() {
        "/account/"
    } else {
        "/login/"
    })
}
