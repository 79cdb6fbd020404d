//! What apps throw, and how it is shown.

use sandbox::{Failure, Meta};
use serde_json::json;

use crate::kit::{message, open};

#[tokio::test]
async fn an_error_shows_where_it_was_thrown_in_the_source() {
    let text = "interface Gone {\n  a: string\n}\n\nexport const onEvent = async (event: Gone) => {\n  await null\n  inner(event)\n}\n\nfunction inner(event: Gone) {\n  throw new RangeError(`no ${event.a}`)\n}\n";
    let (mut app, _) = open(text).await;
    let failure = app.call("onEvent", vec![json!({ "a": "x" })]).await.unwrap_err();
    let Failure::Thrown {
        name,
        message,
        stack,
        is_retry,
    } = failure
    else {
        panic!("{failure:?}")
    };
    assert_eq!(
        (name.as_str(), message.as_str(), is_retry),
        ("RangeError", "no x", false)
    );
    assert!(stack.starts_with("at inner index.ts:11:"), "{stack}");
    assert!(stack.contains("index.ts:7:"), "{stack}");
    assert!(!stack.contains("sandbox"), "{stack}");
}

#[tokio::test]
async fn a_retry_is_told_from_other_errors_wherever_it_comes_from() {
    let text = "
        import { RetryError } from '@posthog/plugin-scaffold'
        class Mine extends RetryError {}
        export const onEvent = () => { throw new Mine('later') }
        export const onAction = () => { throw new globalThis.RetryError('later') }
        export const onSnapshot = () => { throw new Error('never') }";
    let (mut app, _) = open(text).await;
    assert!(app.call("onEvent", vec![]).await.unwrap_err().is_retry());
    assert!(app.call("onAction", vec![]).await.unwrap_err().is_retry());
    assert!(!app.call("onSnapshot", vec![]).await.unwrap_err().is_retry());
    assert!(app.is_open());
}

#[tokio::test]
async fn anything_can_be_thrown() {
    let text = "
        const things = [null, undefined, 5, 'text', { a: 1 }, { get message() { throw 1 } }, Symbol('s'), new Proxy({}, { get() { throw 2 } })]
        export const onEvent = ({ n }) => { throw things[n] }";
    let (mut app, _) = open(text).await;
    let outcomes = app
        .call_each("onEvent", (0..8).map(|n| json!({ "n": n })).collect())
        .await;
    let shown: Vec<String> = outcomes[..5]
        .iter()
        .map(|outcome| message(outcome.as_ref().unwrap_err()).to_owned())
        .collect();
    assert_eq!(
        shown,
        [
            "null was thrown, by the app or for lack of memory",
            "undefined",
            "5",
            "text",
            "{\"a\":1}"
        ]
    );
    assert!(outcomes.iter().all(Result::is_err));
}

#[tokio::test]
async fn waiting_for_nothing_is_noticed_at_once() {
    let (mut app, _) = open("export const onEvent = () => new Promise(() => {})").await;
    assert_eq!(app.call("onEvent", vec![]).await, Err(Failure::Stuck));
    assert!(app.is_open());
}

#[tokio::test]
async fn an_absent_package_says_so_when_it_is_used() {
    let text = "import { S3 } from 'aws-sdk'\nexport const setupPlugin = () => { new S3({}) }\nexport const onEvent = () => S3.copy.deep()";
    let (mut app, _) = open(text).await;
    let expected = "The package 'aws-sdk' is not available to apps";
    assert_eq!(message(&app.setup().await.unwrap_err()), expected);
    assert_eq!(message(&app.call("onEvent", vec![]).await.unwrap_err()), expected);
}

#[tokio::test]
async fn an_app_that_cannot_be_loaded_is_not_open() {
    let sandbox = crate::kit::sandbox();
    let reading = sandbox
        .read(&crate::kit::files([(
            "index.js",
            "if (posthog.capture.x) {} ; exports.onEvent = () => {}",
        )]))
        .await
        .unwrap();
    let mut code = reading.code;
    code.modules.get_mut("index.js").unwrap().code = "throw new Error('changed')".to_owned();
    let host = std::sync::Arc::new(crate::kit::Remembering::default());
    let failure = sandbox.open(&code, Meta::default(), host).await.err().unwrap();
    assert_eq!(message(&failure), "changed");
}
