//! What the browser gets when somebody has signed in.

use axum::response::Response;
use identity::cookies;
use service::Service;

use crate::failure::Failure;
use crate::page::{go_to, with_cookie};
use crate::visitor::Visitor;

/// Somebody has got in: the browser gets the new session, and the one it had before ends.
pub(crate) async fn opened(
    service: &Service,
    visitor: Visitor,
    session: &str,
    next: &str,
) -> Result<Response, Failure> {
    if let Some(old) = &visitor.session {
        service.sign_out(old, visitor.request.clone()).await?;
    }
    let response = with_cookie(
        go_to(identity::own_path(next)),
        &cookies::set(cookies::SESSION, session),
    );
    Ok(if visitor.challenge.is_some() {
        with_cookie(response, &cookies::end(cookies::CHALLENGE))
    } else {
        response
    })
}
