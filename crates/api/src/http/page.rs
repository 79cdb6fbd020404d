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
use service::{MAX_PAGE_BYTES, Page, PageSlot, Window};
use tokio::task::yield_now;
use url::form_urlencoded;

use crate::http::context::RequestContext;
use crate::http::error::Problem;
use crate::http::json::{to_json, write_json};
use crate::http::query::{self, Query};
use crate::http::reply::{View, described};
use crate::http::state::Api;

#[derive(Debug, Deserialize, JsonSchema)]
struct PagingQuery {
    /// The number of results to return. Defaults to 100, at most 1000.
    #[schemars(range(min = 0))]
    limit: Option<i64>,
    /// The number of results to skip.
    #[schemars(range(min = 0))]
    offset: Option<i64>,
}

/// Which page is asked for, and the address its neighbours are found at.
#[derive(Debug)]
pub(crate) struct Paging {
    pub(crate) window: Window,
    _turn: PageSlot,
    base: String,
}

impl FromRequestParts<Api> for Paging {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let PagingQuery { limit, offset } = query::read(query)?;
        // None at all and zero both mean: as many as usual.
        let window = Window::new(limit.filter(|&limit| limit > 0), offset);
        let user = RequestContext::of(parts).user.get().copied();
        Ok(Self {
            window,
            base: base(parts, api),
            _turn: api.service.page_slots().acquire(user).await?,
        })
    }
}

/// The address of a list, without the two parameters that make the page.
fn base(parts: &Parts, api: &Api) -> String {
    let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let mut others = form_urlencoded::Serializer::new(String::new());
    others.extend_pairs(query.filter(|(name, _)| name != "limit" && name != "offset"));
    let others = others.finish();
    let separator = if others.is_empty() { "" } else { "&" };
    let (site, path) = (api.settings.base_url(parts), parts.uri.path());
    format!("{site}{path}?{others}{separator}")
}

impl OperationInput for Paging {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        Query::<PagingQuery>::operation_input(context, operation);
    }
}

/// After so many bytes others have their turn before more is written.
const AT_ONCE: usize = 256 * 1024;

/// One page of a list.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "Paginated{V}List")]
#[expect(dead_code, reason = "it describes what Paging writes item by item")]
pub(crate) struct PageView<V> {
    #[serde(flatten)]
    links: PageLinks,
    results: Vec<V>,
}

/// What stands before the results.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct PageLinks {
    /// The total number of results.
    count: i64,
    /// The URL of the next page; null on the last page.
    next: Option<String>,
    /// The URL of the previous page; null on the first page.
    previous: Option<String>,
}

/// A page as an answer, with its links in the header `Link`, too.
pub(crate) struct Listed<D> {
    body: Vec<u8>,
    link: Option<HeaderValue>,
    item: PhantomData<D>,
}

impl Paging {
    pub(crate) async fn reply<V: View>(&self, page: Page<V>) -> Listed<V::Doc> {
        let (body, links) = self.write(page, to_json).await;
        Listed {
            body,
            link: links.header(),
            item: PhantomData,
        }
    }

    /// The page as JSON, behind a head that holds its links.
    pub(crate) async fn write<V: View>(
        &self,
        page: Page<V>,
        head: impl Fn(&PageLinks) -> Vec<u8> + Send,
    ) -> (Vec<u8>, PageLinks) {
        let mut links = self.links(&page, page.items.len());
        let mut body = open(head(&links));
        let start = body.len();
        let written = write_items(&mut body, &page.items).await;
        if written < page.items.len() {
            links = self.links(&page, written);
            body.splice(..start, open(head(&links)));
        }
        body.extend_from_slice(b"]}");
        (body, links)
    }

    /// The links of a page with so many results.
    fn links<V>(&self, page: &Page<V>, results: usize) -> PageLinks {
        let Window { limit, offset } = self.window;
        let results = i64::try_from(results).unwrap_or(i64::MAX);
        let end = offset.saturating_add(results);
        let next = (results > 0 && end < page.count).then_some(end);
        let previous = (offset > 0).then(|| (offset - limit).max(0));
        PageLinks {
            count: page.count,
            next: next.map(|start| self.link(start)),
            previous: previous.map(|start| self.link(start)),
        }
    }

    fn link(&self, offset: i64) -> String {
        format!("{}limit={}&offset={offset}", self.base, self.window.limit)
    }
}

/// An object whose last field is the list of results, up to their place.
fn open(mut head: Vec<u8>) -> Vec<u8> {
    head.pop();
    head.extend_from_slice(br#","results":["#);
    head
}

/// Writes items until there are enough bytes of them, and tells how many. A large page is not written in one go, because in the meantime its
/// thread would do nothing else.
async fn write_items<V: View>(body: &mut Vec<u8>, items: &[V]) -> usize {
    let mut turn_ends = AT_ONCE;
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        write_json(body, item);
        if body.len() >= MAX_PAGE_BYTES {
            return place + 1;
        }
        if body.len() >= turn_ends {
            turn_ends = body.len() + AT_ONCE;
            yield_now().await;
        }
    }
    items.len()
}

impl PageLinks {
    fn header(&self) -> Option<HeaderValue> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use service::PageSlots;

    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Text(String);

    impl View for Text {
        type Doc = Self;
    }

    fn paging(limit: i64, offset: i64) -> Paging {
        let turn = PageSlots::default().acquire(None).now_or_never();
        Paging {
            window: Window { limit, offset },
            _turn: turn.expect("nobody else waits").unwrap(),
            base: "/?".to_owned(),
        }
    }

    /// Texts that are six times as long in JSON.
    fn page(texts: usize, kilobytes: usize, count: i64) -> Page<Text> {
        let items = (0..texts).map(|_| Text("\u{1}".repeat(kilobytes * 1000 / 6)));
        Page {
            items: items.collect(),
            count,
        }
    }

    async fn written(paging: &Paging, page: Page<Text>) -> (usize, Option<String>, usize) {
        let (body, links) = paging.write(page, to_json).await;
        let value: serde_json::Value = serde_json::from_slice(&body).expect("it is JSON");
        assert_eq!(value["next"].as_str(), links.next.as_deref());
        (value["results"].as_array().map_or(0, Vec::len), links.next, body.len())
    }

    #[tokio::test]
    async fn a_page_ends_when_it_has_enough_bytes() {
        let (results, next, bytes) = written(&paging(1000, 7), page(100, 240, 2000)).await;
        assert_eq!((results, next.as_deref()), (18, Some("/?limit=1000&offset=25")));
        assert!(bytes < MAX_PAGE_BYTES + 250_000, "{bytes}");
        let (results, next, _) = written(&paging(1000, 0), page(2, 6000, 2)).await;
        assert_eq!((results, next.as_deref()), (1, Some("/?limit=1000&offset=1")));
        let (results, next, _) = written(&paging(1000, 1), page(1, 6000, 2)).await;
        assert_eq!((results, next), (1, None));
    }

    #[tokio::test]
    async fn whoever_reads_fewer_rows_goes_on_behind_them() {
        let next = async |limit, offset, texts, count| written(&paging(limit, offset), page(texts, 0, count)).await.1;
        assert_eq!(next(3, 0, 3, 7).await.as_deref(), Some("/?limit=3&offset=3"));
        assert_eq!(next(3, 3, 2, 7).await.as_deref(), Some("/?limit=3&offset=5"));
        assert_eq!(next(3, 6, 1, 7).await, None);
        assert_eq!(next(3, 3, 0, 7).await, None, "nothing would follow for ever");
        assert_eq!(next(1000, i64::MAX, 0, 7).await, None);
    }

    /// On one thread: whoever does not give way is alone.
    #[tokio::test]
    async fn others_have_their_turn_while_a_large_page_is_written() {
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        written(&paging(1000, 0), page(10, 1, 10)).await;
        assert_eq!(turns.load(Ordering::Relaxed), 0, "a small one is written in one go");
        written(&paging(1000, 0), page(100, 40, 100)).await;
        assert!(turns.load(Ordering::Relaxed) >= 10, "{turns:?}");
        other.abort();
    }
}
