//! Domains: proof, providers, enforcement, and what people see of it.

use chrono::TimeDelta;
use service::access::{Caller, ReadDomains};
use service::domains::Domain;
use service::{DomainId, Level};
use testkit::external::Dns;

use crate::kit::{Answer, Browser, CERTIFICATE, Kit, between, unescaped};

/// Adds one, and tells its id.
async fn add(kit: &Kit, browser: &mut Browser<'_>, name: &str) -> DomainId {
    let added = browser.post(&kit.at("domains/new/"), &[("domain", name)]).await;
    let (status, place) = added.place();
    assert_eq!(status, 303, "{added:?}");
    let id = between(place, "/domains/", "/?done=domain-added").expect("its page");
    id.parse().expect("an id")
}

fn below(id: DomainId, page: &str) -> String {
    format!("domains/{id}/{page}")
}

/// As the service holds it.
async fn held(kit: &Kit, id: DomainId) -> Domain {
    let reader: Caller<ReadDomains> = kit.owner_may().await;
    kit.service.domain(&reader, id).await.expect("the domain")
}

fn value(page: &Answer, id: &str) -> String {
    let shown = between(&page.html, &format!("id=\"{id}\">"), "</code>");
    unescaped(shown.expect("a value to copy"))
}

#[tokio::test]
async fn a_domain_is_added_proven_and_listed() {
    let dns = Dns::start(&["example.net"]);
    let kit = Kit::asking(dns.address()).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    assert!(
        owner
            .get(&kit.at("domains/"))
            .await
            .says("Verify a domain such as example.com")
    );
    let id = add(&kit, &mut owner, "Example.NET").await;
    let (page, verify) = (kit.at(&below(id, "")), kit.at(&below(id, "verify/")));
    let shown = owner.get(&page).await;
    assert_eq!(shown.h1(), "example.net");
    assert!(shown.says(">Not verified<") && shown.says("Not checked yet."));
    assert_eq!(value(&shown, "record-type"), "TXT");
    let (name, challenge) = (value(&shown, "record-name"), value(&shown, "record-value"));
    assert_eq!(name, "_hedgerow-challenge.example.net");
    assert!(shown.says("data-copies=\"record-value\""));

    assert_eq!(
        owner.post(&verify, &[]).await.place(),
        (303, format!("{page}?done=domain-record-not-found").as_str())
    );
    let missing = owner.get(&page).await;
    assert!(missing.says("No TXT record was found at _hedgerow-challenge.example.net"));
    assert!(missing.says("Last checked just now. Next check in 2 minutes, even if you close this page."));
    dns.put_txt(&name, &[&challenge]);
    assert_eq!(
        owner.post(&verify, &[]).await.place(),
        (303, format!("{page}?done=domain-verified").as_str())
    );
    let proven = owner.get(&format!("{page}?done=domain-verified")).await;
    assert!(proven.says("Domain verified.") && proven.says(">Verified<"));
    assert!(held(&kit, id).await.is_verified());
    let listed = owner.get(&kit.at("domains/")).await;
    assert!(listed.says(">example.net</a>") && listed.says(">Verified<") && listed.says("Invite required"));
}

#[tokio::test]
async fn the_page_keeps_itself_up_to_date_until_there_is_nothing_to_wait_for() {
    let dns = Dns::start(&["example.net"]);
    let kit = Kit::asking(dns.address()).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let id = add(&kit, &mut owner, "example.net").await;
    let page = kit.at(&below(id, ""));
    assert!(owner.get(&page).await.says("data-every"));
    assert!(
        held(&kit, id).await.checked_at.is_none(),
        "looking at the page asks nobody"
    );
    owner.post(&kit.at(&below(id, "verify/")), &[]).await;
    let live = format!("id=\"state\" data-every=\"5\" data-from=\"{page}\"");
    let waiting = owner.get(&page).await;
    assert!(waiting.says(&live) && waiting.says("<script src=\"/assets/hedgerow-") && waiting.says(">Refresh</a>"));
    // A week later nobody looks by themselves any more.
    kit.service.clock().advance(TimeDelta::days(8));
    let mut owner = kit.signed_in("olga@example.com").await;
    assert!(!owner.get(&page).await.says("data-every"));
    let verified = kit.domain("sso.example.net", "").await;
    let done = owner.get(&kit.at(&below(verified, ""))).await;
    assert!(done.says("id=\"state\"") && !done.says("data-every"));
}

#[tokio::test]
async fn what_can_be_no_domain_comes_back_with_the_reason() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    add(&kit, &mut owner, "example.net").await;
    for (typed, reason) in [
        ("gmail.com", "Gmail.com is a public email provider"),
        ("ann@example.org", "Invalid domain"),
        ("example.net", "Your organization already has this domain"),
    ] {
        let refused = owner.post(&kit.at("domains/new/"), &[("domain", typed)]).await;
        assert_eq!(refused.status, 400, "{typed}");
        assert!(refused.says(&format!("id=\"domain-problem\">{reason}")), "{refused:?}");
        assert!(refused.says(&format!("value=\"{typed}\"")), "{typed}");
    }
}

#[tokio::test]
async fn members_look_and_touch_nothing() {
    let kit = Kit::new().await;
    let id = kit.domain("sso.example.net", "").await;
    kit.member("ann@example.org", Level::Member).await;
    let mut member = kit.signed_in("ann@example.org").await;
    let shown = member.get(&kit.at(&below(id, ""))).await;
    assert!(shown.says(">Verified<") && shown.says("Users are added automatically on first sign-in."));
    for hidden in ["Check now", "<select", "Recent sign-ins", "Remove…", "saml/\">"] {
        assert!(!shown.says(hidden), "{hidden}");
    }
    assert!(!member.get(&kit.at("domains/")).await.says("Add a domain"));
}

#[tokio::test]
async fn new_users_are_let_in_or_not() {
    let kit = Kit::new().await;
    let id = kit.domain("sso.example.net", "").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    assert!(held(&kit, id).await.jit_provisioning_enabled);
    let saved = owner.post(&kit.at(&below(id, "provisioning/")), &[]).await;
    assert_eq!(saved.place(), (303, kit.at(&below(id, "?done=saved")).as_str()));
    assert!(!held(&kit, id).await.jit_provisioning_enabled);
    let form = [("jit_provisioning_enabled", "yes")];
    owner.post(&kit.at(&below(id, "provisioning/")), &form).await;
    assert!(held(&kit, id).await.jit_provisioning_enabled);
    let link = format!("activity/?scope=OrganizationDomain&amp;item={id}");
    assert!(owner.get(&kit.at(&below(id, ""))).await.says(&link));
}

fn metadata() -> String {
    let bare: String = CERTIFICATE.lines().filter(|line| !line.starts_with("-----")).collect();
    format!(
        "<md:EntityDescriptor xmlns:md=\"urn:oasis:names:tc:SAML:2.0:metadata\" entityID=\"https://idp.test\">\
         <md:IDPSSODescriptor protocolSupportEnumeration=\"urn:oasis:names:tc:SAML:2.0:protocol\">\
         <md:KeyDescriptor use=\"signing\"><ds:KeyInfo xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\"><ds:X509Data>\
         <ds:X509Certificate>{bare}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>\
         <md:SingleSignOnService Binding=\"urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect\" \
         Location=\"https://idp.test/sso\"/></md:IDPSSODescriptor></md:EntityDescriptor>"
    )
}

#[tokio::test]
async fn saml_is_set_up_from_metadata_that_is_pasted() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let id = add(&kit, &mut owner, "example.net").await;
    let (page, import) = (kit.at(&below(id, "saml/")), kit.at(&below(id, "saml/import/")));
    let shown = owner.get(&page).await;
    let ours = format!("http://127.0.0.1:8000/saml/{id}");
    assert_eq!(value(&shown, "our-acs-url"), format!("{ours}/acs/"));
    assert_eq!(value(&shown, "our-entity-id"), format!("{ours}/metadata/"));
    assert!(shown.says(">Not configured<"));

    let wrong = owner.post(&import, &[("xml", "<html/>")]).await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong.says("id=\"xml-problem\"") && wrong.says("&#60;html/&#62;</textarea>"),
        "{wrong:?}"
    );
    assert!(
        wrong.says("<details class=\"more\" open>"),
        "what was pasted is in sight"
    );
    let nowhere = owner.post(&import, &[("url", "nowhere")]).await;
    assert_eq!(nowhere.status, 400);
    assert!(nowhere.says("id=\"url-problem\"") && nowhere.says("value=\"nowhere\""));
    let nothing = owner.post(&import, &[]).await;
    assert!(nothing.status == 400 && nothing.says("role=\"alert\">Send either the metadata URL"));

    // More than other forms may hold.
    let long = format!("<!--{}-->{}", "x".repeat(200 * 1024), metadata());
    assert_eq!(
        owner.post(&import, &[("xml", &long)]).await.place(),
        (303, format!("{page}?done=connected").as_str())
    );
    let domain = held(&kit, id).await;
    assert_eq!(
        (domain.saml_entity_id.as_str(), domain.saml_acs_url.as_str()),
        ("https://idp.test", "https://idp.test/sso")
    );
    let shown = owner.get(&page).await;
    assert!(
        shown.says(">Configured<") && shown.says("value=\"https://idp.test/sso\"") && shown.says("Certificate expires")
    );
}

#[tokio::test]
async fn saml_is_typed_in_and_what_is_wrong_comes_back() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let id = add(&kit, &mut owner, "example.net").await;
    let page = kit.at(&below(id, "saml/"));
    let form = |address, certificate| {
        [
            ("saml_entity_id", "urn:idp"),
            ("saml_acs_url", address),
            ("saml_x509_cert", certificate),
            ("saml_idp_initiated", "yes"),
        ]
    };
    let refused = owner.post(&page, &form("http://idp.example.net/", CERTIFICATE)).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"saml_acs_url-problem\">Use https") && refused.says("value=\"urn:idp\""));
    let refused = owner.post(&page, &form("https://idp.example.net/", "not one")).await;
    assert!(
        refused.status == 400 && refused.says("id=\"saml_x509_cert-problem\"") && refused.says("not one</textarea>")
    );
    let long = "x".repeat(513);
    let refused = owner.post(&page, &form(&long, CERTIFICATE)).await;
    assert!(
        refused.says("id=\"saml_acs_url-problem\">Must have at most 512 characters."),
        "{refused:?}"
    );
    assert!(!held(&kit, id).await.has_saml());
    let saved = owner.post(&page, &form("https://idp.example.net/", CERTIFICATE)).await;
    assert_eq!(saved.place(), (303, format!("{page}?done=connected").as_str()));
    let domain = held(&kit, id).await;
    assert!(domain.has_saml() && domain.saml_idp_initiated);
}

#[tokio::test]
async fn a_client_secret_is_kept_and_never_shown() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let id = add(&kit, &mut owner, "example.net").await;
    let page = kit.at(&below(id, "oidc/"));
    let redirect = value(&owner.get(&page).await, "our-redirect-url");
    assert_eq!(redirect, format!("http://127.0.0.1:8000/oidc/{id}/callback/"));
    let form = |issuer, client, secret| {
        [
            ("oidc_issuer", issuer),
            ("oidc_client_id", client),
            ("oidc_client_secret", secret),
        ]
    };
    let refused = owner.post(&page, &form("login", "ours", "t0p-secret")).await;
    assert!(refused.status == 400 && refused.says("id=\"oidc_issuer-problem\"") && refused.says("value=\"ours\""));
    assert!(!refused.says("t0p-secret"));
    let saved = owner
        .post(&page, &form("https://login.test", "ours", "t0p-secret"))
        .await;
    assert_eq!(saved.place(), (303, format!("{page}?done=connected").as_str()));
    assert!(held(&kit, id).await.has_oidc() && !owner.get(&page).await.says("t0p-secret"));
    // Left empty, it stays; but not for another issuer, which would be told it.
    owner.post(&page, &form("https://login.test", "theirs", "")).await;
    let domain = held(&kit, id).await;
    assert!(domain.has_oidc() && domain.oidc_client_id == "theirs");
    let moved = owner.post(&page, &form("https://elsewhere.test", "theirs", "")).await;
    assert_eq!(moved.status, 400);
    assert!(moved.says("id=\"oidc_client_secret-problem\">Enter the client secret again"));
}

#[tokio::test]
async fn disconnecting_asks_first_and_not_while_it_is_enforced() {
    let kit = Kit::new().await;
    let id = kit.domain("sso.example.net", "saml").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&below(id, "disconnect/?way=saml"));
    assert_eq!(owner.get(&path).await.h1(), "Disconnect SAML from sso.example.net?");
    let refused = owner.post(&path, &[]).await;
    assert!(refused.status == 400 && refused.says("role=\"alert\">SAML requires") && held(&kit, id).await.has_saml());
    owner
        .post(&kit.at(&below(id, "enforcement/")), &[("sso_enforcement", "")])
        .await;
    assert_eq!(
        owner.post(&path, &[]).await.place(),
        (303, kit.at(&below(id, "?done=disconnected")).as_str())
    );
    let domain = held(&kit, id).await;
    assert!(domain.saml_entity_id.is_empty() && domain.saml_acs_url.is_empty() && domain.saml_x509_cert.is_empty());
    for way in ["github", "", "x"] {
        assert_eq!(
            owner
                .get(&kit.at(&below(id, &format!("disconnect/?way={way}"))))
                .await
                .status,
            404,
            "{way}"
        );
    }
}

#[tokio::test]
async fn enforcement_shows_what_it_means_before_it_happens() {
    let kit = Kit::new().await;
    let id = kit.domain("sso.example.net", "").await;
    let ann = kit.member("ann@sso.example.net", Level::Admin).await;
    kit.member("ben@sso.example.net.example.org", Level::Member).await;
    let mut browser = kit.signed_in("ann@sso.example.net").await;
    let path = kit.at(&below(id, "enforcement/"));
    let asked = browser.get(&format!("{path}?sso_enforcement=saml")).await;
    assert_eq!(asked.h1(), "Enforce SAML for sso.example.net?");
    assert!(
        asked.says("1 member has an address on sso.example.net. Of these, 1 never signed in with SAML."),
        "{asked:?}"
    );
    assert!(asked.says(&format!(
        "href=\"{}\">ann@sso.example.net</a>",
        kit.at(&format!("members/{}/", ann.uuid))
    )));
    assert!(asked.says("</a> <span class=\"tag\">Administrator</span>"));
    assert!(asked.says("Passwords stop working") && asked.says("Yours, too, unless you signed in with SAML."));
    assert!(asked.says("hedgerow domains disable-sso-enforcement sso.example.net"));
    assert!(!asked.says("recovery-codes/"), "only owners make codes");
    assert!(
        held(&kit, id).await.sso_enforcement.is_empty(),
        "nothing has happened yet"
    );

    let done = browser.post(&path, &[("sso_enforcement", "saml")]).await;
    assert_eq!(done.place(), (303, kit.at(&below(id, "?done=enforced")).as_str()));
    assert_eq!(held(&kit, id).await.sso_enforcement, "saml");
    assert_eq!(browser.get(&kit.at("")).await.status, 303, "the session has ended");

    let mut owner = kit.signed_in("olga@example.com").await;
    assert!(owner.get(&kit.at(&below(id, ""))).await.says(">SAML required<"));
    let off = owner.get(&format!("{path}?sso_enforcement=")).await;
    assert_eq!(off.h1(), "Allow any sign-in method for sso.example.net?");
    let done = owner.post(&path, &[("sso_enforcement", "")]).await;
    assert_eq!(done.place(), (303, kit.at(&below(id, "?done=not-enforced")).as_str()));
    assert!(held(&kit, id).await.sso_enforcement.is_empty());
}

#[tokio::test]
async fn enforcement_is_said_to_hold_for_a_verified_domain_alone() {
    const HOLDS: &str = "Saved. People with addresses on this domain must sign in this way.";
    const WAITS: &str = "Saved. It takes effect when the domain is verified.";
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let unverified = add(&kit, &mut owner, "example.net").await;
    let verified = kit.domain("example.org", "").await;
    for (id, notice) in [(unverified, WAITS), (verified, HOLDS)] {
        let path = kit.at(&below(id, "enforcement/"));
        let saved = owner.post(&path, &[("sso_enforcement", "github")]).await;
        assert_eq!(saved.status, 303, "{saved:?}");
        let shown = owner.get(saved.place().1).await;
        assert!(shown.says(notice), "{shown:?}");
        assert_eq!(held(&kit, id).await.sso_enforcement, "github");
    }
}

#[tokio::test]
async fn nobody_is_locked_out_by_a_click() {
    let kit = Kit::new().await;
    // The only owner has an address there, and has never signed in this way.
    let id = kit.domain("example.com", "").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&below(id, "enforcement/"));
    for (way, reason) in [("saml", "No owner could sign in any more"), ("oidc", "OIDC requires")] {
        let asked = owner.get(&format!("{path}?sso_enforcement={way}")).await;
        assert!(
            asked.says("This can't be enabled yet.") && asked.says(reason),
            "{asked:?}"
        );
        assert!(
            !asked.says("name=\"sso_enforcement\""),
            "no button for what would be refused"
        );
        let refused = owner.post(&path, &[("sso_enforcement", way)]).await;
        assert_eq!(refused.status, 400, "{way}");
        assert!(refused.says(&format!("role=\"alert\">{reason}")), "{refused:?}");
    }
    for nothing in ["", "?sso_enforcement=carrier-pigeon"] {
        let answer = owner.get(&format!("{path}{nothing}")).await;
        assert_eq!(answer.place(), (303, kit.at(&below(id, "")).as_str()));
    }
    assert_eq!(
        owner.post(&path, &[("sso_enforcement", "carrier-pigeon")]).await.status,
        400
    );
    assert!(held(&kit, id).await.sso_enforcement.is_empty());
    // With recovery codes there is a way back, and a way on.
    owner.post(&kit.at("domains/recovery-codes/"), &[]).await;
    assert!(
        owner
            .get(&format!("{path}?sso_enforcement=saml"))
            .await
            .says("name=\"sso_enforcement\" value=\"saml\"")
    );
}

#[tokio::test]
async fn an_owner_makes_recovery_codes_and_gets_in_with_one() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let made = owner.post(&kit.at("domains/recovery-codes/"), &[]).await;
    let items = made.html.split("<li>").filter_map(|rest| rest.split_once("</li>"));
    let codes: Vec<&str> = items.map(|(item, _)| item).filter(|item| item.len() == 29).collect();
    assert_eq!(codes.len(), 5, "{made:?}");
    let form = [("email", "olga@example.com"), ("code", codes[0])];
    let mut elsewhere = kit.browser();
    assert_eq!(elsewhere.post("/login/recovery/", &form).await.status, 303);
    assert_eq!(elsewhere.get(&kit.at("")).await.status, 200);
}

#[tokio::test]
async fn administrators_see_who_was_refused_and_why() {
    let kit = Kit::new().await;
    let id = kit.domain("sso.example.net", "").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let page = kit.at(&below(id, ""));
    assert!(owner.get(&page).await.says("No sign-ins through this domain yet"));
    let refused = kit
        .browser()
        .post(&format!("/saml/{id}/acs/"), &[("SAMLResponse", "PHg+PC94Pg==")])
        .await;
    assert_eq!(refused.status, 403);
    kit.service.clock().advance(TimeDelta::minutes(5));
    let shown = owner.get(&page).await;
    assert!(shown.says(">5 minutes ago</time>") && shown.says("<span class=\"tag tag-danger\">Denied</span>"));
    assert!(shown.says("<code>not_response</code>"), "{shown:?}");
}

#[tokio::test]
async fn the_checks_are_run_by_a_button_and_told_step_by_step() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let id = add(&kit, &mut owner, "example.net").await;
    let path = kit.at(&below(id, "checks/"));
    let offered = owner.get(&path).await;
    assert!(offered.says("Run diagnostics") && !offered.says("<ol class=\"rows\">"));
    let found = owner.post(&path, &[]).await;
    assert_eq!(found.status, 200);
    assert!(
        found.says("DNS record <span class=\"tag tag-danger\">Failed</span>"),
        "{found:?}"
    );
    assert!(found.says("<strong>Recommended action:</strong> Add the record, then verify."));
    assert!(found.says("Enforcement <span class=\"tag\">Skipped</span>"));
    assert!(found.says("Sign-in won&#39;t work yet."));
    assert!(held(&kit, id).await.checked_at.is_none(), "nothing is changed");
}

#[tokio::test]
async fn a_domain_goes_when_its_name_is_typed() {
    let kit = Kit::new().await;
    let id = kit.domain("sso.example.net", "saml").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&below(id, "delete/"));
    let asked = owner.get(&path).await;
    assert_eq!(asked.h1(), "Remove sso.example.net?");
    assert!(asked.says("the SAML configuration") && asked.says("passwords work again immediately"));
    let refused = owner.post(&path, &[("confirmation", "example.net")]).await;
    assert!(refused.status == 400 && refused.says("id=\"confirmation-problem\""));
    assert!(held(&kit, id).await.is_verified());
    let gone = owner.post(&path, &[("confirmation", "sso.example.net")]).await;
    assert_eq!(gone.place(), (303, kit.at("domains/?done=domain-removed").as_str()));
    assert_eq!(owner.get(&kit.at(&below(id, ""))).await.status, 404);
}
