//! Pipeline apps: three collections with the same operations.

mod code;
mod collections;
mod configs;
mod gathered;
mod items;
mod views;

use crate::http::operation::operation;
use crate::http::routing::{Routes, get, patch, post};
use collections::{Destinations, FrontendApps, ImportApps};

const TAG: &str = "Pipeline apps";

macro_rules! below {
    ($name:literal, $rest:literal) => {
        concat!("/api/organizations/{organization_id}/", $name, "/", $rest)
    };
}

pub(crate) fn routes() -> Routes {
    macro_rules! collection {
        ($in:ty, $name:literal) => {
            items::routes!($in, $name)
                .merge(gathered::routes!($in, $name))
                .merge(code::routes!($in, $name))
                .merge(configs::routes!($in, $name))
        };
    }
    Routes::new()
        .merge(collection!(Destinations, "pipeline_destinations"))
        .merge(collection!(FrontendApps, "pipeline_frontend_apps"))
        .merge(collection!(ImportApps, "pipeline_import_apps"))
}
