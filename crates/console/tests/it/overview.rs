use chrono::TimeDelta;
use service::access::{Caller, ChangeApps, ChangeDomains, ChangeExports};
use service::batch_exports::{
    Choice, DestinationInput, ExportName, ExportRest, Interval, NewExport, Outcome, Progress,
};
use service::domains::{DomainPatch, NewDomain};
use service::pipeline::{App, AppFields, AppName, Collection, MAX_FAILURES, NewApp, PluginType, Step, Stop};
use service::{AppConfigId, Level, Rotation, WorkerId};

use crate::kit::{Answer, Kit, between};

async fn export(kit: &Kit, name: &str, paused: bool) {
    let new = NewExport {
        name: ExportName::new(name).expect("the service does it"),
        destination: DestinationInput {
            kind: Some("NoOp".to_owned()),
            config: None,
        },
        interval: Interval::Hour,
        team_id: None,
        rest: ExportRest {
            paused: Some(paused),
            ..ExportRest::default()
        },
    };
    let caller: Caller<ChangeExports> = kit.owner_may().await;
    kit.exports.create(&caller, &new).await.expect("the service does it");
}

#[tokio::test]
async fn a_calm_organization_says_so_and_counts_what_is_there() {
    let kit = Kit::new().await;
    kit.member("ann@example.org", Level::Member).await;
    let mut ann = kit.signed_in("ann@example.org").await;
    let shown = ann.get(&kit.at("")).await;
    assert_eq!((shown.status, shown.h1()), (200, "Acme"));
    assert!(shown.says("All systems healthy."));
    let members = format!(
        "<a href=\"{}\"><span class=\"figure-number\">2</span>",
        kit.at("members/")
    );
    assert!(shown.says(&members), "{shown:?}");
}

/// The titles of the first steps, as far as they are shown.
fn steps(shown: &Answer) -> Vec<String> {
    let Some(section) = between(&shown.html, "<h2 id=\"steps\">Get started</h2>", "</section>") else {
        return Vec::new();
    };
    let links = section.split("<a href=\"").skip(1);
    let titles = links.map(|link| between(link, ">", "</a>").expect("a link ends"));
    titles.map(str::to_owned).collect()
}

#[tokio::test]
async fn an_empty_organization_says_how_to_begin() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let shown = owner.get(&kit.at("")).await;
    let all = ["Invite people", "Add a domain", "Create an export", "Create an API key"];
    assert_eq!(steps(&shown), all, "{shown:?}");
    for path in [
        kit.at("invites/new/"),
        kit.at("domains/new/"),
        kit.at("exports/new/"),
        "/account/keys/new/".to_owned(),
    ] {
        assert!(shown.says(&format!("<a href=\"{path}\">")), "{path}");
        assert_eq!(owner.get(&path).await.status, 200, "{path}");
    }
    assert_eq!(shown.html.matches(">Invite people</a>").count(), 1, "not twice");
}

#[tokio::test]
async fn first_steps_go_as_they_are_taken() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    kit.invite("new@example.org").await;
    let shown = owner.get(&kit.at("")).await;
    assert_eq!(steps(&shown), ["Add a domain", "Create an export", "Create an API key"]);
    assert_eq!(
        shown.html.matches(">Invite people</a>").count(),
        1,
        "more can be invited"
    );
    let form = [("label", "CI"), ("purpose", "read"), ("expires_at", "7")];
    owner.post("/account/keys/new/", &form).await;
    assert_eq!(
        steps(&owner.get(&kit.at("")).await),
        ["Add a domain", "Create an export"]
    );
    export(&kit, "Nightly", false).await;
    assert_eq!(steps(&owner.get(&kit.at("")).await), ["Add a domain"]);
    kit.service.clock().advance(TimeDelta::days(15));
    let mut owner = kit.signed_in("olga@example.com").await;
    assert!(steps(&owner.get(&kit.at("")).await).is_empty(), "it is new no longer");
}

#[tokio::test]
async fn nobody_is_shown_a_first_step_that_they_may_not_take() {
    let kit = Kit::new().await;
    kit.member("ann@example.org", Level::Member).await;
    let mut ann = kit.signed_in("ann@example.org").await;
    let shown = steps(&ann.get(&kit.at("")).await);
    assert_eq!(
        shown,
        ["Create an export", "Create an API key"],
        "domains are for administrators"
    );
}

#[tokio::test]
async fn what_needs_somebody_comes_first() {
    let kit = Kit::new().await;
    kit.invite("new@example.org").await;
    export(&kit, "Nightly", true).await;
    export(&kit, "Fine", false).await;
    let caller: Caller<ChangeDomains> = kit.owner_may().await;
    let new = NewDomain {
        domain: "bay.example.net".to_owned(),
        settings: DomainPatch::default(),
    };
    let added = kit.service.create_domain(&caller, &new).await.unwrap();
    kit.service.clock().advance(TimeDelta::days(4));
    let mut owner = kit.signed_in("olga@example.com").await;
    let shown = owner.get(&kit.at("")).await;
    assert!(shown.says("1 invite has expired") && shown.says("Nightly is paused"));
    assert!(shown.says("bay.example.net is not verified"));
    let link = format!("href=\"{}\">Verify<", kit.at(&format!("domains/{}/", added.id)));
    assert!(shown.says(&link), "{shown:?}");
    assert!(!shown.says("Fine is "));
}

#[tokio::test]
async fn what_is_paused_is_found_behind_many_that_run() {
    let kit = Kit::new().await;
    for number in 0..14 {
        export(&kit, &format!("Paused {number}"), true).await;
    }
    for number in 0..9 {
        kit.service.clock().advance(TimeDelta::seconds(1));
        export(&kit, &format!("Fine {number}"), false).await;
    }
    let shown = kit.signed_in("olga@example.com").await.get(&kit.at("")).await;
    assert_eq!(shown.html.matches("row-title\">Paused").count(), 12, "{shown:?}");
    assert!(shown.says("And 2 more.") && shown.says("14 paused or failing") && shown.says(">23<"));
    assert!(shown.says(">Fine 8</a>") && !shown.says(">Fine 0</a>"));
}

#[tokio::test]
async fn exports_show_their_last_runs_as_a_picture() {
    let kit = Kit::new().await;
    export(&kit, "Hourly", false).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    assert!(owner.get(&kit.at("")).await.says("No runs yet"));
    for _ in 0..3 {
        kit.service.clock().advance(TimeDelta::hours(1));
        kit.service.schedule_runs(TimeDelta::zero()).await.unwrap();
    }
    let shown = owner.get(&kit.at("")).await;
    assert!(shown.says("aria-label=\"Last 3 runs: 3 running\""), "{shown:?}");
    let picture = between(&shown.html, "<svg class=\"runs\"", "</svg>").expect("a picture");
    assert_eq!(picture.matches("<rect class=\"run-under-way\"").count(), 3);
    let legend = between(&shown.html, "<ul class=\"legend hint\"", "</ul>").expect("a legend");
    assert!(
        legend.contains("</svg> running</li>") && legend.matches("<li>").count() == 1,
        "{legend}"
    );
}

#[tokio::test]
async fn a_failing_export_comes_before_what_can_wait() {
    let kit = Kit::new().await;
    export(&kit, "Nightly", true).await;
    export(&kit, "Hourly", false).await;
    kit.service.clock().advance(TimeDelta::hours(1));
    kit.service.schedule_runs(TimeDelta::zero()).await.unwrap();
    let worker = WorkerId(uuid::Uuid::nil());
    let job = kit
        .service
        .claim_run(worker, &[], &Rotation::default(), |due, _| {
            due.first().map_or(Choice::Nobody, |id| Choice::Take(*id))
        })
        .await
        .unwrap()
        .expect("a run is due");
    let outcome = Outcome::Failed {
        error: "the bucket is gone".to_owned(),
        is_permanent: true,
        delivered: Progress::default(),
    };
    assert!(kit.service.finish_run(&job, &outcome).await.unwrap());
    let mut owner = kit.signed_in("olga@example.com").await;
    let shown = owner.get(&kit.at("")).await;
    let failing = shown.html.find("Hourly is failing").expect("it is named");
    let paused = shown.html.find("Nightly is paused").expect("it is named");
    assert!(failing < paused, "what is urgent comes first");
    assert!(shown.says("The bucket is gone.") && shown.says("Last 1 run: 1 failed"));
}

/// An app of a repository, with a tag of its own.
async fn tagged(kit: &Kit, name: &str) -> App {
    let new = NewApp {
        plugin_type: PluginType::Repository,
        url: Some("https://github.com/acme/look".to_owned()),
        source: None,
        rest: AppFields {
            name: Some(Some(AppName::new(name).expect("a name"))),
            tag: Some(Some("v1.0.0".to_owned())),
            ..AppFields::default()
        },
    };
    let caller: Caller<ChangeApps> = kit.owner_may().await;
    let made = kit
        .service
        .create_app(&caller, Collection::ImportApps, &new, None, None);
    made.await.expect("the service does it")
}

#[tokio::test]
async fn an_app_with_a_newer_tag_can_be_updated() {
    let kit = Kit::new().await;
    let app = tagged(&kit, "Look").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    assert!(!owner.get(&kit.at("")).await.says("An update is available"));
    kit.service.note_latest_tag(&app, Some("v1.1.0")).await.unwrap();
    let shown = owner.get(&kit.at("")).await;
    assert!(shown.says("An update is available for Look") && shown.says("Installed: v1.0.0. Latest: v1.1.0."));
    let link = kit.at(&format!("apps/imports/{}/update/", app.id));
    assert!(shown.says(&format!("href=\"{link}\">View update")), "{shown:?}");
}

/// Lets a configuration fail until it is disabled.
async fn give_up(kit: &Kit, config: &str, error: &str) {
    let number = config.trim_end_matches('/').rsplit('/').next().expect("an id");
    let worker = WorkerId(uuid::Uuid::nil());
    let claimed = kit
        .service
        .claim_app(worker, AppConfigId(number.parse().expect("a number")))
        .await;
    let job = claimed.expect("the service does it").expect("it is due");
    let step = Step {
        cursor: job.cursor(),
        failures: MAX_FAILURES,
        error: Some(error.to_owned()),
        beyond: None,
        stop: Stop::Done,
    };
    assert!(
        kit.service
            .end_app_batch(&job, &step)
            .await
            .expect("the service does it")
    );
}

#[tokio::test]
async fn an_app_that_was_switched_off_by_its_failures_is_urgent_until_somebody_looks_after_it() {
    let kit = Kit::new().await;
    let newer = tagged(&kit, "Look").await;
    kit.service.note_latest_tag(&newer, Some("v1.1.0")).await.unwrap();
    let mut owner = kit.signed_in("olga@example.com").await;
    let app = crate::apps::written(&kit, &mut owner).await;
    let config = crate::apps::set_up(&kit, &mut owner, &app).await;
    assert!(!owner.get(&kit.at("")).await.says("was disabled"));
    give_up(&kit, &config, &format!("<b>no luck</b> {}", "x".repeat(5000))).await;
    let shown = owner.get(&kit.at("")).await;
    let off = shown.html.find("Hook was disabled for Default project");
    let outdated = shown.html.find("An update is available for Look").expect("it is named");
    assert!(off.expect("it is named") < outdated, "what is urgent comes first");
    assert!(shown.says("It failed repeatedly. &#60;b&#62;no luck&#60;/b&#62; xxx") && shown.says("x…"));
    assert!(!shown.says(&"x".repeat(300)), "long words are cut");
    assert!(
        shown.says(&format!("href=\"{config}\">View configuration")),
        "{shown:?}"
    );
    assert!(shown.says("1 disabled after failures"));
    let settings = [("enabled", "yes"), ("config__url", "https://example.com/hook")];
    assert_eq!(owner.post(&config, &settings).await.status, 303);
    assert!(!owner.get(&kit.at("")).await.says("was disabled"));
}

#[tokio::test]
async fn no_more_apps_are_read_than_are_shown_and_all_are_counted() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let app = crate::apps::written(&kit, &mut owner).await;
    for _ in 0..13 {
        let config = crate::apps::set_up(&kit, &mut owner, &app).await;
        give_up(&kit, &config, "no luck").await;
    }
    for number in 0..13 {
        let app = tagged(&kit, &format!("Look {number}")).await;
        kit.service.note_latest_tag(&app, Some("v1.1.0")).await.unwrap();
    }
    let shown = owner.get(&kit.at("")).await;
    assert_eq!(shown.html.matches("</span> Hook was disabled").count(), 12, "{shown:?}");
    assert!(!shown.says("An update is available"), "what is urgent takes the room");
    assert!(shown.says("And 14 more.") && shown.says("13 disabled after failures") && shown.says(">14<"));
}
