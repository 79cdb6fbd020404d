//! Saving an export depends on nobody else, and saves nothing that was not checked.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use exports::{Exports, ExportsDeps};
use outbound::{Dialer, Http, Policy, Resolve, Roots};
use serde_json::json;
use service::ExportId;
use service::access::{Caller, ChangeExports, Request};
use service::batch_exports::destination::Destination;
use service::batch_exports::{DestinationCheck, ExportPatch, NewExport};
use service::credentials::Credential;
use service::organizations::OrganizationRef;
use testkit::{Kit, on_both};

/// A name server that never answers.
struct Silent;

#[async_trait::async_trait]
impl Resolve for Silent {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        std::future::pending().await
    }
}

/// While it looks at a destination for the first time, somebody moves the export.
struct Interrupted {
    exports: Exports,
    id: ExportId,
    urls: Mutex<Vec<String>>,
}

#[async_trait]
impl DestinationCheck for Interrupted {
    async fn check_destination(
        &self,
        caller: &Caller<ChangeExports>,
        destination: &Destination,
    ) -> service::Result<()> {
        let Destination::Http(http) = destination else {
            panic!("another kind")
        };
        let count = {
            let mut urls = self.urls.lock().unwrap();
            urls.push(http.url.clone());
            urls.len()
        };
        if count == 1 {
            let moved = to_http("https://moved.example.com/");
            let update = self.exports.update(caller, self.id, &moved, &service::no_precondition);
            update.await?;
        }
        Ok(())
    }
}

fn to_http(url: &str) -> ExportPatch {
    let patch = json!({ "destination": { "config": { "url": url, "token": "t" } } });
    serde_json::from_value(patch).unwrap()
}

async fn caller(kit: &Kit) -> Caller<ChangeExports> {
    let organization = Some(OrganizationRef::Id(kit.organization));
    let credential = Credential::Key(&kit.admin.key);
    let caller = kit
        .service
        .allowed::<ChangeExports>(credential, organization, Request::default());
    caller.await.unwrap()
}

fn to_example(host: &str) -> NewExport {
    serde_json::from_value(json!({
        "name": "x", "interval": "hour",
        "destination": { "type": "HTTP", "config": { "url": format!("https://{host}.example.com/"), "token": "t" } },
    }))
    .unwrap()
}

on_both! {
    async fn a_destination_that_changes_in_the_meantime_is_checked_again(kit: Kit) {
        let caller = caller(&kit).await;
        let made = kit.exports.create(&caller, &to_example("first")).await.unwrap();
        let check = Interrupted { exports: kit.exports.clone(), id: made.export.id, urls: Mutex::default() };
        let patch = json!({ "destination": { "config": { "exclude_events": ["$pageleave"] } } });
        let patch: ExportPatch = serde_json::from_value(patch).unwrap();
        let update = kit.service.update_batch_export(&caller, check.id, &patch, &check, &service::no_precondition);
        let saved = update.await.unwrap().export.config;
        let moved = "https://moved.example.com/";
        assert_eq!(*check.urls.lock().unwrap(), ["https://first.example.com/", moved]);
        assert_eq!((&saved["url"], &saved["exclude_events"]), (&json!(moved), &json!(["$pageleave"])));
    }

    async fn a_silent_name_server_does_not_hold_up_saving(kit: Kit) {
        let dialer = Dialer::with_names(Policy::new(Vec::new()), Arc::new(Silent));
        let deps = ExportsDeps {
            http: Http::new(dialer.clone(), &Roots::public()).unwrap(),
            dialer,
            roots: Roots::public(),
            export_root: None,
        };
        let exports = Exports::new(kit.service.clone(), kit.events.clone(), deps, 1);
        let caller = caller(&kit).await;
        let started = Instant::now();
        exports.create(&caller, &to_example("silent")).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    }
}
