//! Pipeline apps in the browser: written, installed, set up, changed, gone back with, deleted.

use service::access::{Actor, Caller, ReadApps};
use service::organizations::NewOrganization;
use service::pipeline::{App, AppConfig, AppLog, AppLogLevel, AppLogSource, Collection};
use service::{AppId, Level, Name, Window};

use crate::kit::{Browser, Kit, unescaped};

pub(crate) const HOOK: &str =
    "export function composeWebhook(event, { config }) {\n    return { url: config.url, body: 'x' }\n}\n";
pub(crate) const MANIFEST: &str = r#"{ "description": "Tells a server <of> each event", "config": [
  { "key": "url", "name": "Where to", "type": "string", "required": true, "hint": "An address" },
  { "key": "token", "name": "A secret", "type": "string", "secret": true },
  { "key": "mode", "name": "Mode", "type": "choice", "choices": ["fast", "slow"], "default": "slow" },
  { "key": "map", "name": "Names", "type": "json", "visible_if": [["mode", "fast"]] },
  { "key": "pem", "name": "Key file", "type": "attachment" }
] }"#;

/// Writes an app in the browser, and says where its page is.
pub(crate) async fn written(kit: &Kit, browser: &mut Browser<'_>) -> String {
    let form = [("name", "Hook"), ("code", HOOK), ("manifest", MANIFEST)];
    let made = browser.post(&kit.at("apps/destinations/new/code/"), &form).await;
    assert_eq!(made.status, 303, "{}", made.html);
    let place = made.header("location").strip_suffix("?done=app-installed");
    place.expect("it says what happened").to_owned()
}

/// Sets an app up for the first team, and says where that is.
pub(crate) async fn set_up(kit: &Kit, browser: &mut Browser<'_>, app: &str) -> String {
    let team = kit.first_team().await.to_string();
    let form = [
        ("team_id", team.as_str()),
        ("enabled", "yes"),
        ("order", "3"),
        ("config__url", "https://example.com/hook"),
        ("config__token", "hush-hush"),
        ("config__mode", "fast"),
        ("config__map", "{\"a\": 1}"),
        ("config__pem", "-----BEGIN"),
        ("file__pem", "key.pem"),
    ];
    let made = browser.post(&format!("{app}configurations/new/"), &form).await;
    assert_eq!(made.status, 303, "{}", made.html);
    let place = made.header("location").strip_suffix("?done=app-set-up");
    place.expect("it says what happened").to_owned()
}

fn last_number(path: &str) -> i64 {
    let number = path.trim_end_matches('/').rsplit('/').next();
    number.and_then(|number| number.parse().ok()).expect("a number")
}

pub(crate) async fn kept_app(kit: &Kit, path: &str) -> App {
    let caller: Caller<ReadApps> = kit.owner_may().await;
    let id = AppId(last_number(path));
    kit.service
        .app(&caller, Collection::Destinations, id)
        .await
        .expect("the service does it")
}

async fn kept_config(kit: &Kit, app: &str) -> AppConfig {
    let caller: Caller<ReadApps> = kit.owner_may().await;
    let all = Window::new(None, None);
    let id = AppId(last_number(app));
    let found = kit
        .service
        .app_configs(&caller, Collection::Destinations, id, all)
        .await;
    found.expect("the service does it").items.remove(0)
}

#[tokio::test]
async fn an_app_is_written_and_the_page_says_what_it_can_do() {
    let kit = Kit::new().await;
    kit.member("ann@example.org", Level::Member).await;
    let mut ann = kit.signed_in("ann@example.org").await;
    let empty = ann.get(&kit.at("apps/")).await;
    assert!(empty.says("No apps yet.") && empty.says("Write custom code"));
    let path = written(&kit, &mut ann).await;
    let shown = ann.get(&format!("{path}?done=app-installed")).await;
    assert_eq!(shown.h1(), "Hook");
    assert!(shown.says("Sends a webhook for each event (composeWebhook)") && shown.says("Custom code"));
    assert!(shown.says("Tells a server &#60;of&#62; each event"));
    assert!(!shown.says("Check for updates"), "there is nowhere to look");
    let list = ann.get(&kit.at("apps/destinations/")).await;
    assert!(list.says(&format!("<a href=\"{path}\">Hook</a>")) && list.says("Not enabled"));
    assert!(
        !ann.get(&kit.at("apps/imports/")).await.says("Hook"),
        "each collection has its own"
    );
    assert_eq!(kept_app(&kit, &path).await.plugin_type.as_str(), "inline");
}

#[tokio::test]
async fn a_configuration_is_asked_for_what_the_app_wants_and_keeps_secrets() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let new = format!("{path}configurations/new/");
    let asked = owner.get(&new).await;
    assert_eq!(asked.h1(), "Set up Hook");
    assert!(asked.says("Where to <span class=\"aside\">required when enabled</span>") && asked.says("An address"));
    assert!(asked.says("type=\"password\"") && asked.says("<option value=\"fast\">") && asked.says("Defaults to slow"));
    assert!(asked.says("Only used when Mode is fast.") && asked.says("Default project</option>"));

    let team = kit.first_team().await.to_string();
    let form = [
        ("team_id", team.as_str()),
        ("enabled", "yes"),
        ("config__token", "hush-hush"),
        ("config__map", "{"),
    ];
    let refused = owner.post(&new, &form).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.says("id=\"field-1-problem\">Where to is required.")
            && refused.says("id=\"field-4-problem\">This must be valid JSON.")
    );
    assert!(!refused.says("hush-hush"), "secrets are not shown again");

    let config = set_up(&kit, &mut owner, &path).await;
    let shown = owner.get(&config).await;
    assert_eq!(shown.h1(), "Hook for Default project");
    assert!(shown.says("value=\"https://example.com/hook\"") && shown.says("<option value=\"fast\" selected>"));
    assert!(!shown.says("hush-hush") && shown.says("A value is saved but not shown."));
    let kept = kept_config(&kit, &path).await;
    assert!(kept.enabled && kept.order == 3);
    assert_eq!(kept.config["pem"]["file_name"], "key.pem");
    assert_eq!(kept.config["map"], "{\"a\": 1}");
    assert_eq!(kit.service.kept_secrets(&kept).unwrap(), ["token"]);
    let list = owner.get(&kit.at("apps/")).await;
    assert!(list.says("1 configuration enabled") && list.says(">Running<"));
}

#[tokio::test]
async fn what_is_left_empty_stays_and_what_is_forgotten_goes() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let config = set_up(&kit, &mut owner, &path).await;
    let form = [
        ("order", "x"),
        ("config__url", "https://other.example"),
        ("config__mode", "fast"),
    ];
    let refused = owner.post(&config, &form).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"order-problem\">This must be a whole number."));
    assert!(refused.says("value=\"https://other.example\""));

    let form = [
        ("order", "-2"),
        ("config__url", "https://other.example"),
        ("config__mode", ""),
    ];
    let refused = owner.post(&config, &form).await;
    assert!(
        refused.status == 400 && refused.says("so enter A secret again"),
        "it would go elsewhere: {}",
        refused.html
    );
    let form = [
        ("order", "-2"),
        ("config__url", "https://example.com/hook"),
        ("config__mode", ""),
    ];
    let saved = owner.post(&config, &form).await;
    assert_eq!(
        saved.place(),
        (303, format!("{config}?done=saved").as_str()),
        "{}",
        saved.html
    );
    let kept = kept_config(&kit, &path).await;
    assert!(!kept.enabled && kept.order == -2 && kept.config.get("mode").is_none());
    assert_eq!(kept.config["url"], "https://example.com/hook");
    assert_eq!(kept.config["pem"]["file_name"], "key.pem", "the file stays");
    assert_eq!(
        kit.service.kept_secrets(&kept).unwrap(),
        ["token"],
        "so does the secret"
    );

    let form = [("config__url", "u"), ("forget__token", "yes"), ("forget__pem", "yes")];
    assert_eq!(owner.post(&config, &form).await.status, 303);
    let kept = kept_config(&kit, &path).await;
    assert!(kept.config.get("pem").is_none() && kit.service.kept_secrets(&kept).unwrap().is_empty());

    let removal = format!("{config}delete/");
    assert_eq!(
        owner.get(&removal).await.h1(),
        "Delete the configuration for Default project?"
    );
    let deleted = owner.post(&removal, &[]).await;
    assert_eq!(
        deleted.place(),
        (303, format!("{path}?done=configuration-deleted").as_str())
    );
    assert_eq!(owner.get(&config).await.status, 404);
}

#[tokio::test]
async fn logs_are_shown_by_level() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let config = set_up(&kit, &mut owner, &path).await;
    let logs = format!("{config}logs/");
    assert!(owner.get(&logs).await.says("No log entries yet"));
    let now = kit.service.clock().now();
    let entry = |level, source, message: &str| AppLog {
        source,
        level,
        message: message.to_owned(),
        created_at: now,
    };
    let said = [
        entry(AppLogLevel::Info, AppLogSource::Console, "all <b>well</b>"),
        entry(AppLogLevel::Error, AppLogSource::System, "event failed"),
    ];
    let kept = kept_config(&kit, &path).await;
    kit.service.log_app(&kept, &said).await.unwrap();
    let all = owner.get(&logs).await;
    assert!(
        all.says("all &#60;b&#62;well&#60;/b&#62;")
            && all.says("event failed")
            && all.says("<td data-label=\"Source\">System</td>")
    );
    let errors = owner.get(&format!("{logs}?level=ERROR")).await;
    assert!(!errors.says("all &#60;b&#62;") && errors.says("event failed"));
    let found = owner.get(&format!("{logs}?search=WELL")).await;
    assert!(found.says("all &#60;b&#62;") && !found.says("event failed"));
    assert!(
        owner
            .get(&format!("{logs}?level=DEBUG"))
            .await
            .says("No matching log entries")
    );
}

#[tokio::test]
async fn the_catalog_offers_and_what_cannot_be_fetched_is_said() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let catalog = kit.at("apps/destinations/catalog/");
    let shown = owner.get(&catalog).await;
    assert!(shown.says("Customer.io") && shown.says("name=\"url\" value=\"https://github.com/"));
    assert!(!shown.says("GeoIP"), "that is of no collection");
    let away = owner.post(&catalog, &[("url", "https://github.com/acme/hook")]).await;
    assert_eq!(away.status, 409, "nobody out there is asked in tests");
    assert!(away.says("role=\"alert\"") && away.says("Customer.io"));
    let new = kit.at("apps/destinations/new/");
    let form = [
        ("url", "https://example.com/app?private_token=one-secret"),
        ("private_token", "another-secret"),
        ("tag", "v1"),
    ];
    let refused = owner.post(&new, &form).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"url-problem\"") && refused.says("value=\"https://example.com/app\""));
    assert!(
        refused.says("value=\"v1\"") && !refused.says("-secret"),
        "no token is shown again"
    );
}

#[tokio::test]
async fn an_app_is_renamed_and_deleted() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let edit = format!("{path}edit/");
    let long = "x".repeat(201);
    let refused = owner
        .post(&edit, &[("name", long.as_str()), ("description", "D")])
        .await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"name-problem\"") && refused.says(&long));
    let saved = owner.post(&edit, &[("name", "Ours"), ("description", "")]).await;
    assert_eq!(saved.place(), (303, format!("{path}?done=app-saved").as_str()));
    let app = kept_app(&kit, &path).await;
    assert_eq!(
        (app.name.as_str(), app.description.as_str()),
        ("Ours", "Tells a server <of> each event")
    );

    set_up(&kit, &mut owner, &path).await;
    let removal = format!("{path}delete/");
    assert!(
        owner
            .get(&removal)
            .await
            .says("1 configuration, including secrets and logs")
    );
    assert_eq!(owner.post(&removal, &[("confirmation", "Hook")]).await.status, 400);
    let deleted = owner.post(&removal, &[("confirmation", "Ours")]).await;
    assert_eq!(
        deleted.place(),
        (303, kit.at("apps/destinations/?done=app-deleted").as_str())
    );
    assert_eq!(owner.get(&path).await.status, 404);
}

#[tokio::test]
async fn lists_count_configurations_without_reading_what_apps_are_told() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    for _ in 0..2 {
        set_up(&kit, &mut owner, &path).await;
    }
    let team = kit.first_team().await.to_string();
    let off = [("team_id", team.as_str()), ("order", "7")];
    assert_eq!(
        owner.post(&format!("{path}configurations/new/"), &off).await.status,
        303
    );
    written(&kit, &mut owner).await;
    // An object is what would be read.
    kit.database.run("UPDATE pipeline_config SET config = '[]'").await;
    let list = owner.get(&kit.at("apps/destinations/")).await;
    assert!(
        list.says("2 configurations enabled") && list.says(">Running<"),
        "{list:?}"
    );
    assert_eq!(list.html.matches("Not enabled").count(), 1, "the other app has none");
    kit.database
        .run("UPDATE pipeline_config SET latest_error = 'no luck' WHERE sort_order = 7")
        .await;
    assert!(owner.get(&kit.at("apps/")).await.says("1 with an error"));
    let shown = owner.get(&path).await;
    assert_eq!(shown.html.matches(">Default project</a>").count(), 3, "{shown:?}");
    assert!(shown.says("no luck") && shown.says("<td data-label=\"Order\">7</td>"));
    let removal = owner.get(&format!("{path}delete/")).await;
    assert!(removal.says("3 configurations, including secrets and logs"));
}

#[tokio::test]
async fn apps_are_made_for_all_only_by_operators_where_the_organization_may() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let edit = format!("{path}edit/");
    let allow = async |level: i16| {
        let sql = format!("UPDATE organization SET plugins_access_level = {level}");
        kit.database.run(&sql).await;
    };
    assert!(!owner.get(&edit).await.says("is_global"), "offered to operators alone");
    kit.make_operator("olga@example.com").await;
    let shown = owner.get(&edit).await;
    assert!(shown.says("name=\"is_global\"") && unescaped(&shown.html).contains("\"is_global\":"));
    allow(6).await;
    let shown = owner.get(&edit).await;
    assert_eq!(shown.status, 200);
    assert!(!shown.says("is_global"), "neither the switch nor the call: {shown:?}");
    let made_up = [("name", "Ours"), ("description", ""), ("is_global", "yes")];
    let refused = owner.post(&edit, &made_up).await;
    assert_eq!(refused.status, 403);
    assert!(!kept_app(&kit, &path).await.is_global);
    let renamed = [("name", "Ours"), ("description", "")];
    assert_eq!(owner.post(&edit, &renamed).await.status, 303);

    allow(9).await;
    assert_eq!(owner.post(&edit, &made_up).await.status, 303);
    allow(6).await;
    let renamed = [("name", "Still ours"), ("description", "")];
    assert_eq!(
        owner.post(&edit, &renamed).await.status,
        303,
        "what is not offered stays"
    );
    let app = kept_app(&kit, &path).await;
    assert!(app.is_global && app.name.as_str() == "Still ours");
    let shown = owner.get(&edit).await;
    assert!(
        shown.says("name=\"is_global\"") && shown.says("name=\"offers_is_global\""),
        "it can be taken back"
    );
    let taken_back = [("name", "Still ours"), ("description", ""), ("offers_is_global", "yes")];
    assert_eq!(owner.post(&edit, &taken_back).await.status, 303);
    assert!(
        !kept_app(&kit, &path).await.is_global,
        "a switch that is off is not sent"
    );
}

#[tokio::test]
async fn apps_of_others_are_not_found_unless_they_are_for_all() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let config = set_up(&kit, &mut owner, &path).await;
    let mia = kit.person("mia@example.net").await;
    let new = NewOrganization {
        name: Name::new("Bay").unwrap(),
        is_member_join_email_enabled: None,
        enforce_2fa: None,
    };
    let other = kit
        .service
        .create_organization_for(&Actor::system(), &new, &mia)
        .await
        .unwrap();
    let (here, there) = (kit.organization.to_string(), other.organization.id.to_string());
    let theirs = path.replace(&here, &there);
    let mut mia = kit.signed_in("mia@example.net").await;
    for below in [
        "",
        "source/",
        "edit/",
        "update/",
        "delete/",
        "roll-back/1/",
        "configurations/new/",
    ] {
        assert_eq!(mia.get(&format!("{theirs}{below}")).await.status, 404, "{below}");
    }
    assert_eq!(
        owner.get(&path.replace("destinations", "imports")).await.status,
        404,
        "another collection"
    );
    assert_eq!(owner.get(&path.replace("destinations", "nothing")).await.status, 404);

    kit.make_operator("olga@example.com").await;
    let form = [("name", "Hook"), ("description", ""), ("is_global", "yes")];
    assert_eq!(owner.post(&format!("{path}edit/"), &form).await.status, 303);
    let seen = mia.get(&theirs).await;
    assert!(
        seen.status == 200 && seen.says("Shared by Acme") && !seen.says("Delete…"),
        "to use, not to change"
    );
    assert!(
        !seen.says("Default project</a>"),
        "who else uses it is nobody's business"
    );
    assert_eq!(
        mia.get(&format!("{theirs}roll-back/1/")).await.status,
        403,
        "nor is the code it had before"
    );
    assert!(!mia.get(&format!("{theirs}source/")).await.says("<textarea"));
    let text = [("file", "index.ts"), ("version", "1"), ("text", "")];
    assert_eq!(mia.post(&format!("{theirs}source/"), &text).await.status, 403);
    assert_eq!(mia.post(&format!("{theirs}edit/"), &form).await.status, 403);
    for below in ["", "logs/", "delete/"] {
        let path = format!("{}{below}", config.replace(&here, &there));
        assert_eq!(mia.get(&path).await.status, 404, "{path}");
    }
    let refused = owner.post(&format!("{path}delete/"), &[("confirmation", "Hook")]).await;
    assert!(refused.status == 400 && refused.says("shared with all organizations"));
}
