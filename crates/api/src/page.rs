//! Lists, a page at a time, with links to the pages beside it.

use std::marker::PhantomData;

use aide::generate::GenContext;
use aide::openapi::{Operation, Response as ResponseDoc, StatusCode as StatusDoc};
use aide::{OperationInput, OperationOutput};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::{Page, Window};
use url::form_urlencoded;

use crate::Api;
use crate::error::Problem;
use crate::query::{self, Query};
use crate::reply::{View, described, to_json};

#[derive(Debug, Deserialize, JsonSchema)]
struct PagingQuery {
    /// How many results to return: 100 unless given, 1000 at most.
    #[schemars(range(min = 0))]
    limit: Option<i64>,
    /// How many results to skip.
    #[schemars(range(min = 0))]
    offset: Option<i64>,
}

/// Which page is asked for, and the address its neighbours are found at.
#[derive(Debug)]
pub(crate) struct Paging {
    pub(crate) window: Window,
    /// The address without the two parameters that make the page.
    base: String,
}

impl FromRequestParts<Api> for Paging {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let PagingQuery { limit, offset } = query::read(query)?;
        // None at all and zero both mean: as many as usual.
        let window = Window::new(limit.filter(|&limit| limit > 0), offset);
        let mut others = form_urlencoded::Serializer::new(String::new());
        others.extend_pairs(
            form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name != "limit" && name != "offset"),
        );
        let others = others.finish();
        let separator = if others.is_empty() { "" } else { "&" };
        let base = format!(
            "{}{}?{others}{separator}",
            api.settings.base_url(parts),
            parts.uri.path()
        );
        Ok(Self { window, base })
    }
}

impl OperationInput for Paging {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        Query::<PagingQuery>::operation_input(context, operation);
    }
}

impl crate::Settings {
    /// Where links begin: as configured, else as the client found us.
    pub(crate) fn base_url(&self, parts: &Parts) -> String {
        if let Some(site) = &self.site_url {
            return site.trim_end_matches('/').to_owned();
        }
        let host = self.requested_host(parts).unwrap_or("localhost");
        let scheme = if self.is_forwarded_https(parts) {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{host}")
    }
}

/// One page of a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PageView<V> {
    /// How many results there are in all.
    count: i64,
    /// The address of the next page; null on the last.
    next: Option<String>,
    /// The address of the page before; null on the first.
    previous: Option<String>,
    results: Vec<V>,
}

/// A page as an answer, with its links in the header `Link`, too.
pub(crate) struct Listed<D> {
    body: Vec<u8>,
    link: Option<HeaderValue>,
    item: PhantomData<D>,
}

impl Paging {
    pub(crate) fn view<V>(&self, page: Page<V>) -> PageView<V> {
        let Window { limit, offset } = self.window;
        let next = offset.checked_add(limit).filter(|&start| start < page.count);
        let previous = (offset > 0).then(|| (offset - limit).max(0));
        PageView {
            count: page.count,
            next: next.map(|start| self.link(start)),
            previous: previous.map(|start| self.link(start)),
            results: page.items,
        }
    }

    pub(crate) fn reply<V: View>(&self, page: Page<V>) -> Listed<V::Doc> {
        let view = self.view(page);
        Listed {
            body: to_json(&view),
            link: view.link_header(),
            item: PhantomData,
        }
    }

    fn link(&self, offset: i64) -> String {
        format!("{}limit={}&offset={offset}", self.base, self.window.limit)
    }
}

impl<V> PageView<V> {
    fn link_header(&self) -> Option<HeaderValue> {
        let link = |address: &Option<String>, relation| Some(format!("<{}>; rel=\"{relation}\"", address.as_ref()?));
        let links: Vec<String> = [link(&self.next, "next"), link(&self.previous, "prev")]
            .into_iter()
            .flatten()
            .collect();
        if links.is_empty() {
            None
        } else {
            HeaderValue::try_from(links.join(", ")).ok()
        }
    }
}

impl<D> IntoResponse for Listed<D> {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.body.into());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(link) = self.link {
            headers.insert(header::LINK, link);
        }
        response
    }
}

impl<V: JsonSchema> OperationOutput for Listed<V> {
    type Inner = PageView<V>;

    fn inferred_responses(context: &mut GenContext, _: &mut Operation) -> Vec<(Option<StatusDoc>, ResponseDoc)> {
        vec![(
            Some(StatusDoc::Code(200)),
            described::<PageView<V>>(context, "One page of the list."),
        )]
    }
}
