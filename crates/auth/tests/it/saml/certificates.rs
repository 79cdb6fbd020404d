//! Certificates as people paste them.

use auth::saml::{CertificateError, Certificates, KeyKind};

use super::fixtures::{at, fixture, now};

fn bare(pem: &str) -> String {
    pem.lines().filter(|line| !line.starts_with("-----")).collect()
}

#[test]
fn pem_and_bare_base64_are_the_same_certificate() {
    let pem = Certificates::parse(fixture!("rsa.crt")).expect("pem");
    assert_eq!(Certificates::parse(&bare(fixture!("rsa.crt"))).expect("bare"), pem);
    let untidy = format!("Bag attributes\r\n {}", fixture!("rsa.crt").replace('\n', "\r\n  "));
    assert_eq!(Certificates::parse(&untidy).expect("untidy"), pem);
    assert_eq!(Certificates::parse(&pem.to_pem()).expect("written"), pem);
}

#[test]
fn several_are_read_and_equal_ones_kept_once() {
    let text = [
        fixture!("rsa.crt"),
        fixture!("p256.crt"),
        fixture!("rsa.crt"),
        fixture!("p384.crt"),
    ]
    .concat();
    let certificates = Certificates::parse(&text).expect("certificates");
    let kinds: Vec<KeyKind> = certificates.iter().map(|info| info.key).collect();
    assert_eq!(kinds, [KeyKind::Rsa { bits: 2048 }, KeyKind::P256, KeyKind::P384]);
}

#[test]
fn a_certificate_tells_what_people_ask() {
    let certificates = Certificates::parse(fixture!("rsa-expired.crt")).expect("a certificate");
    let info = certificates.iter().next().expect("one");
    assert_eq!(info.subject, "CN=rsa-expired,O=Fixture");
    assert_eq!(info.issuer, info.subject);
    assert_eq!(info.not_before, at("2020-01-01T00:00:00Z"));
    assert_eq!(info.not_after, at("2025-01-01T00:00:00Z"));
    assert_eq!(info.fingerprint.len(), 64);
    assert!(!certificates.any_valid_at(now()));
    assert!(certificates.any_valid_at(at("2022-01-01T00:00:00Z")));
}

#[test]
fn what_is_no_usable_certificate_is_refused() {
    let parse = |text: &str| Certificates::parse(text).expect_err("refused");
    assert_eq!(parse(""), CertificateError::Empty);
    assert_eq!(parse(" \n"), CertificateError::Empty);
    assert_eq!(parse("not base64!"), CertificateError::NotBase64);
    assert!(matches!(parse("aGVsbG8="), CertificateError::NotX509(_)));
    assert_eq!(
        parse(fixture!("rsa.key")),
        CertificateError::NotACertificate("PRIVATE KEY".to_owned())
    );
    assert_eq!(parse("-----BEGIN CERTIFICATE-----\nAAAA"), CertificateError::Unfinished);
    assert_eq!(parse(fixture!("rsa1024.crt")), CertificateError::RsaSize(1024));
    assert_eq!(parse(fixture!("p521.crt")), CertificateError::KeyKind);
    assert_eq!(parse(&"A".repeat(100_000)), CertificateError::TooLong);
    let cut = &bare(fixture!("rsa.crt"))[..400];
    assert!(matches!(parse(cut), CertificateError::NotX509(_)));
}

#[test]
fn certificates_of_the_first_version_are_read() {
    let certificates = Certificates::parse(fixture!("rsa-v1.crt")).expect("a certificate");
    assert_eq!(certificates.iter().next().expect("one").subject, "CN=corp");
}
