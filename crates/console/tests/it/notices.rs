//! What has just happened is said where nobody misses it.

use crate::kit::Kit;

#[tokio::test]
async fn what_was_done_has_the_focus_and_the_way_past_the_menu_stays() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let form = [("domain", "new.example.net")];
    let added = owner.post(&kit.at("domains/new/"), &form).await;
    let domain = added.header("location").replace("?done=domain-added", "");
    let settings = owner.post(&kit.at("settings/"), &[("name", "Acme")]).await;
    let account = owner
        .post("/account/", &[("first_name", "Olga"), ("last_name", "Owner")])
        .await;
    for place in [settings.header("location"), account.header("location")] {
        let shown = owner.get(place).await;
        let notice = "<p class=\"notice\" role=\"status\" tabindex=\"-1\" autofocus>Saved.</p>";
        assert!(shown.says(notice), "{place}: {shown:?}");
        assert_eq!(shown.html.matches(" autofocus").count(), 1, "{place}");
        let skip = shown
            .html
            .find("<a class=\"skip\" href=\"#main\">")
            .expect("a way past the menu");
        let main = shown
            .html
            .find("<main id=\"main\" tabindex=\"-1\">")
            .expect("where it leads");
        let said = shown.html.find(notice).expect("it is said");
        assert!(skip < main && main < said, "{place}");
    }
    for path in [kit.at("domains/recovery-codes/"), format!("{domain}checks/")] {
        let answer = owner.post(&path, &[]).await;
        assert!(answer.says("role=\"status\" tabindex=\"-1\" autofocus>"), "{path}");
        assert!(
            !owner.get(&path).await.says("autofocus"),
            "{path}: nothing was done yet"
        );
    }
}
