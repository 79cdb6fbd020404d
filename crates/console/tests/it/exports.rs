use service::access::{Caller, ChangeExports, ReadExports};
use service::batch_exports::destination::{Destination, Kind};
use service::batch_exports::{BatchExport, DestinationInput, ExportName, ExportRest, Interval, NewExport};
use service::{ExportId, Level, Window};

use crate::kit::{Answer, Browser, Kit, between};

/// An export that goes nowhere.
pub(crate) async fn make(kit: &Kit, name: &str, paused: bool) -> ExportId {
    make_as(kit, &kit.owner_may().await, name, paused).await
}

async fn make_as(kit: &Kit, caller: &Caller<ChangeExports>, name: &str, paused: bool) -> ExportId {
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
    let made = kit.exports.create(caller, &new).await;
    made.expect("the service does it").export.id
}

async fn all(kit: &Kit) -> Vec<BatchExport> {
    let caller: Caller<ReadExports> = kit.owner_may().await;
    let page = kit.service.batch_exports(&caller, Window::new(None, None)).await;
    page.expect("the service does it")
        .items
        .iter()
        .map(|seen| seen.export.clone())
        .collect()
}

/// A form that is all right, with some of it said differently. An empty text takes a field away.
fn s3<'a>(over: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut form = vec![
        ("name", "Events to the bucket"),
        ("model", "events"),
        ("interval", "day"),
        ("destination__config__bucket_name", "events"),
        ("destination__config__region", "eu-central-1"),
        ("destination__config__prefix", "acme/{year}"),
        ("destination__config__aws_access_key_id", "AKIAVISIBLE"),
        ("destination__config__aws_secret_access_key", "hush-hush"),
        ("destination__config__file_format", "Parquet"),
        ("destination__config__compression", "zstd"),
        ("destination__config__include_events", "signed up\r\n\r\n paid "),
    ];
    form.retain(|(name, _)| !over.iter().any(|(other, _)| other == name));
    form.extend(over);
    form
}

async fn made(kit: &Kit, owner: &mut Browser<'_>, form: &[(&str, &str)]) -> String {
    let answer = owner.post(&kit.at("exports/new/s3/"), form).await;
    let place = answer.header("location").to_owned();
    assert!(
        answer.status == 303 && place.contains("?done=export-created"),
        "{answer:?}"
    );
    place.split('?').next().unwrap_or_default().to_owned()
}

fn has_no_secret(answer: &Answer) {
    for secret in ["AKIAVISIBLE", "hush-hush"] {
        assert!(!answer.says(secret), "{secret} is shown");
    }
}

#[tokio::test]
async fn the_list_says_how_each_export_stands() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    assert!(owner.get(&kit.at("exports/")).await.says("No exports yet."));
    let hourly = make(&kit, "Hourly", false).await;
    make(&kit, "Nightly", true).await;
    let shown = owner.get(&kit.at("exports/")).await;
    assert!(shown.says(&format!("exports/{hourly}/\">Hourly</a>")), "{shown:?}");
    assert!(shown.says("<span class=\"tag tag-good\">Active</span>") && shown.says("Events to No-op (testing)"));
    assert!(shown.says("<span class=\"tag tag-warning\">Paused</span>"));
    assert!(shown.says("title=\"2026-11-15T10:00:00Z\">in 30 minutes</time>"));
    assert!(!shown.says("<th scope=\"col\">Team</th>"), "there is one team only");
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let kit = Kit::new().await;
    let caller = kit.owner_may().await;
    for number in 0..51 {
        kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        make_as(&kit, &caller, &format!("Export {number}."), false).await;
    }
    let mut owner = kit.signed_in("olga@example.com").await;
    let first = owner.get(&kit.at("exports/")).await;
    assert!(first.says("1–50 of 51") && first.says("Export 50.") && !first.says("Export 0."));
    let second = owner.get(&kit.at("exports/?page=2")).await;
    assert!(second.says("Export 0.") && !second.says("Export 1."));
}

#[tokio::test]
async fn every_kind_can_be_chosen_and_has_its_form() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let shown = owner.get(&kit.at("exports/new/")).await;
    assert!(shown.says("<h2 id=\"family-1\">Object storage</h2>"));
    assert!(shown.says("Unavailable"), "no folder is set aside in tests");
    for kind in Kind::ALL {
        let path = kit.at(&format!("exports/new/{}/", kind.name().to_ascii_lowercase()));
        assert_eq!(shown.says(&path), kind != Kind::File, "{path}");
        let form = owner.get(&path).await;
        assert_eq!(form.h1(), format!("New export: {}", kind.title()));
        for field in kind.fields().filter(|field| field.key != "copy_inputs") {
            let name = format!(" name=\"destination__config__{}\"", field.key);
            assert!(form.says(&name), "{path} {name}");
        }
    }
    assert_eq!(owner.get(&kit.at("exports/new/fax/")).await.status, 404);
}

#[tokio::test]
async fn what_counts_with_a_choice_only_says_so() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let form = owner.get(&kit.at("exports/new/redshift/")).await;
    let part = "<div data-only-with=\"destination__config__mode\" data-value=\"COPY\">";
    assert_eq!(
        form.html.matches(part).count(),
        7,
        "the bucket, and the keys to write to it"
    );
    let copying = [
        ("name", "Copied"),
        ("model", "events"),
        ("interval", "hour"),
        ("destination__config__user", "u"),
        ("destination__config__password", "p"),
        ("destination__config__host", "127.0.0.1"),
        ("destination__config__database", "d"),
        ("destination__config__mode", "COPY"),
    ];
    let refused = owner.post(&kit.at("exports/new/redshift/"), &copying).await;
    assert_eq!(refused.status, 400);
    let problem = "id=\"destination__config__copy_inputs__s3_bucket-problem\">This field must not be blank";
    assert!(refused.says(problem), "{refused:?}");
    let mut inserting = copying.to_vec();
    inserting.retain(|(name, _)| !name.ends_with("mode"));
    inserting.push(("destination__config__mode", "INSERT"));
    let made = owner.post(&kit.at("exports/new/redshift/"), &inserting).await;
    assert_eq!(made.status, 303, "{made:?}");
}

#[tokio::test]
async fn times_that_no_schedule_reaches_are_refused() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    for (name, time) in [
        ("start_at", "+10000-01-01T00:00"),
        ("end_at", "9999-12-31T23:00"),
        ("start_at", "+262142-12-31T23:59"),
        ("start_at", "1969-12-31T23:59"),
    ] {
        let refused = owner.post(&kit.at("exports/new/s3/"), &s3(&[(name, time)])).await;
        let problem = format!("id=\"{name}-problem\">");
        assert!(refused.status == 400 && refused.says(&problem), "{time}: {refused:?}");
    }
}

#[tokio::test]
async fn nul_is_no_text() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    assert_eq!(owner.get(&kit.at("members/?search=%00")).await.status, 200);
    let refused = owner.post(&kit.at("teams/new/"), &[("name", "a\0b")]).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test]
async fn an_export_is_made_as_the_form_says() {
    let kit = Kit::new().await;
    kit.member("ann@example.org", Level::Member).await;
    let mut ann = kit.signed_in("ann@example.org").await;
    let form = s3(&[("start_at", "2026-12-01T08:00"), ("paused", "yes")]);
    let path = made(&kit, &mut ann, &form).await;
    let export = all(&kit).await.remove(0);
    assert_eq!(
        (export.name.as_str(), export.interval),
        ("Events to the bucket", Interval::Day)
    );
    assert!(export.paused && export.start_at == Some("2026-12-01T08:00:00Z".parse().unwrap()));
    assert_eq!(export.event_names("include_events"), ["signed up", "paid"]);
    assert_eq!(export.config["prefix"], "acme/{year}");
    assert!(export.config.get("endpoint_url").is_none() && export.config.get("kms_key_id").is_none());
    let destination = export.destination(kit.service.instance()).unwrap();
    assert!(matches!(destination, Destination::S3(s3) if s3.aws_secret_access_key.is_some()));

    let shown = ann.get(&format!("{path}?done=export-created")).await;
    assert_eq!(shown.h1(), "Events to the bucket");
    assert!(shown.says("Export created.") && shown.says("<dt>Bucket</dt><dd>events</dd>"));
    assert!(shown.says("<dt>Start date</dt><dd>1 Dec 2026, 08:00 UTC</dd>"));
    assert!(shown.says(&format!("action=\"{path}unpause/\"")) && shown.says("name=\"also_backfill\""));
    assert!(shown.says(&format!("{path}runs/")) && shown.says(&format!("{path}backfills/")));
    has_no_secret(&shown);
}

#[tokio::test]
async fn a_refused_form_keeps_what_was_typed_but_no_secret() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let form = s3(&[
        ("name", " "),
        ("destination__config__region", ""),
        ("destination__config__max_file_size_mb", "many"),
        ("end_at", "tomorrow"),
    ]);
    let refused = owner.post(&kit.at("exports/new/s3/"), &form).await;
    assert_eq!(refused.status, 400);
    for problem in [
        "id=\"name-problem\">This field must not be blank.",
        "id=\"end_at-problem\">Enter a valid time",
        "id=\"destination__config__region-problem\">This field must not be blank",
        "id=\"destination__config__max_file_size_mb-problem\">Must be a whole number",
    ] {
        assert!(refused.says(problem), "{problem} {refused:?}");
    }
    assert!(refused.says("value=\"acme/{year}\"") && refused.says("value=\"many\""));
    assert!(
        refused.says("<option value=\"JSONLines\">JSON Lines</option>"),
        "{refused:?}"
    );
    assert!(refused.says("<option value=\"Parquet\" selected>") && refused.says("signed up\n"));
    assert!(refused.says("Enter them again"));
    has_no_secret(&refused);
    assert!(all(&kit).await.is_empty(), "nothing was made");
}

#[tokio::test]
async fn places_that_must_not_be_reached_are_refused_beside_their_field() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let form = [
        ("name", "Inward"),
        ("model", "events"),
        ("interval", "hour"),
        ("destination__config__url", "https://10.0.0.1/batch/"),
        ("destination__config__token", "hush-hush"),
    ];
    for path in ["exports/new/http/", "exports/new/http/test/"] {
        let refused = owner.post(&kit.at(path), &form).await;
        assert_eq!(refused.status, 400, "{path}");
        assert!(refused.says("id=\"destination__config__url-problem\">"), "{path}");
        has_no_secret(&refused);
    }
}

#[tokio::test]
async fn a_destination_is_tried_before_an_export_has_it() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at("exports/new/postgres/test/");
    // Nobody listens there.
    let form = [
        ("name", ""),
        ("destination__config__user", "writer"),
        ("destination__config__password", "hush-hush"),
        ("destination__config__host", "127.0.0.1"),
        ("destination__config__port", "9"),
        ("destination__config__database", "events"),
    ];
    let tried = owner.post(&path, &form).await;
    assert_eq!(tried.status, 200, "{tried:?}");
    let result = between(&tried.html, "id=\"connection-test-result\">", "</ol>").expect("steps");
    assert!(result.contains("Connection test failed."), "{result}");
    assert!(
        result.contains("<span class=\"tag tag-danger\">Failed</span>"),
        "{result}"
    );
    assert!(tried.says("value=\"127.0.0.1\"") && tried.says("Enter them again"));
    assert!(!tried.says("name-problem"), "the name does not matter yet");
    has_no_secret(&tried);
    assert!(all(&kit).await.is_empty(), "a test makes nothing");

    let refused = owner.post(&path, &form[..3]).await;
    assert_eq!(refused.status, 400);
    let result = between(&refused.html, "id=\"connection-test-result\">", "</ul>").expect("what is wrong");
    assert!(result.contains("Fix these errors to run the test."), "{result}");
    assert!(result.contains("<li>Host: This field must not be blank"), "{result}");
    let back = owner.get(&path).await;
    assert_eq!(back.place(), (303, kit.at("exports/new/postgres/").as_str()));
}

#[tokio::test]
async fn a_change_keeps_the_secrets_unless_the_place_changes() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = made(&kit, &mut owner, &s3(&[])).await;
    let edit = format!("{path}edit/");
    let shown = owner.get(&edit).await;
    assert!(shown.says("value=\"acme/{year}\"") && shown.says("Leave a field empty to keep its value."));
    has_no_secret(&shown);

    let no_secrets = [
        ("destination__config__aws_access_key_id", ""),
        ("destination__config__aws_secret_access_key", ""),
    ];
    let change = [("name", "Renamed"), ("destination__config__compression", "")];
    let saved = owner.post(&edit, &s3(&[no_secrets, change].concat())).await;
    assert_eq!(saved.place(), (303, format!("{path}?done=saved").as_str()), "{saved:?}");
    let export = all(&kit).await.remove(0);
    assert_eq!(export.name.as_str(), "Renamed");
    assert!(
        export.config.get("compression").is_none(),
        "what is emptied is taken away"
    );
    assert!(
        export.destination(kit.service.instance()).is_ok(),
        "the secrets are still there"
    );

    let elsewhere = [("destination__config__endpoint_url", "https://127.0.0.1:8333")];
    let form = s3(&[&no_secrets[..], &elsewhere].concat());
    let refused = owner.post(&edit, &form).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.says("id=\"destination__config__aws_access_key_id-problem\">"),
        "{refused:?}"
    );
    let moved = owner.post(&edit, &s3(&elsewhere)).await;
    assert_eq!(moved.status, 303, "{moved:?}");
    assert_eq!(
        all(&kit).await.remove(0).config["endpoint_url"],
        "https://127.0.0.1:8333"
    );
}

#[tokio::test]
async fn a_form_that_was_left_alone_changes_nothing() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let id = make(&kit, "Hourly", false).await;
    let before = all(&kit).await.remove(0).updated_at;
    kit.service.clock().advance(chrono::TimeDelta::minutes(5));
    let form = [("name", "Hourly"), ("model", "events"), ("interval", "hour")];
    let saved = owner.post(&kit.at(&format!("exports/{id}/edit/")), &form).await;
    assert_eq!(saved.status, 303);
    assert_eq!(all(&kit).await.remove(0).updated_at, before);
}

#[tokio::test]
async fn an_export_is_tried_and_its_first_rows_are_shown() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let id = make(&kit, "Hourly", false).await;
    let tried = owner.post(&kit.at(&format!("exports/{id}/test/")), &[]).await;
    assert!(
        tried.says("Nothing to test: this destination always works."),
        "{tried:?}"
    );

    let path = kit.at(&format!("exports/{id}/preview/"));
    assert!(owner.get(&path).await.says("No data to export yet."));
    let now = kit.service.clock().now();
    let event = events::Incoming {
        uuid: None,
        event: "<b>signed up</b>".to_owned(),
        distinct_id: "ann".to_owned(),
        properties: serde_json::Map::new(),
        timestamp: now,
    };
    let team = kit.first_team().await.0;
    kit.exports.events().append(team, vec![event], now).await.unwrap();
    kit.service.clock().advance(chrono::TimeDelta::minutes(1));
    let shown = owner.get(&path).await;
    assert!(
        shown.says("1 row") && shown.says("<td>&#60;b&#62;signed up&#60;/b&#62;</td>"),
        "{shown:?}"
    );
    assert!(shown.says("tabindex=\"0\" role=\"region\" aria-label=\"First rows\""));
}

#[tokio::test]
async fn an_export_is_deleted_after_asking() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&format!("exports/{}/", make(&kit, "Hourly", false).await));
    kit.service.clock().advance(chrono::TimeDelta::hours(1));
    kit.service.schedule_runs(chrono::TimeDelta::zero()).await.unwrap();
    let asked = owner.get(&format!("{path}delete/")).await;
    assert_eq!(asked.h1(), "Delete export Hourly?");
    assert!(asked.says("the history of 1 run"));
    let deleted = owner.post(&format!("{path}delete/"), &[]).await;
    assert_eq!(deleted.place(), (303, kit.at("exports/?done=export-deleted").as_str()));
    assert_eq!(owner.get(&path).await.status, 404);
}

#[tokio::test]
async fn exports_of_others_are_not_there() {
    let kit = Kit::new().await;
    let id = make(&kit, "Hourly", false).await;
    kit.person("eve@example.org").await;
    let mut eve = kit.signed_in("eve@example.org").await;
    let answer = eve.post("/organizations/new/", &[("name", "Evil")]).await;
    let home = answer.header("location").replace("?done=created", "");
    assert_eq!(eve.get(&kit.at("exports/")).await.status, 404);
    for below in ["", "edit/", "test/", "preview/", "delete/"] {
        let path = format!("{home}exports/{id}/{below}");
        assert_eq!(eve.get(&path).await.status, 404, "{path}");
        if !["", "preview/"].contains(&below) {
            let form = [("name", "Mine"), ("model", "events"), ("interval", "hour")];
            assert_eq!(eve.post(&path, &form).await.status, 404, "POST {path}");
        }
    }
    assert_eq!(all(&kit).await.remove(0).name.as_str(), "Hourly");
}
