//! What an object store said instead of yes, and what its owner is told.

use http::StatusCode;

use crate::Error;

/// An answer that is not a success. The store's own text is not in it: it may hold anything.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the server answered {status} {code}")]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The store's short word for it, such as `NoSuchBucket`; empty if it gave none.
    pub(crate) code: String,
}

/// How messages speak of a store.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    /// Such as `the bucket "events"`.
    pub(crate) place: String,
    /// The fields of the configuration that hold the credentials.
    pub(crate) credentials: &'static str,
    /// What the owner of the credentials must be allowed to do.
    pub(crate) permissions: &'static str,
    /// None if the configuration does not have it.
    pub(crate) region: Option<String>,
}

/// What an answer comes down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    NoPlace,
    WrongKey,
    Denied,
    WrongRegion,
    ClockSkew,
    EncryptionKey,
    Busy,
    GoneUpload,
    Refused,
}

/// A word of a store is kept only if it looks like one.
pub(super) fn word(text: &str) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let short = text.len() <= 64 && text.bytes().all(is_word);
    if short { text.to_owned() } else { String::new() }
}

impl Answer {
    pub(super) fn is_retryable(&self) -> bool {
        matches!(self.meaning(), Meaning::Busy)
    }

    /// There is no such file, though the bucket is there.
    pub(crate) fn is_no_file(&self) -> bool {
        self.status == StatusCode::NOT_FOUND && self.meaning() != Meaning::NoPlace
    }

    /// S3's words, Azure's, and the reasons of Google's JSON.
    fn meaning(&self) -> Meaning {
        match self.code.as_str() {
            "NoSuchBucket" | "ContainerNotFound" | "InvalidBucketName" | "ContainerBeingDeleted" => Meaning::NoPlace,
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidToken"
            | "ExpiredToken"
            | "InvalidSecurity"
            | "AuthenticationFailed"
            | "AuthorizationFailure"
            | "InvalidAuthenticationInfo"
            | "authError" => Meaning::WrongKey,
            "AccessDenied"
            | "AllAccessDisabled"
            | "AccountProblem"
            | "AuthorizationPermissionMismatch"
            | "InsufficientAccountPermissions"
            | "forbidden" => Meaning::Denied,
            "PermanentRedirect"
            | "TemporaryRedirect"
            | "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException" => Meaning::WrongRegion,
            "RequestTimeTooSkewed" | "RequestExpired" => Meaning::ClockSkew,
            "SlowDown"
            | "InternalError"
            | "RequestTimeout"
            | "ServiceUnavailable"
            | "ServerBusy"
            | "OperationTimedOut"
            | "rateLimitExceeded"
            | "userRateLimitExceeded"
            | "backendError" => Meaning::Busy,
            "NoSuchUpload" | "InvalidBlockList" | "InvalidPart" => Meaning::GoneUpload,
            code if code.starts_with("KMS") || code.contains(".KMS") => Meaning::EncryptionKey,
            _ => self.meaning_of_status(),
        }
    }

    fn meaning_of_status(&self) -> Meaning {
        match self.status {
            StatusCode::UNAUTHORIZED => Meaning::WrongKey,
            StatusCode::FORBIDDEN => Meaning::Denied,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Meaning::Busy,
            status if status.is_redirection() => Meaning::WrongRegion,
            status if status.is_server_error() => Meaning::Busy,
            _ => Meaning::Refused,
        }
    }
}

impl Words {
    /// The sentence for an answer, with all there is to know as its cause.
    pub(crate) fn explain(&self, answer: &Answer, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
        let place = &self.place;
        match answer.meaning() {
            Meaning::NoPlace => {
                Error::permanent(format!("{place} does not exist; create it, or correct its name"), cause)
            }
            Meaning::WrongKey => {
                let fields = self.credentials;
                Error::permanent(
                    format!("{place} does not accept the credentials; check {fields}"),
                    cause,
                )
            }
            Meaning::Denied => {
                let needed = self.permissions;
                Error::permanent(format!("{place} denies access; the credentials need {needed}"), cause)
            }
            Meaning::WrongRegion => {
                let sentence = match &self.region {
                    Some(region) => {
                        format!("{place} is not in {region}, or not at this endpoint; correct region or endpoint_url")
                    }
                    None => format!("{place} is not at this endpoint; correct endpoint_url"),
                };
                Error::permanent(sentence, cause)
            }
            Meaning::ClockSkew => {
                let sentence =
                    "this server's clock is wrong, so its signatures are rejected; its operator can fix the clock";
                Error::permanent(sentence, cause)
            }
            Meaning::EncryptionKey => {
                let sentence = "the encryption key cannot be used; check kms_key_id, and that the credentials can call \
                                kms:GenerateDataKey and kms:Decrypt with it";
                Error::permanent(sentence, cause)
            }
            Meaning::Busy => Error::retryable(format!("{place} is busy or unavailable; it will be retried"), cause),
            Meaning::GoneUpload => {
                Error::retryable(format!("{place} lost the upload midway; it will be retried"), cause)
            }
            Meaning::Refused => {
                let status = answer.status.as_u16();
                Error::permanent(
                    format!("{place} rejected the request with status {status}; check the settings"),
                    cause,
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(region: Option<&str>) -> Words {
        Words {
            place: "the bucket \"b\"".to_owned(),
            credentials: "the_key",
            permissions: "s3:PutObject",
            region: region.map(str::to_owned),
        }
    }

    #[test]
    fn each_cause_has_its_sentence() {
        let words = words(Some("eu-west-1"));
        let cases = [
            (403, "InvalidAccessKeyId", true, "check the_key"),
            (403, "SignatureDoesNotMatch", true, "check the_key"),
            (404, "NoSuchBucket", true, "create it"),
            (403, "AccessDenied", true, "need s3:PutObject"),
            (301, "PermanentRedirect", true, "is not in eu-west-1"),
            (400, "AuthorizationHeaderMalformed", true, "is not in eu-west-1"),
            (403, "RequestTimeTooSkewed", true, "clock"),
            (400, "KMS.DisabledException", true, "kms_key_id"),
            (503, "SlowDown", false, "busy"),
            (429, "", false, "busy"),
            (500, "", false, "busy"),
            (400, "RequestTimeout", false, "busy"),
            (404, "NoSuchUpload", false, "midway"),
            (401, "", true, "check the_key"),
            (418, "Teapot", true, "status 418"),
        ];
        for (status, code, is_permanent, part) in cases {
            let status = StatusCode::from_u16(status).expect("a status");
            let code = code.to_owned();
            let answer = Answer { status, code };
            let error = words.explain(&answer, answer.clone());
            assert_eq!(error.is_permanent, is_permanent, "{answer}");
            assert!(error.sentence.contains(part), "{}", error.sentence);
        }
    }

    #[test]
    fn a_region_is_named_only_if_there_is_one() {
        let answer = Answer {
            status: StatusCode::MOVED_PERMANENTLY,
            code: "PermanentRedirect".to_owned(),
        };
        let sentence = |region| words(region).explain(&answer, answer.clone()).sentence;
        assert!(sentence(Some("eu-west-1")).ends_with("correct region or endpoint_url"));
        assert_eq!(
            sentence(None),
            "the bucket \"b\" is not at this endpoint; correct endpoint_url"
        );
    }

    #[test]
    fn a_servers_prose_is_not_repeated() {
        assert_eq!(word("NoSuchKey"), "NoSuchKey");
        assert_eq!(word("secret at 10.0.0.1/x"), "");
        assert_eq!(word(&"a".repeat(65)), "");
    }
}
