//! The list of apps to choose from: the built-in one, or one that the operator names.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use boxed::boxed;
use outbound::{Http, HttpError};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;

use crate::AppUrl;

/// How long a list is remembered.
const FRESH: Duration = Duration::from_mins(10);
/// How long a list that could not be read is left alone: each try may take long, and people wait for it.
const PAUSE: Duration = Duration::from_mins(1);
const SIZE_LIMIT: usize = 1_000_000;
const COUNT_LIMIT: usize = 1000;

const NAME_LENGTH: usize = 200;
const URL_LENGTH: usize = 800;
const DESCRIPTION_LENGTH: usize = 2000;

/// Apps that others have published, in our words. None is verified: we have tried some, but promise nothing for them.
const BUILT_IN: &str = include_str!("../catalog.json");

/// An app to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    /// Of its repository or package, as [`AppUrl`] writes it.
    pub url: String,
    #[serde(default)]
    pub description: String,
    /// Whether whoever made the list stands for it.
    #[serde(default)]
    pub verified: bool,
    /// `official` or `community`.
    #[serde(default = "community")]
    pub maintainer: String,
    pub r#type: Kind,
    #[serde(rename = "imageLink", default, skip_serializing_if = "Option::is_none")]
    pub image_link: Option<String>,
    #[serde(rename = "displayOnWebsiteLib", default, skip_serializing_if = "Option::is_none")]
    pub display_on_website_lib: Option<bool>,
}

/// What an app is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    DataIn,
    DataOut,
    IngestionFiltering,
    Site,
}

fn community() -> String {
    "community".to_owned()
}

/// The list, read when somebody asks for it. Cheap to clone; clones share what was read.
#[derive(Debug, Clone)]
pub struct Catalog {
    place: Option<CatalogSource>,
    operator: Http,
    fresh_for: Duration,
    /// Held while a new one is read, so that it is read once however many ask.
    kept: Arc<Mutex<Option<Kept>>>,
}

#[derive(Debug, Clone)]
enum CatalogSource {
    Url(Url),
    File(PathBuf),
}

#[derive(Debug, Clone)]
struct Kept {
    entries: Arc<[Entry]>,
    until: Instant,
}

/// Why a list cannot be used; for the log.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it cannot be fetched")]
    Unreached(#[from] HttpError),
    #[error("the answer has status {0}")]
    Status(u16),
    #[error("it cannot be read")]
    Unreadable(#[from] io::Error),
    #[error("it is larger than {SIZE_LIMIT} bytes")]
    TooLarge,
    #[error("it is not a list in JSON")]
    NotAList(#[from] serde_json::Error),
    #[error("it has more than {COUNT_LIMIT} entries")]
    TooLong,
    #[error("none of its {0} entries is valid")]
    NoneGood(usize),
    #[error("reading it crashed")]
    Crashed(#[from] tokio::task::JoinError),
}

impl Catalog {
    /// The list at an http(s) URL or in a file (`HEDGEROW_APP_CATALOG`), or else the built-in one.
    pub fn new(setting: Option<&str>, operator: Http) -> Self {
        let place = setting.map(|setting| match Url::parse(setting) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => CatalogSource::Url(url),
            _ => CatalogSource::File(setting.into()),
        });
        Self {
            place,
            operator,
            fresh_for: FRESH,
            kept: Arc::default(),
        }
    }

    /// The same list, remembered for another time.
    #[must_use]
    pub fn fresh_for(mut self, time: Duration) -> Self {
        self.fresh_for = time;
        self
    }

    /// All entries. If the list cannot be read, those that were read last, or else the built-in ones.
    #[boxed]
    pub async fn entries(&self) -> Arc<[Entry]> {
        let Some(place) = &self.place else {
            return built_in();
        };
        let mut kept = self.kept.lock().await;
        if let Some(kept) = &*kept
            && Instant::now() < kept.until
        {
            return Arc::clone(&kept.entries);
        }
        let (entries, time) = match self.read(place).await {
            Ok(entries) => (entries, self.fresh_for),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the app catalog cannot be loaded; keeping the previous one"
                );
                let before = kept.as_ref().map(|kept| Arc::clone(&kept.entries));
                (before.unwrap_or_else(built_in), self.fresh_for.min(PAUSE))
            }
        };
        let until = Instant::now() + time;
        *kept = Some(Kept {
            entries: Arc::clone(&entries),
            until,
        });
        entries
    }

    async fn read(&self, place: &CatalogSource) -> Result<Arc<[Entry]>, Unusable> {
        let json = match place {
            CatalogSource::Url(url) => self.fetch(url).await?,
            CatalogSource::File(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || read_file(path)).await??
            }
        };
        let (entries, bad) = parse(&json)?;
        if bad > 0 {
            tracing::warn!(bad, "skipped invalid app catalog entries");
        }
        Ok(entries)
    }

    async fn fetch(&self, url: &Url) -> Result<Vec<u8>, Unusable> {
        let http = self.operator.clone().following(3);
        let answer = http.get(url.as_str(), "application/json", SIZE_LIMIT).await?;
        if !answer.status().is_success() {
            return Err(Unusable::Status(answer.status().as_u16()));
        }
        Ok(answer.into_body())
    }
}

fn read_file(path: PathBuf) -> Result<Vec<u8>, Unusable> {
    let mut json = Vec::new();
    let limit = u64::try_from(SIZE_LIMIT).unwrap_or(u64::MAX);
    File::open(path)?.take(limit + 1).read_to_end(&mut json)?;
    if json.len() > SIZE_LIMIT {
        return Err(Unusable::TooLarge);
    }
    Ok(json)
}

fn built_in() -> Arc<[Entry]> {
    let (entries, _) = parse(BUILT_IN.as_bytes()).expect("the list in this repository is good; a test reads it");
    entries
}

/// The good entries, and the number of bad ones.
fn parse(json: &[u8]) -> Result<(Arc<[Entry]>, usize), Unusable> {
    let listed: Vec<serde_json::Value> = serde_json::from_slice(json)?;
    let count = listed.len();
    if count > COUNT_LIMIT {
        return Err(Unusable::TooLong);
    }
    let entries: Arc<[Entry]> = listed.into_iter().filter_map(entry).collect();
    match count - entries.len() {
        bad if entries.is_empty() && bad > 0 => Err(Unusable::NoneGood(bad)),
        bad => Ok((entries, bad)),
    }
}

/// An entry whose app could be installed, and whose texts fit.
fn entry(listed: serde_json::Value) -> Option<Entry> {
    let mut entry: Entry = serde_json::from_value(listed).ok()?;
    // A token in a list that everybody may read is a mistake that should not spread.
    let url = AppUrl::parse(&entry.url).ok().filter(|url| url.token.is_none())?;
    entry.url = url.to_string();
    entry.image_link = entry.image_link.filter(|link| is_image_link(link));
    let fits = |text: &str, length: usize| text.chars().count() <= length;
    let is_good = !entry.name.trim().is_empty()
        && fits(&entry.name, NAME_LENGTH)
        && fits(&entry.description, DESCRIPTION_LENGTH)
        && fits(&entry.maintainer, NAME_LENGTH);
    is_good.then_some(entry)
}

/// Browsers are going to fetch it.
fn is_image_link(link: &str) -> bool {
    link.len() <= URL_LENGTH && Url::parse(link).is_ok_and(|url| url.scheme() == "https" && url.has_host())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_built_in_list_has_no_bad_entries_and_none_twice() {
        let (entries, bad) = parse(BUILT_IN.as_bytes()).unwrap();
        assert_eq!((entries.len(), bad), (29, 0));
        let urls: HashSet<&str> = entries.iter().map(|entry| entry.url.as_str()).collect();
        assert_eq!(urls.len(), entries.len());
        assert!(entries.iter().all(|entry| !entry.description.is_empty()));
    }

    fn listed(change: impl FnOnce(&mut serde_json::Value)) -> serde_json::Value {
        let mut entry = json!({ "name": "A", "url": "https://github.com/a/b", "type": "data_out" });
        change(&mut entry);
        entry
    }

    #[test]
    fn bad_entries_are_left_out_and_counted() {
        let list = json!([
            listed(|_| {}),
            listed(|entry| entry["url"] = json!("https://evil.example/a/b")),
            listed(|entry| entry["url"] = json!("https://github.com/a/b?private_token=x")),
            listed(|entry| entry["type"] = json!("else")),
            listed(|entry| entry["name"] = json!(" ")),
            listed(|entry| entry["name"] = json!("x".repeat(201))),
            listed(|entry| entry["description"] = json!("x".repeat(2001))),
            listed(|entry| entry["verified"] = json!("yes")),
            json!("text"),
            json!(null),
        ]);
        let (entries, bad) = parse(list.to_string().as_bytes()).unwrap();
        assert_eq!((entries.len(), bad), (1, 9));
        assert_eq!(entries[0].maintainer, "community");
    }

    #[test]
    fn an_entry_is_shown_as_it_was_listed() {
        let whole = json!({
            "name": "A", "url": "https://github.com/a/b", "description": "d", "verified": true, "maintainer": "official",
            "type": "site", "imageLink": "https://a.example/logo.png", "displayOnWebsiteLib": false,
        });
        let (entries, _) = parse(json!([whole]).to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&entries[0]).unwrap(), whole);
    }

    #[test]
    fn a_picture_from_anywhere_but_https_is_not_shown() {
        for link in [
            "http://a.example/x.png",
            "javascript:alert(1)",
            "data:image/png;base64,AA",
            "x.png",
            "https://",
        ] {
            let entry = entry(listed(|entry| entry["imageLink"] = json!(link))).unwrap();
            assert_eq!(entry.image_link, None, "{link}");
        }
    }

    #[test]
    fn what_is_no_list_or_too_long_is_refused() {
        assert!(matches!(parse(b"{}"), Err(Unusable::NotAList(_))));
        assert!(matches!(parse(b"[{}]"), Err(Unusable::NoneGood(1))));
        assert_eq!(parse(b"[]").unwrap().0.len(), 0);
        let long = json!(vec![listed(|_| {}); 1001]).to_string();
        assert!(matches!(parse(long.as_bytes()), Err(Unusable::TooLong)));
    }
}
