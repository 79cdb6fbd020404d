//! Apps that cannot be read: the refusal says where and why.

use crate::kit::{files, limits, read, refusal, sandbox_with};

#[tokio::test]
async fn a_mistake_in_the_syntax_is_shown_where_it_stands() {
    let fault = read([("index.ts", "export const a = 1\n\n  export const = 2\n")])
        .await
        .unwrap_err();
    assert_eq!(
        (fault.file.as_deref(), fault.line, fault.column),
        (Some("index.ts"), Some(3), Some(16))
    );
    let fault = read([
        ("index.js", "import './lib/a'"),
        ("lib/a.js", "const x = 1\nconst x = 2"),
    ])
    .await
    .unwrap_err();
    assert_eq!((fault.file.as_deref(), fault.line), (Some("lib/a.js"), Some(2)));
}

#[tokio::test]
async fn an_unknown_package_is_refused_where_it_is_imported() {
    let expected =
        "index.ts:2:22: Cannot import 'left-pad': this package is not available to apps; available packages: ";
    let said = refusal([(
        "index.ts",
        "// first\nimport { pad } from  'left-pad'\nexport const onEvent = () => pad()",
    )])
    .await;
    assert!(said.starts_with(expected), "{said}");
    let said = refusal([(
        "index.js",
        "function onEvent() {\n  return require('fs').readFileSync('/etc/passwd')\n}",
    )])
    .await;
    assert!(said.starts_with("index.js:2:18: Cannot import 'fs'"), "{said}");
}

#[tokio::test]
async fn a_missing_file_is_refused_where_it_is_imported() {
    let said = refusal([("index.ts", "import { a } from './a'\nexport const onEvent = () => a")]).await;
    assert_eq!(said, "index.ts:1:19: Cannot import './a': file not found");
    let said = refusal([("index.js", "require('../../etc/passwd')")]).await;
    assert_eq!(said, "index.js:1:9: Cannot import '../../etc/passwd': file not found");
}

#[tokio::test]
async fn what_is_thrown_while_loading_is_shown_where_it_stands_in_the_source() {
    let text = "import { RetryError } from '@posthog/plugin-scaffold'\n\ninterface Long {\n  a: string\n}\n\nfunction check(a: Long) {\n  throw new TypeError('not like this')\n}\ncheck({ a: '' })";
    let fault = read([("index.ts", "import './lib/check'"), ("lib/check.ts", text)])
        .await
        .unwrap_err();
    assert_eq!((fault.file.as_deref(), fault.line), (Some("lib/check.ts"), Some(8)));
    assert_eq!(fault.message, "TypeError: not like this");
}

#[tokio::test]
async fn what_only_the_engine_refuses_is_shown_where_it_stands() {
    let fault = read([("index.ts", "export const a = 1\nexport const b = await a")])
        .await
        .unwrap_err();
    assert_eq!(
        (fault.file.as_deref(), fault.line),
        (Some("index.ts"), Some(2)),
        "{fault}"
    );
}

#[tokio::test]
async fn a_wrong_manifest_is_refused() {
    assert_eq!(
        refusal([("plugin.json", "{ \"main\": \"dist/index.js\" }")]).await,
        "plugin.json: \"main\" names 'dist/index.js', which does not exist"
    );
    assert!(
        refusal([("plugin.json", "{\n \"name\": \n}")])
            .await
            .starts_with("plugin.json:3:1: this is not valid JSON")
    );
    assert_eq!(
        refusal([("plugin.json", "{\n \"publicJobs\": [] \n}")]).await,
        "plugin.json:2:2: \"publicJobs\" must be an object of objects"
    );
}

/// As values they would take many times the memory, in the server as well.
#[tokio::test]
async fn an_app_that_says_very_much_of_itself_is_refused() {
    let maps = vec!["{\"\":0}"; 100_000].join(",");
    let manifest = format!("{{\"publicJobs\":{{\"a\":{{\"b\":[{maps}]}}}}}}");
    assert_eq!(
        refusal([("plugin.json", &manifest)]).await,
        "plugin.json: this can have at most 5000 values"
    );
    for what in ["metrics", "jobs"] {
        let code = format!("exports.{what} = {{}}\nfor (let i = 0; i < 6000; i++) exports.{what}['m' + i] = VALUE");
        let value = if what == "metrics" { "'sum'" } else { "() => {}" };
        assert_eq!(
            refusal([("index.js", &code.replace("VALUE", value))]).await,
            "index.js: an app can have at most 5000 metrics, methods and jobs"
        );
    }
}

/// Not every database can store them.
#[tokio::test]
async fn names_with_null_characters_are_refused() {
    for code in [
        "exports.jobs = { 'a\\0b': () => {} }",
        "exports.metrics = { 'a\\0b': 'sum' }",
    ] {
        let said = refusal([("index.js", code)]).await;
        assert_eq!(
            said,
            "index.js: names of metrics, methods and jobs cannot contain null characters"
        );
    }
    for manifest in [
        "{ \"name\": \"a\\u0000b\" }",
        "{ \"publicJobs\": { \"a\\u0000b\": {} } }",
    ] {
        let said = refusal([("plugin.json", manifest)]).await;
        assert_eq!(said, "plugin.json: strings cannot contain null characters");
    }
}

#[tokio::test]
async fn an_unknown_kind_of_metric_is_refused() {
    let said = refusal([("index.js", "exports.metrics = { sent: 'average' }")]).await;
    assert_eq!(said, "index.js: the metric 'sent' must be 'sum', 'max' or 'min'");
}

#[tokio::test]
async fn absurd_apps_are_refused_unread() {
    let many = (0..6000)
        .map(|number| (format!("{number}.js"), String::new()))
        .collect();
    assert_eq!(
        sandbox_with(limits()).read(&many).await.unwrap_err().message,
        "an app has at most 5000 files"
    );
    let large = files([("index.js", &"x".repeat(17 << 20))]);
    assert_eq!(
        sandbox_with(limits()).read(&large).await.unwrap_err().message,
        "an app has at most 16777216 bytes"
    );
    assert_eq!(refusal([("a\nb", "")]).await, "\"a\\nb\" is not a valid file name");
}
