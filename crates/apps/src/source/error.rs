//! Why there is no source.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use outbound::HttpError;

/// Who was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteSource {
    /// The host itself.
    Host(&'static str),
    /// The operator's mirror, whose address is nobody else's business.
    Mirror,
    /// The operator's npm registry, whose address is nobody else's business either.
    Registry,
}

impl fmt::Display for RemoteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host(name) => name,
            Self::Mirror => "this server's mirror for apps",
            Self::Registry => "this server's npm registry",
        })
    }
}

/// Each displays a sentence for whoever asked for the app. It holds no token, no address inside the operator's network,
/// and no words of the other side but the names of files. Sources are for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Url(&'static str),
    #[error("{0:?} is not a valid tag: use at most 200 letters, digits, and . _ + @ - /, and do not start with - or /")]
    Tag(String),
    #[error("a private token has at most 500 printable ASCII characters")]
    Token,
    #[error(
        "this server has no npm registry; its operator can set one with HEDGEROW_NPM_REGISTRY, or a mirror with \
         HEDGEROW_APP_MIRROR"
    )]
    NoRegistry,
    #[error("local apps are disabled on this server; its operator can set their folder with HEDGEROW_LOCAL_APPS")]
    NoLocalApps,
    #[error("{0:?} is not a folder in HEDGEROW_LOCAL_APPS; enter a path relative to it, without \"..\"")]
    NoFolder(String),
    #[error("{0:?} is a symbolic link that points outside HEDGEROW_LOCAL_APPS")]
    EscapesRoot(String),
    #[error("{name:?} cannot be read; the server's operator can find the reason in its log")]
    Unreadable { name: String, source: io::Error },

    #[error(
        "{what} not found on {remote}; check the URL, and if it is private, add ?private_token= with a token that can read it"
    )]
    NotFound { remote: RemoteSource, what: String },
    #[error("{remote} rejected the private token; check that it is correct, not expired, and issued by this host")]
    BadToken { remote: RemoteSource },
    #[error("access to {what} on {remote} was denied; use a private token that can read it")]
    Forbidden { remote: RemoteSource, what: String },
    #[error("rate limit of {remote} exceeded; try again{}, or use a private token for a higher limit", pause(*.seconds))]
    TooOften { remote: RemoteSource, seconds: Option<u64> },
    #[error("{remote} returned status {status}; try again later")]
    Status { remote: RemoteSource, status: u16 },
    #[error(
        "{remote} redirects elsewhere, and redirects are not followed; its operator should serve the response directly"
    )]
    SentOn { remote: RemoteSource },
    #[error("{}", unreached(*.remote, .source))]
    Unreached { remote: RemoteSource, source: HttpError },
    #[error("invalid response from {remote} for {what}; try again later")]
    Unclear {
        remote: RemoteSource,
        what: String,
        source: Option<serde_json::Error>,
    },
    #[error("{remote} has no version {version} of {package}")]
    NoVersion {
        remote: RemoteSource,
        package: String,
        version: String,
    },
    #[error("checksum mismatch for {what} from {remote}, so the download was discarded; try again later")]
    Checksum { remote: RemoteSource, what: String },

    #[error(
        "the archive is larger than {limit} bytes; include only the source, without dependencies or build artifacts"
    )]
    PackedTooLarge { limit: usize },
    #[error("this is neither a zip nor a tar.gz archive")]
    NotAnArchive,
    #[error("the archive is corrupt or in an unsupported format")]
    Damaged(#[source] Box<dyn StdError + Send + Sync>),
    #[error("zip64 archives (over 4 GB or 65,535 entries) are not supported; use a plain zip")]
    Zip64,
    #[error("{0:?} is encrypted; remove the password")]
    Encrypted(String),
    #[error("{name:?} has a name that {problem}")]
    BadName { name: String, problem: &'static str },
    #[error("the name {name:?} is longer than {limit} characters")]
    NameTooLong { name: String, limit: usize },
    #[error("{name:?} is more than {limit} folders deep")]
    TooDeep { name: String, limit: usize },
    #[error("{0:?} is a symbolic link; include the file itself")]
    Link(String),
    #[error("{0:?} is neither a file nor a folder")]
    NotAFile(String),
    #[error("{0:?} appears twice")]
    Twice(String),
    #[error("the archive has two entries with the same name")]
    TwoOfAName,
    #[error("{name:?} is larger than {limit} bytes")]
    FileTooLarge { name: String, limit: usize },
    #[error("with {name:?} the app is larger than {limit} bytes")]
    TooLarge { name: String, limit: usize },
    #[error("with {name:?} the app has more than {limit} files")]
    TooManyFiles { name: String, limit: usize },
    #[error("the app has more than {limit} entries; leave out node_modules")]
    TooManyEntries { limit: usize },
    #[error("{0:?} is outside the archive's top-level folder; put all files in one folder")]
    NoTopFolder(String),
    #[error("folder {0:?} not found, or it has no text files")]
    NoSubfolder(String),
    #[error("no text files found")]
    Empty,
    #[error("internal error")]
    Crashed(#[source] tokio::task::JoinError),
}

impl Error {
    /// Whether whoever asked can fix it, by asking for something else or changing their app. Otherwise the other side, the
    /// network or this server is to blame, and the same request may work another time.
    pub fn is_theirs(&self) -> bool {
        match self {
            Self::Unreached { source, .. } => matches!(source, HttpError::Refused(_) | HttpError::Malformed(_)),
            Self::Unreadable { .. }
            | Self::TooOften { .. }
            | Self::Status { .. }
            | Self::SentOn { .. }
            | Self::Unclear { .. }
            | Self::Checksum { .. }
            | Self::NotAnArchive
            | Self::Damaged(_)
            | Self::Crashed(_) => false,
            _ => true,
        }
    }
}

fn pause(seconds: Option<u64>) -> String {
    match seconds {
        None => " later".to_owned(),
        Some(1) => " in 1 second".to_owned(),
        Some(seconds) if seconds < 120 => format!(" in {seconds} seconds"),
        Some(seconds) => format!(" in {} minutes", seconds.div_ceil(60)),
    }
}

/// What the client says names the host it dialed, which is not told of the operator's own.
fn unreached(remote: RemoteSource, source: &HttpError) -> String {
    match remote {
        RemoteSource::Host(_) => source.to_string(),
        RemoteSource::Mirror | RemoteSource::Registry => {
            format!("{remote} could not be used; the server's operator can find the reason in its log")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_told_in_a_unit_that_fits() {
        let told = |seconds| {
            let remote = RemoteSource::Host("github.com");
            Error::TooOften { remote, seconds }.to_string()
        };
        assert!(told(None).contains("try again later,"));
        assert!(told(Some(1)).contains("try again in 1 second,"));
        assert!(told(Some(90)).contains("try again in 90 seconds,"));
        assert!(told(Some(121)).contains("try again in 3 minutes,"));
    }
}
