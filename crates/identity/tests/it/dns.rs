//! Proving domains, with a real name server.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use identity::{Identity, IdentityDeps};
use outbound::{Mailer, Roots};
use serde_json::{Value, json};
use service::access::{ChangeDomains, Request};
use service::credentials::Credential;
use service::domains::Domain;
use service::organizations::OrganizationRef;
use service::{Instance, RandomSource, Service};
use testkit::databases::Backend;
use testkit::external::{Dns, SilentDns, Smtp, SmtpOptions};
use testkit::kit::{deps, instance};
use testkit::{Kit, Reply, on_both};

use crate::scene::{Added, OURS, activities, add, add_elsewhere, kit_of};

struct Scene {
    kit: Kit,
    dns: Dns,
    smtp: Smtp,
    domain: Added,
}

impl Scene {
    async fn new(backend: Backend) -> Self {
        let dns = Dns::start(&[OURS, "example.net"]);
        let smtp = Smtp::start(SmtpOptions::default());
        let deps = IdentityDeps {
            dns: outbound::Dns::new(&[dns.address()]).unwrap(),
            mailer: Some(Mailer::new(&smtp.url(), "hedgerow@example.com", &Roots::public()).unwrap()),
            ..deps()
        };
        let instance = Instance {
            sends_mail: true,
            ..instance()
        };
        let kit = kit_of(backend, instance, deps).await;
        let domain = add(&kit, OURS).await;
        Self { kit, dns, smtp, domain }
    }

    async fn verify(&self) -> Reply {
        verify(&self.kit, &self.domain).await
    }

    async fn expect_problem(&self, code: &str, shown: &str) {
        let reply = self.verify().await;
        assert_eq!(reply.body["is_verified"], false, "{reply:?}");
        assert_eq!(reply.text("/verification_error/code"), code);
        assert!(reply.text("/verification_error/detail").contains(shown), "{reply:?}");
    }

    /// A day passes, and what is due is done.
    async fn a_day_later(&self) -> Reply {
        self.kit
            .service
            .clock()
            .advance(TimeDelta::days(1) + TimeDelta::minutes(1));
        while self.kit.identity.step().await.unwrap() {}
        self.kit.get(&self.domain.key, &self.domain.at("")).await
    }

    async fn subjects(&self) -> Vec<String> {
        let mails = self.smtp.mails().await.into_iter();
        mails
            .map(|mail| format!("{}: {}", mail.to.join(","), mail.subject))
            .collect()
    }
}

async fn verify(kit: &Kit, domain: &Added) -> Reply {
    let reply = kit.post(&domain.key, &domain.at("verify/"), json!({})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

async fn verify_inside(kit: &Kit, domain: &Added) -> Domain {
    let organization = Some(OrganizationRef::Id(domain.organization));
    let caller = kit
        .service
        .allowed::<ChangeDomains>(Credential::Key(&domain.key), organization, Request::default())
        .await;
    let domain = kit.identity.verify_domain(&caller.unwrap(), domain.id).await;
    domain.unwrap()
}

on_both! {
    async fn a_record_proves_a_domain_as_soon_as_it_is_there(scene: Scene) {
        let Scene { kit, dns, domain, .. } = &scene;
        scene.expect_problem("dns_no_record", &domain.challenge).await;
        assert_eq!(verify_inside(kit, domain).await.verification_error.unwrap().code, "dns_no_record");
        // The name is there, but no such record.
        dns.put(&domain.record, "A", "127.0.0.1");
        scene.expect_problem("dns_no_record", &domain.record).await;
        dns.put_txt(&domain.record, &["something else"]);
        scene.expect_problem("dns_mismatch", "\"something else\"").await;
        dns.put_txt(&domain.record, &[&domain.challenge]);
        let reply = scene.verify().await;
        assert_eq!(reply.body["is_verified"], true, "{reply:?}");
        assert_eq!(reply.body["verification_error"], json!(null));
        assert!(activities(kit, domain).await.contains(&"updated".to_owned()));
        let first = reply.text("/verified_at").to_owned();
        // Once more is no harm, and changes nothing.
        kit.service.clock().advance(TimeDelta::minutes(1));
        assert!(verify_inside(kit, domain).await.is_verified());
        assert_eq!(scene.verify().await.text("/verified_at"), first);
    }

    async fn a_record_that_was_asked_for_is_looked_for_until_it_is_seen(scene: Scene) {
        let Scene { kit, dns, domain, .. } = &scene;
        let clock = kit.service.clock();
        clock.advance(TimeDelta::hours(1));
        assert!(!kit.identity.check_unverified_domains().await.unwrap(), "nobody has asked yet");
        scene.expect_problem("dns_no_record", &domain.record).await;
        assert!(!kit.identity.check_unverified_domains().await.unwrap(), "not immediately");
        clock.advance(TimeDelta::minutes(3));
        assert!(kit.identity.check_unverified_domains().await.unwrap());
        assert!(!kit.identity.check_unverified_domains().await.unwrap(), "one look is enough for a while");
        dns.put_txt(&domain.record, &[&domain.challenge]);
        clock.advance(TimeDelta::minutes(3));
        assert!(kit.identity.check_unverified_domains().await.unwrap());
        assert_eq!(kit.get(&domain.key, &domain.at("")).await.body["is_verified"], true);

        let other = add(kit, "example.net").await;
        assert_eq!(verify(kit, &other).await.body["is_verified"], false);
        clock.advance(TimeDelta::days(8));
        assert!(!kit.identity.check_unverified_domains().await.unwrap(), "nobody waits for ever");
    }

    async fn many_domains_of_one_organization_do_not_delay_those_of_another(scene: Scene) {
        let Scene { kit, dns, .. } = &scene;
        let clock = kit.service.clock();
        for number in 0..20 {
            let domain = add(kit, &format!("d{number}.example.net")).await;
            assert_eq!(verify(kit, &domain).await.body["is_verified"], false);
        }
        clock.advance(TimeDelta::seconds(1));
        let theirs = add_elsewhere(kit, "theirs.example.net").await;
        assert_eq!(verify(kit, &theirs).await.body["is_verified"], false);
        dns.put_txt(&theirs.record, &[&theirs.challenge]);
        clock.advance(TimeDelta::minutes(3));
        assert!(kit.identity.check_unverified_domains().await.unwrap());
        assert_eq!(kit.get(&theirs.key, &theirs.at("")).await.body["is_verified"], true, "in the first round");
        for _ in 1..20 {
            assert!(kit.identity.check_unverified_domains().await.unwrap(), "one by one");
        }
        assert!(!kit.identity.check_unverified_domains().await.unwrap(), "all were looked for");
    }

    async fn organizations_take_turns_at_being_looked_for(scene: Scene) {
        let Scene { kit, .. } = &scene;
        let clock = kit.service.clock();
        let mut added = Vec::new();
        for name in ["a.example.net", "b.example.net"] {
            added.push(add(kit, name).await);
        }
        for name in ["x.example.net", "y.example.net"] {
            added.push(add_elsewhere(kit, name).await);
        }
        for domain in &added {
            clock.advance(TimeDelta::seconds(1));
            assert_eq!(verify(kit, domain).await.body["is_verified"], false);
        }
        clock.advance(TimeDelta::minutes(3));
        let mut looked_for = Vec::new();
        for _ in 0..5 {
            clock.advance(TimeDelta::seconds(5));
            let round = kit.service.unverified_domains(1).await.unwrap();
            looked_for.extend(round.into_iter().map(|domain| domain.domain));
        }
        assert_eq!(looked_for, ["a.example.net", "x.example.net", "b.example.net", "y.example.net"]);
    }

    async fn the_value_is_compared_exactly(scene: Scene) {
        let Scene { dns, domain, .. } = &scene;
        let challenge = &domain.challenge;
        let swapped: String = challenge
            .chars()
            .map(|c| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
            .collect();
        assert_ne!(&swapped, challenge);
        for wrong in [swapped, format!("{challenge} "), format!("\"{challenge}\""), format!("v={challenge}")] {
            dns.put_txt(&domain.record, &[&wrong]);
            scene.expect_problem("dns_mismatch", wrong.get(..20).unwrap()).await;
            dns.remove(&domain.record);
        }
        // In another case the name is still the name.
        let upper = domain.record.replace("example.com", "EXAMPLE.com");
        dns.put_txt(&upper.to_lowercase(), &[challenge]);
        assert_eq!(scene.verify().await.body["is_verified"], true);
    }

    async fn a_record_may_come_in_parts_among_others_or_by_another_name(scene: Scene) {
        let Scene { kit, dns, domain, .. } = &scene;
        let (start, end) = domain.challenge.split_at(10);
        dns.put_txt(&domain.record, &[start]);
        dns.put_txt(&domain.record, &[end]);
        // Two records are two values.
        scene.expect_problem("dns_mismatch", start).await;
        dns.put_txt(&domain.record, &[start, end]);
        assert_eq!(scene.verify().await.body["is_verified"], true);

        let second = add(kit, "example.net").await;
        dns.put_cname(&second.record, "proofs.example.com");
        assert_eq!(verify(kit, &second).await.text("/verification_error/code"), "dns_no_record");
        dns.put_txt("proofs.example.com", &[&second.challenge]);
        let reply = verify(kit, &second).await;
        assert_eq!(reply.body["is_verified"], true, "{reply:?}");
    }

    async fn one_of_two_organizations_wins_and_the_record_decides(scene: Scene) {
        let Scene { kit, dns, domain, .. } = &scene;
        let theirs = add_elsewhere(kit, OURS).await;
        // Another's record proves nothing for us.
        dns.put_txt(&theirs.record, &[&theirs.challenge]);
        scene.expect_problem("dns_mismatch", "").await;
        dns.put_txt(&domain.record, &[&domain.challenge]);
        let (one, other) = tokio::join!(verify(kit, domain), verify(kit, &theirs));
        let is_ours = one.body["is_verified"] == true;
        assert_ne!(is_ours, other.body["is_verified"] == true, "{one:?} {other:?}");
        let (winner, loser, refused) = if is_ours { (domain, &theirs, &other) } else { (&theirs, domain, &one) };
        assert_eq!(refused.text("/verification_error/code"), "domain_taken");
        assert!(!refused.body.to_string().contains(&winner.challenge), "{refused:?}");
        // As long as the winner's record is there.
        assert_eq!(verify(kit, loser).await.body["is_verified"], false);
        dns.remove(&domain.record);
        dns.put_txt(&loser.record, &[&loser.challenge]);
        assert_eq!(verify(kit, loser).await.body["is_verified"], true);
        let revoked = kit.get(&winner.key, &winner.at("")).await;
        assert_eq!(revoked.body["is_verified"], false, "{revoked:?}");
        // By nobody: it costs nothing of what the other organization may write, which could be used up.
        let log = format!("/api/organizations/{}/activity/?scope=OrganizationDomain", winner.organization);
        let log = kit.get(&winner.key, &log).await;
        let entries = log.body["results"].as_array().unwrap();
        let is_by_nobody = |entry: &Value| entry["activity"] == "updated" && entry["user"].is_null();
        assert!(entries.iter().any(is_by_nobody), "{log:?}");
        while kit.identity.step().await.unwrap() {}
        let owner = if is_ours { "olga@example.com" } else { "otto@elsewhere.example" };
        assert_eq!(scene.subjects().await, [format!("{owner}: example.com is no longer verified")]);
    }

    async fn a_lost_record_is_waited_for_and_people_are_told(scene: Scene) {
        let Scene { kit, dns, domain, .. } = &scene;
        dns.put_txt(&domain.record, &[&domain.challenge]);
        assert_eq!(scene.verify().await.body["is_verified"], true);
        let fine = scene.a_day_later().await;
        assert_eq!(fine.body["verification_lost_at"], json!(null));

        dns.remove(&domain.record);
        let lost = scene.a_day_later().await;
        assert_eq!(lost.body["is_verified"], true, "{lost:?}");
        assert_ne!(lost.body["verification_lost_at"], json!(null));
        assert_eq!(lost.text("/verification_error/code"), "dns_no_record");
        assert_eq!(scene.subjects().await, ["olga@example.com: The DNS record for example.com is missing"]);
        let mail = &scene.smtp.mails().await[0];
        assert!(mail.text.as_ref().unwrap().contains(&domain.challenge), "{mail:?}");

        // Back in time: all is well, and forgotten.
        dns.put_txt(&domain.record, &[&domain.challenge]);
        let back = scene.a_day_later().await;
        assert_eq!((&back.body["is_verified"], &back.body["verification_lost_at"]), (&json!(true), &json!(null)));
        assert_eq!(back.body["verification_error"], json!(null));

        dns.remove(&domain.record);
        for day in 0..7 {
            let lost = scene.a_day_later().await;
            assert_eq!(lost.body["is_verified"], true, "day {day}: {lost:?}");
        }
        let over = scene.a_day_later().await;
        assert_eq!(over.body["is_verified"], false, "{over:?}");
        assert_eq!(scene.subjects().await, [
            "olga@example.com: The DNS record for example.com is missing",
            "olga@example.com: The DNS record for example.com is missing",
            "olga@example.com: example.com is no longer verified",
        ]);
        // What is not verified is not looked at any more; whoever wants it verifies it again.
        dns.put_txt(&domain.record, &[&domain.challenge]);
        assert_eq!(scene.a_day_later().await.body["is_verified"], false);
        assert_eq!(scene.verify().await.body["is_verified"], true);
        assert_eq!(kit.get(&domain.key, &domain.at("")).await.body["verification_lost_at"], json!(null));
    }

    async fn a_name_server_that_is_silent_proves_and_disproves_nothing(scene: Scene) {
        let Scene { kit, dns, domain, .. } = &scene;
        dns.put_txt(&domain.record, &[&domain.challenge]);
        assert_eq!(scene.verify().await.body["is_verified"], true);
        let silent = SilentDns::start();
        let deps = IdentityDeps {
            dns: outbound::Dns::new(&[silent.address()]).unwrap(),
            ..deps()
        };
        let service = Service::new(kit.database.open().await, kit.service.clock().clone(), RandomSource::System, instance());
        let deaf = Identity::new(service, deps);
        for _ in 0..2 {
            kit.service.clock().advance(TimeDelta::days(10));
            assert!(deaf.recheck_domain().await.unwrap());
            // Nobody asks again immediately.
            assert!(!deaf.recheck_domain().await.unwrap());
        }
        let reply = kit.get(&domain.key, &domain.at("")).await;
        assert_eq!(reply.body["is_verified"], true);
        assert_eq!(reply.body["verification_lost_at"], json!(null));
        assert_eq!(reply.text("/verification_error/code"), "dns_timeout");
    }
}

on_both! {
    async fn what_was_stored_before_the_proof_begins_with_it_unless_it_would_lock_out(scene: Scene) {
        let Scene { kit, dns, domain, .. } = &scene;
        let settings = json!({ "sso_enforcement": "saml", "jit_provisioning_enabled": true });
        assert_eq!(kit.patch(&domain.key, &domain.at(""), settings).await.status, 200);
        dns.put_txt(&domain.record, &[&domain.challenge]);
        let reply = scene.verify().await;
        assert_eq!(reply.body["is_verified"], true, "{reply:?}");
        assert_eq!(reply.text("/sso_enforcement"), "");
        assert_eq!(reply.body["jit_provisioning_enabled"], true);
        assert_eq!(reply.text("/verification_error/code"), "sso_not_ready");
        assert_eq!(scene.verify().await.body["verification_error"], json!(null));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_name_server_is_waited_for_five_seconds_and_in_a_dry_run_not_asked() {
    let silent = SilentDns::start();
    let deps = IdentityDeps {
        dns: outbound::Dns::new(&[silent.address()]).unwrap(),
        ..deps()
    };
    let kit = kit_of(Backend::Sqlite, instance(), deps).await;
    let domain = add(&kit, OURS).await;
    let start = Instant::now();
    let dry = kit
        .post(&domain.key, &domain.at("verify/?dry_run=true"), json!({}))
        .await;
    assert_eq!((dry.status, dry.header("x-dry-run")), (200, "true"), "{dry:?}");
    assert_eq!(dry.body["verification_error"], json!(null));
    let dry = kit.post(&domain.key, &domain.at("test/?dry_run=true"), json!({})).await;
    assert_eq!(dry.text("/steps/0/status"), "skipped", "{dry:?}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());

    let start = Instant::now();
    let reply = verify(&kit, &domain).await;
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(reply.body["is_verified"], false);
    assert_eq!(reply.text("/verification_error/code"), "dns_timeout");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_server_that_refuses_or_is_not_there_is_no_failure_of_ours() {
    let dns = Dns::start(&["example.net"]);
    for (address, code) in [
        (dns.address(), "dns_error"),
        (([127, 0, 0, 1], 9).into(), "dns_timeout"),
    ] {
        let deps = IdentityDeps {
            dns: outbound::Dns::new(&[address]).unwrap(),
            ..deps()
        };
        let kit = kit_of(Backend::Sqlite, instance(), deps).await;
        let domain = add(&kit, OURS).await;
        let reply = verify(&kit, &domain).await;
        assert_eq!(reply.body["is_verified"], false);
        assert_eq!(reply.text("/verification_error/code"), code, "{reply:?}");
    }
}
