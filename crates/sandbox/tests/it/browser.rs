//! The parts of apps that run in browsers.

use crate::kit::{read, refusal};

#[tokio::test]
async fn a_site_app_becomes_an_expression() {
    let reading = read([(
        "site.ts",
        "export function inject({ config }: { config: any }): void { document.title = config.title }",
    )])
    .await
    .unwrap();
    let site = reading.site.unwrap();
    assert!(site.starts_with("(function () { let exports = {};"), "{site}");
    assert!(site.ends_with("return exports; })"), "{site}");
    assert!(site.contains("function inject({ config })"), "{site}");
    assert_eq!(reading.frontend, None);
    assert!(reading.capabilities.is_empty());
}

#[tokio::test]
async fn what_the_expression_returns_is_what_was_exported() {
    let app = "export const inject = () => 'injected'; export default 5";
    let site = read([("site.ts", app)]).await.unwrap().site.unwrap();
    let check =
        format!("const site = ({site})(); if (site.inject() + site.default !== 'injected5') throw new Error('no')");
    read([("index.js", &check)]).await.unwrap();
}

#[tokio::test]
async fn a_frontend_app_is_written_over_react() {
    let app = "
        import React, { useState } from 'react'
        import type { Logic } from 'kea'
        export const scene = { title: 'Hi', component: function Hi({ name }: { name: string }) {
            const [count] = useState(0)
            return <><p className=\"hi\">Hi {name}</p>{count}</>
        } }";
    let frontend = read([("frontend.tsx", app)]).await.unwrap().frontend.unwrap();
    let check = format!(
        "globalThis.React = {{ createElement: (...all) => all, Fragment: 'f', useState: (x) => [x] }};
         const made = JSON.stringify(({frontend})().scene.component({{ name: 'Ann' }}));
         if (made !== '[\"f\",null,[\"p\",{{\"className\":\"hi\"}},\"Hi \",\"Ann\"],0]') throw new Error(made)"
    );
    read([("index.js", &check)]).await.unwrap();
}

#[tokio::test]
async fn an_empty_frontend_app_is_none() {
    assert_eq!(read([("frontend.tsx", " \n")]).await.unwrap().frontend, None);
}

#[tokio::test]
async fn imports_are_refused() {
    let said = refusal([("site.ts", "import { x } from './lib'\nexport const inject = () => x")]).await;
    assert_eq!(
        said,
        "site.ts:1:19: Cannot import './lib': this file runs in browsers and cannot import other files"
    );
    assert!(
        refusal([("site.ts", "export const inject = (")])
            .await
            .starts_with("site.ts:1:")
    );
}
