//! What holds for all requests: slashes, methods, ids, headers, dry runs, idempotency, limits.

use axum::body::Body;
use axum::http::Request;
use chrono::TimeDelta;
use serde_json::json;
use testkit::databases::Backend;
use testkit::kit::{bearer, with_json};
use testkit::{Kit, Reply, on_both};

/// Lets every statement fail that would delete a row of a table.
fn refuse_deletions(kit: &Kit, table: &str) -> String {
    if kit.database.url.starts_with("sqlite") {
        return format!(
            "CREATE TRIGGER {table}_stays BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, 'it stays'); END"
        );
    }
    format!(
        "CREATE FUNCTION {table}_stays() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'it stays'; END$$; \
         CREATE TRIGGER {table}_stays BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_stays()"
    )
}

on_both! {
    async fn a_path_works_with_and_without_its_last_slash(kit: Kit) {
        for path in ["/api/organizations", "/api/organizations/@current", "/api/organizations/@current/members?limit=1",
            "/api/organizations/@current/teams", "/api/organizations/@current/activity", "/api/schema", "/api/docs"]
        {
            let with = path.split_once('?').map_or_else(|| format!("{path}/"), |(path, query)| format!("{path}/?{query}"));
            let (without, with) = (kit.get(&kit.owner.key, path).await, kit.get(&kit.owner.key, &with).await);
            assert_eq!((without.status, with.status), (200, 200), "{path}");
            assert_eq!(without.body, with.body, "{path}");
        }
    }

    async fn what_is_not_there_is_a_problem_like_any_other(kit: Kit) {
        for path in ["/api/nothing/", "/api/organizations/@current/nothing/", "/api/", "/nothing"] {
            let reply = kit.get(&kit.owner.key, path).await;
            assert_eq!((reply.code(), reply.text("/type")), ((404, "not_found"), "invalid_request"), "{path}");
            assert_eq!(reply.text("/request_id"), reply.header("x-request-id"));
        }
    }

    async fn methods_are_refused_or_listed(kit: Kit) {
        let send = async |method: &str, path: &str| {
            kit.send(bearer(method, path, &kit.owner.key).body(Body::empty()).unwrap()).await
        };
        let put = send("PUT", &kit.at("")).await;
        assert_eq!((put.code(), put.header("allow")), ((405, "method_not_allowed"), "GET,HEAD,PATCH,DELETE"));
        let options = send("OPTIONS", "/api/organizations/").await;
        assert_eq!((options.status, options.header("allow")), (204, "GET,HEAD,POST"));
        assert_eq!(options.header("access-control-allow-origin"), "");
        let head = send("HEAD", &kit.at("")).await;
        let get = send("GET", &kit.at("")).await;
        assert_eq!((head.status, &head.body), (200, &json!(null)));
        assert_eq!(head.header("content-length"), get.header("content-length"));
        assert_eq!(head.header("etag"), get.header("etag"));
    }

    async fn a_problem_is_served_as_such_to_who_knows_them(kit: Kit) {
        let request = bearer("GET", "/api/nothing/", &kit.owner.key).header("accept", "application/problem+json");
        let reply = kit.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.header("content-type"), "application/problem+json");
        assert_eq!(kit.get(&kit.owner.key, "/api/nothing/").await.header("content-type"), "application/json");
        for (accept, content_type) in [
            ("application/problem+json;q=0", "application/json"),
            ("text/html, application/problem+json; q=0.0, */*", "application/json"),
            ("text/html;q=0, Application/Problem+JSON;q=0.5", "application/problem+json"),
            ("application/problem+jsonx", "application/json"),
        ] {
            let request = bearer("GET", "/api/nothing/", &kit.owner.key).header("accept", accept);
            let reply = kit.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(reply.header("content-type"), content_type, "{accept}");
        }
    }

    async fn every_answer_has_an_id_and_is_safe_to_show(kit: Kit) {
        for path in ["/api/organizations/", "/api/nothing/", "/api/docs/"] {
            let reply = kit.get(&kit.owner.key, path).await;
            assert_eq!(reply.header("x-request-id").len(), 32);
            assert_eq!(reply.header("x-content-type-options"), "nosniff");
            assert!(reply.header("content-security-policy").contains("default-src 'none'"));
        }
        let forged = bearer("GET", "/api/organizations/", &kit.owner.key).header("x-request-id", "two words");
        assert_ne!(kit.send(forged.body(Body::empty()).unwrap()).await.header("x-request-id"), "two words");
    }

    async fn a_dry_run_of_a_deletion_deletes_nothing_on_the_way(kit: Kit) {
        let team = kit.post(&kit.owner.key, &kit.at("teams/"), json!({ "name": "Second" })).await;
        let app = kit.post(&kit.owner.key, &kit.at("pipeline_destinations/"), json!({ "plugin_type": "source", "name": "Look" })).await;
        let destination = json!({ "type": "NoOp", "config": {} });
        let export = json!({ "name": "Trial", "interval": "hour", "destination": destination });
        let export = kit.post(&kit.owner.key, &kit.at("batch_exports/"), export).await;
        let domain = kit.post(&kit.owner.key, &kit.at("domains/"), json!({ "domain": "example.com" })).await;
        for table in ["organization", "team", "pipeline_app", "batch_export", "domain"] {
            kit.database.run(&refuse_deletions(&kit, table)).await;
        }
        for path in [
            format!("teams/{}/", team.body["id"]),
            format!("pipeline_destinations/{}/", app.body["id"]),
            format!("batch_exports/{}/", export.text("/id")),
            format!("domains/{}/", domain.text("/id")),
            String::new(),
        ] {
            let dry = kit.delete(&kit.owner.key, &format!("{}?dry_run=true", kit.at(&path))).await;
            assert_eq!((dry.status, dry.header("x-dry-run")), (204, "true"), "{path}: {dry:?}");
            let real = kit.delete(&kit.owner.key, &kit.at(&path)).await;
            assert_eq!(real.status, 500, "{path}: the rows are not to be had: {real:?}");
        }
    }

    async fn a_dry_run_answers_and_changes_nothing(kit: Kit) {
        let before = kit.get(&kit.owner.key, &kit.at("")).await;
        let create = kit.post(&kit.owner.key, "/api/organizations/?dry_run=true", json!({ "name": "Dry" })).await;
        assert_eq!((create.status, create.header("x-dry-run"), create.text("/name")), (201, "true", "Dry"));
        let patch = kit.patch(&kit.owner.key, &format!("{}?dry_run=true", kit.at("")), json!({ "name": "Dry" })).await;
        assert_eq!((patch.status, patch.text("/name")), (200, "Dry"));
        let invalid = kit.post(&kit.owner.key, "/api/organizations/?dry_run=true", json!({})).await;
        assert_eq!(invalid.code(), (400, "required"));
        let delete = kit.delete(&kit.owner.key, &format!("{}?dry_run=true", kit.at(""))).await;
        assert_eq!((delete.status, delete.header("x-dry-run")), (204, "true"));
        let after = kit.get(&kit.owner.key, &kit.at("")).await;
        assert_eq!(before.body, after.body);
        assert_eq!(kit.get(&kit.owner.key, "/api/organizations/").await.body["count"], 1);
        let unclear = kit.delete(&kit.owner.key, &format!("{}?dry_run=perhaps", kit.at(""))).await;
        assert_eq!((unclear.status, unclear.text("/attr")), (400, "dry_run"));
    }

    async fn a_repeated_request_is_answered_and_not_done_again(kit: Kit) {
        let first = once(&kit, &kit.owner.key, "token-1", "One").await;
        let again = once(&kit, &kit.owner.key, "token-1", "One").await;
        assert_eq!((first.status, again.status), (201, 201));
        assert_eq!((&first.body, first.header("etag")), (&again.body, again.header("etag")));
        assert_eq!(first.header("location"), again.header("location"));
        assert_eq!((first.header("idempotency-replayed"), again.header("idempotency-replayed")), ("", "true"));
        assert_ne!(first.header("x-request-id"), again.header("x-request-id"));
        assert_eq!(once(&kit, &kit.owner.key, "token-1", "Two").await.code(), (422, "idempotency_key_reused"));
        let foreign = once(&kit, &kit.outsider.key, "token-1", "One").await;
        assert_eq!(foreign.status, 201);
        assert_ne!(foreign.text("/id"), first.text("/id"));
        assert_eq!(kit.get(&kit.owner.key, "/api/organizations/").await.body["count"], 2);

        let refused = once(&kit, &kit.owner.key, "token-2", "").await;
        let again = once(&kit, &kit.owner.key, "token-2", "").await;
        assert_eq!((refused.code(), &refused.body), ((400, "blank"), &again.body));

        kit.service.clock().advance(TimeDelta::hours(25));
        let later = once(&kit, &kit.owner.key, "token-1", "One").await;
        assert_ne!(later.text("/id"), first.text("/id"));
    }

    async fn of_many_requests_with_one_token_one_is_done(kit: Kit) {
        let requests = (0..20).map(|_| once(&kit, &kit.owner.key, "the-token", "One"));
        let replies = futures_util::future::join_all(requests).await;
        for reply in &replies {
            assert!(matches!(reply.code(), (201, _) | (409, "idempotency_in_progress")), "{reply:?}");
        }
        assert_eq!(kit.get(&kit.owner.key, "/api/organizations/").await.body["count"], 2);
        assert_eq!(once(&kit, &kit.owner.key, "the-token", "One").await.status, 201);
    }

    async fn a_token_whose_request_died_can_be_used_again(kit: Kit) {
        let claim = service::idempotency::Claim {
            user: kit.owner.user.id,
            route: "a route".to_owned(),
            token: "dead".to_owned(),
        };
        let take = async || kit.service.claim(&claim, &[7; 32]).await;
        assert!(matches!(take().await, Ok(service::idempotency::Claimed::Now)));
        let running = take().await.unwrap_err();
        assert!(matches!(running, service::Error::Conflict { code: "idempotency_in_progress", .. }), "{running:?}");
        kit.service.clock().advance(TimeDelta::minutes(3));
        assert!(matches!(take().await, Ok(service::idempotency::Claimed::Now)));
        assert_eq!(kit.service.delete_old_idempotent_responses().await.unwrap(), 0);
        kit.service.clock().advance(TimeDelta::hours(25));
        assert_eq!(kit.service.delete_old_idempotent_responses().await.unwrap(), 1);
    }

    async fn an_answer_is_kept_even_if_nobody_waits_for_it(kit: Kit) {
        for attempt in 0..20 {
            let (token, name) = (format!("token-{attempt}"), format!("Number {attempt}"));
            let first = once(&kit, &kit.owner.key, &token, &name);
            let _ = tokio::time::timeout(std::time::Duration::from_millis(attempt), first).await;
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            loop {
                let again = once(&kit, &kit.owner.key, &token, &name).await;
                if again.status == 201 {
                    break;
                }
                assert_eq!(again.code(), (409, "idempotency_in_progress"));
                assert!(std::time::Instant::now() < deadline, "the answer never came");
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        assert_eq!(kit.get(&kit.owner.key, "/api/organizations/").await.body["count"], 21);
    }

    async fn a_replay_stays_within_the_reach_of_a_key(kit: Kit) {
        let second = kit.post(&kit.owner.key, "/api/organizations/", json!({ "name": "Second" })).await;
        let second: service::OrganizationId = second.text("/id").parse().unwrap();
        let create = async |organization| {
            let mut new = testkit::kit::everything();
            new.scoped_organizations = Some(vec![organization]);
            let key = kit.key_like(&kit.owner, new).await;
            let request = bearer("POST", "/api/organizations/@current/teams/", &key).header("idempotency-key", "same");
            kit.send(with_json(request, &json!({ "name": "Web" }))).await.text("/organization").to_owned()
        };
        assert_eq!(create(kit.organization).await, kit.organization.to_string());
        assert_eq!(create(second).await, second.to_string());
        let long = format!("/api/organizations/?x={}", "y".repeat(6000));
        let long = bearer("POST", &long, &kit.owner.key).header("idempotency-key", "long");
        assert_eq!(kit.send(with_json(long, &json!({ "name": "Long" }))).await.status, 201);
    }

    async fn nothing_is_judged_before_the_credential(kit: Kit) {
        let wrong = "a-key-that-never-was";
        let path = "/api/organizations/?dry_run=perhaps";
        assert_eq!(kit.post(wrong, path, json!({})).await.status, 401);
        let bad_token = bearer("POST", "/api/organizations/", wrong).header("idempotency-key", "x".repeat(300));
        assert_eq!(kit.send(with_json(bad_token, &json!({}))).await.status, 401);
        let bad_token = bearer("POST", "/api/organizations/", &kit.owner.key).header("idempotency-key", "x".repeat(300));
        let reply = kit.send(with_json(bad_token, &json!({ "name": "Fine" }))).await;
        assert_eq!((reply.status, reply.text("/attr")), (400, "Idempotency-Key"));
        let large = bearer("POST", "/api/organizations/", wrong).header("idempotency-key", "large");
        let large = with_json(large, &json!({ "name": "x".repeat(2_000_000) }));
        assert_eq!(kit.send(large).await.status, 401);
        let read = service::Scope::Read(service::Object::Organization);
        let unscoped = kit.key(&kit.outsider, &[read]).await;
        let refused = kit.patch(&unscoped, &kit.at(""), json!({ "name": 7 })).await;
        assert_eq!(refused.status, 403, "the scope comes before the membership: {refused:?}");
        assert_eq!(kit.patch(&kit.outsider.key, &kit.at(""), json!({ "name": 7 })).await.status, 404);
        assert_eq!(kit.patch(&kit.member.key, &kit.at(""), json!({ "name": 7 })).await.status, 403);
    }

    async fn failed_credentials_are_limited_and_good_ones_are_not(kit: Kit) {
        let mut last = None;
        for _ in 0..70 {
            last = Some(kit.get("a-key-that-never-was", "/api/organizations/").await);
        }
        let last = last.unwrap();
        assert_eq!((last.code(), last.text("/type")), ((429, "throttled"), "throttled_error"));
        assert!(last.header("retry-after").parse::<u64>().unwrap() > 0);
        assert_eq!(kit.get(&kit.owner.key, "/api/organizations/").await.status, 200);
    }
}

async fn once(kit: &Kit, key: &str, token: &str, name: &str) -> Reply {
    let request = bearer("POST", "/api/organizations/", key).header("idempotency-key", token);
    kit.send(with_json(request, &json!({ "name": name }))).await
}

#[tokio::test]
async fn a_key_may_ask_as_often_as_the_operator_says() {
    let settings = api::Settings {
        rate_limit: Some("3/hour".parse().unwrap()),
        ..api::Settings::default()
    };
    let kit = Kit::with(Backend::Sqlite, settings).await;
    for remaining in [2, 1, 0] {
        let reply = kit.get(&kit.owner.key, "/api/organizations/").await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("ratelimit-policy"), "\"key\";q=3;w=3600");
        assert!(
            reply
                .header("ratelimit")
                .starts_with(&format!("\"key\";r={remaining};t=")),
            "{reply:?}"
        );
    }
    let reply = kit.get(&kit.owner.key, "/api/organizations/").await;
    assert_eq!(reply.code(), (429, "throttled"));
    assert!(reply.header("retry-after").parse::<u64>().unwrap() > 1000);
    assert_eq!(kit.get(&kit.admin.key, "/api/organizations/").await.status, 200);
}

#[tokio::test]
async fn only_named_origins_may_call_from_a_browser() {
    let settings = api::Settings {
        cors_origins: vec!["https://app.example".into()],
        ..api::Settings::default()
    };
    let kit = Kit::with(Backend::Sqlite, settings).await;
    let preflight = |origin: &str| {
        Request::builder()
            .method("OPTIONS")
            .uri("/api/organizations/")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .body(Body::empty())
            .unwrap()
    };
    let named = kit.send(preflight("https://app.example")).await;
    assert_eq!(named.header("access-control-allow-origin"), "https://app.example");
    let other = kit.send(preflight("https://evil.example")).await;
    assert_eq!(other.header("access-control-allow-origin"), "");
    assert_eq!(
        (named.header("x-request-id").len(), other.header("x-request-id").len()),
        (32, 32)
    );
}

#[tokio::test]
async fn a_request_names_one_host_and_links_begin_with_no_other() {
    let trusted = api::Settings {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..api::Settings::default()
    };
    for settings in [api::Settings::default(), trusted] {
        let kit = Kit::with(Backend::Sqlite, settings).await;
        let ask = async |hosts: &[&str]| {
            let mut request = Request::get("/api/organizations/?limit=1").body(Body::empty()).unwrap();
            let headers = request.headers_mut();
            headers.insert("authorization", format!("Bearer {}", kit.owner.key).parse().unwrap());
            for host in hosts {
                headers.append("host", host.parse().unwrap());
            }
            kit.send(request).await
        };
        assert_eq!(ask(&["hedgerow.test:8000"]).await.status, 200);
        for hosts in [
            ["hedgerow.test", "evil.example"].as_slice(),
            &["hedgerow.test", "hedgerow.test"],
            &["evil.example/x?"],
            &["user@evil.example"],
            &["a b"],
            &[""],
            &["a:99999"],
        ] {
            assert_eq!(ask(hosts).await.code(), (400, "invalid_host"), "{hosts:?}");
        }
    }
}

#[tokio::test]
async fn browsers_that_came_by_https_are_told_to_stay_there() {
    let seconds = async |settings: api::Settings, scheme: &str| {
        let kit = Kit::with(Backend::Sqlite, settings).await;
        let request = bearer("GET", "/api/organizations/", &kit.owner.key).header("x-forwarded-proto", scheme);
        let reply = kit.send(request.body(Body::empty()).unwrap()).await;
        reply.header("strict-transport-security").to_owned()
    };
    let site = |url: &str| api::Settings {
        site_url: Some(url.into()),
        ..api::Settings::default()
    };
    let proxied = || api::Settings {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..api::Settings::default()
    };
    assert_eq!(
        seconds(site("https://hedgerow.example"), "http").await,
        "max-age=31536000"
    );
    assert_eq!(seconds(proxied(), "https").await, "max-age=31536000");
    assert_eq!(seconds(proxied(), "http").await, "");
    assert_eq!(
        seconds(site("http://hedgerow.example"), "https").await,
        "",
        "anybody can say so"
    );
}

#[tokio::test]
async fn links_begin_with_the_site_or_what_a_trusted_proxy_says() {
    let list = |kit: &Kit| {
        bearer("GET", "/api/organizations/?limit=1", &kit.owner.key)
            .header("x-forwarded-proto", "https")
            .header("x-forwarded-host", "proxy.example")
            .body(Body::empty())
            .unwrap()
    };
    let next = async |settings: api::Settings| {
        let kit = Kit::with(Backend::Sqlite, settings).await;
        kit.post(&kit.owner.key, "/api/organizations/", json!({ "name": "Second" }))
            .await;
        kit.send(list(&kit)).await.text("/next").to_owned()
    };
    let plain = next(api::Settings::default()).await;
    assert!(plain.starts_with("http://hedgerow.test/api/organizations/?"), "{plain}");
    let trusted = vec!["127.0.0.0/8".parse().unwrap()];
    let proxied = next(api::Settings {
        trusted_proxies: trusted,
        ..api::Settings::default()
    })
    .await;
    assert!(proxied.starts_with("https://proxy.example/api/"), "{proxied}");
    let site = next(api::Settings {
        site_url: Some("https://hedgerow.example/".into()),
        ..api::Settings::default()
    })
    .await;
    assert!(site.starts_with("https://hedgerow.example/api/"), "{site}");
}

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Log {
    /// What this thread logs, until the guard is dropped.
    pub(crate) fn of_this_thread() -> (Self, tracing::subscriber::DefaultGuard) {
        // Another thread may be the first to log at some place, and nobody hears it there: then nobody would ever be asked again.
        let of_others = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        let _ = tracing::subscriber::set_global_default(of_others);
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn secrets_in_paths_are_not_logged() {
    let kit = Kit::new(Backend::Sqlite).await;
    let (log, guard) = Log::of_this_thread();
    for path in ["/api/signup/hgi_s3cret/", "/api/reset/hgw_s3cret/"] {
        let request = Request::builder().method("POST").uri(path);
        kit.send(with_json(
            request,
            &json!({ "first_name": "Ann", "password": "correct horse" }),
        ))
        .await;
    }
    kit.get("hgr_s3cret", &kit.at("members/?search=s3cret")).await;
    drop(guard);
    let text = log.text();
    assert!(
        text.contains("/api/signup/{token}/") && text.contains("/api/reset/{token}/"),
        "{text}"
    );
    assert!(text.contains(&kit.at("members/")), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}
