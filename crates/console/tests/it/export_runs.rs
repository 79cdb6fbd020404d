use chrono::TimeDelta;
use events::Incoming;
use service::access::{Actor, Caller, ChangeExports, ReadExports};
use service::batch_exports::{
    Backfill, BackfillRequest, Choice, DestinationInput, ExportName, ExportRest, Interval, Job, NewExport, Outcome,
    Progress, Run, RunFilter, RunStatus,
};
use service::organizations::NewOrganization;
use service::{BackfillId, Email, ExportId, Name, Rotation, Window, WorkerId};

use crate::kit::{Kit, between};

/// An export that sends nothing anywhere, and its runs. It is 9:30 when it begins, and nobody works unless asked to.
pub(crate) struct Scene<'a> {
    kit: &'a Kit,
    pub(crate) export: ExportId,
}

impl<'a> Scene<'a> {
    pub(crate) async fn new(kit: &'a Kit, interval: Interval) -> Self {
        let new = NewExport {
            name: ExportName::new("Nowhere").expect("the service does it"),
            destination: DestinationInput {
                kind: Some("NoOp".to_owned()),
                config: None,
            },
            interval,
            team_id: None,
            rest: ExportRest::default(),
        };
        let caller: Caller<ChangeExports> = kit.owner_may().await;
        let made = kit.exports.create(&caller, &new).await.expect("the service does it");
        Self {
            kit,
            export: made.export.id,
        }
    }

    /// At 13:30: the hour of 9 is delivered, 10 and 11 are missing, 12 has failed, 13 is in progress.
    pub(crate) async fn with_a_gap(kit: &'a Kit) -> Self {
        let scene = Self::new(kit, Interval::Hour).await;
        scene.capture().await;
        scene.wait(TimeDelta::hours(1));
        scene.work().await;
        let caller: Caller<ChangeExports> = kit.owner_may().await;
        kit.service
            .pause_batch_export(&caller, scene.export)
            .await
            .expect("the service does it");
        scene.wait(TimeDelta::hours(2));
        let unpaused = kit.service.unpause_batch_export(&caller, scene.export, false);
        unpaused.await.expect("the service does it");
        scene.wait(TimeDelta::hours(1));
        scene.schedule().await;
        scene.fail(&scene.claim().await).await;
        scene
    }

    pub(crate) fn at(&self, below: &str) -> String {
        self.kit.at(&format!("exports/{}/{below}", self.export))
    }

    pub(crate) fn wait(&self, time: TimeDelta) {
        self.kit.service.clock().advance(time);
    }

    async fn capture(&self) {
        let now = self.kit.service.clock().now();
        let event = Incoming {
            uuid: None,
            event: "sail".to_owned(),
            distinct_id: "ann".to_owned(),
            properties: serde_json::Map::new(),
            timestamp: now,
        };
        let team = self.kit.first_team().await;
        let stored = self.kit.exports.events().append(team.0, vec![event], now);
        stored.await.expect("the service does it");
    }

    async fn schedule(&self) {
        self.kit
            .service
            .schedule_runs(TimeDelta::zero())
            .await
            .expect("the service does it");
    }

    /// Makes all runs that are due, and carries them out.
    pub(crate) async fn work(&self) {
        let exports = &self.kit.exports;
        while exports.schedule().await.expect("the service does it")
            | exports.step().await.expect("the service does it")
        {}
    }

    async fn claim(&self) -> Job {
        let worker = WorkerId(uuid::Uuid::nil());
        let claimed = self
            .kit
            .service
            .claim_run(worker, &[], &Rotation::default(), |due, _| {
                due.first().map_or(Choice::Nobody, |id| Choice::Take(*id))
            })
            .await
            .expect("the service does it");
        claimed.expect("a run is due")
    }

    async fn fail(&self, job: &Job) {
        let outcome = Outcome::Failed {
            error: "the bucket is gone".to_owned(),
            is_permanent: true,
            delivered: Progress::default(),
        };
        assert!(
            self.kit
                .service
                .finish_run(job, &outcome)
                .await
                .expect("the service does it")
        );
    }

    /// From 9:00 to 12:00, not begun yet.
    pub(crate) async fn backfill(&self) -> BackfillId {
        let caller: Caller<ChangeExports> = self.kit.owner_may().await;
        let request = BackfillRequest {
            start_at: Some("2026-11-15T09:00:00Z".parse().expect("the service does it")),
            end_at: Some("2026-11-15T12:00:00Z".parse().expect("the service does it")),
            resend: None,
        };
        let begun = self.kit.exports.backfill(&caller, self.export, &request).await;
        begun.expect("the service does it").1.id
    }

    pub(crate) async fn backfills(&self) -> Vec<Backfill> {
        let caller: Caller<ReadExports> = self.kit.owner_may().await;
        let all = Window::new(None, None);
        let found = self.kit.service.backfills(&caller, self.export, all).await;
        found.expect("the service does it").items
    }

    /// Newest first.
    pub(crate) async fn runs(&self) -> Vec<Run> {
        let caller: Caller<ReadExports> = self.kit.owner_may().await;
        let (filter, all) = (RunFilter::default(), Window::new(None, None));
        let found = self.kit.service.runs(&caller, self.export, &filter, all).await;
        found.expect("the service does it").items
    }

    async fn run(&self, id: service::RunId) -> Run {
        let caller: Caller<ReadExports> = self.kit.owner_may().await;
        self.kit
            .service
            .run(&caller, self.export, id)
            .await
            .expect("the service does it")
    }

    async fn is_paused(&self) -> bool {
        let caller: Caller<ReadExports> = self.kit.owner_may().await;
        let seen = self.kit.service.batch_export(&caller, self.export).await;
        seen.expect("the service does it").export.paused
    }
}

#[tokio::test]
async fn runs_are_shown_as_a_picture_and_one_by_one() {
    let kit = Kit::new().await;
    let scene = Scene::new(&kit, Interval::Hour).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let none = owner.get(&scene.at("runs/")).await;
    assert!(none.says("No runs yet. The first run starts at 10:00 UTC."), "{none:?}");
    scene.wait(TimeDelta::hours(3));
    scene.schedule().await;
    let job = scene.claim().await;
    scene.wait(TimeDelta::seconds(20));
    let done = Outcome::Completed(Progress {
        records: 1200,
        bytes: 5_200_000,
        read: 1200,
        total: None,
    });
    assert!(kit.service.finish_run(&job, &done).await.unwrap());
    scene.fail(&scene.claim().await).await;
    let shown = owner.get(&scene.at("runs/")).await;
    assert_eq!((shown.status, shown.h1()), (200, "Runs of Nowhere"));
    assert!(
        shown.says("aria-label=\"Last 3 runs: 1 succeeded, 1 failed, 1 running\""),
        "{shown:?}"
    );
    assert!(shown.says("<title>15 Nov 2026, 09:00 to 10:00: succeeded, 1,200 rows, in 20 seconds</title>"));
    assert!(shown.says("5.2 MB") && shown.says("The bucket is gone.") && shown.says("3 runs"));
    let link = format!("href=\"{}\"", scene.at(&format!("runs/{}/", job.run.id)));
    assert!(shown.says(&link));
    let failed = owner.get(&scene.at("runs/?status=Failed")).await;
    assert!(failed.says("1 run found") && !failed.says(&link));
    assert!(failed.says("value=\"Failed\" selected"));
}

#[tokio::test]
async fn what_was_called_off_differs_by_more_than_its_color() {
    let kit = Kit::new().await;
    let scene = Scene::new(&kit, Interval::Hour).await;
    scene.wait(TimeDelta::hours(2));
    scene.schedule().await;
    let runs = scene.runs().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    owner
        .post(&scene.at(&format!("runs/{}/cancel/", runs[0].id)), &[])
        .await;
    let shown = owner.get(&scene.at("runs/")).await;
    let chart = between(&shown.html, "<figure class=\"chart\">", "</svg>").expect("a chart");
    assert!(
        chart.matches("class=\"run-dash\"").count() == 1 && chart.contains("<rect class=\"run-stopped\" x=\""),
        "{chart}"
    );
    let legend = between(&shown.html, "<ul class=\"legend\">", "</ul>").expect("a legend");
    assert!(
        legend.contains("</svg> cancelled</li>") && legend.matches("class=\"run-dash\"").count() == 1,
        "{legend}"
    );
    assert!(!legend.contains("failed"), "what is not there is not explained");
    for small in [scene.at(""), kit.at("exports/"), kit.at("")] {
        let shown = owner.get(&small).await;
        let legend = between(&shown.html, "<ul class=\"legend hint\"", "</ul>").expect("a legend");
        assert!(legend.contains("</svg> cancelled</li>"), "{small}: {legend}");
    }
}

#[tokio::test]
async fn an_export_leads_to_its_latest_run_and_follows_it() {
    let kit = Kit::new().await;
    let scene = Scene::new(&kit, Interval::Hour).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let calm = owner.get(&scene.at("")).await;
    scene.capture().await;
    assert!(!calm.says(">Latest run<") && !calm.says("data-every") && calm.says("<dt>Next run</dt><dd>in 30 minutes"));
    scene.wait(TimeDelta::hours(1));
    scene.schedule().await;
    let link = |run: &Run| format!("href=\"{}\">Latest run</a>", scene.at(&format!("runs/{}/", run.id)));
    let first = scene.runs().await.remove(0);
    let live = format!(
        "id=\"state\" aria-labelledby=\"runs\" data-every=\"5\" data-from=\"{}\"",
        scene.at("")
    );
    let waiting = owner.get(&scene.at("")).await;
    assert!(waiting.says(&link(&first)) && waiting.says(&live), "{waiting:?}");
    assert!(waiting.says("role=\"status\">Latest run: Queued</p>"));
    scene.work().await;
    let over = owner.get(&scene.at("")).await;
    assert!(
        over.says(&link(&first)) && over.says("role=\"status\">Latest run: Succeeded</p>"),
        "{over:?}"
    );
    assert!(!over.says("data-every"), "there is nothing to wait for");
    scene.wait(TimeDelta::hours(1));
    scene.schedule().await;
    let second = scene.runs().await.remove(0);
    let again = owner.get(&scene.at("")).await;
    assert!(
        second.id != first.id && again.says(&link(&second)) && again.says(&live),
        "{again:?}"
    );
}

#[tokio::test]
async fn an_export_without_runs_says_when_the_first_one_starts() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    for (interval, first) in [
        (Interval::FiveMinutes, "No runs yet. The first run starts at 09:35 UTC."),
        (Interval::Hour, "No runs yet. The first run starts at 10:00 UTC."),
        (
            Interval::Day,
            "No runs yet. The first run starts on 16 Nov 2026 at 00:00 UTC.",
        ),
    ] {
        let scene = Scene::new(&kit, interval).await;
        for below in ["", "runs/"] {
            let shown = owner.get(&scene.at(below)).await;
            assert!(shown.says(first), "{below}: {shown:?}");
        }
    }
    let scene = Scene::new(&kit, Interval::Hour).await;
    owner.post(&scene.at("pause/"), &[]).await;
    for below in ["", "runs/"] {
        let shown = owner.get(&scene.at(below)).await;
        assert!(
            shown.says("No runs yet.") && !shown.says("The first run starts"),
            "{below}: {shown:?}"
        );
    }
}

#[tokio::test]
async fn short_runs_are_told_in_milliseconds() {
    let kit = Kit::new().await;
    let scene = Scene::new(&kit, Interval::Hour).await;
    scene.wait(TimeDelta::hours(1));
    scene.schedule().await;
    let job = scene.claim().await;
    scene.wait(TimeDelta::milliseconds(412));
    let done = Outcome::Completed(Progress::default());
    assert!(kit.service.finish_run(&job, &done).await.unwrap());
    let mut owner = kit.signed_in("olga@example.com").await;
    let shown = owner.get(&scene.at("runs/")).await;
    assert!(shown.says("<td data-label=\"Duration\">412 ms</td>"), "{shown:?}");
}

#[tokio::test]
async fn a_run_under_way_is_followed_until_it_ends() {
    let kit = Kit::new().await;
    let scene = Scene::new(&kit, Interval::Hour).await;
    scene.wait(TimeDelta::hours(1));
    scene.schedule().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = scene.at(&format!("runs/{}/", scene.runs().await[0].id));
    assert!(
        owner
            .get(&path)
            .await
            .says("It starts as soon as a worker is available.")
    );
    let job = scene.claim().await;
    scene.wait(TimeDelta::seconds(10));
    let mut progress = Progress {
        records: 500,
        bytes: 20_000,
        read: 500,
        total: Some(2000),
    };
    assert!(kit.service.renew_lease(&job, &progress).await.unwrap());
    let shown = owner.get(&path).await;
    assert_eq!(shown.h1(), "Run of 15 Nov 2026, 09:00 to 10:00");
    assert!(
        shown.says(&format!("data-every=\"2\" data-from=\"{path}\"")),
        "{shown:?}"
    );
    assert!(shown.says("<progress class=\"meter\" max=\"2000\" value=\"500\""));
    assert!(shown.says("500 of 2,000 read, 500 delivered") && shown.says("20.0 kB so far"));
    assert!(shown.says("50 rows per second") && shown.says("About 30 seconds"));
    assert!(shown.says(">Cancel run</button>") && !shown.says("Re-run"));
    progress.records = 2000;
    let done = Outcome::Completed(progress);
    assert!(kit.service.finish_run(&job, &done).await.unwrap());
    let over = owner.get(&path).await;
    assert!(!over.says("data-every"), "nothing is asked for any more");
    assert!(over.says(">Succeeded</span>") && over.says(">Re-run</button>") && over.says("10 seconds"));
}

#[tokio::test]
async fn what_is_not_counted_beforehand_is_said_to_be_unknown() {
    let kit = Kit::new().await;
    let scene = Scene::new(&kit, Interval::Hour).await;
    scene.wait(TimeDelta::hours(1));
    scene.schedule().await;
    let job = scene.claim().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = scene.at(&format!("runs/{}/", job.run.id));
    let shown = owner.get(&path).await;
    assert!(shown.says("Unknown: rows are not counted in advance") && shown.says("None yet"));
    assert!(!shown.says("<progress"));
}

#[tokio::test]
async fn a_run_is_cancelled_and_asked_for_again() {
    let kit = Kit::new().await;
    let scene = Scene::new(&kit, Interval::Hour).await;
    scene.wait(TimeDelta::hours(1));
    scene.schedule().await;
    let id = scene.runs().await[0].id;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = scene.at(&format!("runs/{id}/"));
    let early = owner.post(&format!("{path}retry/"), &[]).await;
    assert_eq!(early.status, 400);
    assert!(
        early.says("role=\"alert\">Cannot retry a run with status &#39;Starting&#39;"),
        "{early:?}"
    );
    let cancelled = owner.post(&format!("{path}cancel/"), &[]).await;
    assert_eq!(cancelled.place(), (303, format!("{path}?done=run-cancelled").as_str()));
    assert_eq!(scene.run(id).await.status, RunStatus::Cancelled);
    let twice = owner.post(&format!("{path}cancel/"), &[]).await;
    assert_eq!((twice.status, twice.says("Cannot cancel a run")), (400, true));
    let retried = owner.post(&format!("{path}retry/"), &[]).await;
    assert_eq!(retried.place(), (303, format!("{path}?done=retried").as_str()));
    assert_eq!(scene.run(id).await.status, RunStatus::Starting);
    let activity = owner
        .get(&kit.at(&format!("activity/?scope=BatchExportRun&item={id}")))
        .await;
    assert!(
        activity.says(" cancelled a run of ") && activity.says(" retried a run of "),
        "{activity:?}"
    );
}

#[tokio::test]
async fn the_log_of_a_run_is_shown_by_level() {
    let kit = Kit::new().await;
    let scene = Scene::new(&kit, Interval::Hour).await;
    scene.wait(TimeDelta::hours(1));
    scene.schedule().await;
    let job = scene.claim().await;
    scene.fail(&job).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = scene.at(&format!("runs/{}/", job.run.id));
    let all = owner.get(&path).await;
    assert!(
        all.says("Failed permanently: the bucket is gone")
            && all.says("<p class=\"alert breakable\">The bucket is gone.")
    );
    assert!(all.says("Fix the error, then select Retry."));
    assert!(
        owner
            .get(&format!("{path}?level=ERROR"))
            .await
            .says("Failed permanently")
    );
    let others = owner.get(&format!("{path}?level=INFO")).await;
    assert!(!others.says("Failed permanently") && others.says("No log entries match."));
}

#[tokio::test]
async fn an_export_is_paused_and_goes_on() {
    let kit = Kit::new().await;
    let scene = Scene::new(&kit, Interval::Hour).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let paused = owner.post(&scene.at("pause/"), &[]).await;
    assert_eq!(paused.place(), (303, scene.at("?done=paused").as_str()));
    assert!(scene.is_paused().await);
    let unpaused = owner.post(&scene.at("unpause/"), &[]).await;
    assert_eq!(unpaused.place(), (303, scene.at("?done=unpaused").as_str()));
    assert!(!scene.is_paused().await && scene.backfills().await.is_empty());
    owner.post(&scene.at("pause/"), &[]).await;
    scene.wait(TimeDelta::hours(3));
    let filling = owner.post(&scene.at("unpause/"), &[("also_backfill", "yes")]).await;
    assert_eq!(
        filling.place(),
        (303, scene.at("?done=unpaused-with-backfill").as_str())
    );
    assert_eq!(scene.backfills().await[0].total_runs, 3);
}

/// Another organization of the same owner.
async fn another_organization(kit: &Kit) -> service::OrganizationId {
    let email = Email::new("olga@example.com").expect("the service does it");
    let owner = kit.service.user_by_email(&email).await.expect("the service does it");
    let new = NewOrganization {
        name: Name::new("Other").expect("the service does it"),
        is_member_join_email_enabled: None,
        enforce_2fa: None,
    };
    let made = kit
        .service
        .create_organization_for(&Actor::system(), &new, &owner)
        .await;
    made.expect("the service does it").organization.id
}

#[tokio::test]
async fn runs_are_found_only_where_they_belong() {
    let kit = Kit::new().await;
    let scene = Scene::with_a_gap(&kit).await;
    let (run, backfill) = (scene.runs().await[0].id, scene.backfill().await);
    let other = another_organization(&kit).await;
    let elsewhere = Scene::new(&kit, Interval::Hour).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let (run, backfill) = (format!("runs/{run}/"), format!("backfills/{backfill}/"));
    for below in ["runs/", "backfills/", "backfills/new/", &run, &backfill] {
        assert_eq!(owner.get(&scene.at(below)).await.status, 200, "{below}");
        let foreign = format!("/organizations/{other}/exports/{}/{below}", scene.export);
        assert_eq!(owner.get(&foreign).await.status, 404, "{foreign}");
    }
    for below in [&run, &backfill] {
        assert_eq!(owner.get(&elsewhere.at(below)).await.status, 404, "of another export");
        let cancelled = owner.post(&elsewhere.at(&format!("{below}cancel/")), &[]).await;
        assert_eq!(cancelled.status, 404);
    }
    for below in ["pause/", "unpause/"] {
        let foreign = format!("/organizations/{other}/exports/{}/{below}", scene.export);
        assert_eq!(owner.post(&foreign, &[]).await.status, 404, "{foreign}");
    }
    assert!(!scene.is_paused().await);
    assert_eq!(owner.get(&scene.at("runs/x/")).await.status, 404);
}
