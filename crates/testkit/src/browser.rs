//! Somebody's browser: it keeps its cookies and sends them back.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use api::Peer;
use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;
use serde_json::{Value, json};
use service::access::{self, Actor};
use service::sessions::OwnProof;
use service::sign_in::SignIn;
use service::users::User;
use service::{Email, Time};
use totp_rs::{Builder as Codes, Secret};

use crate::kit::{Kit, Person, Reply, with_json};

/// Everybody's, where it does not matter.
pub const PASSWORD: &str = "correct horse battery";

pub struct Browser<'a> {
    kit: &'a Kit,
    /// Where it is: each browser somewhere else.
    address: Ipv4Addr,
    cookies: Mutex<BTreeMap<String, String>>,
}

impl Kit {
    /// A browser that was never here.
    pub fn browser(&self) -> Browser<'_> {
        static ADDRESSES: AtomicU32 = AtomicU32::new(0x0a00_0001);
        Browser {
            kit: self,
            address: Ipv4Addr::from_bits(ADDRESSES.fetch_add(1, Ordering::Relaxed)),
            cookies: Mutex::default(),
        }
    }

    /// The browser of somebody who has just signed in with [`PASSWORD`].
    pub async fn signed_in(&self, person: &Person) -> Browser<'_> {
        self.give_password(person).await;
        let browser = self.browser();
        let reply = browser.log_in(&person.user.email, PASSWORD).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        browser
    }

    /// What a browser shows for somebody who has just signed in to it with [`PASSWORD`].
    pub async fn own_proof(&self, user: &User) -> OwnProof {
        let email = Email::new(&user.email).expect("an address");
        let set = self.service.set_password(&Actor::system(), &email, PASSWORD).await;
        set.expect("a password is set");
        let entered = self
            .service
            .sign_in(&user.email, PASSWORD, access::Request::default())
            .await;
        let Ok(SignIn::Done { session, .. }) = entered else {
            panic!("the password alone does: {entered:?}")
        };
        let person = self.service.signed_in(&session, access::Request::default()).await;
        person
            .expect("the session was just opened")
            .own_proof()
            .expect("a password is one")
    }

    /// Ends all sessions of the person.
    pub async fn give_password(&self, person: &Person) {
        let email = Email::new(&person.user.email).expect("an address");
        let set = self.service.set_password(&Actor::system(), &email, PASSWORD).await;
        set.expect("a password is set");
    }
}

impl Browser<'_> {
    pub async fn log_in(&self, email: &str, password: &str) -> Reply {
        self.post("/api/login/", json!({ "email": email, "password": password }))
            .await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(self.request("GET", path).body(Body::empty()).expect("a request"))
            .await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send(self.request("DELETE", path).body(Body::empty()).expect("a request"))
            .await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(with_json(self.request("POST", path), &body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send(with_json(self.request("PATCH", path), &body)).await
    }

    /// A request with the cookies, from where the browser is.
    pub fn request(&self, method: &str, path: &str) -> Builder {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "hedgerow.test")
            .extension(Peer(self.address.into()));
        match self.cookies() {
            cookies if cookies.is_empty() => request,
            cookies => request.header("cookie", cookies),
        }
    }

    /// Sends a request and takes the cookies of the answer.
    pub async fn send(&self, request: Request<Body>) -> Reply {
        let reply = self.kit.send(request).await;
        for line in reply.headers.get_all("set-cookie") {
            let line = line.to_str().expect("a cookie is text");
            let (name, rest) = line.split_once('=').expect("a cookie has a name");
            let value = rest.split(';').next().unwrap_or_default().to_owned();
            let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
            if line.contains("Max-Age=0") {
                cookies.remove(name);
            } else {
                cookies.insert(name.to_owned(), value);
            }
        }
        reply
    }

    /// The cookies as the browser sends them.
    pub fn cookies(&self) -> String {
        let cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("; ")
    }

    /// Another browser with the same cookies, as a thief has it.
    #[must_use]
    pub fn copy(&self) -> Self {
        let cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self {
            cookies: Mutex::new(cookies),
            ..self.kit.browser()
        }
    }
}

/// What an authenticator with this secret shows at a time.
pub fn code(secret: &str, at: Time) -> String {
    let secret = Secret::try_from_base32(secret).expect("a secret in base32");
    let codes = Codes::new().with_secret(secret).build_noncompliant();
    let seconds = u64::try_from(at.timestamp()).expect("after 1970");
    codes.generate(seconds).to_string()
}
