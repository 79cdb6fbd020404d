//! What can be a domain of an organization.

use crate::error::{Error, Result};

const MAX: usize = 253;

/// Mail for everybody: nobody can own these addresses by owning the domain's record.
const PUBLIC_MAIL: [&str; 44] = [
    "126.com",
    "163.com",
    "aol.com",
    "bk.ru",
    "comcast.net",
    "fastmail.com",
    "free.fr",
    "gmail.com",
    "gmx.at",
    "gmx.ch",
    "gmx.com",
    "gmx.de",
    "gmx.net",
    "googlemail.com",
    "hey.com",
    "hotmail.co.uk",
    "hotmail.com",
    "hotmail.fr",
    "hushmail.com",
    "icloud.com",
    "inbox.ru",
    "laposte.net",
    "libero.it",
    "list.ru",
    "live.com",
    "mac.com",
    "mail.com",
    "mail.ru",
    "me.com",
    "msn.com",
    "orange.fr",
    "outlook.com",
    "outlook.de",
    "pm.me",
    "proton.me",
    "protonmail.com",
    "qq.com",
    "t-online.de",
    "web.de",
    "yahoo.co.uk",
    "yahoo.com",
    "yandex.com",
    "yandex.ru",
    "ymail.com",
];

/// The name as DNS knows it: in lower case, in ASCII, without the dot at the end.
pub(super) fn normalize(text: &str) -> Result<String> {
    let text = text.trim().trim_end_matches('.');
    let name = idna::domain_to_ascii_strict(text).map_err(|_| no_domain())?;
    let is_address = name
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if name.len() > MAX || !name.split('.').all(is_label) || !name.contains('.') || is_address {
        return Err(no_domain());
    }
    if PUBLIC_MAIL.binary_search(&name.as_str()).is_ok() {
        let detail = format!("{name} is a public email provider. Use a domain that your organization owns.");
        return Err(Error::invalid("domain", "public_domain", detail));
    }
    if psl::domain_str(&name).is_none() {
        let detail = format!("{name} is a public suffix. Use a domain registered under it.");
        return Err(Error::invalid("domain", "public_domain", detail));
    }
    Ok(name)
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn no_domain() -> Error {
    let detail = "Invalid domain. Use a name such as example.com, without a scheme, path or @.";
    Error::invalid("domain", "invalid_input", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_brought_into_one_form() {
        for (given, kept) in [
            ("Example.COM", "example.com"),
            (" corp.example.co.uk. ", "corp.example.co.uk"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("EXÄMPLE.org", "xn--exmple-cua.org"),
        ] {
            assert_eq!(normalize(given).expect(given), kept);
        }
    }

    #[test]
    fn what_nobody_can_own_is_refused() {
        let long = format!("{}.com", "a.".repeat(150));
        for bad in [
            "",
            "com",
            "co.uk",
            "gmail.com",
            "GMAIL.com.",
            "a@b.com",
            "https://example.com",
            "example.com/x",
            "a..com",
            "-a.com",
            "a-.com",
            "exa mple.com",
            "127.0.0.1",
            "*.example.com",
            "_dmarc.example.com",
            "github.io",
            &long,
            "\u{202e}example.com",
            "localhost",
        ] {
            assert!(normalize(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_list_of_mail_providers_is_sorted() {
        assert!(PUBLIC_MAIL.is_sorted());
    }
}
