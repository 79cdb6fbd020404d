//! Changing the files of an app.

use serde_json::json;
use service::access::{ChangeApps, Request};
use service::credentials::Credential;
use service::organizations::OrganizationRef;
use service::pipeline::{AppPatch, Collection, Fetched, Package};
use service::{AppId, Error};
use testkit::{Kit, on_both};

use crate::pipeline::{create, hook};

on_both! {
    /// Code may be long: it is written before the transaction, so what is too long is refused before anything else is looked at.
    async fn nobody_who_writes_waits_while_code_is_written(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let id = AppId(path.rsplit('/').nth(1).unwrap().parse().unwrap());
        let organization = Some(OrganizationRef::Id(kit.organization));
        let credential = Credential::Key(&kit.admin.key);
        let caller = kit.service.allowed::<ChangeApps>(credential, organization, Request::default()).await.unwrap();
        let (mut seen, _) = kit.service.app_to_change(&caller, Collection::Destinations, id).await.unwrap();
        seen.app.version += 1;
        let metadata = json!({
            "name": null, "description": "", "icon": null, "config_schema": [], "capabilities": {}, "metrics": {},
            "public_jobs": {}, "site": null, "frontend": null,
        });
        let package = |length: usize| Package {
            files: seen.files.clone(),
            sha256: String::new(),
            code: "x".repeat(length).into(),
            metadata: serde_json::from_value(metadata.clone()).unwrap(),
        };
        let change = async |length: usize| {
            let patch = AppPatch::default();
            let changed = kit.service.change_app_code(&caller, &seen.app, &patch, package(length), Fetched::default());
            changed.await.unwrap_err()
        };
        let long = change(9 << 20).await;
        assert!(matches!(&long, Error::Invalid(wrong) if wrong[0].code == "max_length"), "{long:?}");
        let short = change(10).await;
        assert!(matches!(&short, Error::Conflict { code: "source_changed", .. }), "{short:?}");
    }

    async fn null_deletes_a_file(kit: Kit) {
        let mut body = hook();
        body["source"]["notes.md"] = json!("To be deleted");
        body["source"]["lib/more.ts"] = json!("export const more = 1");
        let app = create(&kit, "pipeline_destinations", body).await;
        let path = format!("{app}update_source/");
        let changed = kit.patch(&kit.admin.key, &path, json!({ "source": { "notes.md": null } })).await;
        assert_eq!((changed.status, &changed.body["version"]), (200, &json!(2)), "{changed:?}");
        let changed = kit.patch(&kit.admin.key, &path, json!({ "lib/more.ts": null })).await;
        assert_eq!((changed.status, &changed.body["version"]), (200, &json!(3)), "{changed:?}");
        let source = kit.get(&kit.member.key, &format!("{app}source/")).await;
        let names: Vec<&String> = source.body["source"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["index.ts", "plugin.json"]);
        // A file that is not there is deleted already.
        let same = kit.patch(&kit.admin.key, &path, json!({ "source": { "notes.md": null } })).await;
        assert_eq!((same.status, &same.body["version"]), (200, &json!(3)));
        let none = kit.patch(&kit.admin.key, &path, json!({ "source": null })).await;
        assert_eq!((none.code(), none.text("/attr")), ((400, "null"), "source"));
    }

    async fn files_may_stand_beside_source_and_are_taken_as_they_are(kit: Kit) {
        let app = create(&kit, "pipeline_destinations", hook()).await;
        let path = format!("{app}update_source/");
        let code = "\n\nexport function onEvent() {}\n\n";
        let body = json!({ "index.ts": code, "site.ts": "export function inject() {}", "name": "  Ours  " });
        let changed = kit.patch(&kit.admin.key, &path, body).await;
        assert_eq!((changed.status, changed.text("/name")), (200, "Ours"), "{changed:?}");
        assert_eq!(changed.body["capabilities"]["methods"], json!(["onEvent"]));
        assert_eq!((&changed.body["source"]["index.ts"], &changed.body["source"]["site.ts"]), (&json!(code), &json!("export function inject() {}")));
        // What was read and is sent back changes nothing.
        let same = kit.patch(&kit.admin.key, &path, changed.body.clone()).await;
        assert_eq!((same.status, &same.body), (200, &changed.body));
        let wrong = kit.patch(&kit.admin.key, &path, json!({ "index.ts": 1 })).await;
        assert_eq!((wrong.code(), wrong.text("/attr")), ((400, "invalid_input"), "index.ts"), "{wrong:?}");
        let twice = kit.patch(&kit.admin.key, &path, json!({ "index.ts": "", "source": { "index.ts": "" } })).await;
        assert_eq!((twice.code(), twice.text("/attr")), ((400, "invalid_input"), "index.ts"), "{twice:?}");
        let outside = kit.patch(&kit.admin.key, &path, json!({ "../index.ts": "" })).await;
        assert_eq!((outside.code(), outside.text("/attr")), ((400, "invalid_input"), "source"), "{outside:?}");
    }
}
