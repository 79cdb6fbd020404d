//! A host, a mirror or a registry on this machine, and those who ask it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use apps::Sources;
use apps::source::{Hosts, Origin};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use outbound::{Dialer, Http, Policy, Roots};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use url::Url;

type Answers = Arc<Mutex<HashMap<String, (u16, HeaderMap, Vec<u8>)>>>;

/// Answers what it was told to, and 404 to everything else. It writes down what it is asked.
pub(crate) struct RemoteHost {
    pub(crate) address: SocketAddr,
    answers: Answers,
    asked: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    gate: Arc<RwLock<()>>,
}

impl RemoteHost {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let remote = Self {
            address,
            answers: Answers::default(),
            asked: Arc::default(),
            gate: Arc::default(),
        };
        let (answers, asked, gate) = (
            Arc::clone(&remote.answers),
            Arc::clone(&remote.asked),
            Arc::clone(&remote.gate),
        );
        let answer = async move |request: Request<Body>| {
            let path = request.uri().path_and_query().unwrap().to_string();
            asked.lock().unwrap().push((path.clone(), request.headers().clone()));
            let _open = gate.read().await;
            let known = answers.lock().unwrap().get(&path).cloned();
            known.map_or_else(not_found, |(status, headers, body)| {
                (StatusCode::from_u16(status).unwrap(), headers, body).into_response()
            })
        };
        let router = Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, router).await });
        remote
    }

    /// Nobody is answered while this is held.
    pub(crate) async fn close(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.gate).write_owned().await
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("http://{}", self.address)).unwrap()
    }

    pub(crate) fn gives(&self, path: &str, body: impl Into<Vec<u8>>) -> &Self {
        self.answers_with(path, 200, HeaderMap::new(), body)
    }

    pub(crate) fn lists(&self, path: &str, json: &Value) -> &Self {
        self.gives(path, json.to_string())
    }

    pub(crate) fn redirects(&self, path: &str, to: &str) -> &Self {
        let headers = HeaderMap::from_iter([(header::LOCATION, to.parse().unwrap())]);
        self.answers_with(path, 302, headers, "")
    }

    pub(crate) fn answers_with(&self, path: &str, status: u16, headers: HeaderMap, body: impl Into<Vec<u8>>) -> &Self {
        let answer = (status, headers, body.into());
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
        self
    }

    /// The paths that were asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// A header of the last request.
    pub(crate) fn last_header(&self, name: &str) -> Option<String> {
        let asked = self.asked.lock().unwrap();
        let value = asked.last()?.1.get(name)?;
        Some(value.to_str().unwrap().to_owned())
    }

    /// Apps by way of this mirror. The client for what users choose reaches nothing on this machine.
    pub(crate) fn mirrored(&self) -> Sources {
        Sources {
            mirror: Some(self.url()),
            ..Sources::new(client(Policy::default()), client(Policy::for_the_operator()))
        }
    }

    /// Apps from the hosts themselves, which are all here. The operator's client is not to be used.
    pub(crate) fn direct(&self) -> Sources {
        let policy = Policy::new(vec!["127.0.0.1/32".parse().unwrap()]);
        Sources {
            hosts: Hosts {
                github: self.url(),
                github_api: self.url(),
                gitlab: self.url(),
            },
            ..Sources::new(client(policy), client(Policy::default()))
        }
    }
}

fn not_found() -> Response<Body> {
    StatusCode::NOT_FOUND.into_response()
}

pub(crate) fn client(policy: Policy) -> Http {
    Http::new(Dialer::new(policy), &Roots::public()).unwrap()
}

pub(crate) fn origin(url: &str) -> Origin {
    Origin::parse(url).unwrap().0
}
