//! Where a new export should go: the kinds of destinations to choose from.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use exports::Exports;
use serde_json::json;
use service::Service;
use service::access::ChangeExports;
use service::batch_exports::destination::{Family, Kind};

use crate::curl::{AsCurl, Call};
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::page::page;
use crate::state::Console;

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/exports/new/", get(choose))
}

#[derive(Template)]
#[template(path = "organization/exports/kinds.html")]
struct KindsPage {
    frame: Frame,
    families: Vec<Listed>,
    curl: AsCurl,
}

struct Listed {
    title: &'static str,
    kinds: Vec<Offer>,
}

struct Offer {
    path: String,
    title: &'static str,
    about: &'static str,
    is_possible: bool,
}

/// The part of a path that names a kind.
pub(super) fn slug(kind: Kind) -> String {
    kind.name().to_ascii_lowercase()
}

async fn choose(
    State(service): State<Service>,
    State(exports): State<Exports>,
    access: OrganizationAccess<ChangeExports>,
) -> Response {
    let body = json!({ "name": "Test export", "interval": "hour", "destination": { "type": "NoOp", "config": {} } });
    let call = Call::post::<ChangeExports>("Create a batch export", access.api("batch_exports/")).sending(body);
    let families = Family::ALL.into_iter().map(|family| Listed {
        title: family.title(),
        kinds: offers(family, exports.takes_files()),
    });
    page(&KindsPage {
        frame: Frame::new(&access, Section::Exports).below(),
        families: families.collect(),
        curl: AsCurl::new(&service, [call]),
    })
}

fn offers(family: Family, takes_files: bool) -> Vec<Offer> {
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.family() == family);
    let offers = kinds.map(|kind| Offer {
        path: slug(kind),
        title: kind.title(),
        about: kind.about(),
        is_possible: kind != Kind::File || takes_files,
    });
    offers.collect()
}
