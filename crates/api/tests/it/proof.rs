//! Who has a domain, by what is seen in DNS.

use axum::body::Body;
use chrono::TimeDelta;
use serde_json::json;
use service::domains::DnsLookup;
use service::mail::EmailMessage;
use service::{Level, Object, Scope};
use testkit::browser::PASSWORD;
use testkit::kit::bearer;
use testkit::{Kit, on_both};

use crate::domains::{at, elsewhere, see, texts};
use crate::{domain, enforce_saml, prove};

on_both! {
    async fn verifying_always_answers_with_the_domain(kit: Kit) {
        let made = domain(&kit, json!({ "domain": "acme.example" })).await;
        let verify = format!("{}verify/", at(&kit, &made));
        let dry = kit.post(&kit.admin.key, &format!("{verify}?dry_run=true"), json!({})).await;
        assert_eq!((dry.status, &dry.body["verification_error"]), (200, &json!(null)), "nobody was asked");
        let started = std::time::Instant::now();
        let body = json!({ "domain": "evil.example", "is_verified": true, "sso_enforcement": "saml" });
        let reply = kit.post(&kit.admin.key, &verify, body).await;
        assert!(started.elapsed() < std::time::Duration::from_secs(6));
        assert_eq!(
            (reply.status, &reply.body["is_verified"], &reply.body["id"]), (200, &json!(false), &made.body["id"]),
        );
        assert!(matches!(reply.text("/verification_error/code"), "dns_timeout" | "dns_error"), "{reply:?}");
        assert!(reply.text("/verification_error/detail").contains("_hedgerow-challenge.acme.example"));
        assert_eq!(reply.text("/sso_enforcement"), "", "the body is ignored");
        let empty = kit.send(bearer("POST", &verify, &kit.admin.key).body(Body::empty()).unwrap()).await;
        assert_eq!(empty.status, 200);
        assert_eq!(kit.post(&kit.member.key, &verify, json!({})).await.code(), (403, "permission_denied"));
        let read_only = kit.key(&kit.admin, &[Scope::Read(Object::Organization)]).await;
        assert_eq!(kit.post(&read_only, &verify, json!({})).await.code(), (403, "permission_denied"));
    }

    async fn only_the_exact_record_proves(kit: Kit) {
        let made = domain(&kit, json!({ "domain": "acme.example" })).await;
        let right = made.text("/verification_challenge").to_owned();
        let wrong = [
            right.to_uppercase(), format!(" {right}"), format!("{right} "), right[1..].to_owned(),
            format!("\"{right}\""), String::new(),
        ];
        for text in wrong {
            let seen = see(&kit, kit.organization, &made, DnsLookup::Texts(vec![text.clone()])).await;
            assert!(!seen.is_verified(), "{text}");
            assert_eq!(seen.verification_error.unwrap().code, "dns_mismatch", "{text}");
        }
        for (lookup, code) in [
            (DnsLookup::NoRecord, "dns_no_record"), (DnsLookup::Timeout, "dns_timeout"),
            (DnsLookup::Failed("refused".to_owned()), "dns_error"),
        ] {
            let seen = see(&kit, kit.organization, &made, lookup).await;
            assert_eq!((seen.is_verified(), &*seen.verification_error.unwrap().code), (false, code));
        }
        let both = DnsLookup::Texts(vec!["v=spf1 -all".to_owned(), right]);
        assert!(see(&kit, kit.organization, &made, both).await.is_verified());
        let read = kit.get(&kit.owner.key, &at(&kit, &made)).await;
        assert_eq!(
            (&read.body["is_verified"], read.text("/verified_at")), (&json!(true), "2026-11-15T09:30:00.000000Z"),
        );
        assert_eq!(read.body["verification_error"], json!(null));
    }

    async fn of_two_who_prove_one_domain_at_once_one_has_it(kit: Kit) {
        for round in 0..5 {
            let name = format!("shared{round}.example");
            let (ours, theirs) = (domain(&kit, json!({ "domain": name })).await, elsewhere(&kit, &name).await);
            let both = texts(&[&ours, &theirs]);
            let (one, two) = futures_util::future::join(
                Box::pin(see(&kit, kit.organization, &ours, both.clone())),
                Box::pin(see(&kit, kit.other, &theirs, both.clone())),
            ).await;
            assert_eq!(u8::from(one.is_verified()) + u8::from(two.is_verified()), 1, "round {round}");
            let loser = if one.is_verified() { two } else { one };
            assert_eq!(loser.verification_error.unwrap().code, "domain_taken");
        }
    }

    async fn whoever_proves_a_domain_takes_it_from_a_holder_without_a_record(kit: Kit) {
        let kit = kit.with_mail().await;
        let (ours, theirs) = (
            domain(&kit, json!({ "domain": "shared.example" })).await, elsewhere(&kit, "shared.example").await,
        );
        assert!(prove(&kit, &ours).await.is_verified());
        let taken = see(&kit, kit.other, &theirs, texts(&[&ours, &theirs])).await;
        assert_eq!(taken.verification_error.unwrap().code, "domain_taken");
        assert!(see(&kit, kit.other, &theirs, texts(&[&theirs])).await.is_verified());
        let read = kit.get(&kit.owner.key, &at(&kit, &ours)).await;
        assert_eq!((&read.body["is_verified"], &read.body["verified_at"]), (&json!(false), &json!(null)));
        let emails = kit.emails().await;
        assert!(
            matches!(emails.as_slice(), [(to, EmailMessage::DomainUnverified { .. })] if to == "olga@example.com"),
            "{emails:?}",
        );
        let again = prove(&kit, &ours).await;
        assert!(again.is_verified(), "and back again, if the record moves");
    }

    async fn a_lost_record_has_seven_days_of_grace(kit: Kit) {
        let kit = kit.with_mail().await;
        kit.join("second@example.com", Level::Owner).await;
        let enforced = enforce_saml(&kit).await;
        let look = async |lookup: DnsLookup| see(&kit, kit.organization, &enforced, lookup).await;
        kit.service.clock().advance(TimeDelta::days(1));
        assert!(look(DnsLookup::Timeout).await.lost_at.is_none(), "silence proves nothing");
        let lost = look(DnsLookup::NoRecord).await;
        assert!(lost.is_verified() && lost.lost_at.is_some());
        let mut to: Vec<String> = kit.emails().await.into_iter().map(|(to, email)| {
            let EmailMessage::DomainLost { domain, record, until, .. } = email else { panic!("{email:?}") };
            assert_eq!((domain.as_str(), record.as_str()), ("acme.example", "_hedgerow-challenge.acme.example"));
            assert_eq!(until, kit.service.clock().now() + TimeDelta::days(7));
            to
        }).collect();
        to.sort();
        assert_eq!(to, ["olga@example.com", "second@example.com"]);
        let read = kit.get(&kit.owner.key, &at(&kit, &enforced)).await;
        assert_eq!(read.text("/verification_lost_at"), "2026-11-16T09:30:00.000000Z");
        assert_eq!(read.text("/verification_error/code"), "dns_no_record");

        // It comes back, and goes again.
        assert!(look(texts(&[&enforced])).await.lost_at.is_none());
        look(DnsLookup::NoRecord).await;
        kit.emails().await;
        kit.service.clock().advance(TimeDelta::days(7) - TimeDelta::seconds(1));
        assert!(look(DnsLookup::NoRecord).await.is_verified());
        assert_eq!(kit.browser().log_in("ann@acme.example", PASSWORD).await.code(), (400, "sso_enforced"));
        assert_eq!(kit.emails().await, [], "once is enough");
        kit.service.clock().advance(TimeDelta::seconds(1));
        assert!(!look(DnsLookup::NoRecord).await.is_verified());
        let emails = kit.emails().await;
        assert!(emails.len() == 2 && matches!(emails[0].1, EmailMessage::DomainUnverified { .. }), "{emails:?}");
        assert_eq!(kit.browser().log_in("ann@acme.example", PASSWORD).await.code(), (400, "invalid_credentials"));
        let read = kit.get(&kit.owner.key, &at(&kit, &enforced)).await;
        assert_eq!((&read.body["is_verified"], read.text("/sso_enforcement")), (&json!(false), "saml"));
    }

    async fn verified_domains_are_looked_at_daily(kit: Kit) {
        let (made, _) = (
            domain(&kit, json!({ "domain": "acme.example" })).await,
            domain(&kit, json!({ "domain": "b.example" })).await,
        );
        prove(&kit, &made).await;
        assert!(kit.service.domain_to_recheck().await.unwrap().is_none());
        kit.service.clock().advance(TimeDelta::days(1) + TimeDelta::seconds(1));
        assert_eq!(kit.service.domain_to_recheck().await.unwrap().unwrap().domain, "acme.example");
        assert!(kit.service.domain_to_recheck().await.unwrap().is_none(), "one replica does it");
        kit.service.clock().advance(TimeDelta::hours(1) + TimeDelta::seconds(1));
        assert!(kit.identity.recheck_domain().await.unwrap(), "if it did not, another does");
        let read = kit.get(&kit.owner.key, &at(&kit, &made)).await;
        assert_eq!(read.body["is_verified"], true, "name servers that do not answer change nothing");
        assert!(!kit.identity.recheck_domain().await.unwrap());
    }
}
