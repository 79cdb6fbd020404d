//! Style sheet, scripts and icon. Their names change with their contents, so browsers may keep them for good.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::failure::Failure;
use crate::state::Console;

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let contents = include_str!("../static/hedgerow.css");
    Asset::new("hedgerow", "css", "text/css; charset=utf-8", contents)
});
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let contents = include_str!("../static/hedgerow.js");
    Asset::new("hedgerow", "js", "text/javascript; charset=utf-8", contents)
});
static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let contents = include_str!("../static/hedgerow.svg");
    Asset::new("hedgerow", "svg", "image/svg+xml", contents)
});

struct Asset {
    path: String,
    content_type: &'static str,
    contents: &'static str,
}

impl Asset {
    fn new(name: &str, ending: &str, content_type: &'static str, contents: &'static str) -> Self {
        let hash = auth::key::hash(contents);
        let hash = u64::from_be_bytes(std::array::from_fn(|place| hash[place]));
        Self {
            path: format!("/assets/{name}-{hash:016x}.{ending}"),
            content_type,
            contents,
        }
    }

    fn answer(&self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.content_type)),
            (
                header::CACHE_CONTROL,
                HeaderValue::from_static("public, max-age=31536000, immutable"),
            ),
        ];
        (headers, self.contents).into_response()
    }
}

pub(crate) fn routes() -> Router<Console> {
    Router::new().route("/assets/{file}", get(serve))
}

pub(crate) fn style() -> &'static str {
    &STYLE.path
}

pub(crate) fn script() -> &'static str {
    &SCRIPT.path
}

pub(crate) fn icon() -> &'static str {
    &ICON.path
}

async fn serve(Path(file): Path<String>) -> Response {
    let asked = format!("/assets/{file}");
    let assets: [&Asset; 3] = [&STYLE, &SCRIPT, &ICON];
    let found = assets.into_iter().find(|asset| asset.path == asked);
    found.map_or_else(|| Failure::NoSuchPage.into_response(), Asset::answer)
}
