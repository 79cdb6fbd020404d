//! Where apps come from: the hosts, and what stands in for them here.

use std::path::PathBuf;

use outbound::Http;
use url::Url;

use super::Limits;

/// Where apps come from. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Under the policy for what users choose; its limit of time holds for each request.
    pub http: Http,
    /// Under the policy for what the operator chose: the mirror and the npm registry may be at private addresses.
    pub operator: Http,
    /// Asked instead of every host, if there is one (`HEDGEROW_APP_MIRROR`).
    pub mirror: Option<Url>,
    /// What packages are fetched from, if there is no mirror (`HEDGEROW_NPM_REGISTRY`).
    pub npm_registry: Option<Url>,
    /// The folder below which local apps are (`HEDGEROW_LOCAL_APPS`).
    pub local_root: Option<PathBuf>,
    pub hosts: Hosts,
    pub limits: Limits,
}

/// The addresses of the hosts.
#[derive(Debug, Clone)]
pub struct Hosts {
    pub github: Url,
    pub github_api: Url,
    pub gitlab: Url,
}

impl Default for Hosts {
    fn default() -> Self {
        let parse = |url| Url::parse(url).expect("a constant that is a URL");
        Self {
            github: parse("https://github.com"),
            github_api: parse("https://api.github.com"),
            gitlab: parse("https://gitlab.com"),
        }
    }
}

impl Sources {
    /// The hosts themselves, without a mirror, a registry or local apps.
    pub fn new(http: Http, operator: Http) -> Self {
        Self {
            http,
            operator,
            mirror: None,
            npm_registry: None,
            local_root: None,
            hosts: Hosts::default(),
            limits: Limits::default(),
        }
    }
}
