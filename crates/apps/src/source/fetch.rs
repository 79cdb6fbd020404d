//! Finds the newest tag of an app and brings its files.
//!
//! Which tag is the newest:
//!
//! - a URL that names a tag, a commit or a version stays there;
//! - a URL that names a branch follows it: the newest commit of the branch, and of the folder if one is named;
//! - any other URL of a repository follows its tags: the highest version, a finished one before a trial, else the tag the
//!   host lists first; without tags the newest commit of the default branch;
//! - a package has the version that its registry calls `latest`.
//!
//! What is asked for, each host's name being the first part of the path at a mirror:
//!
//! | host | newest | archive |
//! |---|---|---|
//! | `api.github.com`, `github.com` | `/repos/OWNER/NAME/tags`, `/repos/OWNER/NAME/commits` | `/OWNER/NAME/archive/TAG.tar.gz` |
//! | `gitlab.com` | `/api/v4/projects/PATH/repository/tags`, `…/commits` | `…/repository/archive.zip?sha=TAG` |
//! | `npm` | `/NAME` | the path of `dist.tarball` in that document |

use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::archive::unpack;
use super::ask::{Host, SourceRequest};
use super::npm::{self, Dist, Document};
use super::origin::{At, Origin, Package, Repository};
use super::sources::Sources;
use super::tag::{checked, is_tag, newest};
use super::{Error, Files};

/// Of a list or a document. That of a package with many versions is long.
const LIST_LIMIT: usize = 8_000_000;
/// Hosts give tags in pages of at most so many.
const PAGE: usize = 100;
/// More than a thousand tags are not looked through.
const PAGES: usize = 10;

#[derive(Deserialize)]
struct Tag {
    name: String,
}

/// GitHub calls it the one, GitLab the other.
#[derive(Deserialize)]
struct Commit {
    #[serde(alias = "id")]
    sha: String,
}

impl Sources {
    /// The newest tag, commit or version of an app.
    pub async fn latest(&self, origin: &Origin, token: Option<&SecretString>) -> Result<String, Error> {
        if let Some(pinned) = origin.pinned() {
            return Ok(pinned.to_owned());
        }
        match origin {
            Origin::GitHub(repository) => self.latest_of(Host::GitHubApi, repository, token).await,
            Origin::GitLab(repository) => self.latest_of(Host::GitLab, repository, token).await,
            Origin::Npm(package) => self.latest_version(package, token).await,
        }
    }

    /// The files of an app at a tag, commit or version.
    pub async fn download(&self, origin: &Origin, tag: &str, token: Option<&SecretString>) -> Result<Files, Error> {
        let tag = checked(tag)?;
        let packed = match origin {
            Origin::GitHub(repository) => self.github_archive(repository, tag, token).await?,
            Origin::GitLab(repository) => self.gitlab_archive(repository, tag, token).await?,
            Origin::Npm(package) => self.npm_archive(package, tag, token).await?,
        };
        let (folder, limits) = (origin.folder().map(str::to_owned), self.limits.clone());
        let unpacked = tokio::task::spawn_blocking(move || unpack(&packed, folder.as_deref(), &limits));
        let unpacked = unpacked.await.map_err(Error::Crashed)??;
        let (files, binary, left_out) = (unpacked.files.len(), unpacked.binary, unpacked.left_out);
        tracing::debug!(%origin, tag, files, binary, left_out, "fetched an app");
        Ok(unpacked.files)
    }

    async fn latest_of(
        &self,
        host: Host,
        repository: &Repository,
        token: Option<&SecretString>,
    ) -> Result<String, Error> {
        let branch = match &repository.at {
            At::Branch(branch) => Some(branch.as_str()),
            At::Newest | At::Tag(_) | At::Commit(_) => None,
        };
        if branch.is_none()
            && let Some(tag) = newest(self.tags(host, repository, token).await?)
        {
            return Ok(tag);
        }
        self.newest_commit(host, repository, branch, token).await
    }

    async fn tags(
        &self,
        host: Host,
        repository: &Repository,
        token: Option<&SecretString>,
    ) -> Result<Vec<String>, Error> {
        let mut tags = Vec::new();
        for page in 1..=PAGES {
            let mut source_request = self.about(host, repository, "tags")?;
            let url = &mut source_request.url;
            url.query_pairs_mut()
                .append_pair("per_page", &PAGE.to_string())
                .append_pair("page", &page.to_string());
            let listed: Vec<Tag> = self.read(&source_request, token).await?;
            let is_last = listed.len() < PAGE;
            tags.extend(listed.into_iter().map(|tag| tag.name));
            if is_last {
                break;
            }
        }
        Ok(tags)
    }

    async fn newest_commit(
        &self,
        host: Host,
        repository: &Repository,
        branch: Option<&str>,
        token: Option<&SecretString>,
    ) -> Result<String, Error> {
        let mut source_request = self.about(host, repository, "commits")?;
        let branch_key = if host == Host::GitLab { "ref_name" } else { "sha" };
        source_request.url.query_pairs_mut().append_pair("per_page", "1");
        for (key, value) in [(branch_key, branch), ("path", repository.folder.as_deref())] {
            if let Some(value) = value {
                source_request.url.query_pairs_mut().append_pair(key, value);
            }
        }
        let commits: Vec<Commit> = self.read(&source_request, token).await?;
        match commits.into_iter().next() {
            Some(commit) if is_tag(&commit.sha) => Ok(commit.sha),
            Some(_) => Err(source_request.unclear(None)),
            // Nothing was ever committed there.
            None => Err(source_request.not_found()),
        }
    }

    async fn latest_version(&self, package: &Package, token: Option<&SecretString>) -> Result<String, Error> {
        let source_request = self.about_package(package)?;
        let document: Document = self.read(&source_request, token).await?;
        document.latest().ok_or_else(|| source_request.unclear(None))
    }

    async fn github_archive(
        &self,
        repository: &Repository,
        tag: &str,
        token: Option<&SecretString>,
    ) -> Result<Vec<u8>, Error> {
        let file = format!("{tag}.tar.gz");
        let path = repository.path.split('/').chain(["archive"]).chain(file.split('/'));
        let what = format!("{} at {tag}", repository.path);
        let source_request = self.archive(Host::GitHub, path, what)?;
        self.ask(&source_request, token).await
    }

    async fn gitlab_archive(
        &self,
        repository: &Repository,
        tag: &str,
        token: Option<&SecretString>,
    ) -> Result<Vec<u8>, Error> {
        let path = ["api", "v4", "projects", &repository.path, "repository", "archive.zip"];
        let what = format!("{} at {tag}", repository.path);
        let mut source_request = self.archive(Host::GitLab, path, what)?;
        source_request.url.query_pairs_mut().append_pair("sha", tag);
        self.ask(&source_request, token).await
    }

    async fn npm_archive(&self, package: &Package, tag: &str, token: Option<&SecretString>) -> Result<Vec<u8>, Error> {
        let about = self.about_package(package)?;
        let document: Document = self.read(&about, token).await?;
        let no_version = || Error::NoVersion {
            remote: about.remote,
            package: package.name.clone(),
            version: tag.to_owned(),
        };
        let dist: Dist = document.dist(tag).ok_or_else(no_version)?;
        let what = format!("{} {tag}", package.name);
        let mut source_request = self.archive(Host::Npm, [], what)?;
        source_request.url = dist.tarball(&source_request.url).ok_or_else(|| about.unclear(None))?;
        let packed = self.ask(&source_request, token).await?;
        if dist.is_of(&packed) {
            return Ok(packed);
        }
        Err(Error::Checksum {
            remote: source_request.remote,
            what: source_request.what,
        })
    }

    /// A request about a repository, to the API of its host.
    fn about(&self, host: Host, repository: &Repository, list: &str) -> Result<SourceRequest, Error> {
        let path = match host {
            Host::GitLab => vec!["api", "v4", "projects", &repository.path, "repository", list],
            _ => ["repos"]
                .into_iter()
                .chain(repository.path.split('/'))
                .chain([list])
                .collect(),
        };
        let what = match &repository.at {
            At::Branch(branch) => format!("{} at {branch}", repository.path),
            _ => repository.path.clone(),
        };
        self.source_request(host, path, "application/json", LIST_LIMIT, what)
    }

    fn about_package(&self, package: &Package) -> Result<SourceRequest, Error> {
        self.source_request(
            Host::Npm,
            [package.name.as_str()],
            npm::ACCEPT,
            LIST_LIMIT,
            package.name.clone(),
        )
    }

    fn archive<'p>(
        &self,
        host: Host,
        path: impl IntoIterator<Item = &'p str>,
        what: String,
    ) -> Result<SourceRequest, Error> {
        self.source_request(host, path, "*/*", self.limits.packed, what)
            .map(SourceRequest::for_an_archive)
    }

    async fn read<T: DeserializeOwned>(
        &self,
        source_request: &SourceRequest,
        token: Option<&SecretString>,
    ) -> Result<T, Error> {
        let answer = self.ask(source_request, token).await?;
        serde_json::from_slice(&answer).map_err(|source| source_request.unclear(Some(source)))
    }
}
