//! Asks a host, or whoever stands in for it, and says what its answer means.

use http::{HeaderValue, Request, Response, StatusCode, header};
use outbound::HttpError;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::sources::Sources;
use super::{Error, RemoteSource};

/// GitHub sends archives from another host.
const REDIRECTS: u8 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    GitHub,
    GitHubApi,
    GitLab,
    Npm,
}

impl Host {
    /// The first part of the path at a mirror.
    fn name(self) -> &'static str {
        match self {
            Self::GitHub => "github.com",
            Self::GitHubApi => "api.github.com",
            Self::GitLab => "gitlab.com",
            Self::Npm => "npm",
        }
    }
}

/// One thing to ask for.
pub(super) struct SourceRequest {
    pub(super) remote: RemoteSource,
    pub(super) url: Url,
    /// For sentences.
    pub(super) what: String,
    host: Host,
    accept: &'static str,
    limit: usize,
    is_archive: bool,
}

impl SourceRequest {
    pub(super) fn for_an_archive(mut self) -> Self {
        self.is_archive = true;
        self
    }

    pub(super) fn not_found(&self) -> Error {
        let what = self.what.clone();
        Error::NotFound {
            remote: self.remote,
            what,
        }
    }

    pub(super) fn unclear(&self, source: Option<serde_json::Error>) -> Error {
        Error::Unclear {
            remote: self.remote,
            what: self.what.clone(),
            source,
        }
    }

    fn request(&self, url: &Url, token: Option<&SecretString>) -> Result<Request<Vec<u8>>, Error> {
        let mut request = Request::get(url.as_str()).header(header::ACCEPT, self.accept);
        if let Some(token) = token {
            let (name, value) = match self.host {
                Host::GitLab => ("private-token", token.expose_secret().to_owned()),
                _ => ("authorization", format!("Bearer {}", token.expose_secret())),
            };
            let mut value = HeaderValue::try_from(value).map_err(|_| Error::Token)?;
            // It stays with the origin it was meant for: the client takes it away when it is sent on.
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let malformed = |cause: http::Error| self.unreached(HttpError::Malformed(Box::new(cause)));
        request.body(Vec::new()).map_err(malformed)
    }

    fn unreached(&self, source: HttpError) -> Error {
        match source {
            HttpError::TooLarge { limit, .. } if self.is_archive => Error::PackedTooLarge { limit },
            source => Error::Unreached {
                remote: self.remote,
                source,
            },
        }
    }

    /// The body of a good answer, or what a bad one means to whoever asked.
    fn understand(&self, answer: Response<Vec<u8>>, has_token: bool) -> Result<Vec<u8>, Error> {
        let (remote, what) = (self.remote, self.what.clone());
        Err(match answer.status() {
            status if status.is_success() => return Ok(answer.into_body()),
            StatusCode::TOO_MANY_REQUESTS => too_often(remote, &answer),
            StatusCode::FORBIDDEN if is_rate_limit(&answer) => too_often(remote, &answer),
            StatusCode::UNAUTHORIZED if has_token => Error::BadToken { remote },
            // Hosts differ in how they hide what is private.
            StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND | StatusCode::GONE => self.not_found(),
            StatusCode::FORBIDDEN => Error::Forbidden { remote, what },
            status if status.is_redirection() => Error::SentOn { remote },
            status => Error::Status {
                remote,
                status: status.as_u16(),
            },
        })
    }
}

fn too_often(remote: RemoteSource, answer: &Response<Vec<u8>>) -> Error {
    let header = answer.headers().get(header::RETRY_AFTER);
    let seconds = header.and_then(|value| value.to_str().ok()?.parse().ok());
    Error::TooOften { remote, seconds }
}

/// GitHub says "forbidden" to who asks too often.
fn is_rate_limit(answer: &Response<Vec<u8>>) -> bool {
    let headers = answer.headers();
    let is_used_up = headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0");
    is_used_up || headers.contains_key(header::RETRY_AFTER)
}

impl Sources {
    pub(super) fn source_request<'p>(
        &self,
        host: Host,
        path: impl IntoIterator<Item = &'p str>,
        accept: &'static str,
        limit: usize,
        what: String,
    ) -> Result<SourceRequest, Error> {
        let (remote, base) = self.base(host)?;
        Ok(SourceRequest {
            remote,
            url: below(base, path),
            what,
            host,
            accept,
            limit,
            is_archive: false,
        })
    }

    /// The server that is used for a host, and the base URL for that host on it.
    fn base(&self, host: Host) -> Result<(RemoteSource, Url), Error> {
        if let Some(mirror) = &self.mirror {
            return Ok((RemoteSource::Mirror, below(mirror.clone(), [host.name()])));
        }
        Ok(match host {
            Host::GitHub => (RemoteSource::Host(host.name()), self.hosts.github.clone()),
            Host::GitHubApi => (RemoteSource::Host(host.name()), self.hosts.github_api.clone()),
            Host::GitLab => (RemoteSource::Host(host.name()), self.hosts.gitlab.clone()),
            Host::Npm => {
                let registry = self.npm_registry.clone();
                (RemoteSource::Registry, registry.ok_or(Error::NoRegistry)?)
            }
        })
    }

    pub(super) async fn ask(
        &self,
        source_request: &SourceRequest,
        token: Option<&SecretString>,
    ) -> Result<Vec<u8>, Error> {
        let answer = match source_request.remote {
            RemoteSource::Host(_) => self.ask_host(source_request, token).await,
            RemoteSource::Mirror | RemoteSource::Registry => self.ask_operators(source_request, token).await,
        };
        source_request.understand(answer?, token.is_some())
    }

    async fn ask_host(
        &self,
        source_request: &SourceRequest,
        token: Option<&SecretString>,
    ) -> Result<Response<Vec<u8>>, Error> {
        let http = self.http.clone().limited_to(source_request.limit).following(REDIRECTS);
        let request = source_request.request(&source_request.url, token)?;
        http.send(request)
            .await
            .map_err(|source| source_request.unreached(source))
    }

    /// What the operator chose is reached under an open policy, so its word must not lead anywhere else.
    async fn ask_operators(
        &self,
        source_request: &SourceRequest,
        token: Option<&SecretString>,
    ) -> Result<Response<Vec<u8>>, Error> {
        let http = self.operator.clone().limited_to(source_request.limit).following(0);
        let mut url = source_request.url.clone();
        for _ in 0..=REDIRECTS {
            let request = source_request.request(&url, token)?;
            let answer = http
                .send(request)
                .await
                .map_err(|source| source_request.unreached(source))?;
            match sent_on(&url, &answer) {
                Some(next) if next.origin() == url.origin() => url = next,
                _ => return Ok(answer),
            }
        }
        Err(Error::SentOn {
            remote: source_request.remote,
        })
    }
}

fn sent_on(from: &Url, answer: &Response<Vec<u8>>) -> Option<Url> {
    let location = answer.headers().get(header::LOCATION)?.to_str().ok()?;
    let is_redirection = answer.status().is_redirection();
    is_redirection.then(|| from.join(location).ok()).flatten()
}

/// An address with more parts to its path. A slash in a part is encoded, so that it stays one.
fn below<'p>(mut base: Url, path: impl IntoIterator<Item = &'p str>) -> Url {
    // An address without a path is no http URL, and the client refuses it.
    if let Ok(mut parts) = base.path_segments_mut() {
        parts.pop_if_empty().extend(path);
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path_stay_one_part_each() {
        let at = |base: &str, path: &[&str]| below(base.parse().unwrap(), path.iter().copied()).to_string();
        assert_eq!(at("https://a.example", &["x", "y"]), "https://a.example/x/y");
        assert_eq!(
            at("https://a.example/m/", &["g/p", "v1+2"]),
            "https://a.example/m/g%2Fp/v1+2"
        );
        assert_eq!(
            at("https://a.example/m", &["@a/b", "?#%"]),
            "https://a.example/m/@a%2Fb/%3F%23%25"
        );
        assert_eq!(at("https://a.example/m", &[]), "https://a.example/m");
    }
}
