//! The hosts that an app can reach, in the form of its configuration.

use crate::apps::{set_up, written};
use crate::kit::Kit;

#[tokio::test]
async fn a_configuration_is_limited_to_hosts_and_freed_again() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let app = written(&kit, &mut owner).await;
    let config = set_up(&kit, &mut owner, &app).await;
    let form = |hosts| {
        [
            ("enabled", "yes"),
            ("order", "3"),
            ("config__url", "https://example.com/hook"),
            ("allowed_hosts", hosts),
        ]
    };
    let saved = owner
        .post(&config, &form("api.example.com\r\n *.example.net, config.url"))
        .await;
    assert_eq!(saved.status, 303, "{}", saved.html);
    let shown = owner.get(&config).await;
    assert!(
        shown.says("api.example.com\n*.example.net\nconfig.url</textarea>"),
        "{}",
        shown.html
    );
    let refused = owner.post(&config, &form("https://a.example/")).await;
    assert!(
        refused.says("is not a valid host") && refused.says("https://a.example/</textarea>"),
        "{}",
        refused.html
    );
    let refused = owner.post(&config, &form("")).await;
    assert!(
        refused.status == 400 && refused.says("enter A secret again"),
        "more hosts are allowed: {}",
        refused.html
    );
    let freed: Vec<(&str, &str)> = form("").into_iter().chain([("config__token", "hush-hush")]).collect();
    assert_eq!(owner.post(&config, &freed).await.status, 303);
    assert!(!owner.get(&config).await.says("*.example.net"));
}
