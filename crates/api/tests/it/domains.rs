use axum::body::Body;
use chrono::TimeDelta;
use serde_json::{Value, json};
use service::access::Actor;
use service::domains::DnsLookup;
use service::{DomainId, Level, Object, OrganizationId, Scope};
use testkit::browser::PASSWORD;
use testkit::kit::{bearer, with_json};
use testkit::{Kit, Reply, on_both};

use crate::{CERTIFICATE, activities, column, domain, prove, saml};

const EXPIRED: &str = include_str!("../../../auth/tests/fixtures/saml/rsa-expired.crt");
const OTHER: &str = include_str!("../../../auth/tests/fixtures/saml/other.crt");

pub(crate) fn at(kit: &Kit, domain: &Reply) -> String {
    kit.at(&format!("domains/{}/", domain.text("/id")))
}

async fn add(kit: &Kit, body: Value) -> Reply {
    kit.post(&kit.admin.key, &kit.at("domains/"), body).await
}

/// The same domain in the other organization.
pub(crate) async fn elsewhere(kit: &Kit, name: &str) -> Reply {
    let path = format!("/api/organizations/{}/domains/", kit.other);
    let made = kit.post(&kit.outsider.key, &path, json!({ "domain": name })).await;
    assert_eq!(made.status, 201, "{made:?}");
    made
}

pub(crate) async fn see(
    kit: &Kit,
    organization: OrganizationId,
    domain: &Reply,
    lookup: DnsLookup,
) -> service::domains::Domain {
    let id: DomainId = domain.text("/id").parse().unwrap();
    kit.service
        .settle_domain(&Actor::system(), organization, id, &lookup)
        .await
        .unwrap()
}

pub(crate) fn texts(domains: &[&Reply]) -> DnsLookup {
    DnsLookup::Texts(
        domains
            .iter()
            .map(|domain| domain.text("/verification_challenge").to_owned())
            .collect(),
    )
}

on_both! {
    async fn an_organization_has_a_hundred_domains_and_no_more(kit: Kit) {
        for number in 0..98 {
            assert_eq!(add(&kit, json!({ "domain": format!("d{number}.example") })).await.status, 201);
        }
        let last = futures_util::future::join_all((0..6).map(|number| {
            let path = kit.at("domains/");
            let (kit, body) = (&kit, json!({ "domain": format!("last{number}.example") }));
            async move { kit.post(&kit.admin.key, &path, body).await }
        })).await;
        assert_eq!(last.iter().filter(|reply| reply.status == 201).count(), 2, "{last:?}");
        let refused: Vec<&Reply> = last.iter().filter(|reply| reply.status != 201).collect();
        assert!(refused.iter().all(|reply| reply.code() == (400, "too_many_domains")), "{refused:?}");
        elsewhere(&kit, "another.example").await;
        let page = kit.get(&kit.admin.key, &kit.at("domains/?limit=1")).await;
        let gone = kit.at(&format!("domains/{}/", column(&page, "id")[0].as_str().unwrap()));
        assert_eq!(kit.delete(&kit.owner.key, &gone).await.status, 204);
        assert_eq!(add(&kit, json!({ "domain": "again.example" })).await.status, 201);
    }

    async fn certificates_have_a_longest_length(kit: Kit) {
        let long = format!("{CERTIFICATE}{}", "\n".repeat(33_000));
        let reply = add(&kit, json!({ "domain": "long.example", "saml_x509_cert": format!("{long}x") })).await;
        assert_eq!((reply.code(), reply.text("/attr")), ((400, "max_length"), "saml_x509_cert"), "{reply:?}");
    }

    async fn the_name_alone_is_enough(kit: Kit) {
        let made = add(&kit, json!({ "domain": "Example.COM" })).await;
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.text("/id").to_owned();
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(made.body, {
                ".id" => "[uuid]", ".verification_challenge" => "[random]", ".saml_sp_acs_url" => "[url]",
                ".saml_sp_entity_id" => "[url]", ".oidc_redirect_url" => "[url]",
            }, @r#"
            {
              "created_at": "2026-11-15T09:30:00.000000Z",
              "domain": "example.com",
              "has_oidc": false,
              "has_saml": false,
              "id": "[uuid]",
              "is_verified": false,
              "jit_provisioning_enabled": false,
              "oidc_client_id": "",
              "oidc_issuer": "",
              "oidc_redirect_url": "[url]",
              "saml_acs_url": "",
              "saml_entity_id": "",
              "saml_idp_initiated": false,
              "saml_metadata_url": "",
              "saml_sp_acs_url": "[url]",
              "saml_sp_entity_id": "[url]",
              "saml_x509_cert": "",
              "sso_enforcement": "",
              "updated_at": "2026-11-15T09:30:00.000000Z",
              "verification_challenge": "[random]",
              "verification_error": null,
              "verification_lost_at": null,
              "verification_record": "_hedgerow-challenge.example.com",
              "verified_at": null
            }
            "#);
        }
        assert!(made.text("/verification_challenge").len() >= 43);
        assert_eq!(made.header("location"), at(&kit, &made));
        let read = kit.get(&kit.member.key, &at(&kit, &made)).await;
        assert_eq!((read.status, &read.body, read.header("etag")), (200, &made.body, made.header("etag")));
        assert!(read.text("/saml_sp_acs_url").contains(&id));
    }

    async fn domains_are_listed_by_name_in_pages(kit: Kit) {
        for name in ["c.example", "a.example", "b.example"] {
            domain(&kit, json!({ "domain": name })).await;
        }
        let key = kit.key(&kit.member, &[Scope::Read(Object::Organization)]).await;
        let page = kit.get(&key, &kit.at("domains/?limit=2")).await;
        assert_eq!((page.status, &page.body["count"], &page.body["previous"]), (200, &json!(3), &json!(null)));
        assert_eq!(column(&page, "domain"), ["a.example", "b.example"]);
        assert!(page.text("/next").contains("offset=2"));
        let refused = kit.post(&key, &kit.at("domains/"), json!({ "domain": "d.example" })).await;
        assert_eq!(refused.code(), (403, "permission_denied"));
        let member = kit.post(&kit.member.key, &kit.at("domains/"), json!({ "domain": "d.example" })).await;
        assert_eq!(member.code(), (403, "permission_denied"), "administrators add domains");
    }

    async fn what_nobody_can_own_is_refused(kit: Kit) {
        let long = format!("{}.example", "a.".repeat(140));
        for name in ["co.uk", "github.io", "gmail.com", "GMX.de.", "web.de"] {
            let reply = add(&kit, json!({ "domain": name })).await;
            assert_eq!((reply.code(), reply.text("/attr")), ((400, "public_domain"), "domain"), "{name}");
        }
        for name in [
            "com", "localhost", "127.0.0.1", "a@b.example", "https://a.example", "a..example", "*.a.example",
            "_x.a.example", "a b.example",
        ] {
            let reply = add(&kit, json!({ "domain": name })).await;
            assert_eq!((reply.code(), reply.text("/attr")), ((400, "invalid_input"), "domain"), "{name}");
        }
        for (body, code) in [
            (json!({}), "required"), (json!({ "domain": "" }), "min_length"), (json!({ "domain": long }), "max_length"),
            (json!({ "domain": 7 }), "invalid_input"),
        ] {
            let reply = add(&kit, body.clone()).await;
            assert_eq!((reply.status, reply.text("/attr")), (400, "domain"), "{body}");
            assert!(reply.code().1 == code || reply.code().1 == "blank", "{body} {reply:?}");
        }
        assert_eq!(kit.get(&kit.owner.key, &kit.at("domains/")).await.body["count"], 0);
    }

    async fn one_name_has_one_form_and_stands_once(kit: Kit) {
        let made = add(&kit, json!({ "domain": "Bücher.Example." })).await;
        assert_eq!((made.status, made.text("/domain")), (201, "xn--bcher-kva.example"));
        assert_eq!(made.text("/verification_record"), "_hedgerow-challenge.xn--bcher-kva.example");
        for same in ["bücher.example", "XN--BCHER-KVA.example", "BÜCHER.example"] {
            let reply = add(&kit, json!({ "domain": same })).await;
            assert_eq!((reply.code(), reply.text("/attr")), ((400, "unique"), "domain"), "{same}");
        }
        assert_eq!(add(&kit, json!({ "domain": "below.bücher.example" })).await.status, 201);
        // An unproven claim blocks nobody.
        let other = elsewhere(&kit, "bücher.example").await;
        assert_ne!(other.text("/verification_challenge"), made.text("/verification_challenge"));
        assert!(see(&kit, kit.other, &other, texts(&[&other])).await.is_verified());
    }

    async fn read_only_and_unknown_fields_are_ignored(kit: Kit) {
        let extra = json!({
            "domain": "acme.example", "id": "01999999-9999-7999-8999-999999999999", "is_verified": true,
            "has_saml": true,
            "verified_at": "2026-01-01T00:00:00Z", "verification_challenge": "chosen", "organization_id": kit.other,
            "saml_metadata_url": "https://evil.example/", "unheard_of": [1],
        });
        let made = add(&kit, extra.clone()).await;
        assert_eq!(
            (made.status, &made.body["is_verified"], &made.body["verified_at"]), (201, &json!(false), &json!(null)),
        );
        assert_ne!(made.text("/verification_challenge"), "chosen");
        assert_eq!((&made.body["has_saml"], made.text("/saml_metadata_url")), (&json!(false), ""));
        let patched = kit.patch(&kit.admin.key, &at(&kit, &made), extra).await;
        assert_eq!((patched.status, &patched.body), (200, &made.body));
        let moved = kit.patch(&kit.admin.key, &at(&kit, &made), json!({ "domain": "other.example" })).await;
        assert_eq!((moved.status, moved.text("/domain")), (200, "acme.example"), "a domain never changes");
    }

    async fn a_whole_domain_can_be_sent_back(kit: Kit) {
        let mut settings = saml();
        settings["domain"] = json!("acme.example");
        settings["jit_provisioning_enabled"] = json!(true);
        settings["oidc_issuer"] = json!("https://login.acme.example");
        settings["oidc_client_id"] = json!("hedgerow");
        settings["oidc_client_secret"] = json!("s3cret-of-the-client");
        let made = domain(&kit, settings).await;
        assert_eq!((&made.body["has_saml"], &made.body["has_oidc"]), (&json!(true), &json!(true)));
        prove(&kit, &made).await;
        let read = kit.get(&kit.owner.key, &at(&kit, &made)).await;
        kit.service.clock().advance(TimeDelta::hours(1));
        let same = kit.patch(&kit.admin.key, &at(&kit, &made), read.body.clone()).await;
        assert_eq!((same.status, &same.body), (200, &read.body));
        let mut changed = read.body.clone();
        changed["jit_provisioning_enabled"] = json!(false);
        let changed = kit.patch(&kit.admin.key, &at(&kit, &made), changed).await;
        assert_eq!((changed.status, &changed.body["jit_provisioning_enabled"]), (200, &json!(false)));
        assert_eq!(changed.text("/updated_at"), "2026-11-15T10:30:00.000000Z");
        assert_eq!((&changed.body["is_verified"], &changed.body["has_oidc"]), (&json!(true), &json!(true)));
        let cleared =
            kit.patch(&kit.admin.key, &at(&kit, &made), json!({ "saml_x509_cert": null, "sso_enforcement": null })).await;
        assert_eq!(
            (cleared.status, cleared.text("/saml_x509_cert"), &cleared.body["has_saml"]), (200, "", &json!(false)),
        );
    }

    async fn settings_must_make_sense(kit: Kit) {
        let made = domain(&kit, json!({ "domain": "acme.example" })).await;
        let cases = [
            ("sso_enforcement", json!("password"), "invalid_choice"),
            ("sso_enforcement", json!("SAML"), "invalid_choice"),
            ("saml_x509_cert", json!("not a certificate"), "invalid_input"),
            ("saml_x509_cert", json!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"), "invalid_input"),
            ("saml_acs_url", json!("http://idp.example.com/sso"), "invalid_input"),
            ("saml_acs_url", json!("http://127.0.0.1.evil.example/sso"), "invalid_input"),
            ("saml_acs_url", json!("javascript:alert(1)"), "invalid_input"),
            ("saml_acs_url", json!("idp.example.com/sso"), "invalid_input"),
            ("saml_acs_url", json!("https://user:pass@idp.example.com/"), "invalid_input"),
            ("saml_acs_url", json!("https://idp.example.com/\r\nX: 1"), "invalid_input"),
            ("saml_acs_url", json!(format!("https://idp.example.com/{}", "x".repeat(512))), "max_length"),
            ("saml_entity_id", json!("two\nlines"), "invalid_input"),
            ("oidc_issuer", json!("http://login.example.com"), "invalid_input"),
            ("oidc_issuer", json!("https://login.example.com\t"), ""),
            ("jit_provisioning_enabled", json!("yes"), "invalid_input"),
            ("jit_provisioning_enabled", json!(null), "null"),
        ];
        for (field, value, code) in cases {
            let reply = kit.patch(&kit.admin.key, &at(&kit, &made), json!({ field: value })).await;
            if code.is_empty() {
                assert_eq!((reply.status, reply.text(&format!("/{field}"))), (200, value.as_str().unwrap().trim()));
                continue;
            }
            assert_eq!((reply.code(), reply.text("/attr")), ((400, code), field), "{value}");
            let new = add(&kit, json!({ "domain": "new.example", field: value })).await;
            assert_eq!((new.code(), new.text("/attr")), ((400, code), field), "{value}");
        }
        for url in [
            "http://127.0.0.1:8080/sso", "http://localhost/sso", "http://[::1]/sso", "https://idp.example.com/sso?x=1",
        ] {
            let reply = kit.patch(&kit.admin.key, &at(&kit, &made), json!({ "saml_acs_url": url })).await;
            assert_eq!((reply.status, reply.text("/saml_acs_url")), (200, url));
        }
        let bare: String = CERTIFICATE.lines().filter(|line| !line.starts_with('-')).collect();
        for certificates in [CERTIFICATE.trim(), &bare, format!("{CERTIFICATE}{OTHER}").trim()] {
            let reply = kit.patch(&kit.admin.key, &at(&kit, &made), json!({ "saml_x509_cert": certificates })).await;
            assert_eq!((reply.status, reply.text("/saml_x509_cert")), (200, certificates));
        }
    }

    async fn changes_and_removal_honour_if_match(kit: Kit) {
        let made = domain(&kit, json!({ "domain": "acme.example" })).await;
        let path = at(&kit, &made);
        let patch = async |tag: &str| {
            let request = bearer("PATCH", &path, &kit.admin.key).header("if-match", tag);
            kit.send(with_json(request, &json!({ "jit_provisioning_enabled": true }))).await
        };
        let delete = async |tag: &str| {
            kit.send(bearer("DELETE", &path, &kit.admin.key).header("if-match", tag).body(Body::empty()).unwrap()).await
        };
        assert_eq!(patch("\"stale\"").await.code(), (412, "precondition_failed"));
        let changed = patch(made.header("etag")).await;
        assert_eq!((changed.status, &changed.body["jit_provisioning_enabled"]), (200, &json!(true)));
        assert_eq!(delete(made.header("etag")).await.status, 412);
        let gone = delete(changed.header("etag")).await;
        assert_eq!((gone.status, gone.body), (204, Value::Null));
        assert_eq!(kit.get(&kit.owner.key, &path).await.code(), (404, "not_found"));
        assert_eq!(kit.delete(&kit.admin.key, &path).await.code(), (404, "not_found"));
        assert_eq!(activities(&kit, "OrganizationDomain").await, ["created", "deleted", "updated"]);
    }

    async fn a_dry_run_leaves_nothing_and_a_repetition_makes_one(kit: Kit) {
        let dry = kit.post(&kit.admin.key, &kit.at("domains/?dry_run=true"), json!({ "domain": "acme.example" })).await;
        assert_eq!((dry.status, dry.header("x-dry-run"), dry.text("/domain")), (201, "true", "acme.example"));
        assert_eq!(kit.get(&kit.owner.key, &kit.at("domains/")).await.body["count"], 0);
        let once = async || {
            let request = bearer("POST", &kit.at("domains/"), &kit.admin.key).header("idempotency-key", "once");
            kit.send(with_json(request, &json!({ "domain": "acme.example" }))).await
        };
        let (made, again) = (once().await, once().await);
        assert_eq!((again.status, &again.body, again.header("idempotency-replayed")), (201, &made.body, "true"));
        let path = at(&kit, &made);
        let patched =
            kit.patch(&kit.admin.key, &format!("{path}?dry_run=true"), json!({ "jit_provisioning_enabled": true })).await;
        assert_eq!((patched.status, &patched.body["jit_provisioning_enabled"]), (200, &json!(true)));
        assert_eq!(kit.delete(&kit.admin.key, &format!("{path}?dry_run=true")).await.status, 204);
        assert_eq!(kit.get(&kit.owner.key, &path).await.body, made.body);
    }

    async fn what_is_not_ready_is_not_enforced(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let made = domain(&kit, json!({ "domain": "acme.example" })).await;
        let path = at(&kit, &made);
        let enforce = async |sso: &str, mut with: Value| {
            with["sso_enforcement"] = json!(sso);
            kit.patch(&kit.admin.key, &path, with).await
        };
        assert_eq!(enforce("saml", json!({})).await.status, 200, "before the proof it has no effect");
        assert_eq!(enforce("", json!({})).await.status, 200);
        prove(&kit, &made).await;
        let mut expired = saml();
        expired["saml_x509_cert"] = json!(EXPIRED);
        for (sso, with) in [
            ("saml", json!({})), ("saml", json!({ "saml_entity_id": "x" })), ("saml", expired), ("oidc", json!({})),
            ("oidc", json!({ "oidc_issuer": "https://login.example.com", "oidc_client_id": "x" })),
            ("google-oauth2", json!({})), ("github", json!({})), ("gitlab", json!({})),
        ] {
            let reply = enforce(sso, with).await;
            assert_eq!((reply.code(), reply.text("/attr")), ((400, "sso_not_ready"), "sso_enforcement"), "{sso}");
        }
        assert_eq!(kit.get(&kit.owner.key, &path).await.text("/saml_entity_id"), "", "a failed change changes nothing");
        assert_eq!(enforce("saml", saml()).await.status, 200);
        let broken = kit.patch(&kit.admin.key, &path, json!({ "saml_x509_cert": "" })).await;
        assert_eq!(broken.code(), (400, "sso_not_ready"), "what is enforced stays usable");
        let oidc =
            json!({ "oidc_issuer": "https://login.example.com", "oidc_client_id": "x", "oidc_client_secret": "y" });
        assert_eq!(enforce("oidc", oidc).await.status, 200);
    }

    async fn enforcement_leaves_an_owner_a_way_in(kit: Kit) {
        let mut settings = saml();
        settings["domain"] = json!("example.com");
        let made = domain(&kit, settings).await;
        prove(&kit, &made).await;
        let path = at(&kit, &made);
        kit.give_password(&kit.owner).await;
        let enforce = async || kit.patch(&kit.admin.key, &path, json!({ "sso_enforcement": "saml" })).await;
        let relax = async || kit.patch(&kit.admin.key, &path, json!({ "sso_enforcement": "" })).await.status;
        let refused = enforce().await;
        assert_eq!((refused.code(), refused.text("/attr")), ((400, "would_lock_out"), "sso_enforcement"));
        assert_eq!(kit.get(&kit.owner.key, &path).await.text("/sso_enforcement"), "");

        // An owner elsewhere, but only one who can sign in there.
        let second = kit.join("second@elsewhere.example", Level::Owner).await;
        assert_eq!(enforce().await.code(), (400, "would_lock_out"), "no password");
        kit.give_password(&second).await;
        assert_eq!(enforce().await.status, 200);
        let member = kit.at(&format!("members/{}/", second.user.uuid));
        for refused in [
            kit.patch(&kit.owner.key, &member, json!({ "level": 8 })).await,
            kit.delete(&kit.owner.key, &member).await,
        ] {
            assert_eq!(refused.code(), (400, "would_lock_out"), "nobody else could sign in: {refused:?}");
        }
        assert_eq!(relax().await, 200);
        assert_eq!(kit.patch(&kit.owner.key, &member, json!({ "level": 8 })).await.status, 200);
        assert_eq!(enforce().await.code(), (400, "would_lock_out"), "administrators do not count");

        // Recovery codes. Enforcing has ended the sessions that were opened in another way.
        let owner = kit.signed_in(&kit.owner).await;
        let codes = owner.post(&kit.at("recovery_codes/"), json!({})).await;
        assert_eq!((codes.status, enforce().await.status), (201, 200));
        assert_eq!(kit.browser().log_in("olga@example.com", PASSWORD).await.code(), (400, "sso_enforced"));
        let recovery = json!({ "email": "olga@example.com", "code": codes.body["codes"][0] });
        assert_eq!(kit.browser().post("/api/login/recovery/", recovery).await.status, 200, "and they do let in");
        assert_eq!(relax().await, 200);
        kit.database.run("DELETE FROM recovery_code").await;
        assert_eq!(enforce().await.code(), (400, "would_lock_out"));

        // An owner who has signed in this way before.
        let id: DomainId = made.text("/id").parse().unwrap();
        let proof = kit.own_proof(&kit.owner.user).await;
        let identity = service::sso::VerifiedIdentity {
            sso: service::sso::Sso::Saml, domain: Some(id), subject: "olga".to_owned(),
            email: "olga@example.com".to_owned(),
            first_name: String::new(), last_name: String::new(), signed_in_as: Some(proof),
            session_until: None,
            assertion: None,
        };
        kit.service.enter(&identity, &service::access::Request::default()).await.unwrap();
        assert_eq!(enforce().await.status, 200);
    }

    async fn enforcement_that_was_stored_early_begins_with_the_proof_if_it_may(kit: Kit) {
        let mut settings = saml();
        settings["domain"] = json!("example.com");
        settings["sso_enforcement"] = json!("saml");
        let made = domain(&kit, settings).await;
        kit.give_password(&kit.owner).await;
        assert_eq!(
            kit.browser().log_in("olga@example.com", PASSWORD).await.status, 200, "without proof it has no effect",
        );
        let precheck = kit.browser().post("/api/login/precheck/", json!({ "email": "olga@example.com" })).await;
        assert_eq!(precheck.body["sso_enforcement"], json!(null));
        let proven = prove(&kit, &made).await;
        assert!(proven.is_verified());
        let read = kit.get(&kit.owner.key, &at(&kit, &made)).await;
        assert_eq!((read.text("/sso_enforcement"), read.text("/verification_error/code")), ("", "would_lock_out"));
        assert_eq!(kit.browser().log_in("olga@example.com", PASSWORD).await.status, 200);

        let mut settings = saml();
        settings["domain"] = json!("acme.example");
        settings["sso_enforcement"] = json!("saml");
        let made = domain(&kit, settings).await;
        prove(&kit, &made).await;
        assert_eq!(kit.browser().log_in("ann@acme.example", PASSWORD).await.code(), (400, "sso_enforced"));
    }

    async fn a_client_secret_is_never_shown_and_stays_with_its_issuer(kit: Kit) {
        let secret = "s3cret-of-the-client";
        let made = domain(&kit, json!({
            "domain": "acme.example", "oidc_issuer": "https://login.acme.example", "oidc_client_id": "hedgerow",
            "oidc_client_secret": secret,
        })).await;
        let path = at(&kit, &made);
        assert_eq!(made.body["has_oidc"], true);
        let kept = async || {
            let id: DomainId = made.text("/id").parse().unwrap();
            let domain = kit.service.domain(&caller(&kit).await, id).await.unwrap();
            domain.oidc_secret(kit.service.instance()).unwrap()
        };
        assert_eq!(kept().await.as_deref(), Some(secret));
        let same = kit.patch(&kit.admin.key, &path, json!({ "oidc_client_id": "other" })).await;
        assert_eq!((same.status, kept().await.as_deref()), (200, Some(secret)), "left out, it stays");
        let stolen = kit.patch(&kit.admin.key, &path, json!({ "oidc_issuer": "https://evil.example" })).await;
        assert_eq!((stolen.code(), stolen.text("/attr")), ((400, "required"), "oidc_client_secret"));
        let moved = json!({ "oidc_issuer": "https://new.acme.example", "oidc_client_secret": "another-s3cret" });
        let moved = kit.patch(&kit.admin.key, &path, moved).await;
        assert_eq!((moved.status, kept().await.as_deref()), (200, Some("another-s3cret")));
        let (list, log) = (
            kit.get(&kit.owner.key, &kit.at("domains/")).await, kit.get(&kit.owner.key, &kit.at("activity/")).await,
        );
        assert!(log.body.to_string().contains("oidc_client_secret"), "that it changed is told");
        for reply in [&made, &same, &moved, &list, &log] {
            let text = reply.body.to_string();
            assert!(!text.contains("s3cret"), "{text}");
        }
        assert!(list.body["results"][0].get("oidc_client_secret").is_none());
        assert!(!kit.database.holds("s3cret").await);
        let cleared = kit.patch(&kit.admin.key, &path, json!({ "oidc_client_secret": "" })).await;
        assert_eq!((&cleared.body["has_oidc"], kept().await), (&json!(false), None));
        // A thief who may change things cannot get at it by clearing the issuer in between.
        kit.patch(&kit.admin.key, &path, json!({ "oidc_client_secret": secret })).await;
        let blank = kit.patch(&kit.admin.key, &path, json!({ "oidc_issuer": "" })).await;
        let back = kit.patch(&kit.admin.key, &path, json!({ "oidc_issuer": "https://evil.example" })).await;
        assert!(blank.status == 400 || back.status == 400, "{blank:?} {back:?}");
    }

    async fn an_encrypted_secret_decrypts_for_its_own_row_only(kit: Kit) {
        let oidc = |name: &str, secret: &str| json!({
            "domain": name, "oidc_issuer": "https://login.acme.example", "oidc_client_id": "x",
            "oidc_client_secret": secret,
        });
        let (one, two) = (domain(&kit, oidc("a.example", "of a")).await, domain(&kit, oidc("b.example", "of b")).await);
        kit.database.run(
            "UPDATE domain SET oidc_client_secret = (SELECT oidc_client_secret FROM domain WHERE domain = 'a.example') \
             WHERE domain = 'b.example'",
        ).await;
        let open = async |domain: &Reply| {
            let domain = kit.service.domain(&caller(&kit).await, domain.text("/id").parse().unwrap()).await.unwrap();
            domain.oidc_secret(kit.service.instance()).ok().flatten()
        };
        assert_eq!((open(&one).await.as_deref(), open(&two).await), (Some("of a"), None));
        assert_eq!(
            kit.get(&kit.owner.key, &at(&kit, &two)).await.status, 200, "the domain can still be read and fixed",
        );
        let repaired = kit.patch(&kit.admin.key, &at(&kit, &two), json!({ "oidc_client_secret": "new" })).await;
        assert_eq!((repaired.status, open(&two).await.as_deref()), (200, Some("new")));
    }

    async fn metadata_is_taken_over_from_a_document(kit: Kit) {
        let made = domain(&kit, json!({ "domain": "acme.example" })).await;
        let import = format!("{}import_metadata/", at(&kit, &made));
        let bare: String = CERTIFICATE.lines().filter(|line| !line.starts_with('-')).collect();
        let xml = format!(
            r#"<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example.com/">
            <IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
            <KeyDescriptor use="signing"><KeyInfo xmlns="http://www.w3.org/2000/09/xmldsig#"><X509Data>
            <X509Certificate>{bare}</X509Certificate></X509Data></KeyInfo></KeyDescriptor>
            <SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example.com/sso"/>
            </IDPSSODescriptor></EntityDescriptor>"#
        );
        let dry = kit.post(&kit.admin.key, &format!("{import}?dry_run=true"), json!({ "xml": xml })).await;
        assert_eq!((dry.status, &dry.body["has_saml"]), (200, &json!(true)), "{dry:?}");
        assert_eq!(kit.get(&kit.owner.key, &at(&kit, &made)).await.body["has_saml"], false);
        let done = kit.post(&kit.admin.key, &import, json!({ "xml": xml })).await;
        assert_eq!((done.status, done.text("/saml_entity_id")), (200, "https://idp.example.com/"));
        assert_eq!((done.text("/saml_acs_url"), &done.body["has_saml"]), ("https://idp.example.com/sso", &json!(true)));
        for body in [json!({}), json!({ "xml": xml, "url": "https://idp.example.com/" })] {
            assert_eq!(kit.post(&kit.admin.key, &import, body).await.status, 400);
        }
        assert_eq!(kit.post(&kit.admin.key, &import, json!({ "xml": "<!DOCTYPE x><x/>" })).await.status, 400);
        for url in ["http://169.254.169.254/latest/meta-data/", "https://127.0.0.1:9/metadata", "file:///etc/passwd"] {
            let reply = kit.post(&kit.admin.key, &import, json!({ "url": url })).await;
            assert_eq!((reply.status, reply.text("/attr")), (400, "url"), "{url}");
        }
    }

    async fn diagnostics_say_what_was_seen_and_what_to_do(kit: Kit) {
        let made = domain(&kit, json!({ "domain": "acme.example" })).await;
        let reply = kit.post(&kit.admin.key, &format!("{}test/", at(&kit, &made)), json!({})).await;
        assert_eq!((reply.status, &reply.body["is_ok"]), (200, &json!(false)));
        let steps = reply.body["steps"].as_array().unwrap();
        assert_eq!((&steps[0]["name"], &steps[0]["status"]), (&json!("dns"), &json!("failed")));
        assert!(steps.iter().all(|step| step["message"].is_string() && step["recommended_action"].is_string()));
        let attempts = kit.get(&kit.admin.key, &format!("{}attempts/", at(&kit, &made))).await;
        assert_eq!((attempts.status, &attempts.body["count"]), (200, &json!(0)));
        assert_eq!(
            kit.get(&kit.member.key, &format!("{}attempts/", at(&kit, &made))).await.code(), (403, "permission_denied"),
        );
    }

    async fn a_domain_of_another_organization_is_not_found(kit: Kit) {
        let foreign = elsewhere(&kit, "shared.example").await;
        let path = at(&kit, &foreign);
        assert_eq!(kit.get(&kit.owner.key, &path).await.code(), (404, "not_found"));
        assert_eq!(
            kit.patch(&kit.owner.key, &path, json!({ "jit_provisioning_enabled": true })).await.code(),
            (404, "not_found"),
        );
        assert_eq!(kit.post(&kit.owner.key, &format!("{path}verify/"), json!({})).await.code(), (404, "not_found"));
        assert_eq!(kit.delete(&kit.owner.key, &path).await.code(), (404, "not_found"));
        let id: DomainId = foreign.text("/id").parse().unwrap();
        assert!(kit.service.settle_domain(&Actor::system(), kit.organization, id, &texts(&[&foreign])).await.is_err());
        let there = format!("/api/organizations/{}/domains/{}/", kit.other, foreign.text("/id"));
        assert_eq!(kit.get(&kit.outsider.key, &there).await.body, foreign.body);
    }
}

/// The owner, as somebody who may read domains.
async fn caller(kit: &Kit) -> service::access::Caller<service::access::ReadDomains> {
    let credential = service::credentials::Credential::Key(&kit.owner.key);
    let organization = Some(service::organizations::OrganizationRef::Id(kit.organization));
    let request = service::access::Request::default();
    kit.service.allowed(credential, organization, request).await.unwrap()
}
