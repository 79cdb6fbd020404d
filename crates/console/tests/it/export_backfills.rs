use service::batch_exports::{BackfillStatus, Interval};

use crate::export_runs::Scene;
use crate::kit::{Kit, between, unescaped};

/// Where the cell leads that says this.
fn link(html: &str, words: &str) -> String {
    let (before, _) = html
        .split_once(&format!("\" aria-label=\"{words}\""))
        .unwrap_or_else(|| panic!("{words} is a link in {html}"));
    let (_, link) = before.rsplit_once("href=\"").expect("it leads somewhere");
    unescaped(link)
}

#[tokio::test]
async fn a_gap_is_picked_from_the_calendar_with_two_clicks() {
    let kit = Kit::new().await;
    let scene = Scene::with_a_gap(&kit).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let calendar = owner.get(&scene.at("backfills/new/")).await;
    for words in [
        "15 Nov 2026, 09:00 to 10:00: delivered",
        "15 Nov 2026, 10:00 to 11:00: gap",
        "15 Nov 2026, 12:00 to 13:00: failed",
    ] {
        link(&calendar.html, words);
    }
    for words in ["13:00 to 14:00: not due", "08:00 to 09:00: no data"] {
        assert!(
            calendar.says(&format!("<span class=\"unseen\">15 Nov 2026, {words}</span>")),
            "{words}"
        );
    }
    assert!(calendar.says("15 Nov 2026, 09:00 to 13:00 UTC: 4 intervals."));
    let first = link(&calendar.html, "15 Nov 2026, 10:00 to 11:00: gap");
    let begun = owner.get(first.trim_end_matches("#calendar")).await;
    assert!(begun.says("Now choose the last interval") && begun.says("10:00 to 11:00: gap, selected"));
    let second = link(&begun.html, "15 Nov 2026, 11:00 to 12:00: gap");
    let whole = owner.get(second.trim_end_matches("#calendar")).await;
    assert_eq!(whole.html.matches(": gap, selected\"").count(), 2);
    assert!(whole.says("15 Nov 2026, 10:00 to 12:00 UTC: 2 intervals."));
    let value = |name: &str| {
        let field = format!("name=\"{name}\" type=\"datetime-local\" value=\"");
        between(&whole.html, &field, "\"").expect("it is filled in").to_owned()
    };
    let (start, end) = (value("start_at"), value("end_at"));
    let made = owner
        .post(&scene.at("backfills/new/"), &[("start_at", &start), ("end_at", &end)])
        .await;
    let backfill = scene.backfills().await.remove(0);
    let place = scene.at(&format!("backfills/{}/?done=backfill-started", backfill.id));
    assert_eq!(made.place(), (303, place.as_str()));
    assert_eq!((backfill.total_runs, backfill.is_resend), (2, false));
    assert_eq!(backfill.start_at.to_rfc3339(), "2026-11-15T10:00:00+00:00");
    scene.work().await;
    let filled = owner.get(&scene.at("backfills/new/")).await;
    link(&filled.html, "15 Nov 2026, 10:00 to 11:00: delivered");
}

#[tokio::test]
async fn every_interval_has_a_calendar_that_goes_back_in_time() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    for (interval, layout, earlier, words) in [
        (
            Interval::Hour,
            "hours",
            "2026-10",
            "31 Oct 2026, 23:00 to 24:00: no data",
        ),
        (Interval::Day, "days", "2026-10", "31 Oct 2026: no data"),
        (Interval::FiveMinutes, "days", "2026-10", "31 Oct 2026: 288 no data"),
        (Interval::Week, "weeks", "2026-05", "4 May 2026 to 10 May 2026: no data"),
    ] {
        let scene = Scene::new(&kit, interval).await;
        let now = owner.get(&scene.at("backfills/new/")).await;
        assert!(now.says(&format!("calendar calendar-{layout}")), "{interval:?}");
        assert!(!now.says("rel=\"next\""), "the future cannot be filled");
        let before = between(&now.html, "rel=\"prev\" href=\"", "#calendar").expect("the way back");
        assert!(before.ends_with(&format!("?month={earlier}")), "{before}");
        let then = owner.get(&unescaped(before)).await;
        assert!(then.says(words) && then.says("rel=\"next\""), "{interval:?}: {then:?}");
    }
}

#[tokio::test]
async fn a_range_that_cannot_be_filled_comes_back_with_the_reason() {
    let kit = Kit::new().await;
    let scene = Scene::with_a_gap(&kit).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = scene.at("backfills/new/");
    let future = owner
        .post(&path, &[("end_at", "2030-01-01T00:00"), ("resend", "yes")])
        .await;
    assert_eq!(future.status, 400);
    assert!(future.says("id=\"end_at-problem\"") && future.says("is in the future"));
    assert!(
        future.says("value=\"2030-01-01T00:00\"")
            && future.says("name=\"resend\" value=\"yes\" aria-describedby=\"resend-hint\" checked")
    );
    let around = [("start_at", "2026-11-15T12:00"), ("end_at", "2026-11-15T10:00")];
    let around = owner.post(&path, &around).await;
    assert_eq!((around.status, around.says("id=\"start_at-problem\"")), (400, true));
    let unreadable = owner.get(&format!("{path}?start=soon")).await;
    assert_eq!(unreadable.status, 400);
    assert!(unreadable.says("id=\"start_at-problem\">Enter a valid time"));
    let far = owner.get(&format!("{path}?start=%2B262142-12-31T23:59")).await;
    assert_eq!(far.status, 400, "no year is too far away to be refused");
    assert!(scene.backfills().await.is_empty());
}

#[tokio::test]
async fn a_backfill_is_followed_to_its_end() {
    let kit = Kit::new().await;
    let scene = Scene::with_a_gap(&kit).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    assert!(owner.get(&scene.at("backfills/")).await.says("No backfills yet."));
    let id = scene.backfill().await;
    let path = scene.at(&format!("backfills/{id}/"));
    let begun = owner.get(&path).await;
    assert_eq!(begun.h1(), "Backfill of 15 Nov 2026, 09:00 to 12:00");
    assert!(begun.says("0 of 3") && begun.says("data-every=\"2\"") && begun.says("Cancel…"));
    scene.work().await;
    let done = owner.get(&path).await;
    assert!(
        done.says("3 of 3")
            && done.says(">Completed</span>")
            && done.says("Everything in this range has been delivered.")
    );
    assert!(!done.says("data-every") && !done.says("Cancel…"));
    assert!(owner.get(&scene.at("backfills/")).await.says("3 of 3"));
    let runs = owner.get(&scene.at(&format!("runs/?backfill={id}"))).await;
    assert!(
        runs.says("2 runs found"),
        "the hour that was delivered before is skipped: {runs:?}"
    );
}

#[tokio::test]
async fn a_backfill_is_cancelled_after_asking() {
    let kit = Kit::new().await;
    let scene = Scene::with_a_gap(&kit).await;
    let id = scene.backfill().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = scene.at(&format!("backfills/{id}/cancel/"));
    let sure = owner.get(&path).await;
    assert_eq!(sure.h1(), "Cancel this backfill?");
    assert!(sure.says("3 intervals not delivered yet"));
    assert_eq!(
        scene.backfills().await[0].status,
        BackfillStatus::Running,
        "asking changes nothing"
    );
    let cancelled = owner.post(&path, &[]).await;
    let place = scene.at(&format!("backfills/{id}/?done=backfill-cancelled"));
    assert_eq!(cancelled.place(), (303, place.as_str()));
    assert_eq!(scene.backfills().await[0].status, BackfillStatus::Cancelled);
    let twice = owner.post(&path, &[]).await;
    assert_eq!((twice.status, twice.says("Cannot cancel a backfill")), (400, true));
}
