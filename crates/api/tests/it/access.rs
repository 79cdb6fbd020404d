//! Who may do what, generated from the route table: a new route without a case fails.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use service::{Level, Object, Scope};
use testkit::kit::{Person, bearer, with_json};
use testkit::{Kit, on_both};

/// One operation of the OpenAPI spec.
pub(crate) struct Operation {
    pub(crate) id: &'static str,
    pub(crate) method: String,
    pub(crate) path: &'static str,
    pub(crate) credential: &'static str,
    scope: Option<Scope>,
    level: Option<Level>,
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, item) in api::spec()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let level = operation["x-minimum-level"].as_i64();
            operations.push(Operation {
                id: operation["operationId"].as_str().expect("an operation has an id"),
                method: method.to_uppercase(),
                path,
                credential: operation["x-credential"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{path} asks for nobody")),
                scope: operation["x-required-scope"]
                    .as_str()
                    .map(|scope| scope.parse().unwrap()),
                level: level.map(|level| Level::try_from(i16::try_from(level).unwrap()).unwrap()),
            });
        }
    }
    operations
}

/// A body that each operation would accept. A new operation with a body must be added here.
pub(crate) fn body(id: &str) -> Option<Value> {
    match id {
        "organizations_create" | "organizations_partial_update" | "teams_create" | "teams_partial_update" => {
            Some(json!({ "name": "Fine" }))
        }
        "instance_operators_create" => Some(json!({ "email": "fine@example.com" })),
        "instance_organizations_partial_update" => Some(json!({ "plugins_access_level": 9 })),
        "members_partial_update" => Some(json!({ "level": 1 })),
        "personal_api_keys_create" => Some(json!({ "label": "Fine", "scopes": ["*"] })),
        "personal_api_keys_partial_update" => Some(json!({ "label": "Fine" })),
        "login" => Some(json!({ "email": "olga@example.com", "password": "wrong password" })),
        "login_precheck" | "reset" => Some(json!({ "email": "olga@example.com" })),
        "login_recovery" => Some(json!({ "email": "olga@example.com", "code": "wrong" })),
        "login_token"
        | "users_me_two_factor_confirm"
        | "users_me_two_factor_backup_codes"
        | "users_me_two_factor_remove" => Some(json!({ "token": "000000" })),
        "reset_password" | "users_me_password" | "login_confirm" => Some(json!({ "password": "long enough words" })),
        "signup_create" | "users_me_partial_update" => Some(json!({ "first_name": "Fine" })),
        "invites_create" | "invites_bulk" => Some(json!({ "target_email": "fine@example.com" })),
        "domains_create" => Some(json!({ "domain": "fine.example" })),
        "domains_partial_update" => Some(json!({ "jit_provisioning_enabled": true })),
        "domains_import_metadata" => Some(json!({ "url": "https://idp.example.com/metadata" })),
        "batch_exports_create" => Some(no_op()),
        "batch_exports_test_destination" => Some(json!({ "destination": no_op()["destination"] })),
        "batch_exports_partial_update" => Some(json!({ "name": "Fine" })),
        "batch_exports_pause_create"
        | "batch_exports_unpause_create"
        | "batch_exports_backfill_create"
        | "batch_export_backfills_create"
        | "batch_export_backfills_cancel"
        | "batch_export_runs_retry"
        | "batch_export_runs_cancel" => Some(json!({})),
        id => app_body(id),
    }
}

/// The same for apps, whose three collections have the same operations.
fn app_body(id: &str) -> Option<Value> {
    let collection = COLLECTIONS.into_iter().find(|name| id.starts_with(name))?;
    match id[collection.len()..].trim_start_matches('_') {
        "create" => Some(json!({ "plugin_type": "local" })),
        "partial_update" => Some(json!({ "name": "Fine" })),
        "update_source_partial_update" | "upgrade_create" | "rollback_create" | "configs_create" => Some(json!({})),
        "configs_partial_update" => Some(json!({ "order": 2 })),
        "configs_upgrade_create" => Some(json!({ "version": 2 })),
        _ => None,
    }
}

const COLLECTIONS: [&str; 3] = [
    "pipeline_destinations",
    "pipeline_frontend_apps",
    "pipeline_import_apps",
];

pub(crate) fn no_op() -> Value {
    json!({ "name": "Fine", "interval": "hour", "destination": { "type": "NoOp", "config": {} } })
}

/// Names for what may stand in a path. A new parameter must be added here.
fn fill(path: &str, values: &[(&str, String)]) -> String {
    let mut filled = path.to_owned();
    for (name, value) in values {
        filled = filled.replace(&format!("{{{name}}}"), value);
    }
    assert!(!filled.contains('{'), "{path} has a parameter that has no value here");
    filled
}

/// Something of each kind that can stand in a path below an organization.
pub(crate) struct Things {
    organization: String,
    member: String,
    team: String,
    invite: String,
    domain: String,
    export: String,
    run: String,
    backfill: String,
    /// An app of each collection, and a configuration of it.
    apps: [[String; 2]; 3],
}

impl Things {
    async fn of(kit: &Kit, owner: &Person, organization: String, member: &Person, team: String) -> Self {
        let at = |rest: &str| format!("/api/organizations/{organization}/{rest}/");
        let invite = kit
            .post(&owner.key, &at("invites"), json!({ "target_email": "new@example.com" }))
            .await;
        let domain = kit
            .post(&owner.key, &at("domains"), json!({ "domain": "example.com" }))
            .await;
        let export = export_with_a_run(kit, owner, &at("batch_exports"), team.parse().unwrap()).await;
        let [export, run, backfill] = export;
        let mut apps = [
            [String::new(), String::new()],
            [String::new(), String::new()],
            [String::new(), String::new()],
        ];
        for (place, collection) in COLLECTIONS.into_iter().enumerate() {
            apps[place] = app_with_a_config(kit, owner, &at(collection)).await;
        }
        Self {
            apps,
            export,
            run,
            backfill,
            member: member.user.uuid.to_string(),
            team,
            invite: invite.text("/id").to_owned(),
            domain: domain.text("/id").to_owned(),
            organization,
        }
    }

    pub(crate) async fn own(kit: &Kit) -> Self {
        Self::of(
            kit,
            &kit.owner,
            kit.organization.to_string(),
            &kit.member,
            kit.team.to_string(),
        )
        .await
    }

    async fn foreign(kit: &Kit) -> Self {
        Self::of(
            kit,
            &kit.outsider,
            kit.other.to_string(),
            &kit.outsider,
            kit.other_team.to_string(),
        )
        .await
    }

    /// What stands in the path of an operation.
    fn values(&self, operation: &Operation) -> [(&'static str, String); 7] {
        let is_about = |kind: &str| operation.path.contains(kind);
        let collection = COLLECTIONS.iter().position(|name| is_about(name));
        let [app, config] = &self.apps[collection.unwrap_or_default()];
        let id = match () {
            () if collection.is_some() => app,
            () if is_about("/teams/") => &self.team,
            () if is_about("/invites/") => &self.invite,
            () if is_about("/domains/") => &self.domain,
            () if is_about("/batch_exports/") => &self.export,
            () => &self.organization,
        };
        [
            ("organization_id", self.organization.clone()),
            ("user__uuid", self.member.clone()),
            ("id", id.clone()),
            ("token", "a-token-that-never-was".to_owned()),
            ("run_id", self.run.clone()),
            ("backfill_id", self.backfill.clone()),
            ("config_id", config.clone()),
        ]
    }

    pub(crate) fn path(&self, operation: &Operation) -> String {
        fill(operation.path, &self.values(operation))
    }
}

/// An export with a run that is due and a backfill that has something to do: their ids.
async fn export_with_a_run(kit: &Kit, owner: &Person, path: &str, team: i64) -> [String; 3] {
    let event = events::Incoming {
        uuid: None,
        event: "seen".to_owned(),
        distinct_id: "ann".to_owned(),
        properties: serde_json::Map::new(),
        timestamp: kit.service.clock().now(),
    };
    let now = kit.service.clock().now();
    kit.events.append(team, vec![event], now).await.unwrap();
    kit.service.clock().advance(chrono::TimeDelta::hours(2));
    let export = kit.post(&owner.key, path, no_op()).await.text("/id").to_owned();
    kit.service.clock().advance(chrono::TimeDelta::hours(1));
    kit.service.schedule_runs(chrono::TimeDelta::zero()).await.unwrap();
    let runs = kit.get(&owner.key, &format!("{path}{export}/runs/")).await;
    let backfill = kit
        .post(&owner.key, &format!("{path}{export}/backfill/"), json!({}))
        .await;
    [
        export,
        runs.text("/results/0/id").to_owned(),
        backfill.text("/backfill_id").to_owned(),
    ]
}

/// An app with two versions of its code, and a configuration of it: their ids.
async fn app_with_a_config(kit: &Kit, owner: &Person, path: &str) -> [String; 2] {
    let source = |text: &str| json!({ "index.js": text });
    let first = json!({ "plugin_type": "source", "source": source("export function onEvent() {}") });
    let app = kit.post(&owner.key, path, first).await;
    assert_eq!(app.status, 201, "{app:?}");
    let app = app.body["id"].to_string();
    let second = json!({ "source": source("export function onEvent() { return 1 }") });
    let changed = kit
        .patch(&owner.key, &format!("{path}{app}/update_source/"), second)
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let config = kit.post(&owner.key, &format!("{path}{app}/configs/"), json!({})).await;
    [app, config.body["id"].to_string()]
}

fn request(operation: &Operation, path: &str, key: Option<&str>) -> Request<Body> {
    let builder = match key {
        Some(key) => bearer(&operation.method, path, key),
        None => Request::builder().method(operation.method.as_str()).uri(path),
    };
    match body(operation.id) {
        Some(body) => with_json(builder, &body),
        None => builder.body(Body::empty()).unwrap(),
    }
}

/// A dry run, so that a request that is let through by mistake does no harm to the next.
fn dry(path: &str, operation: &Operation) -> String {
    if operation.method == "GET" {
        path.to_owned()
    } else {
        format!("{path}?dry_run=true")
    }
}

async fn code(kit: &Kit, operation: &Operation, path: &str, key: Option<&str>) -> (u16, String) {
    let reply = kit.send(request(operation, path, key)).await;
    let (status, code) = reply.code();
    assert!(status < 500, "{} {path}: {reply:?}", operation.method);
    (status, code.to_owned())
}

fn outcome(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[test]
fn every_operation_that_takes_a_body_has_a_case() {
    for operation in operations() {
        let spec = &api::spec()["paths"][operation.path][operation.method.to_lowercase()];
        assert_eq!(
            spec.get("requestBody").is_some(),
            body(operation.id).is_some(),
            "{}",
            operation.id
        );
    }
}

#[test]
fn every_operation_below_an_organization_names_scope_and_level() {
    for operation in operations()
        .iter()
        .filter(|operation| operation.path.starts_with("/api/organizations/{"))
    {
        assert_eq!(operation.credential, "member", "{}", operation.id);
        assert!(
            operation.scope.is_some() && operation.level.is_some(),
            "{}",
            operation.id
        );
    }
}

on_both! {
    async fn without_a_key_nothing_is_told(kit: Kit) {
        let own = Things::own(&kit).await;
        for operation in operations().iter().filter(|operation| operation.credential != "none") {
            let path = own.path(operation);
            assert_eq!(code(&kit, operation, &path, None).await, outcome(401, "not_authenticated"), "{}", operation.id);
        }
    }

    async fn a_wrong_key_is_refused_everywhere(kit: Kit) {
        let own = Things::own(&kit).await;
        for operation in operations().iter().filter(|operation| operation.credential != "none") {
            let path = own.path(operation);
            let reply = kit.send(request(operation, &path, Some("a-key-that-never-was"))).await;
            // Each address may fail only so often; either way nobody gets in.
            assert!(matches!(reply.code(), (401, "authentication_failed") | (429, "throttled")), "{reply:?}");
        }
    }

    async fn a_mistyped_key_is_refused(kit: Kit) {
        let (start, last) = kit.owner.key.split_at(kit.owner.key.len() - 1);
        let typo = format!("{start}{}", if last == "x" { "y" } else { "x" });
        for wrong in [typo.as_str(), "a-key-that-never-was", "", "short", "hgr_"] {
            let reply = kit.get(wrong, &kit.at("")).await;
            assert_eq!(reply.code(), (401, "authentication_failed"), "{wrong}");
            assert_eq!(reply.header("www-authenticate"), "Bearer");
        }
        let in_query = format!("/api/organizations/?personal_api_key={}", kit.owner.key);
        let request = Request::builder().uri(in_query).body(Body::empty()).unwrap();
        assert_eq!(kit.send(request).await.code(), (401, "not_authenticated"));
        let basic = Request::builder().uri("/api/organizations/").header("authorization", "Basic abc");
        assert_eq!(kit.send(basic.body(Body::empty()).unwrap()).await.code(), (401, "not_authenticated"));
    }

    async fn a_key_without_the_scope_is_refused_by_name(kit: Kit) {
        let own = Things::own(&kit).await;
        for operation in operations() {
            let Some(needed) = operation.scope else { continue };
            for held in Scope::all().filter(|held| !held.covers(needed)) {
                let key = kit.key(&kit.owner, &[held]).await;
                let path = dry(&own.path(&operation), &operation);
                let reply = kit.send(request(&operation, &path, Some(&key))).await;
                assert_eq!(reply.code(), (403, "permission_denied"), "{} with {held}", operation.id);
                assert!(reply.text("/detail").contains(&needed.to_string()), "{reply:?}");
                forget(&kit, &kit.owner).await;
            }
        }
    }

    async fn a_key_with_just_the_scope_is_enough(kit: Kit) {
        let own = Things::own(&kit).await;
        for operation in operations() {
            let Some(needed) = operation.scope else { continue };
            let key = kit.key(&kit.owner, &[needed]).await;
            let path = dry(&own.path(&operation), &operation);
            let (status, _) = code(&kit, &operation, &path, Some(&key)).await;
            let is_last_team = operation.id == "teams_destroy" && status == 400;
            // Made by a person alone: a key that could make them would be as good as its owner.
            let is_for_people = operation.id == "recovery_codes_create" && status == 403;
            let is_still_to_be_done = operation.id == "batch_export_runs_retry" && status == 400;
            assert!(status < 300 || is_last_team || is_for_people || is_still_to_be_done, "{} with {needed}: {status}", operation.id);
            forget(&kit, &kit.owner).await;
        }
    }

    async fn every_level_gets_as_far_as_it_should(kit: Kit) {
        let own = Things::own(&kit).await;
        for operation in operations() {
            let Some(needed) = operation.level else { continue };
            for level in Level::ALL {
                let path = dry(&own.path(&operation), &operation);
                let found = code(&kit, &operation, &path, Some(&kit.person(level).key)).await;
                if level < needed {
                    assert_eq!(found, outcome(403, "permission_denied"), "{} as {level}", operation.id);
                } else {
                    assert_ne!(found.0, 401, "{} as {level}", operation.id);
                    if operation.id == "recovery_codes_create" {
                        continue;
                    }
                    let is_revoked_by_others = operation.id == "invites_destroy" && level == Level::Member;
                    assert_eq!(found.0 == 403, is_revoked_by_others, "{} as {level}", operation.id);
                    assert_ne!(found.0, 404, "{} as {level}", operation.id);
                }
            }
        }
    }

    async fn an_outsider_cannot_tell_an_organization_from_none(kit: Kit) {
        let own = Things::own(&kit).await;
        for operation in operations().iter().filter(|operation| operation.credential == "member") {
            let path = own.path(operation);
            let nowhere = path.replace(&kit.organization.to_string(), "01999999-9999-7999-8999-999999999999");
            let there = code(&kit, operation, &path, Some(&kit.outsider.key)).await;
            assert_eq!(there, outcome(404, "not_found"), "{}", operation.id);
            assert_eq!(there, code(&kit, operation, &nowhere, Some(&kit.outsider.key)).await, "{}", operation.id);
        }
    }

    async fn the_id_of_another_organizations_thing_is_not_found(kit: Kit) {
        let foreign = Things::foreign(&kit).await;
        for operation in operations() {
            let has_item = operation.path.contains("{organization_id}") && operation.path.matches('{').count() > 1;
            if !has_item {
                continue;
            }
            let mut values = foreign.values(&operation);
            values[0].1 = kit.organization.to_string();
            let path = fill(operation.path, &values);
            let found = code(&kit, &operation, &path, Some(&kit.owner.key)).await;
            assert_eq!(found, outcome(404, "not_found"), "{}", operation.id);
        }
    }

    async fn a_malformed_id_is_not_found(kit: Kit) {
        let own = Things::own(&kit).await;
        for operation in operations().iter().filter(|operation| operation.credential == "member") {
            for wrong in ["nonsense", "0", "-1", "99999999999999999999", "%00", "@other", "01999999-9999"] {
                for place in 0..7 {
                    let mut values = own.values(operation);
                    wrong.clone_into(&mut values[place].1);
                    let path = fill(operation.path, &values);
                    if path == own.path(operation) {
                        continue;
                    }
                    let found = code(&kit, operation, &path, Some(&kit.owner.key)).await;
                    assert_eq!(found, outcome(404, "not_found"), "{} {path}", operation.method);
                }
            }
        }
    }

    async fn removal_demotion_and_revocation_hold_from_the_next_request(kit: Kit) {
        let path = kit.at("");
        let (clock, random) = (kit.service.clock().clone(), service::RandomSource::System);
        let replica = service::Service::new(kit.database.open().await, clock, random, testkit::kit::instance());
        let changes_on_replica = async |key: &str| {
            let organization = Some(service::organizations::OrganizationRef::Id(kit.organization));
            let (credential, request) = (service::credentials::Credential::Key(key), service::access::Request::default());
            replica.allowed::<service::access::ChangeOrganization>(credential, organization, request).await.is_ok()
        };
        let ok = kit.patch(&kit.admin.key, &path, json!({ "name": "By the admin" })).await;
        assert_eq!(ok.status, 200);
        assert!(changes_on_replica(&kit.admin.key).await && changes_on_replica(&kit.owner.key).await);
        let admin = kit.at(&format!("members/{}/", kit.admin.user.uuid));
        assert_eq!(kit.patch(&kit.owner.key, &admin, json!({ "level": 1 })).await.status, 200);
        assert!(!changes_on_replica(&kit.admin.key).await);
        assert_eq!(kit.patch(&kit.admin.key, &path, json!({ "name": "Again" })).await.status, 403);
        assert_eq!(kit.get(&kit.admin.key, &path).await.status, 200);
        assert_eq!(kit.delete(&kit.owner.key, &admin).await.status, 204);
        assert_eq!(kit.get(&kit.admin.key, &path).await.status, 404);
        assert_eq!(kit.get(&kit.owner.key, &path).await.status, 200);
        forget_all(&kit, &kit.owner).await;
        assert!(!changes_on_replica(&kit.owner.key).await);
        assert_eq!(kit.get(&kit.owner.key, &path).await.status, 401);
    }

    async fn a_key_limited_to_an_organization_finds_no_other(kit: Kit) {
        let second = kit.post(&kit.owner.key, "/api/organizations/", json!({ "name": "Second" })).await;
        let second = second.text("/id").to_owned();
        let mut new = testkit::kit::everything();
        new.scoped_organizations = Some(vec![kit.organization]);
        let key = kit.key_like(&kit.owner, new).await;
        assert_eq!(kit.get(&key, &kit.at("")).await.status, 200);
        assert_eq!(kit.get(&key, &format!("/api/organizations/{second}/")).await.code(), (404, "not_found"));
        assert_eq!(kit.get(&key, "/api/organizations/").await.body["count"], 1);
        let current = kit.get(&key, "/api/organizations/@current/").await;
        assert_eq!(current.text("/id"), kit.organization.to_string());
        let created = kit.post(&key, "/api/organizations/", json!({ "name": "Third" })).await;
        assert_eq!(created.code(), (403, "permission_denied"));
    }

    async fn a_key_limited_to_teams_sees_those_teams_only(kit: Kit) {
        let second = kit.post(&kit.owner.key, &kit.at("teams/"), json!({ "name": "Second" })).await;
        let mut new = testkit::kit::everything();
        new.scoped_teams = Some(vec![kit.team]);
        let key = kit.key_like(&kit.owner, new).await;
        let seen = kit.get(&key, &kit.at("")).await;
        assert_eq!(seen.body["teams"].as_array().unwrap().len(), 1);
        assert_eq!(kit.get(&key, &kit.at("teams/")).await.body["count"], 1);
        let hidden = kit.at(&format!("teams/{}/", second.body["id"]));
        assert_eq!(kit.get(&key, &hidden).await.status, 404);
        assert_eq!(kit.get(&key, &kit.at("members/")).await.code(), (403, "permission_denied"));
        assert_eq!(kit.patch(&key, &kit.at(""), json!({ "name": "No" })).await.code(), (403, "permission_denied"));
    }
}

/// Deletes all keys but the first, for there may only be so many.
async fn forget(kit: &Kit, person: &Person) {
    delete_keys(kit, person, 1).await;
}

pub(crate) async fn forget_all(kit: &Kit, person: &Person) {
    delete_keys(kit, person, 0).await;
}

async fn delete_keys(kit: &Kit, person: &Person, kept: usize) {
    let signed_in = service::sessions::SignedIn::on_behalf_of(&person.user);
    let keys = kit
        .service
        .keys(&signed_in, service::Window::new(None, None))
        .await
        .unwrap()
        .items;
    for key in keys.iter().rev().skip(kept) {
        kit.service
            .delete_key(&signed_in, key.id, &service::no_precondition)
            .await
            .unwrap();
    }
}

#[test]
fn scopes_speak_of_four_kinds_of_things() {
    assert!(Scope::Everything.covers(Scope::Write(Object::Plugin)));
    assert_eq!(Scope::all().count(), 9);
}
