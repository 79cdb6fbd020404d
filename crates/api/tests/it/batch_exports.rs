//! Batch exports over the API: what may be said, what is answered, what is never shown.

use serde_json::{Value, json};
use service::access::{ReadExports, Request};
use service::batch_exports::destination::Kind;
use service::credentials::Credential;
use service::organizations::OrganizationRef;
use service::{Level, Object, Scope, TeamId, Window};
use testkit::{Kit, on_both};

use crate::column;
use crate::configs::{config, destinations};

fn s3(over: &Value) -> Value {
    let mut config = json!({
        "bucket_name": "events", "region": "eu-central-1", "prefix": "acme",
        "aws_access_key_id": "AKIAVISIBLE", "aws_secret_access_key": "hush-hush",
    });
    let config_object = config.as_object_mut().unwrap();
    config_object.extend(over.as_object().unwrap().clone());
    json!({ "name": "To the bucket", "interval": "hour", "destination": { "type": "s3", "config": config } })
}

fn no_op(interval: &str) -> Value {
    json!({ "name": "Nowhere", "interval": interval, "destination": { "type": "NoOp", "config": {} } })
}

async fn create(kit: &Kit, body: Value) -> String {
    let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let id = reply.text("/id").to_owned();
    assert_eq!(
        reply.header("location"),
        kit.at(&format!("batch_exports/{id}/")),
        "the answer says where it is"
    );
    kit.at(&format!("batch_exports/{id}/"))
}

on_both! {
    async fn the_documented_minimum_makes_an_export_with_every_field(kit: Kit) {
        let path = create(&kit, no_op("hour")).await;
        let reply = kit.get(&kit.member.key, &path).await;
        assert_eq!(reply.status, 200);
        let expected = json!({
            "id": reply.body["id"], "team_id": kit.team.0, "name": "Nowhere", "model": "events",
            "destination": { "type": "NoOp", "config": {} }, "interval": "hour", "paused": false,
            "created_at": "2026-11-15T09:30:00.000000Z", "last_updated_at": "2026-11-15T09:30:00.000000Z",
            "last_paused_at": null, "start_at": null, "end_at": null, "latest_runs": [], "hogql_query": null,
            "schema": null,
        });
        assert_eq!(reply.body, expected);
        let list = kit.get(&kit.member.key, &kit.at("batch_exports/")).await;
        assert_eq!((&list.body["count"], &list.body["results"][0]), (&json!(1), &expected));
    }

    /// E1: neither an answer, nor a list, nor the activity log shows a secret; a change without it keeps it.
    async fn secrets_are_kept_and_never_shown(kit: Kit) {
        let path = create(&kit, s3(&json!({ "endpoint_url": "https://s3.example.com" }))).await;
        let change = json!({ "destination": { "config": { "prefix": "other" } } });
        let reply = kit.patch(&kit.admin.key, &path, change).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.body["destination"]["config"], json!({
            "bucket_name": "events", "region": "eu-central-1", "prefix": "other", "endpoint_url": "https://s3.example.com",
        }));
        let elsewhere = json!({ "destination": { "config": { "endpoint_url": "https://evil.example.com" } } });
        let reply = kit.patch(&kit.admin.key, &path, elsewhere).await;
        assert_eq!(reply.code(), (400, "required"), "old secrets do not go to a new place: {reply:?}");
        assert_eq!(reply.body["attr"], "destination__config__aws_access_key_id");
        let secret = json!({ "destination": { "config": { "aws_secret_access_key": "changed-secret" } } });
        assert_eq!(kit.patch(&kit.admin.key, &path, secret).await.status, 200);
        let seen = [
            kit.get(&kit.owner.key, &path).await,
            kit.get(&kit.owner.key, &kit.at("batch_exports/")).await,
            kit.get(&kit.owner.key, &kit.at("activity/")).await,
        ];
        for reply in &seen {
            let text = reply.body.to_string();
            for secret in ["AKIAVISIBLE", "hush-hush", "changed-secret"] {
                assert!(!text.contains(secret), "{secret} is in {text}");
            }
        }
        assert!(seen[2].body.to_string().contains("destination_secrets"), "that it changed is recorded");
        for secret in ["AKIAVISIBLE", "hush-hush", "changed-secret"] {
            assert!(!kit.database.holds(secret).await, "{secret} lies open in the database");
        }
    }

    async fn everything_wrong_with_a_configuration_is_named(kit: Kit) {
        let body = json!({
            "name": "x", "interval": "hour",
            "destination": { "type": "Postgres", "config": { "host": "db.example.com", "hots": 1, "port": "many" } },
        });
        let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
        assert_eq!(reply.status, 400);
        let attrs: Vec<&str> = reply.body["errors"].as_array().unwrap().iter()
            .map(|error| error["attr"].as_str().unwrap()).collect();
        for key in ["hots", "user", "password", "port", "database"] {
            assert!(attrs.contains(&format!("destination__config__{key}").as_str()), "{key} is not among {attrs:?}");
        }
        let unknown = json!({ "name": "x", "interval": "hour", "destination": { "type": "Fax", "config": {} } });
        let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), unknown).await;
        assert_eq!((reply.code(), &reply.body["attr"]), ((400, "invalid_choice"), &json!("destination__type")));
        let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), no_op("fortnight")).await;
        assert_eq!((reply.code(), &reply.body["attr"]), ((400, "invalid_choice"), &json!("interval")));
        let times = json!({
            "name": "x", "interval": "hour", "destination": { "type": "NoOp", "config": {} },
            "start_at": "2026-12-01T00:00:00Z", "end_at": "2026-11-01T00:00:00Z",
        });
        let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), times).await;
        assert_eq!(reply.body["attr"], "end_at");
        assert_eq!(kit.get(&kit.admin.key, &kit.at("batch_exports/")).await.body["count"], 0, "nothing was made");
    }

    /// A page of a list holds many configurations.
    async fn what_a_member_stores_in_a_configuration_is_only_so_long(kit: Kit) {
        let path = kit.at("batch_exports/");
        let export = create(&kit, no_op("hour")).await;
        let refusal = async |config: Value, attr: &str| {
            let destination = json!({ "type": "NoOp", "config": config });
            let new = json!({ "name": "x", "interval": "hour", "destination": destination });
            let made = kit.post(&kit.member.key, &path, new).await;
            let changed = kit.patch(&kit.member.key, &export, json!({ "destination": destination })).await;
            for reply in [made, changed] {
                assert_eq!((reply.code(), reply.text("/attr")), ((400, "max_length"), attr), "{reply:?}");
            }
        };
        refusal(json!({ "exclude_events": ["x".repeat(1_000_000)] }), "destination__config__exclude_events").await;
        refusal(json!({ "include_events": ["paid", "x".repeat(201)] }), "destination__config__include_events").await;
        let many = vec!["x".repeat(200); 1000];
        refusal(json!({ "include_events": many }), "destination__config").await;
        let config = json!({ "include_events": ["x".repeat(200)], "exclude_events": vec!["y"; 1000] });
        let fitting = json!({ "name": "x", "interval": "hour", "destination": { "type": "NoOp", "config": config } });
        assert_eq!(kit.post(&kit.member.key, &path, fitting).await.status, 201);
    }

    /// N1, N5 and N6, at save: the policy looks at every way to name a place.
    async fn places_that_must_not_be_reached_are_refused_when_saved(kit: Kit) {
        let http = |url: &str| json!({ "type": "HTTP", "config": { "url": url, "token": "t" } });
        let postgres = |host: &str| json!({ "type": "Postgres", "config": {
            "host": host, "user": "u", "password": "p", "database": "d",
        } });
        let bucket = |endpoint: &str| s3(&json!({ "endpoint_url": endpoint }))["destination"].clone();
        let hidden = ["169.254.169.254", "10.0.0.7", "[fd00::1]", "2130706433.example"];
        let mut destinations = vec![
            postgres("/var/run/postgresql"), postgres("host=db"), postgres(""), http("file:///etc/passwd"),
            http("gopher://example.com/"), http("http://example.com/"), http("https://user:secret@example.com/"),
        ];
        for host in &hidden[..3] {
            destinations.extend([http(&format!("https://{host}/")), bucket(&format!("https://{host}/"))]);
            destinations.push(postgres(host));
        }
        for destination in destinations {
            let body = json!({ "name": "x", "interval": "hour", "destination": destination });
            let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body.clone()).await;
            assert_eq!(reply.status, 400, "{body}");
            assert!(reply.text("/attr").starts_with("destination__config"), "{reply:?}");
        }
    }

    async fn an_export_is_not_moved_to_a_place_that_must_not_be_reached(kit: Kit) {
        let path = create(&kit, s3(&json!({ "endpoint_url": "https://s3.example.com" }))).await;
        let bucket = s3(&json!({ "endpoint_url": "https://169.254.169.254/" }))["destination"].clone();
        let http = json!({ "type": "HTTP", "config": { "url": "https://10.0.0.7/", "token": "t" } });
        for destination in [bucket, http] {
            let reply = kit.patch(&kit.admin.key, &path, json!({ "destination": destination })).await;
            assert_eq!(reply.code(), (400, "address_not_allowed"), "{reply:?}");
        }
        let kept = kit.get(&kit.admin.key, &path).await;
        assert_eq!(kept.text("/destination/config/endpoint_url"), "https://s3.example.com");
    }

    async fn an_empty_query_is_refused_and_null_takes_it_away(kit: Kit) {
        let mut body = no_op("day");
        for empty in ["", "  "] {
            body["hogql_query"] = json!(empty);
            let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body.clone()).await;
            assert_eq!((reply.code(), reply.text("/attr")), ((400, "blank"), "hogql_query"), "{reply:?}");
        }
        body["hogql_query"] = json!("SELECT event FROM events");
        let path = create(&kit, body).await;
        let refused = kit.patch(&kit.admin.key, &path, json!({ "hogql_query": "" })).await;
        assert_eq!((refused.status, refused.text("/attr")), (400, "hogql_query"));
        let changed = kit.patch(&kit.admin.key, &path, json!({ "hogql_query": null })).await;
        assert_eq!((changed.status, &changed.body["hogql_query"]), (200, &Value::Null));
    }

    async fn a_dry_run_of_a_test_says_that_nothing_was_tried(kit: Kit) {
        let config = json!({ "url": "https://example.com/batch/", "token": "t" });
        let destination = json!({ "type": "HTTP", "config": config });
        let path = create(&kit, json!({ "name": "x", "interval": "hour", "destination": destination })).await;
        let asked = [
            (format!("{path}test/?dry_run=true"), json!({})),
            (kit.at("batch_exports/test/?dry_run=true"), json!({ "destination": destination })),
        ];
        for (path, body) in asked {
            let reply = kit.post(&kit.admin.key, &path, body).await;
            assert_eq!((reply.status, &reply.body["is_ok"]), (200, &json!(false)), "{path}: {reply:?}");
            let steps = reply.body["steps"].as_array().unwrap();
            assert!(!steps.is_empty() && steps.iter().all(|step| step["result"]["status"] == "Skipped"), "{reply:?}");
        }
    }

    /// Of every kind: whatever says where it is, or how sure one is of it, takes all its secrets along when it changes.
    async fn whoever_redirects_or_weakens_a_connection_gives_the_secrets_again(kit: Kit) {
        let weaker = [("has_self_signed_cert", json!(true)), ("use_virtual_style_addressing", json!(true)), ("port", json!(6543))];
        let mut tried = 0;
        for (kind, config) in destinations() {
            if !kind.fields().any(|field| field.is_secret) {
                continue;
            }
            let body = json!({ "name": "x", "interval": "hour", "destination": { "type": kind.name(), "config": config } });
            let path = create(&kit, body).await;
            for field in kind.fields().filter(|field| field.is_address) {
                let given = weaker.iter().find(|(key, _)| *key == field.key).map(|(_, value)| value.clone());
                let other = given.unwrap_or_else(|| match field.key {
                    "account" | "account_name" => json!("evil"),
                    "host" | "server_hostname" => json!("evil.example.com"),
                    "copy_inputs" => json!({ "endpoint_url": "https://evil.example.com" }),
                    _ => json!("https://evil.example.com/"),
                });
                let change = json!({ "destination": { "config": { field.key: other } } });
                let reply = kit.patch(&kit.admin.key, &path, change).await;
                assert_eq!(reply.status, 400, "{} {}: {reply:?}", kind.name(), field.key);
                let attr = reply.text("/attr").trim_start_matches("destination__config__").to_owned();
                let is_secret = kind.fields().any(|field| field.is_secret && attr.starts_with(field.key));
                assert!(is_secret || attr.starts_with("copy_inputs__"), "{} {}: {reply:?}", kind.name(), field.key);
                tried += 1;
            }
        }
        assert!(tried > 15, "{tried}");
        let path = create(&kit, json!({ "name": "x", "interval": "hour", "destination": { "type": "Postgres", "config": config(Kind::Postgres) } })).await;
        let same = json!({ "destination": { "config": { "has_self_signed_cert": false, "port": "5432", "table_name": "other" } } });
        let reply = kit.patch(&kit.admin.key, &path, same).await;
        assert_eq!(reply.status, 200, "what means the same is no change: {reply:?}");
    }

    async fn a_query_is_read_and_shown_as_a_schema(kit: Kit) {
        let mut body = no_op("day");
        body["hogql_query"] = json!("SELECT event, properties.$browser AS browser FROM events WHERE event != 'x'");
        let path = create(&kit, body).await;
        let reply = kit.get(&kit.admin.key, &path).await;
        let fields = reply.body["schema"]["fields"].as_array().unwrap();
        assert_eq!(fields[1]["alias"], "browser");
        assert_eq!(reply.body["schema"]["hogql_query"].as_str().map(|text| text.contains("browser")), Some(true));
        for (query, words) in [
            ("SELECT event FROM events UNION ALL SELECT event FROM events", "UNION"),
            ("SELECT distinct_id FROM persons", "The query must SELECT FROM events"),
            ("SELECT password FROM app_user", "events"),
            ("DROP TABLE events", "SELECT"),
            ("SELECT (SELECT 1) AS x FROM events", "ubqueries"),
        ] {
            let reply = kit.patch(&kit.admin.key, &path, json!({ "hogql_query": query })).await;
            assert_eq!((reply.status, &reply.body["attr"]), (400, &json!("hogql_query")), "{query}");
            assert!(reply.text("/detail").contains(words), "{query}: {}", reply.text("/detail"));
        }
        let reply = kit.patch(&kit.admin.key, &path, json!({ "hogql_query": null })).await;
        assert_eq!((&reply.body["hogql_query"], &reply.body["schema"]), (&Value::Null, &Value::Null));
    }

    /// A query can name a large column hundreds of times, and ten rows are shown at once.
    async fn a_preview_has_an_end(kit: Kit) {
        let now = kit.service.clock().now();
        let event = |number: usize| {
            let long = "x".repeat(30_000 + number);
            let properties = json!({ "long": long }).as_object().unwrap().clone();
            events::Incoming { uuid: None, event: "seen".to_owned(), distinct_id: "ann".to_owned(), properties, timestamp: now }
        };
        kit.events.append(kit.team.0, (0..10).map(event).collect(), now).await.unwrap();
        kit.service.clock().advance(chrono::TimeDelta::minutes(1));
        let ask = async |columns: usize| {
            let columns: Vec<_> = (0..columns).map(|number| format!("properties AS a{number}")).collect();
            let mut body = no_op("hour");
            body["hogql_query"] = json!(format!("SELECT {} FROM events", columns.join(", ")));
            let path = create(&kit, body).await;
            kit.get(&kit.member.key, &format!("{path}preview/")).await
        };
        let shown = ask(3).await;
        assert_eq!((shown.status, shown.body["rows"].as_array().unwrap().len()), (200, 10));
        for columns in [4, 280] {
            let refused = ask(columns).await;
            assert_eq!(refused.code(), (409, "query_too_large"), "{columns}: {refused:?}");
            assert!(refused.text("/detail").contains("1 MiB"), "{refused:?}");
        }
    }

    async fn pausing_twice_is_pausing_once(kit: Kit) {
        let path = create(&kit, no_op("hour")).await;
        let paused = kit.post(&kit.member.key, &format!("{path}pause/"), json!({ "name": "ignored" })).await;
        assert_eq!((paused.status, &paused.body["paused"]), (200, &json!(true)));
        assert_eq!(paused.body["last_paused_at"], "2026-11-15T09:30:00.000000Z");
        assert_eq!(paused.body["name"], "Nowhere");
        kit.service.clock().advance(chrono::TimeDelta::minutes(7));
        let again = kit.post(&kit.member.key, &format!("{path}pause/"), json!({})).await;
        assert_eq!(again.body, paused.body, "nothing changed");
        let unpaused = kit.post(&kit.member.key, &format!("{path}unpause/"), json!({})).await;
        assert_eq!((unpaused.status, &unpaused.body["paused"]), (200, &json!(false)));
        assert_eq!(unpaused.body["last_paused_at"], "2026-11-15T09:30:00.000000Z");
    }

    async fn a_backfill_answers_with_the_export_and_where_to_look(kit: Kit) {
        let path = create(&kit, no_op("hour")).await;
        let at = |start: &str, end: &str| json!({ "start_at": start, "end_at": end });
        let reply = kit.post(&kit.admin.key, &format!("{path}backfill/"),
            at("2026-11-14T00:00:00+02:00", "2026-11-15T00:00:00Z")).await;
        assert_eq!((reply.status, &reply.body["name"]), (200, &json!("Nowhere")));
        let location = reply.header("location").to_owned();
        assert!(location.ends_with(&format!("backfills/{}/", reply.text("/backfill_id"))), "{location}");
        assert_eq!(kit.get(&kit.member.key, &location).await.status, 200);
        for (body, attr) in [
            (at("2026-11-15T00:00:00Z", "2026-11-14T00:00:00Z"), "start_at"),
            (at("2026-11-14T00:00:00Z", "2026-11-16T00:00:00Z"), "end_at"),
            (at("2026-11-14T00:00:00", "2026-11-15T00:00:00Z"), "start_at"),
            (at("yesterday", "2026-11-15T00:00:00Z"), "start_at"),
        ] {
            let reply = kit.post(&kit.admin.key, &format!("{path}backfill/"), body.clone()).await;
            assert_eq!((reply.status, reply.text("/attr")), (400, attr), "{body}");
        }
    }

    async fn others_neither_see_nor_touch_an_export(kit: Kit) {
        let path = create(&kit, no_op("hour")).await;
        let id = path.rsplit('/').nth(1).unwrap();
        let elsewhere = format!("/api/organizations/{}/batch_exports/{id}/", kit.other);
        for path in [&path, &elsewhere] {
            assert_eq!(kit.get(&kit.outsider.key, path).await.status, 404);
            assert_eq!(kit.delete(&kit.outsider.key, path).await.status, 404);
            let reply = kit.post(&kit.outsider.key, &format!("{path}pause/"), json!({})).await;
            assert_eq!(reply.status, 404);
        }
        let reader = kit.key(&kit.owner, &[Scope::Read(Object::BatchExport)]).await;
        assert_eq!(kit.get(&reader, &path).await.status, 200);
        for action in ["pause/", "unpause/", "backfill/", "test/"] {
            let reply = kit.post(&reader, &format!("{path}{action}"), json!({})).await;
            assert_eq!(reply.code(), (403, "permission_denied"), "{action}");
        }
        let mut body = no_op("hour");
        body["team_id"] = json!(kit.other_team.0);
        let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
        assert_eq!((reply.status, &reply.body["attr"]), (400, &json!("team_id")));
        assert_eq!(kit.person(Level::Member).user.email.as_str(), "mia@example.com");
    }

    async fn a_key_limited_to_teams_lists_their_exports_only(kit: Kit) {
        let mut teams = vec![kit.team.0];
        for name in ["Second", "Third"] {
            let made = kit.post(&kit.owner.key, &kit.at("teams/"), json!({ "name": name })).await;
            teams.push(made.body["id"].as_i64().unwrap());
        }
        for team in &teams {
            let mut body = no_op("hour");
            body["team_id"] = json!(team);
            body["paused"] = json!(true);
            create(&kit, body).await;
        }
        for limits in [&teams[..0], &teams[1..2], &teams[..2]] {
            let mut new = testkit::kit::everything();
            new.scoped_teams = (!limits.is_empty()).then(|| limits.iter().copied().map(TeamId).collect());
            let key = kit.key_like(&kit.member, new).await;
            let expected = if limits.is_empty() { &teams[..] } else { limits };
            let list = kit.get(&key, &kit.at("batch_exports/")).await;
            let mut seen: Vec<i64> = column(&list, "team_id").iter().filter_map(|team| team.as_i64()).collect();
            seen.sort_unstable();
            assert_eq!((&list.body["count"], &seen[..]), (&json!(expected.len()), expected));
            let organization = Some(OrganizationRef::Id(kit.organization));
            let caller = kit.service.allowed::<ReadExports>(Credential::Key(&key), organization, Request::default());
            let all = Window::new(None, None);
            let found = kit.service.exports_needing_attention(&caller.await.unwrap(), all).await.unwrap();
            assert_eq!(found.items.len(), expected.len(), "all of them are paused");
        }
    }

    async fn a_page_of_large_exports_ends_early(kit: Kit) {
        let names = vec!["x".repeat(120); 1000];
        let large = json!({
            "name": "x", "interval": "hour", "destination": { "type": "NoOp", "config": { "include_events": names } },
        });
        for _ in 0..55 {
            create(&kit, large.clone()).await;
        }
        let organization = Some(OrganizationRef::Id(kit.organization));
        let key = Credential::Key(&kit.member.key);
        let caller = kit.service.allowed::<ReadExports>(key, organization, Request::default()).await.unwrap();
        let page = kit.service.batch_exports(&caller, Window::new(Some(1000), None)).await.unwrap();
        assert_eq!((page.items.len(), page.count), (50, 55), "as many as a page for people has");
        let exports = kit.service.batch_exports_of_team(&caller, kit.team).await.unwrap();
        assert_eq!(exports, 55, "nobody has to read them to count them");
    }

    async fn a_dry_run_makes_nothing(kit: Kit) {
        let path = kit.at("batch_exports/?dry_run=true");
        let reply = kit.post(&kit.admin.key, &path, no_op("hour")).await;
        assert_eq!((reply.status, reply.header("x-dry-run")), (201, "true"));
        assert_eq!(kit.get(&kit.admin.key, &kit.at("batch_exports/")).await.body["count"], 0);
    }

    async fn a_whole_export_can_be_sent_back(kit: Kit) {
        let path = create(&kit, s3(&json!({}))).await;
        let mut whole = kit.get(&kit.admin.key, &path).await.body;
        whole["name"] = json!("Renamed");
        let reply = kit.patch(&kit.admin.key, &path, whole).await;
        assert_eq!((reply.status, &reply.body["name"]), (200, &json!("Renamed")), "{reply:?}");
        assert_eq!(kit.delete(&kit.admin.key, &path).await.status, 204);
        assert_eq!(kit.get(&kit.admin.key, &path).await.status, 404);
    }
}
