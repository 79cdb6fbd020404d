//! What goes over the pipe between the two processes, a line each.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::json::{escaped, few_values};
use crate::{
    Capabilities, Code, Failure, Fault, FetchRequest, FetchResponse, Files, HostCall, Json, Layers, Level, Reading,
};

/// What an app is told about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The app's name, under which it captures events unless it says otherwise.
    pub name: String,
    pub team_id: i64,
    pub config_id: i64,
    /// The values of its configuration, defaults filled in.
    pub config: Map<String, Value>,
    pub attachments: BTreeMap<String, Attachment>,
}

/// A file that belongs to a configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    pub content_type: String,
    pub file_name: String,
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub contents: Vec<u8>,
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    BASE64.decode(text).map_err(serde::de::Error::custom)
}

/// What a child is started for: its second line. The first are its limits. Whoever only passes code on has it as text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task<C = Code> {
    Read { files: Files },
    Open { code: C, meta: Meta },
}

/// What an open app is to do. `count` lines follow, each an array of arguments.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Call {
        kind: Kind,
        name: String,
        count: usize,
        /// Whether the first call that fails, asks the host for something or holds something back is the last.
        until_request: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Method,
    Job,
}

/// The host's answer. The child finds the id at the beginning of the line, and passes the line on as it is.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    #[serde(rename = "answer")]
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Answer {
    pub(crate) const BEGINNING: &str = "{\"answer\":";

    pub(crate) fn new(id: u64, answer: Result<Json, String>) -> Self {
        let (ok, error) = match answer {
            Ok(value) => (Some(value), None),
            Err(sentence) => (None, Some(sentence)),
        };
        Self { id, ok, error }
    }

    /// The id that a line answers, if it is an answer.
    pub(crate) fn id_of(line: &str) -> Option<u64> {
        let rest = line.strip_prefix(Self::BEGINNING)?;
        let end = rest.find(|character: char| !character.is_ascii_digit())?;
        rest[..end].parse().ok()
    }
}

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// What the system keeps from it, before it sees anything of an app.
    Confined(Layers),
    /// The app was read.
    Read(Box<Reading>),
    Fault(Fault),
    /// The app is open.
    Ready(#[serde(deserialize_with = "few_values")] Capabilities),
    /// The app asks the host; see [`Call`].
    Asked {
        id: u64,
        call: Json,
    },
    Sleep {
        id: u64,
        ms: u64,
    },
    Log {
        level: Level,
        message: String,
    },
    /// The outcome of a call comes together with those after it.
    Held,
    /// The calls after this are not made.
    Stopped,
    Done(Json),
    Failed(Failure),
}

/// What an app asks the host for. It is written so that it can be read without anything in between.
#[derive(Debug)]
pub(crate) enum Call {
    Fetch(FetchRequest),
    Other(HostCall),
}

impl Call {
    const FETCH: &str = "{\"fetch\":";

    pub(crate) fn is_fetch(call: &Json) -> bool {
        call.text().starts_with(Self::FETCH)
    }

    pub(crate) fn read(call: &Json) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Fetch {
            fetch: SentRequest,
        }
        if !Self::is_fetch(call) {
            let other = serde_json::from_str(call.text());
            return other.map(Self::Other).map_err(|error| format!("invalid call: {error}"));
        }
        let sent: Fetch = serde_json::from_str(call.text()).map_err(|error| format!("invalid request: {error}"))?;
        let request = sent.fetch.try_into();
        request.map(Self::Fetch).map_err(|_| "invalid body".to_owned())
    }
}

/// A [`FetchRequest`] on its way; a body that is not text goes as base64.
#[derive(Debug, Deserialize)]
struct SentRequest {
    url: String,
    method: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    #[serde(default)]
    is_base64: bool,
}

impl TryFrom<SentRequest> for FetchRequest {
    type Error = base64::DecodeError;

    fn try_from(sent: SentRequest) -> Result<Self, Self::Error> {
        let decode = |text: String| {
            let is_text = !sent.is_base64;
            if is_text {
                Ok(text.into_bytes())
            } else {
                BASE64.decode(text)
            }
        };
        let body = sent.body.map(decode).transpose()?;
        Ok(Self {
            url: sent.url,
            method: sent.method,
            headers: sent.headers,
            body,
        })
    }
}

/// A response on its way back, as a line. A body that is no text, or that would become much longer as JSON, goes as
/// base64.
pub(crate) fn response_line(id: u64, response: FetchResponse) -> String {
    #[derive(Serialize)]
    struct Sent<'a> {
        answer: u64,
        ok: SentResponse<'a>,
    }
    #[derive(Serialize)]
    struct SentResponse<'a> {
        status: u16,
        headers: &'a [(String, String)],
        body: &'a str,
        is_base64: bool,
    }
    let is_short = escaped(&response.body) <= 2 * response.body.len();
    let (body, is_base64) = match String::from_utf8(response.body) {
        Ok(text) if is_short => (text, false),
        Ok(text) => (BASE64.encode(text), true),
        Err(binary) => (BASE64.encode(binary.as_bytes()), true),
    };
    line(&Sent {
        answer: id,
        ok: SentResponse {
            status: response.status,
            headers: &response.headers,
            body: &body,
            is_base64,
        },
    })
}

/// A message as a line.
pub(crate) fn line(message: &impl Serialize) -> String {
    lines(message, &[(); 0])
}

/// The same with a line for each of the others behind it: they may be long, so they are written only once.
pub(crate) fn lines(message: &impl Serialize, others: &[impl Serialize]) -> String {
    let mut lines = Vec::with_capacity(128);
    push_line(&mut lines, message);
    for other in others {
        push_line(&mut lines, other);
    }
    String::from_utf8(lines).expect("JSON is UTF-8")
}

fn push_line(lines: &mut Vec<u8>, message: &impl Serialize) {
    serde_json::to_writer(&mut *lines, message).expect("messages have string keys and finite numbers");
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_begins_with_its_id() {
        let text = line(&Answer::new(42, Ok(Json::null())));
        assert_eq!(text, "{\"answer\":42,\"ok\":null}\n");
        assert_eq!(Answer::id_of(&text), Some(42));
        assert_eq!(Answer::id_of("[1]"), None);
    }

    /// An app can say other things when it runs than when it was read.
    #[test]
    fn an_app_that_is_open_offers_no_more_than_one_that_is_read() {
        let ready = |jobs: usize| {
            let text = format!("{{\"ready\":{{\"jobs\":[\"a\"{}]}}}}", ",\"a\"".repeat(jobs - 1));
            serde_json::from_str::<Report>(&text)
        };
        assert!(matches!(ready(3), Ok(Report::Ready(found)) if found.jobs.len() == 3));
        assert!(ready(20_000).is_err());
    }

    #[test]
    fn bodies_that_are_no_text_survive() {
        let response = FetchResponse {
            status: 200,
            headers: vec![],
            body: vec![0, 255],
        };
        let sent = response_line(42, response);
        assert!(sent.contains("\"body\":\"AP8=\""));
        assert_eq!(Answer::id_of(&sent), Some(42));
    }

    #[test]
    fn bodies_do_not_grow_much_on_their_way() {
        for body in ["\u{1}", "\"", "\n\"\\", "ä", "{\"a\":1}"] {
            let body = body.repeat(10_000).into_bytes();
            let length = body.len();
            assert_eq!(
                escaped(&body) + 2,
                line(&std::str::from_utf8(&body).expect("text")).len() - 1
            );
            let response = FetchResponse {
                status: 200,
                headers: vec![],
                body,
            };
            assert!(response_line(1, response).len() < 2 * length + 100);
        }
    }
}
