//! Our own style sheet and icon. Their names change with their contents, so browsers may keep them for good.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::Console;
use crate::failure::Failure;

const STYLE: &str = include_str!("../static/hedgerow.css");
const ICON: &str = include_str!("../static/hedgerow.svg");

static STYLE_PATH: LazyLock<String> = LazyLock::new(|| path(STYLE, "css"));
static ICON_PATH: LazyLock<String> = LazyLock::new(|| path(ICON, "svg"));

pub(crate) fn routes() -> Router<Console> {
    Router::new().route("/assets/{file}", get(serve))
}

pub(crate) fn style() -> &'static str {
    &STYLE_PATH
}

pub(crate) fn icon() -> &'static str {
    &ICON_PATH
}

fn path(contents: &str, ending: &str) -> String {
    let hash = auth::key::hash(contents);
    let hash = u64::from_be_bytes(std::array::from_fn(|place| hash[place]));
    format!("/assets/hedgerow-{hash:016x}.{ending}")
}

async fn serve(Path(file): Path<String>) -> Response {
    let asked = format!("/assets/{file}");
    if asked == *STYLE_PATH {
        kept(STYLE, "text/css; charset=utf-8")
    } else if asked == *ICON_PATH {
        kept(ICON, "image/svg+xml")
    } else {
        Failure::NoSuchPage.into_response()
    }
}

fn kept(contents: &'static str, content_type: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (
            header::CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=31536000, immutable"),
        ),
    ];
    (headers, contents).into_response()
}
