//! Responses that are signed by the right key and still are not for us, not for now, or not for this request.

use auth::saml::{Expected, Rule, verify};

use super::fixtures::{PLAIN, REQUEST, at, expected, fixture, idp, sp};
use super::signer::{SAML, Signed, Template, attributes, audience, conditions, confirmation_data, subject};
use super::{outcome, rule};

const VALID: &str = r#" NotBefore="2026-11-15T11:55:00Z" NotOnOrAfter="2026-11-15T12:05:00Z""#;

fn changed(change: impl FnOnce(&mut Template)) -> String {
    let mut template = Template::default();
    change(&mut template);
    template.xml()
}

/// What a change of the expectation does to a genuine response.
fn unexpected(template: &Template, change: impl FnOnce(&mut Expected<'_>)) -> Option<Rule> {
    let (sp, idp) = (sp(), idp(PLAIN, fixture!("rsa.crt")));
    let mut expected = expected(&sp, &idp);
    change(&mut expected);
    verify(&template.encoded(), &expected).err().map(|refusal| refusal.rule)
}

fn with_data(from: &str, to: &str) -> String {
    let data = confirmation_data();
    assert!(data.contains(from), "{from}");
    changed(|it| it.subject = subject("anna@corp.test", &data.replace(from, to)))
}

#[test]
fn an_audience_is_required_and_must_be_us() {
    let us = audience("https://hedgerow.test/saml");
    let other = audience("https://other.test/saml");
    let several = us.replace(
        "<saml:Audience>",
        "<saml:Audience>https://other.test</saml:Audience><saml:Audience>",
    );
    for refused in [
        String::new(),
        other.clone(),
        us.clone() + &other,
        audience(""),
        audience("https://hedgerow.test/saml/"),
        audience("https://hedgerow.test/saml.evil.test"),
        "<saml:AudienceRestriction></saml:AudienceRestriction>".to_owned(),
        "<saml:OneTimeUse></saml:OneTimeUse>".to_owned(),
    ] {
        let xml = changed(|it| it.conditions = conditions(VALID, &refused));
        assert_eq!(rule(&xml), Rule::AudienceMismatch, "{refused}");
    }
    for accepted in [
        us.clone(),
        several,
        us.clone() + "<saml:OneTimeUse></saml:OneTimeUse>",
        us.clone() + &us,
    ] {
        assert!(
            outcome(&changed(|it| it.conditions = conditions(VALID, &accepted))).is_ok(),
            "{accepted}"
        );
    }
}

#[test]
fn a_condition_that_is_not_understood_does_not_hold() {
    let us = audience("https://hedgerow.test/saml");
    for unknown in [
        "<saml:Condition></saml:Condition>",
        "<x:OneTimeUse xmlns:x=\"urn:x\"></x:OneTimeUse>",
    ] {
        let xml = changed(|it| it.conditions = conditions(VALID, &format!("{us}{unknown}")));
        assert_eq!(rule(&xml), Rule::UnknownCondition);
    }
}

#[test]
fn conditions_are_required_once() {
    assert_eq!(rule(&changed(|it| it.conditions.clear())), Rule::Malformed);
    assert_eq!(
        rule(&changed(|it| it.conditions = it.conditions.repeat(2))),
        Rule::Malformed
    );
}

#[test]
fn time_is_kept_with_a_minute_of_tolerance() {
    let genuine = Template::default();
    let at_time = |time: &str| unexpected(&genuine, |it| it.now = at(time));
    assert_eq!(at_time("2026-11-15T11:53:59Z"), Some(Rule::NotYetValid));
    assert_eq!(at_time("2026-11-15T11:54:00Z"), None);
    assert_eq!(at_time("2026-11-15T12:05:59Z"), None);
    assert_eq!(at_time("2026-11-15T12:06:00Z"), Some(Rule::Expired));
}

#[test]
fn an_id_is_remembered_for_as_long_as_it_would_be_accepted() {
    let genuine = Template::default();
    let until = outcome(&genuine.xml()).expect("accepted").remember_until;
    assert_eq!(unexpected(&genuine, |it| it.now = until), Some(Rule::Expired));
    let just_before = until - chrono::TimeDelta::nanoseconds(1);
    assert_eq!(unexpected(&genuine, |it| it.now = just_before), None);
}

#[test]
fn times_of_every_usual_precision_and_zone_are_read() {
    let us = audience("https://hedgerow.test/saml");
    for end in [
        "2026-11-15T12:05:00.1234567Z",
        "2026-11-15T13:05:00+01:00",
        "2026-11-15T12:05:00.000Z",
    ] {
        let xml = changed(|it| it.conditions = conditions(&format!(r#" NotOnOrAfter="{end}""#), &us));
        assert!(outcome(&xml).is_ok(), "{end}");
    }
}

#[test]
fn an_end_is_required_in_both_places() {
    let us = audience("https://hedgerow.test/saml");
    for times in ["", r#" NotBefore="2026-11-15T11:55:00Z""#] {
        assert_eq!(
            rule(&changed(|it| it.conditions = conditions(times, &us))),
            Rule::Expired
        );
    }
    assert_eq!(
        rule(&with_data(r#" NotOnOrAfter="2026-11-15T12:05:00Z""#, "")),
        Rule::Expired
    );
}

#[test]
fn each_time_counts_on_its_own() {
    let us = audience("https://hedgerow.test/saml");
    let over = r#" NotOnOrAfter="2026-11-15T11:59:00Z""#;
    assert_eq!(
        rule(&changed(|it| it.conditions = conditions(over, &us))),
        Rule::Expired
    );
    assert_eq!(rule(&with_data("12:05:00Z", "11:59:00Z")), Rule::Expired);
    let later = r#" InResponseTo="_request1" NotBefore="2026-11-15T12:03:00Z""#;
    assert_eq!(
        rule(&with_data(r#" InResponseTo="_request1""#, later)),
        Rule::NotYetValid
    );
    let session = r#"<saml:AuthnStatement SessionNotOnOrAfter="2026-11-15T11:00:00Z">"#;
    let xml = changed(|it| {
        it.statements = it
            .statements
            .replace("<saml:AuthnStatement AuthnInstant=\"2026-11-15T12:00:00Z\">", session);
    });
    assert_eq!(rule(&xml), Rule::Expired);
}

#[test]
fn a_time_that_is_none_is_refused() {
    let us = audience("https://hedgerow.test/saml");
    for time in [
        "",
        "never",
        "2026-11-15",
        "2026-11-15T12:05:00",
        "+262142-12-31T23:59:59Z",
        "99999-01-01T00:00:00Z",
    ] {
        let xml = changed(|it| it.conditions = conditions(&format!(r#" NotOnOrAfter="{time}""#), &us));
        assert_eq!(rule(&xml), Rule::Malformed, "{time}");
    }
    let far = changed(|it| it.conditions = conditions(r#" NotOnOrAfter="9999-12-31T23:59:59Z""#, &us));
    // What counts for ever in one place still ends in the other, and need not be remembered for ever.
    assert_eq!(
        outcome(&far).expect("accepted").remember_until,
        at("2026-11-15T12:06:00Z")
    );
}

#[test]
fn the_recipient_must_be_our_address() {
    for other in [
        "https://hedgerow.test/saml/acs/",
        "https://hedgerow.test/other/acs",
        "https://evil.test",
        "",
    ] {
        assert_eq!(
            rule(&with_data("https://hedgerow.test/saml/acs", other)),
            Rule::RecipientMismatch,
            "{other}"
        );
    }
    let none = with_data(r#" Recipient="https://hedgerow.test/saml/acs""#, "");
    assert_eq!(rule(&none), Rule::RecipientMismatch);
}

#[test]
fn the_destination_must_be_our_address_and_may_lack_only_where_nobody_signed_it() {
    for signed in [Signed::Assertion, Signed::Response, Signed::Both] {
        let other = Template {
            signed,
            destination: r#" Destination="https://evil.test/acs""#.to_owned(),
            ..Template::default()
        };
        assert_eq!(rule(&other.xml()), Rule::DestinationMismatch);
        let none = Template {
            signed,
            destination: String::new(),
            ..Template::default()
        };
        match signed {
            Signed::Assertion => assert!(outcome(&none.xml()).is_ok()),
            _ => assert_eq!(rule(&none.xml()), Rule::DestinationMismatch),
        }
    }
}

#[test]
fn the_issuer_must_be_the_configured_provider() {
    for signed in [Signed::Assertion, Signed::Response] {
        let other = Template {
            signed,
            issuer: "https://evil.test".to_owned(),
            ..Template::default()
        };
        assert_eq!(rule(&other.xml()), Rule::IssuerMismatch);
        let response = Template {
            signed,
            response_issuer: format!(r#"<saml:Issuer xmlns:saml="{SAML}">https://evil.test</saml:Issuer>"#),
            ..Template::default()
        };
        assert_eq!(rule(&response.xml()), Rule::IssuerMismatch);
        let silent = Template {
            signed,
            response_issuer: String::new(),
            ..Template::default()
        };
        assert!(outcome(&silent.xml()).is_ok());
    }
}

#[test]
fn the_status_must_be_success_even_if_an_assertion_is_there() {
    for signed in [Signed::Nothing, Signed::Assertion, Signed::Response] {
        let status = "urn:oasis:names:tc:SAML:2.0:status:Responder".to_owned();
        let template = Template {
            signed,
            status,
            ..Template::default()
        };
        assert_eq!(rule(&template.xml()), Rule::StatusNotSuccess);
    }
    let message = "</samlp:StatusCode><samlp:StatusMessage>no such user\nforged line</samlp:StatusMessage>";
    let xml = changed(|it| it.status = "urn:x".to_owned()).replace("</samlp:StatusCode>", message);
    let refusal = outcome(&xml).expect_err("refused");
    assert_eq!(refusal.rule, Rule::StatusNotSuccess);
    assert!(
        refusal.detail.contains(r"no such user\nforged line"),
        "{}",
        refusal.detail
    );
}

#[test]
fn an_answer_must_fit_the_request_in_both_places() {
    let genuine = Template::default();
    assert_eq!(
        unexpected(&genuine, |it| it.request_id = Some("_other")),
        Some(Rule::InResponseToMismatch)
    );
    assert_eq!(
        unexpected(&genuine, |it| it.request_id = None),
        Some(Rule::InResponseToMismatch)
    );
    let of_another = Template {
        in_response_to: r#" InResponseTo="_other""#.to_owned(),
        ..Template::default()
    };
    assert_eq!(rule(&of_another.xml()), Rule::InResponseToMismatch);
    // The envelope is not signed, so an attacker can make it fit; the signed part must fit as well.
    let stolen = with_data(REQUEST, "_other");
    assert_eq!(rule(&stolen), Rule::InResponseToMismatch);
    let silent = with_data(r#" InResponseTo="_request1""#, "");
    assert_eq!(rule(&silent), Rule::InResponseToMismatch);
}

#[test]
fn an_unsolicited_response_needs_permission() {
    let mut template = Template {
        in_response_to: String::new(),
        ..Template::default()
    };
    template.subject = template.subject.replace(r#" InResponseTo="_request1""#, "");
    assert_eq!(
        unexpected(&template, |it| it.request_id = None),
        Some(Rule::Unsolicited)
    );
    assert_eq!(unexpected(&template, |_| {}), Some(Rule::InResponseToMismatch));
    // Permission does not let an answer to somebody else's request pass as unsolicited.
    let allow = |it: &mut Expected<'_>| {
        it.request_id = None;
        it.allows_unsolicited = true;
    };
    assert_eq!(unexpected(&template, allow), None);
    assert_eq!(
        unexpected(&Template::default(), allow),
        Some(Rule::InResponseToMismatch)
    );
    let stripped = Template {
        in_response_to: String::new(),
        ..Template::default()
    };
    assert_eq!(unexpected(&stripped, allow), Some(Rule::InResponseToMismatch));
}

#[test]
fn there_is_one_subject_with_one_name() {
    let one = Template::default().subject;
    let name = "<saml:NameID>anna@corp.test</saml:NameID>";
    let cases = [
        String::new(),
        one.repeat(2),
        one.replace(name, ""),
        one.replace(name, &name.repeat(2)),
        one.replace(name, "<saml:NameID></saml:NameID>"),
        one.replace(name, "<saml:NameID> \n </saml:NameID>"),
        one.replace(name, "<saml:NameID>anna\u{85}@corp.test</saml:NameID>"),
        one.replace("cm:bearer", "cm:sender-vouches"),
        one.replace("<saml:SubjectConfirmation ", "<saml:Other ")
            .replace("</saml:SubjectConfirmation>", "</saml:Other>"),
    ];
    for subject in cases {
        assert_eq!(
            rule(&changed(|it| it.subject.clone_from(&subject))),
            Rule::SubjectInvalid,
            "{subject}"
        );
    }
}

#[test]
fn somebody_must_have_signed_in() {
    let xml = changed(|it| it.statements = attributes(&[("email", "anna@corp.test")]));
    assert_eq!(rule(&xml), Rule::Malformed);
}

#[test]
fn encrypted_parts_are_refused_with_a_word_of_their_own() {
    let template = Template::default();
    let encrypted = format!(r#"<saml:EncryptedAssertion xmlns:saml="{SAML}"></saml:EncryptedAssertion>"#);
    assert_eq!(rule(&template.response("", &encrypted)), Rule::Encrypted);
    assert_eq!(
        rule(&template.response("", &(template.assertion("") + &encrypted))),
        Rule::Encrypted
    );
    let subject = template.subject.replace("saml:NameID", "saml:EncryptedID");
    assert_eq!(rule(&changed(|it| it.subject = subject)), Rule::Encrypted);
}

fn email_from(name_id: &str, pairs: &[(&str, &str)]) -> Result<String, Rule> {
    let mut template = Template {
        subject: subject(name_id, &confirmation_data()),
        ..Template::default()
    };
    template.statements = format!("<saml:AuthnStatement></saml:AuthnStatement>{}", attributes(pairs));
    outcome(&template.xml())
        .map(|assertion| assertion.email)
        .map_err(|refusal| refusal.rule)
}

#[test]
fn the_address_comes_from_an_attribute_or_else_from_the_name() {
    for name in [
        "email",
        "Mail",
        "EmailAddress",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
        "urn:oid:0.9.2342.19200300.100.1.3",
    ] {
        assert_eq!(
            email_from("G-1", &[(name, "anna@corp.test")]).as_deref(),
            Ok("anna@corp.test"),
            "{name}"
        );
    }
    assert_eq!(
        email_from("anna@corp.test", &[("x", "y@z.test")]).as_deref(),
        Ok("anna@corp.test")
    );
    assert_eq!(email_from("G-1", &[("x", "y@z.test")]), Err(Rule::NoEmail));
    assert_eq!(
        email_from("anna@corp.test", &[("email", "not an address")]),
        Err(Rule::NoEmail)
    );
    assert_eq!(
        email_from("G-1", &[("email", "a@x.test"), ("mail", "b@x.test")]),
        Err(Rule::SeveralEmails)
    );
}

/// A character reference is text like any other: it neither ends a value nor starts one.
#[test]
fn a_value_is_read_to_its_end() {
    let refused = email_from("G-1", &[("email", "owner@corp.test&#xD;\n.evil.test")]);
    assert_eq!(refused, Err(Rule::NoEmail));
}

#[test]
fn structured_values_of_other_attributes_are_passed_over() {
    let mut template = Template::default();
    let value = "<saml:AttributeValue><saml:NameID>x</saml:NameID></saml:AttributeValue>";
    template.statements +=
        &attributes(&[("targeted", "?")]).replace("<saml:AttributeValue>?</saml:AttributeValue>", value);
    assert!(outcome(&template.xml()).is_ok());
}
