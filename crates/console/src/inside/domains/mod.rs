//! Domains: whose addresses sign in here, and how.

mod attempts;
mod checks;
mod deletion;
mod disconnection;
mod domain;
mod enforcement;
mod list;
mod oidc;
mod proof;
mod recovery;
mod saml;

use askama::Template;
use askama::filters::HtmlSafe;
use axum::Router;
use service::DomainId;
use service::domains::Domain;

use super::Inside;
use super::frame::{Frame, Section};
use crate::Console;

pub(in crate::inside) fn routes() -> Router<Console> {
    Router::new()
        .merge(list::routes())
        .merge(domain::routes())
        .merge(proof::routes())
        .merge(checks::routes())
        .merge(saml::routes())
        .merge(oidc::routes())
        .merge(disconnection::routes())
        .merge(enforcement::routes())
        .merge(recovery::routes())
        .merge(deletion::routes())
}

/// The page of a domain, below its organization; the API has the same path.
pub(in crate::inside) fn below(id: DomainId) -> String {
    format!("domains/{id}/")
}

/// What stands around a page below a domain's own.
fn frame_below<P>(inside: &Inside<P>, domain: &Domain) -> Frame {
    Frame::new(inside, Section::Domains)
        .below()
        .through(&below(domain.id), domain.domain.clone())
}

/// A value to be pasted elsewhere.
#[derive(Debug, Template)]
#[template(path = "inside/domains/value.html")]
struct Value {
    id: &'static str,
    label: &'static str,
    /// What others call it.
    also: &'static str,
    text: String,
}

/// Its template escapes what it holds.
impl HtmlSafe for Value {}

impl Value {
    fn new(id: &'static str, label: &'static str, also: &'static str, text: impl Into<String>) -> Self {
        Self {
            id,
            label,
            also,
            text: text.into(),
        }
    }
}
