//! Where an app comes from, read from the URL that somebody pasted.
//!
//! The text is read as it stands and not by a URL parser: a parser would tidy up `..`, decode, and turn look-alikes of a
//! host into the host. Here whatever is not plainly one of the known forms is refused.

use std::fmt;

use secrecy::SecretString;
use url::form_urlencoded;

use super::Error;
use super::tag::is_tag;

/// As long as the API takes one.
const LENGTH: usize = 800;
/// Of a private token.
const TOKEN_LENGTH: usize = 500;
/// Of a folder in a repository, as of any name in an app.
const FOLDER_LENGTH: usize = 200;
/// GitLab's own limit of groups in groups.
const GROUPS: usize = 20;
/// npm's own limit.
const PACKAGE_LENGTH: usize = 214;

/// The site on which people look for packages. What packages are fetched from is a setting.
const NPM_SITE: &str = "npmjs.com";

const HOSTS: &str = "use the https:// URL of a GitHub or GitLab repository, or of a package on the npm site, \
                     without a port or user name";
const TOO_LONG: &str = "a URL has at most 800 characters";
const CHARACTERS: &str = "the URL of an app can have only letters, digits, and . _ ~ + @ -, without percent-encoding, \
                          empty segments, or \"..\"";
const QUERY: &str = "private_token= is the only query parameter allowed in the URL, and only once; remove the others";
const GITHUB: &str = "use https://github.com/OWNER/REPOSITORY, optionally followed by /tree/BRANCH, /commit/COMMIT, or \
                      /releases/tag/TAG and a folder, or by /archive/TAG.zip";
const GITLAB: &str = "use https://gitlab.com/GROUP/PROJECT, optionally followed by /-/tree/BRANCH and a folder, or by \
                      /-/tags/TAG or /-/commit/COMMIT";
const NPM: &str = "use the page of a package on the npm site, /package/NAME or /package/@SCOPE/NAME, optionally followed \
                   by /v/VERSION";

/// A place that apps come from. Displays as the one URL that stands for it, without a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    GitHub(Repository),
    GitLab(Repository),
    Npm(Package),
}

/// A repository, or a folder in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// `owner/repository`; on GitLab with any number of groups.
    pub(super) path: String,
    pub(super) at: At,
    pub(super) folder: Option<String>,
}

/// What of a repository is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum At {
    /// Nothing was said: the newest tag.
    Newest,
    /// Follows a branch. Both hosts write tags and commits in the same way, and then nothing moves.
    Branch(String),
    /// Stays at a tag.
    Tag(String),
    /// Stays at a commit.
    Commit(String),
}

/// A package, or one version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// With its scope.
    pub(super) name: String,
    pub(super) version: Option<String>,
}

impl Origin {
    /// Reads a URL, and splits off its `private_token`.
    ///
    /// A branch whose name has a slash in it cannot be said: what follows the slash is read as a folder.
    pub fn parse(text: &str) -> Result<(Self, Option<SecretString>), Error> {
        let text = text.trim();
        if text.len() > LENGTH {
            return Err(Error::Url(TOO_LONG));
        }
        let (address, query) = match text.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (text, None),
        };
        let origin = read(address)?;
        let token = query.map(token).transpose()?;
        Ok((origin, token))
    }

    /// The folder of the repository that the app is in, if it is not the whole.
    pub fn folder(&self) -> Option<&str> {
        match self {
            Self::GitHub(repository) | Self::GitLab(repository) => repository.folder.as_deref(),
            Self::Npm(_) => None,
        }
    }

    /// The tag, commit or version that the URL names, if it can never mean another.
    pub fn pinned(&self) -> Option<&str> {
        match self {
            Self::GitHub(repository) | Self::GitLab(repository) => match &repository.at {
                At::Tag(at) | At::Commit(at) => Some(at),
                At::Newest | At::Branch(_) => None,
            },
            Self::Npm(package) => package.version.as_deref(),
        }
    }
}

fn read(address: &str) -> Result<Origin, Error> {
    let (scheme, rest) = address.split_once("://").ok_or(Error::Url(HOSTS))?;
    if !["https", "http"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(Error::Url(HOSTS));
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.to_ascii_lowercase();
    let path = path.strip_suffix('/').unwrap_or(path);
    let parts: Vec<&str> = path.split('/').collect();
    let read_path = match host.strip_prefix("www.").unwrap_or(&host) {
        "github.com" => github,
        "gitlab.com" => gitlab,
        NPM_SITE => npm,
        _ => return Err(Error::Url(HOSTS)),
    };
    let is_whole = !path.is_empty();
    if is_whole && !parts.iter().all(|part| is_part(part)) {
        return Err(Error::Url(CHARACTERS));
    }
    read_path(&parts)
}

fn is_part(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+@-".contains(&byte);
    !matches!(part, "" | "." | "..") && part.bytes().all(is_plain)
}

fn github(parts: &[&str]) -> Result<Origin, Error> {
    let [_, _, rest @ ..] = parts else {
        return Err(Error::Url(GITHUB));
    };
    let (at, folder): (_, &[&str]) = match rest {
        [] => (At::Newest, &[]),
        ["tree", at, folder @ ..] => (At::Branch((*at).to_owned()), folder),
        ["commit", at, folder @ ..] => (At::Commit((*at).to_owned()), folder),
        ["releases", "tag", at, folder @ ..] => (At::Tag((*at).to_owned()), folder),
        ["archive", "refs", "tags", file] => (At::Tag(archived(file)?), &[]),
        ["archive", "refs", "heads", file] | ["archive", file] => (At::Branch(archived(file)?), &[]),
        _ => return Err(Error::Url(GITHUB)),
    };
    Ok(Origin::GitHub(repository(&parts[..2], at, folder, GITHUB)?))
}

/// What an archive is of.
fn archived(file: &str) -> Result<String, Error> {
    let at = file.strip_suffix(".zip").or_else(|| file.strip_suffix(".tar.gz"));
    at.map(str::to_owned).ok_or(Error::Url(GITHUB))
}

fn gitlab(parts: &[&str]) -> Result<Origin, Error> {
    let end = parts.iter().position(|part| *part == "-").unwrap_or(parts.len());
    let (path, rest) = parts.split_at(end);
    let (at, folder): (_, &[&str]) = match rest {
        [] => (At::Newest, &[]),
        ["-", "tree", at, folder @ ..] => (At::Branch((*at).to_owned()), folder),
        ["-", "tags" | "releases", at] => (At::Tag((*at).to_owned()), &[]),
        ["-", "commit", at] => (At::Commit((*at).to_owned()), &[]),
        _ => return Err(Error::Url(GITLAB)),
    };
    if !(2..=GROUPS + 1).contains(&path.len()) {
        return Err(Error::Url(GITLAB));
    }
    Ok(Origin::GitLab(repository(path, at, folder, GITLAB)?))
}

fn repository(path: &[&str], at: At, folder: &[&str], forms: &'static str) -> Result<Repository, Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = |name: &str| is_part(name) && name.bytes().all(is_plain);
    let path = path.join("/");
    // As `git clone` wants it, and people paste it.
    let path = path.trim_end_matches(".git");
    let folder = folder.join("/");
    let is_good = match &at {
        At::Newest => true,
        At::Branch(at) | At::Tag(at) | At::Commit(at) => is_tag(at),
    };
    if !is_good || !path.split('/').all(is_name) || folder.len() > FOLDER_LENGTH {
        return Err(Error::Url(forms));
    }
    Ok(Repository {
        path: path.to_owned(),
        at,
        folder: Some(folder).filter(|folder| !folder.is_empty()),
    })
}

fn npm(parts: &[&str]) -> Result<Origin, Error> {
    let (name, version) = match parts {
        ["package", path @ .., "v", version] if !path.is_empty() => (path, Some(*version)),
        ["package", path @ ..] => (path, None),
        _ => return Err(Error::Url(NPM)),
    };
    let is_named = match name {
        [name] => is_package(name),
        [scope, name] => scope.strip_prefix('@').is_some_and(is_package) && is_package(name),
        _ => false,
    };
    let name = name.join("/");
    if !is_named || name.len() > PACKAGE_LENGTH || !version.is_none_or(is_tag) {
        return Err(Error::Url(NPM));
    }
    let version = version.map(str::to_owned);
    Ok(Origin::Npm(Package { name, version }))
}

fn is_package(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain)
}

fn token(query: &str) -> Result<SecretString, Error> {
    if query.contains('#') {
        return Err(Error::Url(QUERY));
    }
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let token = match (pairs.next(), pairs.next()) {
        (Some((name, token)), None) if name == "private_token" => token,
        _ => return Err(Error::Url(QUERY)),
    };
    let is_good = !token.is_empty() && token.len() <= TOKEN_LENGTH && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_good {
        return Err(Error::Token);
    }
    Ok(SecretString::from(token.into_owned()))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GitHub(repository) => {
                write!(f, "https://github.com/{}", repository.path)?;
                repository.at.write(f, ["/tree/", "/releases/tag/", "/commit/"])?;
            }
            Self::GitLab(repository) => {
                write!(f, "https://gitlab.com/{}", repository.path)?;
                repository.at.write(f, ["/-/tree/", "/-/tags/", "/-/commit/"])?;
            }
            Self::Npm(package) => {
                write!(f, "https://www.{NPM_SITE}/package/{}", package.name)?;
                if let Some(version) = &package.version {
                    write!(f, "/v/{version}")?;
                }
            }
        }
        match self.folder() {
            Some(folder) => write!(f, "/{folder}"),
            None => Ok(()),
        }
    }
}

impl At {
    fn write(&self, f: &mut fmt::Formatter<'_>, [tree, tag, commit]: [&str; 3]) -> fmt::Result {
        match self {
            Self::Newest => Ok(()),
            Self::Branch(at) => write!(f, "{tree}{at}"),
            Self::Tag(at) => write!(f, "{tag}{at}"),
            Self::Commit(at) => write!(f, "{commit}{at}"),
        }
    }
}

#[cfg(test)]
mod tests;
