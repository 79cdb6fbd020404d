//! What the tests of the warehouses share.

use std::collections::BTreeMap;

use exports::{Deliver, ExportsDeps, Step, Verdict};
use outbound::{Dialer, Http, Policy, Roots};
use serde_json::Value;
use service::batch_exports::destination::{Destination, Kind};

/// The way out to this machine alone.
pub(crate) fn deps(roots: &Roots) -> ExportsDeps {
    let dialer = Dialer::new(Policy::new(vec!["127.0.0.0/8".parse().unwrap()]));
    ExportsDeps {
        http: Http::new(dialer.clone(), roots).unwrap(),
        dialer,
        roots: roots.clone(),
        export_root: None,
    }
}

pub(crate) fn open(kind: Kind, config: &Value, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, exports::Error> {
    let destination: Destination =
        serde_json::from_value(serde_json::json!({ "type": kind.name(), "config": config })).unwrap();
    exports::destinations::open(&destination, deps)
}

/// The first column of rows.
pub(crate) fn first(rows: Vec<Vec<Option<String>>>) -> Vec<String> {
    rows.into_iter().map(|row| row[0].clone().unwrap()).collect()
}

/// Two columns of rows: a name and a number.
pub(crate) fn numbers(rows: Vec<Vec<Option<String>>>) -> BTreeMap<String, i64> {
    let pair = |row: Vec<Option<String>>| (row[0].clone().unwrap(), row[1].clone().unwrap().parse().unwrap());
    rows.into_iter().map(pair).collect()
}

pub(crate) fn all_passed(steps: &[Step]) {
    assert!(
        steps.len() > 2 && steps.iter().all(|step| step.verdict == Verdict::Passed),
        "{steps:#?}"
    );
}

/// The step that failed; all before it passed, all after it were skipped.
pub(crate) fn failed(steps: &[Step]) -> &Step {
    let at = steps.iter().position(|step| step.verdict == Verdict::Failed).unwrap();
    assert!(
        steps[..at].iter().all(|step| step.verdict == Verdict::Passed),
        "{steps:#?}"
    );
    assert!(
        steps[at + 1..].iter().all(|step| step.verdict == Verdict::Skipped),
        "{steps:#?}"
    );
    &steps[at]
}

/// The sentence of an error, which says nothing that it must not.
pub(crate) fn refusal<T>(result: Result<T, exports::Error>) -> exports::Error {
    let error = result.err().expect("an error");
    for secret in [testkit::external::warehouses::PASSWORD, "127.0.0.1", "PRIVATE KEY"] {
        assert!(!error.sentence.contains(secret), "{}", error.sentence);
    }
    error
}
