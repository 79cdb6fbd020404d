//! The code of pipeline apps in the browser: refused, changed, compared, gone back to.

use crate::apps::{HOOK, MANIFEST, kept_app, written};
use crate::kit::{Kit, unescaped};

#[tokio::test]
async fn code_that_does_not_load_comes_back_with_its_line_marked() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let form = [
        ("name", "Hook"),
        ("code", "const a = 1\nconst b = = 2\nconst c = 3\n"),
        ("manifest", ""),
    ];
    let refused = owner.post(&kit.at("apps/destinations/new/code/"), &form).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.says("id=\"code-problem\"") && refused.says("index.ts:2"),
        "{}",
        refused.html
    );
    assert!(refused.says("code-marked\" data-line=\"2\" id=\"code-line-2\""));
    assert!(
        refused.says("value=\"Hook\"") && refused.says("const b = = 2\nconst c = 3"),
        "nothing typed is lost"
    );
    let form = [("name", ""), ("code", HOOK), ("manifest", "{")];
    let refused = owner.post(&kit.at("apps/destinations/new/code/"), &form).await;
    assert!(refused.says("id=\"manifest-problem\"") && !refused.says("id=\"code-problem\""));
    assert!(owner.get(&kit.at("apps/")).await.says("No apps yet."));
}

#[tokio::test]
async fn files_are_changed_added_and_deleted() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let source = format!("{path}source/");
    let shown = owner.get(&source).await;
    assert!(shown.says("<span class=\"code-word\">export</span>") && shown.says("data-line=\"3\""));
    assert!(shown.says("?file=plugin.json\">plugin.json</a>"));
    let form = [
        ("file", "index.ts"),
        ("version", "1"),
        ("text", "export function onEvent() {}\r\n"),
    ];
    let saved = owner.post(&source, &form).await;
    let place = format!("{source}?file=index.ts&done=source-saved");
    assert_eq!(saved.place(), (303, place.as_str()), "{}", saved.html);
    assert_eq!(kept_app(&kit, &path).await.version, 2);

    let late = owner.post(&source, &form).await;
    assert_eq!(late.status, 409, "somebody else was quicker");
    assert!(late.says("role=\"alert\">Somebody else changed the code") && late.says("export function onEvent"));

    let broken = [
        ("file", "index.ts"),
        ("version", "2"),
        ("text", "import './gone'\nexport const x = 1"),
    ];
    let refused = owner.post(&source, &broken).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"text-problem\"") && unescaped(&refused.html).contains("import './gone'"));

    let new = format!("{source}new/");
    assert_eq!(owner.get(&new).await.h1(), "Add file");
    let there = owner.post(&new, &[("file", "index.ts"), ("text", "")]).await;
    assert_eq!(there.status, 400);
    assert!(there.says("id=\"file-problem\">A file with this name already exists"));
    let odd = owner.post(&new, &[("file", "../x.ts"), ("text", "let a")]).await;
    assert!(odd.status == 400 && odd.says("is not a valid file name") && odd.says("value=\"../x.ts\""));
    let added = owner
        .post(&new, &[("file", "lib/a b.ts"), ("text", "export const a = 1")])
        .await;
    let place = format!("{source}?file=lib%2Fa+b.ts&done=source-saved");
    assert_eq!(added.place(), (303, place.as_str()));
    assert!(owner.get(&place).await.says("lib/a b.ts</a>"));

    let removal = format!("{source}delete/");
    let asked = owner.get(&format!("{removal}?file=lib%2Fa+b.ts&version=3")).await;
    assert_eq!(asked.h1(), "Delete lib/a b.ts?");
    let form = [("file", "lib/a b.ts"), ("version", "3")];
    let deleted = owner.post(&removal, &form).await;
    assert_eq!(deleted.place(), (303, format!("{source}?done=file-deleted").as_str()));
    assert_eq!(owner.get(&format!("{removal}?file=lib%2Fa+b.ts")).await.status, 404);
}

#[tokio::test]
async fn a_file_that_somebody_else_changed_meanwhile_is_not_deleted() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let (source, removal) = (format!("{path}source/"), format!("{path}source/delete/"));
    let shown = owner.get(&format!("{source}?file=plugin.json")).await;
    let link = format!("{removal}?file=plugin.json&version=1");
    assert!(
        shown.says(&format!("href=\"{}\"", link.replace('&', "&amp;"))),
        "{shown:?}"
    );
    // Between looking and asking, and between asking and doing.
    let form = [
        ("file", "plugin.json"),
        ("version", "1"),
        ("text", "{ \"name\": \"Other\" }"),
    ];
    assert_eq!(owner.post(&source, &form).await.status, 303);
    let asked = owner.get(&link).await;
    let held = "<input type=\"hidden\" name=\"version\" value=\"1\">";
    assert!(asked.status == 200 && asked.says(held), "{asked:?}");
    let form = [("file", "plugin.json"), ("version", "1")];
    for _ in 0..2 {
        let late = owner.post(&removal, &form).await;
        assert_eq!(late.status, 409, "{late:?}");
        assert!(late.says("role=\"alert\">Somebody else changed the code") && late.says(held));
    }
    assert_eq!(kept_app(&kit, &path).await.version, 2, "nothing changed");
    assert_eq!(
        owner.post(&removal, &[("file", "plugin.json")]).await.status,
        400,
        "which one was seen?"
    );
    // Who comes without having looked is shown what there is now.
    let asked = owner.get(&format!("{removal}?file=plugin.json")).await;
    assert!(asked.says("name=\"version\" value=\"2\""));
    let form = [("file", "plugin.json"), ("version", "2")];
    assert_eq!(owner.post(&removal, &form).await.status, 303);
    assert_eq!(kept_app(&kit, &path).await.version, 3);
}

#[tokio::test]
async fn code_may_be_long_but_not_without_end() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let line = "// \"<>\" is three times as long in a form\n";
    let long = format!("{HOOK}{}", line.repeat(10_000));
    let form = [("file", "index.ts"), ("version", "1"), ("text", long.as_str())];
    let saved = owner.post(&format!("{path}source/"), &form).await;
    assert_eq!(saved.status, 303);
    let longer = line.repeat(30_000);
    let form = [("file", "index.ts"), ("version", "2"), ("text", longer.as_str())];
    let refused = owner.post(&format!("{path}source/"), &form).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("This is too long"));
    let name = "x".repeat(100 * 1024);
    let edit = owner.post(&format!("{path}edit/"), &[("name", name.as_str())]).await;
    assert_eq!((edit.status, edit.h1()), (400, "Invalid form"));
}

#[tokio::test]
async fn one_can_go_back_after_seeing_what_that_changes() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = written(&kit, &mut owner).await;
    let text = "export function onEvent() {}\nexport const jobs = { again() {} }";
    let form = [("file", "index.ts"), ("version", "1"), ("text", text)];
    assert_eq!(owner.post(&format!("{path}source/"), &form).await.status, 303);
    let back = format!("{path}roll-back/1/");
    assert!(owner.get(&path).await.says(&format!("href=\"{back}\"")));
    let shown = owner.get(&back).await;
    assert_eq!(shown.h1(), "Restore version 1 of Hook");
    assert!(shown.says("Removed capabilities") && shown.says("Job: again"));
    assert!(shown.says("Added capabilities") && shown.says("<li>index.ts</li>"));
    assert!(shown.says(">− export function onEvent() {}\n</del>"), "{shown:?}");
    assert!(shown.says(">+ export function composeWebhook(event, { config }) {\n</ins>"));
    let done = owner.post(&back, &[("tag", "")]).await;
    assert_eq!(done.place(), (303, format!("{path}?done=app-rolled-back").as_str()));
    assert_eq!(kept_app(&kit, &path).await.version, 1);
    assert_eq!(owner.get(&format!("{path}roll-back/9/")).await.status, 404);
    assert!(owner.get(&back).await.says(">Back</a>"), "it is there already");
}

#[tokio::test]
async fn an_update_shows_the_difference_before_it_happens() {
    let kit = Kit::new().await;
    let folder = kit.local_apps().join("hook");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("index.ts"), HOOK).unwrap();
    let mut owner = kit.signed_in("olga@example.com").await;
    let new = kit.at("apps/destinations/new/folder/");
    let refused = owner.post(&new, &[("url", "nowhere")]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"url-problem\"") && refused.says("value=\"nowhere\""));
    let made = owner.post(&new, &[("url", "hook")]).await;
    let path = made.header("location").replace("?done=app-installed", "");
    assert!(owner.get(&path).await.says("Folder hook"));
    let update = format!("{path}update/");
    let none = owner.get(&update).await;
    assert!(none.says("Already up to date") && !none.says("Line-by-line changes"));

    std::fs::write(folder.join("index.ts"), "export function onEvent() {}").unwrap();
    std::fs::write(folder.join("plugin.json"), MANIFEST).unwrap();
    let shown = owner.get(&update).await;
    assert!(shown.says("Receives each event as it arrives (onEvent)") && shown.says("Added settings"));
    assert!(shown.says("<li>url: hint &#34;An address&#34;, ") && shown.says("<li>plugin.json</li>"));
    assert!(shown.says("aria-label=\"Changes in index.ts\""), "{shown:?}");
    assert!(shown.says("1 line added, 3 lines removed") && shown.says("new file, 7 lines added"));
    assert!(shown.says("data-line=\"1\">+ export function onEvent() {}\n</ins>"));
    assert!(shown.says("data-line=\"3\">− }\n</del>") && shown.says("&#60;of&#62; each event"));
    assert_eq!(kept_app(&kit, &path).await.version, 1, "looking changes nothing");
    let done = owner.post(&update, &[("tag", "")]).await;
    assert_eq!(done.place(), (303, format!("{path}?done=app-updated").as_str()));
    assert_eq!(kept_app(&kit, &path).await.version, 2);

    std::fs::write(folder.join("index.ts"), "export function (").unwrap();
    let broken = owner.get(&update).await;
    assert_eq!(broken.status, 400);
    assert!(broken.says("Validation failed. index.ts:1") && !broken.says(">Reload</button>"));
}
