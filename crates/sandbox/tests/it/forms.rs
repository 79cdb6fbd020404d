//! The forms in which apps are written, and what is found in them.

use serde_json::json;

use crate::kit::{methods, read};

#[tokio::test]
async fn exports_of_a_module_are_found() {
    let text = "
        export const setupPlugin = async ({ config }) => {}
        export async function onEvent(event, meta) {}
        export function composeWebhook(event) { return null }
        export let helper = 1";
    assert_eq!(
        methods("index.js", text).await,
        ["setupPlugin", "onEvent", "composeWebhook"]
    );
}

#[tokio::test]
async fn the_default_export_may_hold_them() {
    assert_eq!(
        methods("index.js", "export default { onEvent() {}, async teardownPlugin() {} }").await,
        ["teardownPlugin", "onEvent"]
    );
}

#[tokio::test]
async fn commonjs_is_read_in_both_its_forms() {
    assert_eq!(
        methods("index.js", "async function onEvent() {}\nmodule.exports = { onEvent }").await,
        ["onEvent"]
    );
    assert_eq!(
        methods("index.js", "exports.processEvent = (event) => event").await,
        ["processEvent"]
    );
}

#[tokio::test]
async fn functions_of_a_plain_script_are_found() {
    let text = "async function setupPlugin(meta) {}\nfunction processEvent(event, meta) { return event }\nvar onEvent = () => 1";
    assert_eq!(
        methods("index.js", text).await,
        ["setupPlugin", "onEvent", "processEvent"]
    );
}

#[tokio::test]
async fn functions_that_are_assigned_to_the_global_object_are_found() {
    assert_eq!(
        methods(
            "index.js",
            "onEvent = function () {}; globalThis.setupPlugin = () => {}"
        )
        .await,
        ["setupPlugin", "onEvent"]
    );
}

#[tokio::test]
async fn globals_count_only_if_nothing_is_exported() {
    assert_eq!(
        methods("index.js", "function onEvent() {}\nexports.processEvent = () => {}").await,
        ["processEvent"]
    );
}

#[tokio::test]
async fn typescript_is_read_with_all_that_it_adds() {
    let text = "
        import { Plugin, PluginEvent, RetryError } from '@posthog/plugin-scaffold'
        import type { Nothing } from 'not-there-at-all'
        enum Kind { One = 1, Two = One << 1, Three = 'three' as any }
        const enum Fixed { A = 'a' }
        namespace Space { export const inner = 1 }
        interface Shape { x: number }
        abstract class Base<T> { constructor(protected readonly value: T, private other?: string) {} abstract get(): T }
        class Sub extends Base<number> { field: string; get() { return this.value satisfies number } }
        type Input = Plugin<{ config: { a: string } }>
        declare const posthog: any
        export const metrics = { kind: 'SUM' } as const
        export const onEvent: Input['onEvent'] = async (event: PluginEvent, { config }): Promise<void> => {
            const kind: Kind = Kind.Two!
            if (new Sub(3).get() !== 3 || kind !== 2 || Fixed.A !== 'a' || Space.inner !== 1) throw new RetryError('x')
        }";
    let reading = read([("index.ts", text)]).await.unwrap();
    assert_eq!(reading.capabilities.methods, ["onEvent"]);
    assert_eq!(json!(reading.metrics), json!({ "kind": "sum" }));
}

#[tokio::test]
async fn jobs_tasks_and_metrics_are_found() {
    let text = "
        export const jobs = { send: async (payload, meta) => {}, again() {}, 'Clear storage': () => {}, none: null }
        export const metrics = { sent: 'sum', largest: 'max' }
        export async function runEveryMinute() {}
        export function runEveryDay() {}
        export function runEverySecond() {}";
    let reading = read([("index.ts", text)]).await.unwrap();
    assert_eq!(
        json!(reading.capabilities),
        json!({ "methods": [], "scheduled_tasks": ["runEveryMinute", "runEveryDay"], "jobs": ["Clear storage", "again", "send"] })
    );
    assert_eq!(json!(reading.metrics), json!({ "largest": "max", "sent": "sum" }));
}

#[tokio::test]
async fn an_app_that_exports_by_the_batch_takes_events_and_counts_them() {
    let reading = read([("index.ts", "export async function exportEvents(events, meta) {}")])
        .await
        .unwrap();
    assert_eq!(reading.capabilities.methods, ["onEvent", "exportEvents"]);
    assert_eq!(reading.metrics.len(), 5);
    assert_eq!(reading.metrics["events_delivered_successfully"], "sum");
}

#[tokio::test]
async fn an_app_that_processes_by_the_batch_processes_events() {
    assert_eq!(
        methods("index.js", "module.exports = { processEventBatch: (events) => events }").await,
        ["processEvent"]
    );
}

#[tokio::test]
async fn an_app_may_have_no_code() {
    let reading = read([(
        "plugin.json",
        r#"{ "name": "Empty", "config": [{ "key": "a", "type": "string" }] }"#,
    )])
    .await
    .unwrap();
    assert_eq!(reading.manifest.name.as_deref(), Some("Empty"));
    assert_eq!(json!(reading.capabilities), json!({}));
    assert_eq!(reading.config_schema, json!([{ "key": "a", "type": "string" }]));
    assert_eq!(reading.code.entry, None);
    let reading = read([]).await.unwrap();
    assert_eq!(json!(reading.capabilities), json!({}));
}

#[tokio::test]
async fn the_manifest_says_what_is_loaded_first() {
    let reading = read([
        ("plugin.json", r#"{ "main": "src/index.ts", "stateless": true, "publicJobs": { "Clear": {} }, "posthogVersion": ">= 1.25.0" }"#),
        ("src/index.ts", "export { onEvent } from './on-event'"),
        ("src/on-event/index.ts", "import { name } from '../../package.json'\nexport const onEvent = () => name"),
        ("package.json", r#"{ "name": "x", "__proto__": { "a": 1 } }"#),
        ("index.js", "this is not even JavaScript"),
    ])
    .await
    .unwrap();
    assert_eq!(reading.capabilities.methods, ["onEvent"]);
    assert!(reading.manifest.is_stateless);
    assert_eq!(json!(reading.public_jobs), json!({ "Clear": {} }));
    assert_eq!(
        reading.code.modules.keys().collect::<Vec<_>>(),
        ["package.json", "src/index.ts", "src/on-event/index.ts"]
    );
}

#[tokio::test]
async fn files_import_each_other_in_every_way() {
    let reading = read([
        (
            "index.ts",
            "import whole, { one as uno } from './lib/esm.js'
             import * as all from './lib/esm'
             import cjs, { two } from './lib/cjs'
             import data from './data.json'
             import type { T } from './types'
             import { circle } from './circle'
             export * from './more'
             export * as nested from './more'
             const required = require('./lib/cjs.js')
             if (uno() + two + all.one() + required.two + whole + data.list[1] + cjs.two !== '1212d72') throw new Error('wrong')
             export const base = 'base'
             export const setupPlugin = () => circle()
             setupPlugin() === 'base' || fail()",
        ),
        ("lib/esm.ts", "export const one = () => '1'\nexport default 'd'"),
        ("lib/cjs.js", "exports.two = '2'"),
        ("data.json", "{ \"list\": [6, 7] }"),
        ("types.ts", "export interface T { a: string }"),
        ("circle.ts", "import { base } from './index'\nexport const circle = () => base"),
        ("more.ts", "export async function onEvent() {}\nexport default { processEvent() {} }"),
    ])
    .await
    .unwrap();
    assert_eq!(reading.capabilities.methods, ["setupPlugin", "onEvent"]);
    assert!(!reading.code.modules.contains_key("types.ts"));
}

#[tokio::test]
async fn packages_of_the_origin_can_be_imported_and_throw_when_used() {
    let text = "
        import { S3 } from 'aws-sdk'
        import { BigQuery } from '@google-cloud/bigquery'
        import * as snowflake from 'snowflake-sdk'
        import { createPool } from 'generic-pool'
        import type { ManagedUpload } from 'aws-sdk/clients/s3'
        const zlib = require('zlib')
        class Mine extends BigQuery { more() { return zlib.gzipSync } }
        export const setupPlugin = () => { new S3({}) }
        export const onEvent = () => snowflake.createConnection()";
    assert_eq!(methods("index.ts", text).await, ["setupPlugin", "onEvent"]);
}

#[tokio::test]
async fn code_that_is_not_strict_runs() {
    assert_eq!(
        methods(
            "index.js",
            "undeclared = 010; with ({ a: 1 }) { b = a }\nfunction onEvent() {}"
        )
        .await,
        ["onEvent"]
    );
    assert_eq!(
        methods("index.ts", "export function onEvent() {}\ncounter = 1").await,
        ["onEvent"]
    );
}

#[tokio::test]
async fn reading_starts_nothing() {
    let text = "
        let error
        fetch('http://example.com/').catch((caught) => { error = caught })
        try { console.log('hello'); setTimeout(() => {}, 10) } catch {}
        export const onEvent = () => {}";
    assert_eq!(methods("index.ts", text).await, ["onEvent"]);
}

#[tokio::test]
async fn code_goes_through_storage_unchanged() {
    let reading = read([("index.ts", "export const onEvent = () => {}")]).await.unwrap();
    let stored = serde_json::to_string(&reading.code).unwrap();
    assert_eq!(serde_json::from_str::<sandbox::Code>(&stored).unwrap(), reading.code);
}
