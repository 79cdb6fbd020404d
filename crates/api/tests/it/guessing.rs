//! Guessing passwords and codes, many at once; choosing passwords that are guessed first.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use service::access::{Actor, Origin, Request};
use service::{Email, Error, RandomSource, Service};
use testkit::browser::{PASSWORD, code};
use testkit::kit::instance;
use testkit::{Browser, Kit, Reply, on_both};

const ACCOUNT: &str = "/api/users/@me/two_factor/";

fn from(address: &str) -> Request {
    let address: IpAddr = address.parse().unwrap();
    Request {
        origin: Origin {
            address: Some(address),
            ..Origin::default()
        },
        ..Request::default()
    }
}

/// Another process on the same database.
async fn replica(kit: &Kit) -> Service {
    Service::new(
        kit.database.open().await,
        kit.service.clock().clone(),
        RandomSource::System,
        instance(),
    )
}

/// How often each code was answered.
fn counted(replies: &[Reply]) -> BTreeMap<(u16, String), usize> {
    let mut counts = BTreeMap::new();
    for reply in replies {
        let (status, code) = reply.code();
        *counts.entry((status, code.to_owned())).or_default() += 1;
    }
    counts
}

/// What an answer says, apart from what names the request.
fn told(reply: &Reply) -> (u16, Vec<(String, String)>, Value) {
    let headers = reply
        .headers
        .iter()
        .filter(|(name, _)| !["x-request-id", "date"].contains(&name.as_str()));
    let mut headers: Vec<(String, String)> = headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    headers.sort();
    let mut body = reply.body.clone();
    if let Some(body) = body.as_object_mut() {
        body.remove("request_id");
    }
    (reply.status, headers, body)
}

/// The middle of how long each of two things takes, done in turns.
async fn middles<A: Future, B: Future>(mut one: impl FnMut() -> A, mut two: impl FnMut() -> B) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..21 {
        let started = Instant::now();
        one().await;
        times[0].push(started.elapsed());
        let started = Instant::now();
        two().await;
        times[1].push(started.elapsed());
    }
    times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    })
}

/// Coarse on purpose: the machine may be busy. What is done or not done shows all the same.
fn expect_alike([one, two]: [Duration; 2]) {
    let (short, long) = (one.min(two), one.max(two));
    assert!(long < short * 3 + Duration::from_millis(3), "{one:?} and {two:?}");
}

on_both! {
    async fn of_many_guesses_at_once_no_more_than_twenty_are_looked_at(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let other = replica(&kit).await;
        let before = kit.service.hashes_computed();
        let guesses = join_all((0..60).map(|n| {
            let service = if n % 2 == 0 { &kit.service } else { &other };
            service.sign_in("olga@example.com", "incorrect horse", from("192.0.2.7"))
        }))
        .await;
        let wrong = guesses.iter().filter(|guess| matches!(guess, Err(Error::Invalid(_)))).count();
        let waits = guesses.iter().filter(|guess| matches!(guess, Err(Error::Throttled(_)))).count();
        assert_eq!((wrong, waits), (20, 40), "on two replicas together");
        assert_eq!(kit.service.hashes_computed() - before + other.hashes_computed(), 20);
        let locked = kit.service.sign_in("olga@example.com", PASSWORD, from("192.0.2.7")).await;
        assert!(matches!(locked, Err(Error::Throttled(_))), "{locked:?}");
        kit.service.sign_in("olga@example.com", PASSWORD, from("198.51.100.7")).await.unwrap();
    }

    async fn of_many_codes_at_once_no_more_than_twenty_are_looked_at(kit: Kit) {
        let browser = kit.signed_in(&kit.member).await;
        let begun = browser.post(ACCOUNT, json!({})).await;
        let secret = begun.text("/secret").to_owned();
        let first = code(&secret, kit.service.clock().now());
        assert_eq!(browser.post(&format!("{ACCOUNT}confirm/"), json!({ "token": first })).await.status, 200);
        // Whoever has the session guesses codes, from everywhere at once.
        let thieves: Vec<Browser> = (0..60).map(|_| browser.copy()).collect();
        let path = format!("{ACCOUNT}remove/");
        let guesses = join_all(thieves.iter().map(|thief| thief.post(&path, json!({ "token": "aaaa-bbbb-cccc" })))).await;
        let expected = [((400, "2fa_invalid".to_owned()), 20), ((429, "throttled".to_owned()), 40)];
        assert_eq!(counted(&guesses), BTreeMap::from(expected));
        let me = kit.get(&kit.member.key, "/api/users/@me/").await;
        assert_eq!(me.body["is_2fa_enabled"], true);
    }

    async fn right_passwords_and_codes_count_for_nothing(kit: Kit) {
        let browser = kit.signed_in(&kit.member).await;
        for _ in 0..25 {
            let dry = json!({ "email": "mia@example.com", "password": PASSWORD });
            assert_eq!(browser.post("/api/login/?dry_run=true", dry).await.status, 200);
        }
        let same = json!({ "current_password": PASSWORD, "password": PASSWORD });
        for _ in 0..25 {
            assert_eq!(browser.post("/api/users/@me/password/", same.clone()).await.status, 204);
        }
        let begun = browser.post(ACCOUNT, json!({})).await;
        let secret = begun.text("/secret").to_owned();
        let first = code(&secret, kit.service.clock().now());
        assert_eq!(browser.post(&format!("{ACCOUNT}confirm/"), json!({ "token": first })).await.status, 200);
        let other = kit.browser();
        for _ in 0..25 {
            assert_eq!(other.log_in("mia@example.com", PASSWORD).await.code(), (401, "2fa_required"));
        }
    }

    async fn passwords_that_are_tried_first_are_refused(kit: Kit) {
        let browser = kit.signed_in(&kit.member).await;
        for weak in ["password", "Password1", "12345678", "qwertyuiop", "aaaaaaaaaaaa", "mia@example.com", "miamember", "hedgerow1"] {
            let body = json!({ "current_password": PASSWORD, "password": weak });
            let reply = browser.post("/api/users/@me/password/", body).await;
            assert_eq!((reply.code(), reply.text("/attr")), ((400, "password_too_common"), "password"), "{weak}");
            assert!(reply.text("/detail").contains("password manager"), "{reply:?}");
            let email = Email::new("mia@example.com").unwrap();
            assert!(kit.service.set_password(&Actor::system(), &email, weak).await.is_err(), "{weak}");
        }
        let made = kit.post(&kit.owner.key, &kit.at("invites/"), json!({ "target_email": "ann.lee@example.net" })).await;
        let token = made.text("/invite_link").trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
        let path = format!("/api/signup/{token}/");
        let mut account = json!({ "first_name": "Ann", "last_name": "Lee", "password": "ann.lee@example.net" });
        let before = kit.service.hashes_computed();
        assert_eq!(kit.browser().post(&path, account.clone()).await.code(), (400, "password_too_common"));
        assert_eq!(kit.service.hashes_computed(), before, "it is judged before it is hashed");
        account["password"] = json!("several quite random words");
        assert_eq!(kit.browser().post(&path, account).await.status, 201, "and the invite can be tried again");
    }

    async fn signing_in_tells_nothing_about_who_has_an_account(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let [known, unknown] = ["olga@example.com", "nobody@example.com"];
        let before = kit.service.hashes_computed();
        let one = kit.browser().log_in(known, "incorrect horse").await;
        let between = kit.service.hashes_computed();
        let two = kit.browser().log_in(unknown, "incorrect horse").await;
        assert_eq!(told(&one), told(&two));
        assert_eq!((between - before, kit.service.hashes_computed() - between), (1, 1), "the same work");
        let times = middles(
            async || kit.browser().log_in(known, "incorrect horse").await,
            async || kit.browser().log_in(unknown, "incorrect horse").await,
        );
        expect_alike(times.await);
    }

    async fn asking_for_a_reset_tells_nothing_about_who_has_an_account(kit: Kit) {
        let kit = kit.with_mail().await;
        let ask = async |email: &str| kit.browser().post("/api/reset/", json!({ "email": email })).await;
        let (one, two) = (ask("olga@example.com").await, ask("nobody@example.com").await);
        assert_eq!(told(&one), told(&two));
        assert_eq!(one.status, 204);
        // What was done so far is the same for both, to the row; the rest is done when nobody waits for it.
        let asked: Vec<i64> = kit.database.column("SELECT count(*) FROM password_reset_request").await;
        let sql = "SELECT (SELECT count(*) FROM email_outbox) + (SELECT count(*) FROM password_reset)";
        let others: Vec<i64> = kit.database.column(sql).await;
        assert_eq!((asked[0], others[0]), (2, 0));
        let emails = kit.emails().await;
        assert_eq!(emails.iter().map(|(to, _)| to.as_str()).collect::<Vec<_>>(), ["olga@example.com"]);
        assert!(!kit.database.holds("nobody@example.com").await, "what people tried is not kept");
        expect_alike(middles(async || ask("olga@example.com").await, async || ask("nobody@example.com").await).await);
    }

    async fn a_link_that_the_inviter_saw_tells_nothing_about_who_has_an_account(kit: Kit) {
        let mut read = Vec::new();
        for email in ["otto@elsewhere.example", "nono@elsewhere.example"] {
            let made = kit.post(&kit.member.key, &kit.at("invites/"), json!({ "target_email": email })).await;
            let token = made.text("/invite_link").trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
            let path = format!("/api/signup/{token}/");
            let (status, _, mut body) = told(&kit.browser().get(&path).await);
            body["id"] = json!(null);
            body["target_email"] = json!(null);
            read.push((status, body));
            // Whoever goes on creates the account, or is told; the work until then is the same.
            let before = kit.service.hashes_computed();
            kit.browser().post(&path, json!({ "first_name": "Ann", "password": PASSWORD })).await;
            assert_eq!(kit.service.hashes_computed() - before, 1, "{email}");
        }
        assert_eq!(read[0].0, 200);
        assert_eq!(read[0], read[1]);
    }

    async fn of_a_hundred_who_accept_an_invite_at_once_one_password_is_hashed(kit: Kit) {
        let made = kit.post(&kit.owner.key, &kit.at("invites/"), json!({ "target_email": "ann@example.net" })).await;
        let token = made.text("/invite_link").trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
        let path = format!("/api/signup/{token}/");
        let account = json!({ "first_name": "Ann", "password": PASSWORD });
        let browsers: Vec<Browser> = (0..100).map(|_| kit.browser()).collect();
        let before = kit.service.hashes_computed();
        let replies = join_all(browsers.iter().map(|browser| browser.post(&path, account.clone()))).await;
        assert_eq!(kit.service.hashes_computed() - before, 1);
        assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
        assert!(replies.iter().all(|reply| reply.status == 201 || reply.status == 400), "{replies:?}");
    }

    /// With their own account, from networks that it was signed in to from before.
    async fn nobody_keeps_people_on_new_networks_out_with_the_right_password(kit: Kit) {
        kit.give_password(&kit.owner).await;
        kit.give_password(&kit.outsider).await;
        let service = &kit.service;
        let sign_in = async |n: u32| {
            let address = format!("2001:db8:1:{:02x}00::1", n % 16);
            service.sign_in("otto@elsewhere.example", PASSWORD, from(&address)).await
        };
        for n in 0..16 {
            sign_in(n).await.unwrap();
        }
        let attack = async { join_all((0..160).map(sign_in)).await };
        let honest = async {
            let before = service.hashes_computed();
            service.sign_in("olga@example.com", PASSWORD, from("203.0.113.5")).await.unwrap();
            service.hashes_computed() - before
        };
        let (attack, with_hers) = futures_util::future::join(attack, honest).await;
        assert!(with_hers <= 10, "hers was among the first: {with_hers}");
        let refused = attack.iter().filter(|attempt| matches!(attempt, Err(Error::Throttled(_)))).count();
        assert!(refused >= 100 && attack.iter().any(Result::is_ok), "{refused}");
        service.sign_in("otto@elsewhere.example", PASSWORD, from("2001:db8:1::1")).await.expect("and nothing was held against it");
    }

    async fn an_honest_person_does_not_wait_for_forty_networks_that_guess(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let service = &kit.service;
        let guess = async |network: u32, n: u32| {
            let (email, address) = (format!("p{n}@example.com"), format!("198.18.{network}.1"));
            service.sign_in(&email, "incorrect horse", from(&address)).await
        };
        // Every network has shown what it is.
        for round in 0..4 {
            join_all((0..40).map(|n| guess(n, 40 * round + n))).await;
        }
        let attack = async {
            let before = service.hashes_computed();
            let guesses = join_all((0..400).map(|n| guess(n % 40, n))).await;
            let refused = guesses.iter().filter(|guess| matches!(guess, Err(Error::Throttled(_)))).count();
            (refused, service.hashes_computed() - before)
        };
        let honest = async {
            let (before, started) = (service.hashes_computed(), Instant::now());
            service.sign_in("olga@example.com", PASSWORD, from("203.0.113.5")).await.unwrap();
            (service.hashes_computed() - before, started.elapsed())
        };
        let ((refused, hashed), (with_hers, took)) = futures_util::future::join(attack, honest).await;
        assert!(refused >= 300 && hashed <= 101, "{refused} were turned away before anything was hashed for them");
        assert!(with_hers <= 20, "hers was among the first: {with_hers}, of {hashed}, after {took:?}");
    }
}
