//! What a test has found, step by step.

use askama::Template;
use askama::filters::HtmlSafe;
use exports::{Step, Verdict};

use crate::show;

#[derive(Template)]
#[template(path = "organization/exports/connection_test.html")]
pub(super) struct ConnectionTest {
    summary: &'static str,
    is_ok: bool,
    steps: Vec<Tried>,
    /// Why nothing was tried.
    problems: Vec<String>,
}

/// Its template escapes what it holds.
impl HtmlSafe for ConnectionTest {}

struct Tried {
    word: &'static str,
    class: &'static str,
    description: String,
    message: String,
}

impl From<&Step> for Tried {
    fn from(step: &Step) -> Self {
        let (word, class) = match step.verdict {
            Verdict::Passed => ("Passed", "tag-good"),
            Verdict::Failed => ("Failed", "tag-danger"),
            Verdict::Skipped => ("Skipped", ""),
        };
        let message = match step.message.as_str() {
            "" => String::new(),
            message => show::sentence(message),
        };
        Self {
            word,
            class,
            description: show::sentence(&step.description),
            message,
        }
    }
}

impl ConnectionTest {
    pub(super) fn new(steps: &[Step]) -> Self {
        let is_ok = steps.iter().all(|step| step.verdict == Verdict::Passed);
        let summary = match steps {
            [] => "Nothing to test: this destination always works.",
            _ if is_ok => "Connection test passed.",
            _ => "Connection test failed.",
        };
        Self {
            summary,
            is_ok,
            steps: steps.iter().map(Tried::from).collect(),
            problems: Vec::new(),
        }
    }

    /// Something has to be said differently before anything can be tried.
    pub(super) fn refused(problems: Vec<String>) -> Self {
        Self {
            summary: "Fix these errors to run the test.",
            is_ok: false,
            steps: Vec::new(),
            problems,
        }
    }
}
