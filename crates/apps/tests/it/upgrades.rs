//! Apps from elsewhere: installed, looked after, upgraded, rolled back.

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::{Kit, on_both};
use tokio::time::sleep;

use crate::pack::{github, link, tar_gz};
use crate::remote_host::RemoteHost;

const GOOD: &str = "export function onEvent() {}";

const TAGS: &str = "/api.github.com/repos/acme/hook/tags?per_page=100&page=1";

fn archive(remote: &RemoteHost, tag: &str, index: &str) {
    let manifest = br#"{"name": "Hook", "config": [{"key": "url", "type": "string"}]}"#;
    let files: [(&str, &[u8]); 2] = [("plugin.json", manifest), ("index.ts", index.as_bytes())];
    remote.gives(&format!("/github.com/acme/hook/archive/{tag}.tar.gz"), github(&files));
}

fn tags(remote: &RemoteHost, names: &[&str]) {
    let all: Value = names.iter().map(|name| json!({ "name": name })).collect();
    remote.lists(TAGS, &all);
}

async fn installed(kit: Kit, remote: &RemoteHost) -> (Kit, String) {
    tags(remote, &["v1.0.0"]);
    archive(remote, "v1.0.0", GOOD);
    let kit = kit.with_app_mirror(remote.url().as_str());
    let new = json!({ "plugin_type": "custom", "url": "https://github.com/acme/hook?private_token=hush-hush" });
    let made = kit.post(&kit.admin.key, &kit.at("pipeline_destinations/"), new).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(
        (made.text("/url"), made.text("/tag"), made.text("/latest_tag")),
        ("https://github.com/acme/hook", "v1.0.0", "v1.0.0")
    );
    assert_eq!(remote.last_header("authorization").as_deref(), Some("Bearer hush-hush"));
    let path = kit.at(&format!("pipeline_destinations/{}/", made.body["id"]));
    (kit, path)
}

on_both! {
    async fn an_app_is_installed_checked_upgraded_and_rolled_back(kit: Kit) {
        let remote = RemoteHost::start().await;
        let (kit, path) = installed(kit, &remote).await;
        tags(&remote, &["v1.0.0", "v1.1.0"]);
        archive(&remote, "v1.1.0", "export function onEvent() {}\nexport const jobs = { again() {} }");
        let checked = kit.get(&kit.member.key, &format!("{path}check_for_updates/")).await;
        assert_eq!((checked.text("/tag"), checked.text("/latest_tag")), ("v1.0.0", "v1.1.0"));
        assert_eq!(remote.last_header("authorization").as_deref(), Some("Bearer hush-hush"), "the token is kept");
        let shown = kit.get(&kit.admin.key, &format!("{path}upgrade/")).await;
        assert_eq!((shown.status, shown.text("/tag")), (200, "v1.1.0"), "{shown:?}");
        assert_eq!(shown.body["changes"]["added_capabilities"], json!(["jobs.again"]));
        let unchanged = kit.get(&kit.member.key, &path).await;
        assert_eq!((unchanged.text("/tag"), &unchanged.body["version"]), ("v1.0.0", &json!(1)), "showing changes nothing");
        let upgraded = kit.post(&kit.admin.key, &format!("{path}upgrade/"), json!({})).await;
        assert_eq!(upgraded.text("/tag"), "v1.1.0", "{upgraded:?}");
        assert_eq!(upgraded.body["changes"]["added_capabilities"], json!(["jobs.again"]));
        let back = kit.post(&kit.admin.key, &format!("{path}rollback/"), json!({})).await;
        assert_eq!((back.text("/tag"), back.text("/latest_tag")), ("v1.0.0", "v1.1.0"));
        assert_eq!(back.body["capabilities"]["jobs"], json!([]));
        let named = kit.post(&kit.admin.key, &format!("{path}upgrade/"), json!({ "tag": "v1.1.0" })).await;
        assert_eq!((named.text("/tag"), &named.body["version"]), ("v1.1.0", &json!(3)));
        let activity = kit.get(&kit.owner.key, &kit.at("activity/")).await;
        assert!(!activity.body.to_string().contains("hush-hush"));
        assert!(!kit.database.holds("hush-hush").await, "the token is encrypted");
    }

    async fn few_upgrades_of_an_organization_are_fetched_at_once(kit: Kit) {
        let remote = RemoteHost::start().await;
        let (kit, path) = installed(kit, &remote).await;
        let before = remote.asked().len();
        let closed = remote.close().await;
        let (preview, new) = (format!("{path}upgrade/"), json!({ "plugin_type": "custom", "url": "https://github.com/acme/hook" }));
        let (apps, check) = (kit.at("pipeline_destinations/"), format!("{path}check_for_updates/"));
        let previews = join_all((0..5).map(|_| kit.get(&kit.admin.key, &preview)));
        let checks = join_all((0..3).map(|_| kit.get(&kit.admin.key, &check)));
        let installs = join_all((0..5).map(|_| kit.post(&kit.owner.key, &apps, new.clone())));
        let watched = async {
            while remote.asked().len() < before + 2 {
                sleep(Duration::from_millis(10)).await;
            }
            sleep(Duration::from_millis(300)).await;
            assert_eq!(remote.asked().len(), before + 2, "the others wait, and hold nothing");
            drop(closed);
        };
        let (previews, checks, installs, ()) = tokio::join!(previews, checks, installs, watched);
        assert!(checks.iter().all(|checked| checked.status == 200), "{checks:?}");
        assert!(previews.iter().all(|shown| shown.status == 200), "{previews:?}");
        assert!(installs.iter().all(|made| made.status == 201), "{installs:?}");
    }

    /// It may be large, and many may wait.
    async fn an_app_is_read_when_it_is_its_turn(kit: Kit) {
        let remote = RemoteHost::start().await;
        let (kit, path) = installed(kit, &remote).await;
        let before = remote.asked().len();
        let closed = remote.close().await;
        remote.lists("/api.github.com/repos/acme/moved/tags?per_page=100&page=1", &json!([{ "name": "v1.0.0" }]));
        let (check, preview) = (format!("{path}check_for_updates/"), format!("{path}upgrade/"));
        let people = [&kit.owner, &kit.admin, &kit.owner];
        let checks = join_all(people.map(|person| kit.get(&person.key, &check)));
        let moved = async {
            while remote.asked().len() < before + 2 {
                sleep(Duration::from_millis(10)).await;
            }
            sleep(Duration::from_millis(300)).await;
            kit.database.run("UPDATE pipeline_app SET url = 'https://github.com/acme/moved'").await;
            drop(closed);
        };
        tokio::join!(checks, kit.get(&kit.admin.key, &preview), moved);
        let asked = remote.asked();
        let there = asked.iter().filter(|path| path.contains("/acme/moved/tags"));
        assert_eq!(there.count(), 2, "two of four waited: {asked:?}");
    }

    async fn an_upgrade_does_not_replace_what_somebody_changed_meanwhile(kit: Kit) {
        let remote = RemoteHost::start().await;
        let (kit, path) = installed(kit, &remote).await;
        archive(&remote, "v2.0.0", "export function onEvent() { return 2 }");
        let before = remote.asked().len();
        let closed = remote.close().await;
        let upgrade = format!("{path}upgrade/");
        let upgraded = kit.post(&kit.admin.key, &upgrade, json!({ "tag": "v2.0.0" }));
        let changed = async {
            while remote.asked().len() == before {
                sleep(Duration::from_millis(10)).await;
            }
            let files = json!({ "source": { "index.ts": "export function onEvent() { return 3 }" } });
            let changed = kit.patch(&kit.admin.key, &format!("{path}update_source/"), files).await;
            assert_eq!(changed.status, 200, "{changed:?}");
            drop(closed);
        };
        let (upgraded, ()) = tokio::join!(upgraded, changed);
        assert_eq!((upgraded.status, upgraded.text("/code")), (409, "source_changed"), "{upgraded:?}");
    }

    async fn an_upgrade_that_does_not_load_changes_nothing(kit: Kit) {
        let remote = RemoteHost::start().await;
        let (kit, path) = installed(kit, &remote).await;
        let before = kit.get(&kit.admin.key, &format!("{path}source/")).await;
        tags(&remote, &["v1.0.0", "v2.0.0"]);
        archive(&remote, "v2.0.0", "export function onEvent( {}");
        let refused = kit.post(&kit.admin.key, &format!("{path}upgrade/"), json!({})).await;
        assert_eq!((refused.code(), refused.text("/attr")), ((400, "does_not_load"), "source__index.ts"));
        let hostile = tar_gz(&[link(tar::EntryType::Symlink, "hook-2/index.ts", "/etc/passwd")]);
        remote.gives("/github.com/acme/hook/archive/v2.0.0.tar.gz", hostile);
        let refused = kit.post(&kit.admin.key, &format!("{path}upgrade/"), json!({})).await;
        assert_eq!(refused.code(), (400, "invalid_input"), "{refused:?}");
        let missing = kit.post(&kit.admin.key, &format!("{path}upgrade/"), json!({ "tag": "v9.9.9" })).await;
        assert_eq!(missing.code(), (400, "invalid_input"), "{missing:?}");
        let after = kit.get(&kit.admin.key, &format!("{path}source/")).await;
        assert_eq!((&before.body["source"], &before.body["version"]), (&after.body["source"], &after.body["version"]));
        assert_eq!(after.text("/tag"), "v1.0.0");
    }

    /// Security case E8: whoever controls the repository, the host or the way to it, cannot change what was pinned.
    async fn code_that_is_pinned_is_the_only_code_that_is_taken(kit: Kit) {
        let remote = RemoteHost::start().await;
        let (kit, path) = installed(kit, &remote).await;
        let sum = |listed: &testkit::Reply, at: usize| listed.text(&format!("/results/{at}/sha256")).to_owned();
        let good = sum(&kit.get(&kit.admin.key, &format!("{path}versions/")).await, 0);
        let pinned = |sum: &str| json!({ "plugin_type": "custom", "url": format!("https://github.com/acme/hook#sha256={sum}") });
        let create = kit.at("pipeline_destinations/");

        archive(&remote, "v1.0.0", "export function onEvent() { }");
        let changed = kit.post(&kit.admin.key, &create, pinned(&good)).await;
        assert_eq!((changed.code(), changed.text("/attr")), ((400, "checksum_mismatch"), "url"), "{changed:?}");
        let none = kit.post(&kit.admin.key, &create, pinned("0123")).await;
        assert_eq!((none.code(), none.text("/attr")), ((400, "invalid_input"), "url"));

        archive(&remote, "v1.0.0", GOOD);
        let made = kit.post(&kit.admin.key, &create, pinned(&good)).await;
        assert_eq!((made.status, made.text("/url")), (201, format!("https://github.com/acme/hook#sha256={good}").as_str()));
        let path = kit.at(&format!("pipeline_destinations/{}/", made.body["id"]));
        let edited = json!({ "source": { "index.ts": "export function onEvent() { }" } });
        let edited = kit.patch(&kit.admin.key, &format!("{path}update_source/"), edited).await;
        assert_eq!(edited.code(), (400, "pinned"));
        // Nor by way of another type, and code that was never fetched does not look like it was.
        for rest in ["", "update_source/"] {
            let change = json!({ "plugin_type": "source", "source": { "index.ts": "export function onEvent() { }" } });
            assert_eq!(kit.patch(&kit.admin.key, &format!("{path}{rest}"), change).await.code(), (400, "pinned"), "{rest}");
        }
        let mut forged = pinned(&good);
        forged["plugin_type"] = json!("source");
        forged["source"] = json!({ "index.ts": "export function onEvent() { }" });
        let forged = kit.post(&kit.admin.key, &create, forged).await;
        assert_eq!((forged.code(), forged.text("/attr")), ((400, "invalid_input"), "url"), "{forged:?}");

        // A newer tag, and an older state that is offered as newer: neither is what was pinned.
        tags(&remote, &["v1.0.0", "v1.1.0"]);
        archive(&remote, "v1.1.0", "export function onEvent() { newer() }");
        let upgrade = format!("{path}upgrade/");
        let refused = kit.post(&kit.admin.key, &upgrade, json!({})).await;
        assert_eq!((refused.code(), refused.text("/attr")), ((400, "checksum_mismatch"), "sha256"));
        let shown = kit.get(&kit.admin.key, &upgrade).await;
        let newer = shown.text("/sha256").to_owned();
        assert_ne!(newer, good);
        archive(&remote, "v1.1.0", "export function onEvent() { swapped() }");
        let swapped = kit.post(&kit.admin.key, &upgrade, json!({ "tag": "v1.1.0", "sha256": newer })).await;
        assert_eq!(swapped.code(), (400, "checksum_mismatch"), "not what was reviewed");
        let unchanged = kit.get(&kit.admin.key, &path).await;
        assert_eq!((unchanged.text("/tag"), &unchanged.body["version"]), ("v1.0.0", &json!(1)));

        archive(&remote, "v1.1.0", "export function onEvent() { newer() }");
        let taken = kit.post(&kit.admin.key, &upgrade, json!({ "sha256": newer })).await;
        assert_eq!(taken.text("/url"), format!("https://github.com/acme/hook#sha256={newer}"), "{taken:?}");
        assert_eq!(kit.get(&kit.admin.key, &path).await.text("/url"), taken.text("/url"), "it is kept");
        let listed = kit.get(&kit.admin.key, &format!("{path}versions/")).await;
        assert_eq!((sum(&listed, 0), sum(&listed, 1)), (newer.clone(), good.clone()));
        let older = kit.post(&kit.admin.key, &upgrade, json!({ "tag": "v1.0.0" })).await;
        assert_eq!(older.code(), (400, "checksum_mismatch"));
        // What was verified once can be gone back to, with nobody to ask.
        drop(remote);
        let back = kit.post(&kit.admin.key, &format!("{path}rollback/"), json!({})).await;
        assert_eq!(back.text("/tag"), "v1.0.0", "{back:?}");
        let shown = kit.get(&kit.admin.key, &path).await;
        assert_eq!(shown.text("/url"), format!("https://github.com/acme/hook#sha256={good}"), "the URL says what runs");
    }

    async fn newer_tags_are_looked_for_once_a_day(kit: Kit) {
        let remote = RemoteHost::start().await;
        let (kit, path) = installed(kit, &remote).await;
        tags(&remote, &["v1.0.0", "v1.2.0"]);
        assert!(!kit.apps.check_one().await.unwrap(), "not yet");
        kit.service.clock().advance(TimeDelta::hours(25));
        assert!(kit.apps.check_one().await.unwrap());
        assert!(!kit.apps.check_one().await.unwrap());
        assert_eq!(kit.get(&kit.member.key, &path).await.text("/latest_tag"), "v1.2.0");
        // One whose server is away is looked at again tomorrow, and stays as it is.
        remote.answers_with(TAGS, 500, axum::http::HeaderMap::new(), "");
        kit.service.clock().advance(TimeDelta::hours(25));
        assert!(kit.apps.check_one().await.unwrap());
        assert_eq!(kit.get(&kit.member.key, &path).await.text("/latest_tag"), "v1.2.0");
        let asked = kit.get(&kit.member.key, &format!("{path}check_for_updates/")).await;
        assert_eq!(asked.code(), (409, "source_unavailable"));
    }
}
