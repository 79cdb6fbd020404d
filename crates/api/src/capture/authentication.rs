//! Who sends, found out before the body is unpacked.

use events::capture::{Candidate, FIRST_SCANNED_BYTES, Progress, Refusal, TokenScan, most_scanned};

use super::answers::{Refused, Result};
use super::arrival::Upload;
use super::readers::Task;
use super::search::{Opened, SCANNER, open, search, searched};

impl Upload<'_> {
    /// Before any memory is needed.
    pub(super) async fn authenticate_by_query(&mut self) -> Result<()> {
        if let Some(token) = self.reading.parameters.token().map(ToOwned::to_owned) {
            self.is_authenticated_by(&token).await?;
        }
        Ok(())
    }

    /// Finds the token while the body arrives, or refuses it.
    pub(super) async fn authenticate(mut self, mut bytes: Vec<u8>) -> Result<(Self, Vec<u8>)> {
        if self.authenticated.is_some() {
            return Ok((self, bytes));
        }
        self.reserve(SCANNER).await?;
        let (mut scan, mut scanned) = (TokenScan::default(), 0);
        let progress = loop {
            while scanned < bytes.len() && scan.progress() == Progress::Searching {
                let taken;
                (scan, taken) = search(self.capture, self.reservation.sender(), scan, &bytes[scanned..]).await?;
                scanned += taken;
                if self.is_authenticated_by_any(&mut scan).await? {
                    return Ok((self, bytes));
                }
            }
            match scan.progress() {
                Progress::Searching => {}
                Progress::NotFound => return Err(Refusal::TokenTooFar.into()),
                other => break other,
            }
            match self.receiver.next().await? {
                Some(more) => self.push(&mut bytes, &more).await?,
                None => break scan.end(),
            }
        };
        match progress {
            _ if self.is_authenticated_by_any(&mut scan).await? => Ok((self, bytes)),
            Progress::Opaque => self.authenticate_opaque(bytes).await,
            _ => Err(self.refused(progress)),
        }
    }

    /// Base64 and forms have to be there as a whole, and are unpacked first. They get little room for that.
    async fn authenticate_opaque(mut self, mut bytes: Vec<u8>) -> Result<(Self, Vec<u8>)> {
        self.receive_rest(&mut bytes).await?;
        let most = most_scanned(bytes.len());
        if bytes.len() <= FIRST_SCANNED_BYTES / 2 {
            // Whatever is in there, this is soon done.
            let before = self.reservation.bytes();
            self.reserve(bytes.len()).await?;
            let opening = open(
                self.capture,
                self.reservation,
                bytes.clone(),
                FIRST_SCANNED_BYTES,
                Task::Search,
            );
            let opened;
            (self.reservation, opened) = opening.await?;
            if let Some(opened) = opened {
                return self.authenticate_opened(opened).await;
            }
            self.reservation.shrink_to(before);
        }
        let opened;
        (self.reservation, opened) = open(self.capture, self.reservation, bytes, most, Task::LongSearch).await?;
        match opened {
            Some(opened) => self.authenticate_opened(opened).await,
            None => Err(Refusal::TokenTooFar.into()),
        }
    }

    async fn authenticate_opened(mut self, mut opened: Opened) -> Result<(Self, Vec<u8>)> {
        if self.is_authenticated_by_any(&mut opened.scan).await? {
            return Ok((self, opened.bytes));
        }
        Err(self.refused(opened.progress))
    }

    pub(super) async fn authenticate_text(&mut self, text: &[u8]) -> Result<()> {
        let (mut scan, progress) = searched(text);
        if self.is_authenticated_by_any(&mut scan).await? {
            return Ok(());
        }
        Err(self.refused(progress))
    }

    async fn is_authenticated_by_any(&mut self, scan: &mut TokenScan) -> Result<bool> {
        for Candidate { token, .. } in scan.candidates() {
            self.has_candidate = true;
            if self.is_authenticated_by(&token).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn is_authenticated_by(&mut self, token: &str) -> Result<bool> {
        let Some(team) = self.capture.service.team_by_token(token).await? else {
            return Ok(false);
        };
        self.reservation
            .patiently(|mine| mine.authenticate(team.organization))
            .await?;
        self.authenticated = Some((token.to_owned(), team));
        Ok(true)
    }

    /// Why, when the search came to its end without a token that a team has.
    fn refused(&self, progress: Progress) -> Refused {
        if progress == Progress::Damaged {
            return Refusal::Unreadable("corrupt data, or nested too deeply".to_owned()).into();
        }
        if self.has_candidate || self.reading.parameters.token().is_some() {
            Refused::UnknownToken
        } else {
            Refusal::NoToken.into()
        }
    }
}
