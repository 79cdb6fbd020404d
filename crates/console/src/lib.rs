//! Pages for people: getting in, one's account, and running an organization. Asks the service, shows what it says;
//! decides nothing.

mod account;
mod assets;
mod choices;
mod confirm;
mod curl;
mod documentation;
mod failure;
mod failure_page;
mod field;
mod form_version;
mod layer;
mod login;
mod new_session;
mod organization;
mod organizations;
mod page;
mod paging;
mod reset;
mod second_step;
mod show;
mod signup;
mod sso;
mod state;
mod visitor;

use apps::Apps;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::response::Redirect;
use exports::Exports;
use identity::Identity;

use failure::Failure;
use state::Console;

/// No form of ours needs more.
const MAX_BYTES: usize = 64 * 1024;

/// All pages. What happens to every request, such as its id and the check where it comes from, is for whoever serves
/// them to add.
pub fn router(identity: Identity, exports: Exports, apps: Apps) -> Router {
    Router::new()
        .merge(login::routes())
        .merge(second_step::routes())
        .merge(confirm::routes())
        .merge(reset::routes())
        .merge(signup::routes())
        .merge(account::routes())
        .merge(organizations::routes())
        .merge(organization::routes())
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        // These have limits of their own: assertions are long, and so is code.
        .merge(sso::routes())
        .merge(organization::large_routes())
        .merge(assets::routes())
        .merge(documentation::routes())
        .method_not_allowed_fallback(async || Failure::NoSuchMethod)
        .fallback(redirect_to_slash)
        .layer(axum::middleware::from_fn(layer::layer))
        .with_state(Console {
            identity,
            exports,
            apps,
        })
}

/// Paths end with a slash; whoever leaves it out is shown the way.
async fn redirect_to_slash(method: Method, uri: Uri) -> Result<Redirect, Failure> {
    let path = uri.path();
    let is_page = method == Method::GET && !path.ends_with('/') && identity::is_own_path(path);
    if !is_page {
        return Err(Failure::NoSuchPage);
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Ok(Redirect::permanent(&format!("{path}/{query}")))
}
