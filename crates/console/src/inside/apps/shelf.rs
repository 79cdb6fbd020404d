//! How paths name the three collections, and what is in them.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use service::pipeline::Collection;
use service::{AppConfigId, AppId};

use crate::failure::Failure;

/// A collection, as people call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shelf(pub(super) Collection);

impl Shelf {
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
            Collection::FrontendApps => "Site apps",
            Collection::ImportApps => "Import apps",
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self.0 {
            Collection::Destinations => "Apps that get a team's events as they come in, and pass them on.",
            Collection::FrontendApps => "Apps that add something to the pages of a team's sites.",
            Collection::ImportApps => "Apps that bring events in from elsewhere.",
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
        let tab = |shelf: Self| Tab {
            path: shelf.path(),
            title: shelf.title(),
            is_here: shelf == self,
        };
        Self::ALL.into_iter().map(tab).collect()
    }
}

impl FromStr for Shelf {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|shelf| shelf.word() == text).ok_or(())
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
    pub(super) shelf: Shelf,
    pub(super) app: AppId,
}

impl AtApp {
    pub(super) const fn collection(self) -> Collection {
        self.shelf.0
    }

    pub(super) fn path(self) -> String {
        format!("{}{}/", self.shelf.path(), self.app)
    }

    pub(super) fn api(self) -> String {
        format!("{}{}/", self.shelf.api(), self.app)
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

impl<S: Send + Sync> FromRequestParts<S> for Shelf {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        named(parts, state, "collection").await
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AtApp {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        Ok(Self {
            shelf: named(parts, state, "collection").await?,
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
