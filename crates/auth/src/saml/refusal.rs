//! Why a document was refused, for logs and for the administrator who set the connection up.

/// A refused document: the rule that it broke, and a sentence on what was seen and what would work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    pub rule: Rule,
    pub detail: String,
    /// The provider's signature was valid: whoever sent this has something that the provider once said.
    pub is_signed: bool,
}

impl Refusal {
    pub(super) fn new(rule: Rule, detail: impl Into<String>) -> Self {
        Self {
            rule,
            detail: detail.into(),
            is_signed: false,
        }
    }

    /// The same of a document whose signature was valid.
    pub(super) fn of_signed(self) -> Self {
        Self {
            is_signed: true,
            ..self
        }
    }
}

macro_rules! rules {
    ($($rule:ident = $code:literal,)*) => {
        /// The rules that a document can break. Codes are stable: logs and tests rely on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($rule,)*
        }

        impl Rule {
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$rule => $code,)*
                }
            }
        }
    };
}

rules! {
    AlgorithmRefused = "algorithm_refused",
    AssertionMissing = "assertion_missing",
    AudienceMismatch = "audience_mismatch",
    Cdata = "cdata",
    CertificateExpired = "certificate_expired",
    CertificateMissing = "certificate_missing",
    Comment = "comment",
    DestinationMismatch = "destination_mismatch",
    Doctype = "doctype",
    DuplicateId = "duplicate_id",
    Encrypted = "encrypted",
    Expired = "expired",
    InResponseToMismatch = "in_response_to_mismatch",
    IssuerMismatch = "issuer_mismatch",
    Malformed = "malformed",
    NoEmail = "no_email",
    NotBase64 = "not_base64",
    NotMetadata = "not_metadata",
    NotResponse = "not_response",
    NotXml = "not_xml",
    NotYetValid = "not_yet_valid",
    ProcessingInstruction = "processing_instruction",
    RecipientMismatch = "recipient_mismatch",
    ReferenceMismatch = "reference_mismatch",
    SeveralAssertions = "several_assertions",
    SeveralEmails = "several_emails",
    SeveralProviders = "several_providers",
    SeveralSignatures = "several_signatures",
    SignatureInvalid = "signature_invalid",
    SignatureMalformed = "signature_malformed",
    SignatureMissing = "signature_missing",
    SsoUrlMissing = "sso_url_missing",
    StatusNotSuccess = "status_not_success",
    SubjectInvalid = "subject_invalid",
    TooComplex = "too_complex",
    TooLarge = "too_large",
    UnknownCondition = "unknown_condition",
    Unsolicited = "unsolicited",
    Xinclude = "xinclude",
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

/// A value from a document, fit for a sentence: quoted, without line breaks, and short.
pub(super) fn shown(value: &str) -> String {
    const MAX_LENGTH: usize = 120;
    let mut characters = value.chars();
    let start: String = characters.by_ref().take(MAX_LENGTH).collect();
    let rest = if characters.next().is_some() { " …" } else { "" };
    format!("{start:?}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_document_says_cannot_forge_a_line_of_the_log() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        assert!(shown(&"x".repeat(10_000)).len() < 200);
    }
}
