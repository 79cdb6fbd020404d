//! Saving an export depends on nobody else.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exports::{Exports, ExportsDeps};
use outbound::{Dialer, Http, Policy, Resolve, Roots};
use serde_json::json;
use service::access::{ChangeExports, Request};
use service::batch_exports::NewExport;
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

on_both! {
    async fn a_silent_name_server_does_not_hold_up_saving(kit: Kit) {
        let dialer = Dialer::with_names(Policy::new(Vec::new()), Arc::new(Silent));
        let deps = ExportsDeps {
            http: Http::new(dialer.clone(), &Roots::public()).unwrap(),
            dialer,
            roots: Roots::public(),
            export_root: None,
        };
        let exports = Exports::new(kit.service.clone(), kit.events.clone(), deps, 1);
        let organization = Some(OrganizationRef::Id(kit.organization));
        let credential = Credential::Key(&kit.admin.key);
        let caller = kit.service.allowed::<ChangeExports>(credential, organization, Request::default()).await.unwrap();
        let new: NewExport = serde_json::from_value(json!({
            "name": "x", "interval": "hour",
            "destination": { "type": "HTTP", "config": { "url": "https://silent.example.com/", "token": "t" } },
        })).unwrap();
        let started = Instant::now();
        exports.create(&caller, &new).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    }
}
