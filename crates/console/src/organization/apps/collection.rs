//! How paths name the three collections, and what is in them.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use service::pipeline::Collection;
use service::{AppConfigId, AppId};

use crate::failure::Failure;

/// A collection, as people call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CollectionPages(pub(super) Collection);

impl CollectionPages {
    const ALL: [Self; 3] = [
        Self(Collection::Destinations),
        Self(Collection::FrontendApps),
        Self(Collection::ImportApps),
    ];

    const fn word(self) -> &'static str {
        match self.0 {
            Collection::Destinations => "destinations",
            Collection::FrontendApps => "frontend",
            Collection::ImportApps => "imports",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self.0 {
            Collection::Destinations => "Destinations",
            Collection::FrontendApps => "Frontend apps",
            Collection::ImportApps => "Import apps",
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self.0 {
            Collection::Destinations => "Apps that receive a team's events as they arrive and forward them.",
            Collection::FrontendApps => "Apps that add features to the pages of a team's sites.",
            Collection::ImportApps => "Apps that import events from other services.",
        }
    }

    /// Below the organization.
    pub(super) fn path(self) -> String {
        format!("apps/{}/", self.word())
    }

    /// The API's path of the same.
    pub(super) fn api(self) -> String {
        format!("{}/", self.0)
    }

    pub(super) fn tabs(self) -> Vec<Tab> {
        let tab = |collection: Self| Tab {
            path: collection.path(),
            title: collection.title(),
            is_here: collection == self,
        };
        Self::ALL.into_iter().map(tab).collect()
    }
}

impl FromStr for CollectionPages {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|collection| collection.word() == text)
            .ok_or(())
    }
}

/// One of several pages that stand side by side.
#[derive(Debug)]
pub(super) struct Tab {
    pub(super) path: String,
    pub(super) title: &'static str,
    pub(super) is_here: bool,
}

/// An app, as the path names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtApp {
    pub(super) collection: CollectionPages,
    pub(super) app: AppId,
}

impl AtApp {
    pub(super) const fn collection(self) -> Collection {
        self.collection.0
    }

    pub(super) fn path(self) -> String {
        format!("{}{}/", self.collection.path(), self.app)
    }

    pub(super) fn api(self) -> String {
        format!("{}{}/", self.collection.api(), self.app)
    }
}

/// A configuration of an app, as the path names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtConfig {
    pub(super) at: AtApp,
    pub(super) config: AppConfigId,
}

impl AtConfig {
    pub(super) fn path(self) -> String {
        format!("{}configurations/{}/", self.at.path(), self.config)
    }

    pub(super) fn api(self) -> String {
        format!("{}configs/{}/", self.at.api(), self.config)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CollectionPages {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        named(parts, state, "collection").await
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AtApp {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        Ok(Self {
            collection: named(parts, state, "collection").await?,
            app: named(parts, state, "app").await?,
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AtConfig {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        Ok(Self {
            at: AtApp::from_request_parts(parts, state).await?,
            config: named(parts, state, "config").await?,
        })
    }
}

/// What cannot be one is not found.
async fn named<T: FromStr, S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<T, Failure> {
    let params = RawPathParams::from_request_parts(parts, state).await;
    let params = params.map_err(|_| Failure::NoSuchPage)?;
    let found = params.iter().find(|(key, _)| *key == name);
    let value = found.and_then(|(_, text)| text.parse().ok());
    value.ok_or(Failure::NoSuchPage)
}
