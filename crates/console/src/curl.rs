//! "API request": the API calls that do the same as a page, so that the console teaches the API.

use askama::Template;
use askama::filters::HtmlSafe;
use serde_json::{Value, json};
use service::access::Permission;
use service::{Scope, Service};

/// The environment variable that the commands read the key from: it is set once, and is in no command.
const VARIABLE: &str = "HEDGEROW_API_KEY";
/// The file in which curl keeps a session.
const SESSION: &str = "hedgerow-session";

/// One call of the API.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    title: &'static str,
    credential: Credential,
    method: &'static str,
    path: String,
    body: Option<Value>,
}

/// What a call shows, so that it may.
#[derive(Debug, Clone, Copy)]
enum Credential {
    Key(Scope),
    Session,
    /// Nothing yet: it brings the session.
    SigningIn,
}

impl Credential {
    /// How curl is told.
    fn option(self) -> String {
        match self {
            // The shell puts the key in, so these quotes are double.
            Self::Key(_) => format!("-H \"Authorization: Bearer ${VARIABLE}\""),
            Self::Session => format!("-b {SESSION}"),
            Self::SigningIn => format!("-c {SESSION}"),
        }
    }
}

impl Call {
    /// A call that needs `P`, as the use case behind the page does.
    fn new<P: Permission>(method: &'static str, title: &'static str, path: impl Into<String>) -> Self {
        Self {
            title,
            credential: Credential::Key(P::SCOPE),
            method,
            path: path.into(),
            body: None,
        }
    }

    /// A call that takes somebody who has signed in: no key may do it.
    pub(crate) fn in_session(method: &'static str, title: &'static str, path: impl Into<String>) -> Self {
        Self {
            title,
            credential: Credential::Session,
            method,
            path: path.into(),
            body: None,
        }
    }

    fn signing_in(email: &str) -> Self {
        let call = Self {
            credential: Credential::SigningIn,
            ..Self::in_session("POST", "Sign in first", "/api/login/")
        };
        call.sending(json!({ "email": email, "password": "YOUR PASSWORD" }))
    }

    pub(crate) fn get<P: Permission>(title: &'static str, path: impl Into<String>) -> Self {
        Self::new::<P>("GET", title, path)
    }

    pub(crate) fn post<P: Permission>(title: &'static str, path: impl Into<String>) -> Self {
        Self::new::<P>("POST", title, path)
    }

    pub(crate) fn patch<P: Permission>(title: &'static str, path: impl Into<String>) -> Self {
        Self::new::<P>("PATCH", title, path)
    }

    pub(crate) fn delete<P: Permission>(title: &'static str, path: impl Into<String>) -> Self {
        Self::new::<P>("DELETE", title, path)
    }

    pub(crate) fn sending(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// What to type into a shell.
    fn command(&self, site_url: &str) -> String {
        let method = match self.method {
            "GET" => String::new(),
            other => format!("-X {other} "),
        };
        let url = quoted(&format!("{}{}", site_url.trim_end_matches('/'), self.path));
        let mut lines = vec![format!("curl {method}{url}"), self.credential.option()];
        if let Some(body) = &self.body {
            lines.push("-H 'Content-Type: application/json'".to_owned());
            lines.push(format!("-d {}", quoted(&body.to_string())));
        }
        lines.join(" \\\n  ")
    }
}

/// The same for a shell that does not have the key yet. From then on it does, for the commands of all other pages, too.
pub(crate) fn first_command(service: &Service, key: &str, call: &Call) -> String {
    let command = call.command(&service.instance().site_url);
    format!("export {VARIABLE}={}\n{command}", quoted(key))
}

/// Quoted so that no shell finds anything in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The panel at the end of a page.
#[derive(Debug, Clone, Template)]
#[template(path = "curl.html")]
pub(crate) struct AsCurl {
    is_for_keys: bool,
    calls: Vec<Shown>,
}

#[derive(Debug, Clone)]
struct Shown {
    title: &'static str,
    scope: Option<String>,
    command: String,
}

/// Its template escapes what it holds.
impl HtmlSafe for AsCurl {}

impl AsCurl {
    pub(crate) fn new(service: &Service, calls: impl IntoIterator<Item = Call>) -> Self {
        let site_url = &service.instance().site_url;
        let shown = calls.into_iter().map(|call| Shown {
            title: call.title,
            scope: match call.credential {
                Credential::Key(scope) => Some(scope.to_string()),
                Credential::Session | Credential::SigningIn => None,
            },
            command: call.command(site_url),
        });
        Self {
            is_for_keys: true,
            calls: shown.collect(),
        }
    }

    /// For what no key may do: the first call signs in.
    pub(crate) fn in_session(service: &Service, email: &str, calls: impl IntoIterator<Item = Call>) -> Self {
        let calls = std::iter::once(Call::signing_in(email)).chain(calls);
        Self {
            is_for_keys: false,
            ..Self::new(service, calls)
        }
    }
}

#[cfg(test)]
mod tests {
    use service::access::{ChangeTeams, ReadTeams};

    use super::*;

    #[test]
    fn reading_is_one_plain_call() {
        let call = Call::get::<ReadTeams>("List", "/api/organizations/1/teams/?limit=5&offset=5");
        let expected = "curl 'https://x.example/api/organizations/1/teams/?limit=5&offset=5' \\\n  \
                        -H \"Authorization: Bearer $HEDGEROW_API_KEY\"";
        assert_eq!(call.command("https://x.example/"), expected);
        assert!(matches!(call.credential, Credential::Key(scope) if scope.to_string() == "organization:read"));
    }

    #[test]
    fn a_session_is_kept_in_a_file_and_sent_from_there() {
        let sign_in = Call::signing_in("ann@example.com").command("https://x.example");
        assert!(sign_in.starts_with("curl -X POST 'https://x.example/api/login/' \\\n  -c hedgerow-session \\\n"));
        let list = Call::in_session("GET", "List", "/api/personal_api_keys/").command("https://x.example");
        assert_eq!(
            list,
            "curl 'https://x.example/api/personal_api_keys/' \\\n  -b hedgerow-session"
        );
    }

    #[test]
    fn no_body_gets_out_of_its_quotes() {
        let call = Call::post::<ChangeTeams>("Create", "/api/t/").sending(json!({ "name": "Ann's $(rm) `x`" }));
        let command = call.command("https://x.example");
        assert!(command.starts_with("curl -X POST 'https://x.example/api/t/' \\\n"));
        assert!(command.ends_with(r#"-d '{"name":"Ann'\''s $(rm) `x`"}'"#), "{command}");
        assert!(command.contains("-H 'Content-Type: application/json'"));
    }
}
