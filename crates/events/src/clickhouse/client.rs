//! ClickHouse's HTTP interface: one statement, one request.

use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, StatusCode};
use outbound::{Chunks, Http};
use url::Url;

use crate::{Error, Result};

/// What a statement may take, unless [`Statement::within`] says otherwise.
const TIME: Duration = Duration::from_mins(1);
/// How much of an error's text is kept, and how large a small result may be.
const ERROR_LIMIT: usize = 64 * 1024;
const TEXT_LIMIT: usize = 64 * 1024 * 1024;
const MAX_MESSAGE: usize = 1000;
/// Parameters that would make a longer URL travel as a form.
const MAX_URL: usize = 16 * 1024;
const BOUNDARY: &str = "hedgerow-7f1c2b9a0d";

/// A connection to one database, as one user. Nothing it shows holds the password.
#[derive(Clone)]
pub struct Client {
    http: Http,
    url: Url,
    user: HeaderValue,
    password: HeaderValue,
    database: String,
}

/// One statement with what is bound to it. Values never become part of the SQL.
#[derive(Debug, Clone)]
pub struct Statement {
    sql: String,
    parameters: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    data: Option<Bytes>,
    time: Duration,
    limit: usize,
}

impl Statement {
    pub fn new(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            parameters: Vec::new(),
            settings: Vec::new(),
            data: None,
            time: TIME,
            limit: TEXT_LIMIT,
        }
    }

    /// Binds a value to `{name:Type}`.
    #[must_use]
    pub fn bind(mut self, name: impl Into<String>, value: impl Display) -> Self {
        self.parameters.push((name.into(), escaped(&value.to_string())));
        self
    }

    /// Binds what [`pair`] wrote to `{name:Array(Tuple(Int64, String))}`.
    #[must_use]
    pub fn bind_pairs(mut self, name: &str, pairs: &[String]) -> Self {
        self.parameters
            .push((name.to_owned(), format!("[{}]", pairs.join(","))));
        self
    }

    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Display) -> Self {
        let name = name.into();
        self.settings.retain(|(before, _)| *before != name);
        self.settings.push((name, value.to_string()));
        self
    }

    /// The data of an insert, in the format that the SQL ends with.
    #[must_use]
    pub fn with(mut self, data: impl Into<Bytes>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// Bounds the whole exchange, here and at the server.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Bounds a small result, in bytes.
    #[must_use]
    pub fn limited_to(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

impl Client {
    /// `url` is of the HTTP interface and holds no credentials.
    pub fn new(http: Http, url: Url, user: &str, password: &str, database: &str) -> Result<Self> {
        let header = |text: &str| {
            let mut value = HeaderValue::from_bytes(text.as_bytes())
                .map_err(|_| Error::Address("the user and password must not contain control characters"))?;
            value.set_sensitive(true);
            Ok::<_, Error>(value)
        };
        Ok(Self {
            http,
            url,
            user: header(user)?,
            password: header(password)?,
            database: database.to_owned(),
        })
    }

    pub fn database(&self) -> &str {
        &self.database
    }

    /// Whether a server answers, whoever asks.
    pub async fn ping(&self) -> Result<()> {
        let url = self
            .url
            .join("ping")
            .map_err(|_| Error::Address("is not a valid URL"))?;
        let answer = self.http.get(url.as_str(), "*/*", ERROR_LIMIT).await?;
        match answer.status() {
            StatusCode::OK => Ok(()),
            status => Err(Error::Refused {
                code: 0,
                message: format!("/ping returned status {status}"),
            }),
        }
    }

    /// Runs a statement to its end.
    pub async fn run(&self, statement: Statement) -> Result<()> {
        self.text(statement).await.map(drop)
    }

    /// Runs a statement and returns its small result, tab-separated unless the SQL names a format.
    pub async fn text(&self, statement: Statement) -> Result<String> {
        let whole = self.whole(statement).await?;
        Ok(String::from_utf8_lossy(&whole).into_owned())
    }

    /// The server answers only when all is done, so a status of 200 means what it says.
    async fn whole(&self, statement: Statement) -> Result<Vec<u8>> {
        let (time, limit) = (statement.time, statement.limit);
        let statement = statement
            .set("wait_end_of_query", 1)
            .set("max_execution_time", time.as_secs().max(1));
        let answer = async { Ok(self.open(statement).await?.collect(limit).await?) };
        tokio::time::timeout(time + Duration::from_secs(1), answer)
            .await
            .map_err(|_| Error::TooSlow)?
    }

    /// Begins a statement and hands out its result as it comes. An error of the server may still be in there.
    pub async fn open(&self, statement: Statement) -> Result<Chunks> {
        let http = self.http.clone().within(statement.time);
        let answer = http.open(self.request(statement)?).await?;
        let (head, body) = answer.into_parts();
        let code = head.headers.get("x-clickhouse-exception-code");
        if head.status.is_success() && code.is_none() {
            return Ok(body);
        }
        let code = code.and_then(|code| code.to_str().ok()?.parse().ok());
        let text = body.collect(ERROR_LIMIT).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        Err(refusal(&text, code).unwrap_or_else(|| Error::Refused {
            code: code.unwrap_or(0),
            // Somebody else than ClickHouse: a proxy, or no such thing at all.
            message: format!(
                "a response with status {} that is not from ClickHouse",
                head.status.as_u16()
            ),
        }))
    }

    fn request(&self, statement: Statement) -> Result<Request<Bytes>> {
        let Statement {
            sql,
            parameters,
            settings,
            data,
            ..
        } = statement;
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("database", &self.database)
            .extend_pairs(&settings);
        let size: usize = parameters
            .iter()
            .map(|(name, value)| name.len() + 3 * value.len() + 10)
            .sum();
        let mut request = Request::post("/")
            .header("X-ClickHouse-User", &self.user)
            .header("X-ClickHouse-Key", &self.password);
        let body = match data {
            Some(data) => {
                url.query_pairs_mut().append_pair("query", &sql);
                data
            }
            None if size > MAX_URL => {
                request = request.header(CONTENT_TYPE, format!("multipart/form-data; boundary={BOUNDARY}"));
                form(&sql, &parameters).into()
            }
            None => {
                let named = parameters.iter().map(|(name, value)| (format!("param_{name}"), value));
                url.query_pairs_mut().extend_pairs(named);
                sql.into()
            }
        };
        let malformed = |_| Error::Address("does not make a valid request");
        request.uri(url.as_str()).body(body).map_err(malformed)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.url.as_str())
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// The code of `throwIf`, which queries use for texts that would become too long, and for nothing else.
const THROWN: u32 = 395;

/// A name in backticks, whatever it holds.
pub fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

/// The error that a text of the server tells of, if it does: `Code: 60. DB::Exception: …`, or, from old ones, with a comma.
pub(crate) fn refusal(text: &str, code: Option<u32>) -> Option<Error> {
    let start = text.find("Code: ")?;
    let text = &text[start..];
    let digits: String = text["Code: ".len()..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    if !text.contains("DB::Exception") {
        return None;
    }
    let code = code.or(digits.parse().ok())?;
    if code == THROWN {
        return Some(Error::TooLarge);
    }
    let end = text.floor_char_boundary(text.len().min(MAX_MESSAGE));
    Some(Error::Refused {
        code,
        message: text[..end].trim_end().to_owned(),
    })
}

fn form(sql: &str, parameters: &[(String, String)]) -> String {
    let mut form = String::new();
    let mut field = |name: &str, value: &str| {
        let _ = write!(
            form,
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
    };
    field("query", sql);
    for (name, value) in parameters {
        field(&format!("param_{name}"), value);
    }
    let _ = write!(form, "--{BOUNDARY}--\r\n");
    form
}

/// Parameters are read like a field of a tab-separated line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '\\' => escaped.push_str("\\\\"),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\0' => escaped.push_str("\\0"),
            _ => escaped.push(sign),
        }
    }
    escaped
}

/// A number and a text, as a list of such pairs has them.
pub(super) fn pair(number: i64, text: &str) -> String {
    format!("({number},'{}')", in_quotes(text))
}

fn in_quotes(text: &str) -> String {
    escaped(text).replace('\'', "\\'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(identifier("a"), "`a`");
        assert_eq!(identifier(r"a`; DROP TABLE b; \"), r"`a\`; DROP TABLE b; \\`");
    }

    #[test]
    fn an_exception_is_found_behind_other_bytes() {
        let text = "\u{fffd}\u{fffd}Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)\n";
        let Some(Error::Refused { code, message }) = refusal(text, None) else {
            panic!("not seen")
        };
        assert_eq!(code, 241);
        assert!(message.starts_with("Code: 241.") && message.ends_with("EXCEEDED)"));
        assert!(refusal("Code: 5 of conduct", None).is_none());
    }

    #[test]
    fn values_do_not_end_their_parameter() {
        assert_eq!(escaped("a\tb\\N\n"), "a\\tb\\\\N\\n");
        assert_eq!(in_quotes(r"it's \"), r"it\'s \\");
    }
}
