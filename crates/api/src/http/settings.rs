//! What the API is told by the one who starts it.

use ipnet::IpNet;

use crate::http::limits::RateLimit;

/// How the API behaves. All of it can be left out.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Where links begin, such as `https://hedgerow.example.com`; else the request's own host.
    pub site_url: Option<String>,
    /// The host that scripts of apps have for themselves, such as `apps.example.net`.
    pub apps_host: Option<String>,
    /// Addresses whose forwarded headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How often one key may ask.
    pub rate_limit: Option<RateLimit>,
    /// Pages of these origins may call the API from a browser.
    pub cors_origins: Vec<String>,
    /// How many bytes of memory requests that capture events may use together. Defaults to 768 MiB.
    pub capture_memory: Option<usize>,
    /// Whether each request gets a span of its own, for export to a collector.
    pub traces_requests: bool,
}
