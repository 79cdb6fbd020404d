//! From the outbox to the mailbox, with a real mail server.

use chrono::TimeDelta;
use identity::{Identity, IdentityDeps};
use outbound::{Mailer, Roots};
use serde_json::{Value, json};
use service::{Instance, RandomSource, Service};
use testkit::databases::Backend;
use testkit::external::{Mail, Smtp, SmtpOptions, Tls};
use testkit::kit::{deps, instance};
use testkit::{Kit, Reply, on_both};

use crate::scene::{kit_of, level};

struct Scene {
    kit: Kit,
    smtp: Smtp,
}

impl Scene {
    async fn new(backend: Backend) -> Self {
        Self::with(backend, SmtpOptions::default(), "").await
    }

    async fn with(backend: Backend, options: SmtpOptions, query: &str) -> Self {
        let smtp = Smtp::start(options);
        let kit = kit_of(backend, sending(), outside_with(&smtp, query)).await;
        Self { kit, smtp }
    }

    async fn invite(&self, body: Value) -> Reply {
        let kit = &self.kit;
        let reply = kit.post(&kit.member.key, &kit.at("invites/"), body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply
    }

    /// Does all that is due now. A server that is away is no failure of ours.
    async fn work(&self) {
        while self.kit.identity.step().await.unwrap() {}
    }

    async fn work_later(&self, by: TimeDelta) {
        self.kit.service.clock().advance(by);
        self.work().await;
    }

    async fn recipients(&self) -> Vec<String> {
        let mails = self.smtp.mails().await;
        let mut all: Vec<String> = mails.into_iter().flat_map(|mail| mail.to).collect();
        all.sort();
        all
    }

    /// The first invite, as the API shows it.
    async fn shown(&self) -> Value {
        let reply = self.kit.get(&self.kit.member.key, &self.kit.at("invites/")).await;
        reply.body["results"][0].clone()
    }

    async fn waiting(&self) -> i64 {
        self.kit.database.column("SELECT count(*) FROM email_outbox").await[0]
    }
}

fn sending() -> Instance {
    Instance {
        sends_mail: true,
        ..instance()
    }
}

fn mailer(smtp: &Smtp, roots: &Roots, query: &str) -> Mailer {
    let url = format!("{}{query}", smtp.url());
    Mailer::new(&url, "Hedgerow <hedgerow@example.com>", roots).unwrap()
}

fn outside_with(smtp: &Smtp, query: &str) -> IdentityDeps {
    let is_encrypted = smtp.url().starts_with("smtps") || query.contains("required");
    let roots = if is_encrypted {
        Roots::with_pem(smtp.ca_pem().as_bytes()).unwrap()
    } else {
        Roots::public()
    };
    IdentityDeps {
        mailer: Some(mailer(smtp, &roots, query)),
        ..deps()
    }
}

fn zoe() -> Value {
    json!({ "target_email": "zoe@example.net", "first_name": "Zoë", "message": "Come <b>and</b> see", "level": 1 })
}

/// The secret of the link in a mail.
fn token(text: &str) -> String {
    let (_, rest) = text.split_once("/signup/").expect("a link");
    rest.split('/').next().unwrap().to_owned()
}

fn message_id(mail: &Mail) -> String {
    mail.header("message-id").expect("a name of its own").to_owned()
}

on_both! {
    async fn an_invite_is_mailed_and_its_link_lets_in(scene: Scene) {
        let kit = &scene.kit;
        let reply = scene.invite(zoe()).await;
        assert_eq!(reply.body["emailing_attempt_made"], false);
        let secret = token(reply.text("/invite_link"));
        // What waits is encrypted.
        for content in kit.database.column::<Vec<u8>>("SELECT content FROM email_outbox").await {
            let text = String::from_utf8_lossy(&content);
            assert!(!text.contains(&secret) && !text.contains("hgi_") && !text.contains("signup"), "{text}");
        }
        scene.work().await;
        let mail = scene.smtp.wait_for(|mail| mail.to == ["zoe@example.net"]).await;
        assert_eq!(mail.subject, "Mia Member invited you to Acme");
        assert_eq!(mail.reply_to.as_deref(), Some("mia@example.com"));
        assert_eq!((mail.from.as_str(), mail.header("from")), ("hedgerow@example.com", Some("Hedgerow <hedgerow@example.com>")));
        let (text, html) = (mail.text.as_deref().unwrap(), mail.html.as_deref().unwrap());
        // The mail's secret is its own: whoever has it has the mailbox.
        assert_ne!(token(text), secret);
        let link = format!("{}/signup/{}/", kit.service.instance().site_url, token(text));
        assert!(text.contains(&link) && text.contains("Hello Zoë,") && text.contains("Come <b>and</b> see"), "{text}");
        assert!(html.contains(&format!("href=\"{link}\"")) && !html.contains("<b>and"), "{html}");
        assert_eq!(scene.shown().await["emailing_attempt_made"], true);
        assert_eq!(scene.shown().await["emailing_error"], json!(null));
        assert_eq!(scene.waiting().await, 0);

        let path = format!("/api/signup/{}/", token(text));
        let seen = kit.get("", &path).await;
        assert_eq!((seen.status, seen.text("/organization_name")), (200, "Acme"), "{seen:?}");
        let account = json!({ "first_name": "Zoë", "last_name": "O", "password": "correct horse battery" });
        let joined = kit.post("", &path, account.clone()).await;
        assert_eq!(joined.status, 201, "{joined:?}");
        assert_eq!(level(kit, "zoe@example.net").await, Some(1));
        assert_eq!(kit.post("", &path, account).await.code(), (400, "invalid_input"));
    }

    async fn others_hear_of_a_new_member_if_the_organization_wants_it(scene: Scene) {
        let kit = &scene.kit;
        kit.database.run("UPDATE app_user SET is_email_verified = (1 = 1)").await;
        for (address, is_wanted) in [("one@example.net", false), ("two@example.net", true)] {
            let patch = json!({ "is_member_join_email_enabled": is_wanted });
            assert_eq!(kit.patch(&kit.owner.key, &kit.at(""), patch).await.status, 200);
            let reply = scene.invite(json!({ "target_email": address, "send_email": false })).await;
            let path = format!("/api/signup/{}/", token(reply.text("/invite_link")));
            let account = json!({ "first_name": "New", "password": "correct horse battery" });
            assert_eq!(kit.post("", &path, account).await.status, 201);
            scene.work().await;
            if !is_wanted {
                assert!(scene.recipients().await.is_empty());
            }
        }
        // Whoever joined by a link that was passed on has not proven that the address is theirs.
        let told = ["adam@example.com", "mia@example.com", "olga@example.com"];
        assert_eq!(scene.recipients().await, told);
        let mail = &scene.smtp.mails().await[0];
        assert_eq!(mail.subject, "two@example.net joined Acme");
    }

    async fn what_is_revoked_before_it_is_sent_is_not_sent(scene: Scene) {
        let kit = &scene.kit;
        let invite = scene.invite(zoe()).await;
        let path = kit.at(&format!("invites/{}/", invite.text("/id")));
        assert_eq!(kit.delete(&kit.member.key, &path).await.status, 204);
        // Nor one that was tried in a dry run, or replaced by another.
        let dry = kit.post(&kit.member.key, &kit.at("invites/?dry_run=true"), zoe()).await;
        assert_eq!(dry.status, 201, "{dry:?}");
        scene.work().await;
        assert!(scene.recipients().await.is_empty());
        scene.invite(zoe()).await;
        let second = scene.invite(zoe()).await;
        let resent = kit.at(&format!("invites/{}/resend/", second.text("/id")));
        let third = kit.post(&kit.member.key, &resent, json!({})).await;
        assert_eq!(third.status, 200, "{third:?}");
        scene.work().await;
        assert_eq!(scene.recipients().await, ["zoe@example.net"]);
        let mail = &scene.smtp.mails().await[0];
        let mailed = format!("/api/signup/{}/", token(mail.text.as_ref().unwrap()));
        assert_eq!(kit.get("", &mailed).await.status, 200);
        let shown = format!("/api/signup/{}/", token(third.text("/invite_link")));
        assert_eq!(kit.get("", &shown).await.status, 200);
    }

    async fn a_server_that_is_away_is_waited_for(scene: Scene) {
        let mut scene = scene;
        scene.smtp.stop();
        let invites = json!([{ "target_email": "one@example.net" }, { "target_email": "two@example.net" }]);
        let reply = scene.kit.post(&scene.kit.admin.key, &scene.kit.at("invites/bulk/"), invites).await;
        assert_eq!(reply.body["count"], 2, "{reply:?}");
        scene.work().await;
        assert_eq!(scene.waiting().await, 2);
        let shown = scene.shown().await;
        assert_eq!(shown["emailing_attempt_made"], true);
        assert!(shown["emailing_error"].as_str().unwrap().contains("could not be reached"), "{shown}");
        // Immediately again would be too soon.
        assert!(!scene.kit.identity.step().await.unwrap());
        for _ in 0..15 {
            scene.work_later(TimeDelta::minutes(5)).await;
        }
        assert_eq!(scene.waiting().await, 2);
        let tries: Vec<i64> = scene.kit.database.column("SELECT attempts FROM email_outbox").await;
        assert!(tries.iter().all(|tries| (8..20).contains(tries)), "{tries:?}");
        scene.smtp.start_again();
        for _ in 0..3 {
            scene.work_later(TimeDelta::minutes(10)).await;
        }
        assert_eq!(scene.recipients().await, ["one@example.net", "two@example.net"]);
        assert_eq!(scene.waiting().await, 0);
        assert_eq!(scene.shown().await["emailing_error"], json!(null));
    }

    async fn nobody_is_tried_for_ever(scene: Scene) {
        let mut scene = scene;
        scene.smtp.stop();
        scene.invite(zoe()).await;
        scene.work().await;
        scene.work_later(TimeDelta::days(4)).await;
        scene.smtp.start_again();
        scene.work_later(TimeDelta::days(1)).await;
        assert!(scene.recipients().await.is_empty());
        // The invite's time is over, and so is its mail's.
        assert_eq!(scene.waiting().await, 0);
    }

    async fn a_refused_recipient_is_given_up_and_a_busy_server_is_not(scene: Scene) {
        scene.smtp.refuse("zoe@example.net");
        scene.invite(zoe()).await;
        scene.work().await;
        let shown = scene.shown().await;
        assert_eq!(shown["emailing_attempt_made"], true);
        let reason = shown["emailing_error"].as_str().unwrap();
        assert!(reason.contains("does not accept email for this recipient"), "{reason}");
        for _ in 0..5 {
            scene.work_later(TimeDelta::hours(1)).await;
        }
        let tries: Vec<i64> = scene.kit.database.column("SELECT attempts FROM email_outbox").await;
        assert_eq!(tries, [1]);

        scene.smtp.put_off(2);
        scene.invite(json!({ "target_email": "yan@example.net" })).await;
        scene.work().await;
        let shown = scene.shown().await;
        assert!(shown["emailing_error"].as_str().unwrap().contains("rejected the sender"), "{shown}");
        scene.work_later(TimeDelta::seconds(10)).await;
        assert!(scene.recipients().await.is_empty());
        scene.work_later(TimeDelta::seconds(30)).await;
        assert_eq!(scene.recipients().await, ["yan@example.net"]);
        assert_eq!(scene.shown().await["emailing_error"], json!(null));
        scene.work_later(TimeDelta::hours(1)).await;
        assert_eq!(scene.recipients().await.len(), 1);
    }

    async fn two_workers_send_each_mail_once(scene: Scene) {
        let kit = &scene.kit;
        let addresses: Vec<String> = (0..20).map(|number| format!("p{number:02}@example.net")).collect();
        let invites: Vec<Value> = addresses.iter().map(|address| json!({ "target_email": address })).collect();
        let made = kit.post(&kit.admin.key, &kit.at("invites/bulk/"), json!(invites)).await;
        assert_eq!(made.body["count"], 20, "{made:?}");
        let clock = kit.service.clock().clone();
        let service = Service::new(kit.database.open().await, clock, RandomSource::System, sending());
        let other = Identity::new(service, outside_with(&scene.smtp, ""));
        let work = async |identity: &Identity| {
            let mut sent = 0;
            // The other may have taken what was seen to be due, so one look that finds nothing is not the end.
            for _ in 0..40 {
                sent += u32::from(identity.step().await.unwrap());
            }
            sent
        };
        let (one, two) = tokio::join!(work(&kit.identity), work(&other));
        assert_eq!(one + two, 20);
        assert!(one > 0 && two > 0, "{one} {two}");
        assert_eq!(scene.recipients().await, addresses);
        let mut names: Vec<String> = scene.smtp.mails().await.iter().map(message_id).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 20);
    }

    async fn a_mail_that_went_out_before_a_crash_is_known_as_the_same(scene: Scene) {
        let kit = &scene.kit;
        scene.invite(zoe()).await;
        // A worker that takes the mail, sends it, and is gone before it can say so.
        let taken = kit.service.next_mail().await.unwrap().unwrap();
        let mail = outbound::Mail {
            to: taken.to.clone(),
            subject: "the same".to_owned(),
            text: "the same".to_owned(),
            html: "<p>the same</p>".to_owned(),
            id: taken.id.to_string(),
            ..outbound::Mail::default()
        };
        mailer(&scene.smtp, &Roots::public(), "").send(&mail).await.unwrap();
        // While it might still be at it, nobody else is.
        scene.work_later(TimeDelta::minutes(9)).await;
        assert_eq!(scene.smtp.mails().await.len(), 1);
        scene.work_later(TimeDelta::minutes(2)).await;
        let mails = scene.smtp.mails().await;
        assert_eq!(mails.len(), 2);
        assert_eq!(message_id(&mails[0]), message_id(&mails[1]));
        scene.work_later(TimeDelta::hours(1)).await;
        assert_eq!(scene.smtp.mails().await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_travels_encrypted_and_with_a_password() {
    for (tls, query) in [(Tls::StartTls, "?starttls=required"), (Tls::Implicit, "")] {
        let options = SmtpOptions {
            tls: Some(tls),
            auth: Some(("us@er".to_owned(), "pass/word?".to_owned())),
            port: None,
        };
        let scene = Scene::with(Backend::Sqlite, options, query).await;
        scene.invite(zoe()).await;
        scene.work().await;
        let mail = scene.smtp.wait_for(|_| true).await;
        assert!(mail.is_encrypted, "{mail:?}");
        assert_eq!(mail.login.as_deref(), Some("us@er"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_wrong_for_now_loses_no_mail() {
    let auth = |password: &str| Some(("user".to_owned(), password.to_owned()));
    let options = SmtpOptions {
        tls: Some(Tls::Implicit),
        auth: auth("right"),
        port: None,
    };
    let smtp = Smtp::start(options);
    let roots = Roots::with_pem(smtp.ca_pem().as_bytes()).unwrap();
    let wrong = smtp.url().replace("right", "wrong");
    let deps = IdentityDeps {
        mailer: Some(Mailer::new(&wrong, "hedgerow@example.com", &roots).unwrap()),
        ..deps()
    };
    let scene = Scene {
        kit: kit_of(Backend::Sqlite, sending(), deps).await,
        smtp,
    };
    scene.invite(zoe()).await;
    scene.work().await;
    let shown = scene.shown().await;
    let reason = shown["emailing_error"].as_str().unwrap();
    assert!(
        reason.contains("user name and password") && !reason.contains("wrong"),
        "{reason}"
    );
    // The operator fixes it and starts again.
    let service = Service::new(
        scene.kit.database.open().await,
        scene.kit.service.clock().clone(),
        RandomSource::System,
        sending(),
    );
    let repaired = Identity::new(service, outside_with(&scene.smtp, ""));
    scene.kit.service.clock().advance(TimeDelta::minutes(1));
    assert!(repaired.step().await.unwrap());
    assert_eq!(scene.recipients().await, ["zoe@example.net"]);
}
