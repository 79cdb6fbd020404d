//! One body, from its first byte to the stored events.
//!
//! A small body is read at once: that is what nearly all are. Of a larger one no more than its packed bytes is kept until
//! its token was found and a team has it; only then is it unpacked and parsed, in memory that was reserved before.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header;
use axum::http::request::Parts;
use bytes::Bytes;
use events::capture::{
    Candidate, Captured, Envelope, FIRST_SCANNED_BYTES, Parameters, Progress, Refusal, TokenScan, claimed_size,
    estimate, is_json, most_scanned, parse, unpack,
};
use events::{Hold, Time};
use service::sign_in::neighborhood;
use service::teams::TeamToken;
use tokio::task::spawn_blocking;

use super::answers::{Done, Refused};
use super::budget::Reservation;
use super::readers::{Sender, Task};
use super::receive::Receiver;
use super::{Capture, decode};

/// Reading a body up to this size takes so little time that nobody waits for it.
const SMALL: usize = 64 * 1024;
/// What is searched for a token in one go.
const PIECE: usize = 32 * 1024;
/// The memory that takes.
pub(super) const SCANNER: usize = 128 * 1024;

pub(super) type Result<T> = std::result::Result<T, Refused>;

pub(super) async fn take(capture: &Capture, request: Request, unnamed: Option<&'static str>) -> Result<Done> {
    let (parts, body) = request.into_parts();
    let mut receiver = Receiver::new(body, &parts.headers)?;
    let taken = receive(capture, &parts, &mut receiver, unnamed).await;
    if taken.as_ref().is_err_and(Refused::is_for_a_reader) {
        receiver.discard().await;
    }
    taken
}

async fn receive(
    capture: &Capture,
    parts: &Parts,
    receiver: &mut Receiver,
    unnamed: Option<&'static str>,
) -> Result<Done> {
    let encoding = parts.headers.get(header::CONTENT_ENCODING);
    let encoding = encoding.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let parameters = Parameters::read(parts.uri.query().unwrap_or_default(), encoding)?;
    let address = capture.settings.client_address(parts);
    let upload = Upload {
        capture,
        receiver,
        reservation: capture.budget.enter(address)?,
        reading: Reading {
            parameters,
            address,
            unnamed,
            now: capture.service.clock().now(),
        },
        proven: None,
        has_candidate: false,
    };
    upload.run().await
}

/// What it takes to read a body, apart from its bytes.
#[derive(Debug)]
pub(super) struct Reading {
    parameters: Parameters,
    address: IpAddr,
    unnamed: Option<&'static str>,
    now: Time,
}

impl Reading {
    pub(super) fn parse(&self, text: Vec<u8>) -> Result<Captured> {
        let envelope = Envelope {
            parameters: &self.parameters,
            address: Some(self.address),
            unnamed: self.unnamed,
            now: self.now,
        };
        Ok(parse(text, &envelope)?)
    }
}

struct Upload<'a> {
    capture: &'a Capture,
    receiver: &'a mut Receiver,
    reservation: Reservation,
    reading: Reading,
    /// The token that was found, and the team that has it.
    proven: Option<(String, TeamToken)>,
    /// Whether there was a token that no team has.
    has_candidate: bool,
}

/// What has come of a body.
enum Size {
    /// All of it: its text.
    Small(Vec<u8>),
    /// More may follow, or come out of it.
    Other(Vec<u8>),
}

impl Upload<'_> {
    async fn run(mut self) -> Result<Done> {
        let first = match self.reading.parameters.take_data() {
            Some(data) => {
                self.receiver.ignore();
                data
            }
            None => self.receiver.next().await?.map_or_else(Vec::new, Vec::from),
        };
        match self.sort(first)? {
            Size::Small(text) => self.take_small(text).await,
            // Few come here, and those who do not should not carry what it takes.
            Size::Other(first) => Box::pin(self.take_pieces(first)).await,
        }
    }

    fn sort(&mut self, bytes: Vec<u8>) -> Result<Size> {
        if bytes.len() > SMALL || !self.receiver.is_finished() {
            return Ok(Size::Other(bytes));
        }
        if is_json(&bytes) {
            return Ok(Size::Small(bytes));
        }
        Ok(small(&bytes)?.map_or(Size::Other(bytes), Size::Small))
    }

    /// Until its token is known, it may have to make room for others.
    async fn take_pieces(mut self, first: Vec<u8>) -> Result<Done> {
        let ended = self.reservation.stay();
        tokio::select! {
            biased;
            () = ended => Err(Refused::Busy),
            taken = self.take_from(first) => taken,
        }
    }

    async fn take_from(mut self, first: Vec<u8>) -> Result<Done> {
        self.prove_by_query().await?;
        let bytes = self.start(first).await?;
        match self.sort(bytes)? {
            Size::Small(text) => self.take_small(text).await,
            Size::Other(bytes) => self.take_proven(bytes).await,
        }
    }

    async fn take_proven(self, bytes: Vec<u8>) -> Result<Done> {
        let (mut proven, mut bytes) = self.prove(bytes).await?;
        proven.receive_rest(&mut bytes).await?;
        proven.take_large(bytes).await
    }

    /// All of a small body, or the beginning of a larger one. What was announced does not count, only what is there.
    async fn start(&mut self, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        if !self.receiver.is_finished() {
            self.reserve(bytes.capacity()).await?;
        }
        while bytes.len() <= SMALL
            && let Some(more) = self.receiver.next().await?
        {
            self.push(&mut bytes, &more).await?;
        }
        Ok(bytes)
    }

    async fn receive_rest(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        while let Some(more) = self.receiver.next().await? {
            self.push(bytes, &more).await?;
        }
        Ok(())
    }

    async fn push(&mut self, bytes: &mut Vec<u8>, more: &Bytes) -> Result<()> {
        if bytes.capacity() - bytes.len() < more.len() {
            let grown = (bytes.len() / 2).max(more.len());
            self.reserve(grown).await?;
            bytes.reserve_exact(grown);
        }
        bytes.extend_from_slice(more);
        Ok(())
    }

    async fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.reservation.patiently(|mine| mine.grow(bytes)).await
    }

    async fn take_small(mut self, text: Vec<u8>) -> Result<Done> {
        let needed = text.capacity() + estimate(&text);
        if self.reservation.grow(needed).is_err() {
            // Unknown senders have used up their part. Whose this is can be told without it.
            Box::pin(self.prove_text(&text)).await?;
            self.reserve(needed).await?;
        }
        let captured = self.reading.parse(text)?;
        let team = self.team_of(&captured).await?;
        self.reservation.patiently(|mine| mine.prove(team.organization)).await?;
        self.store(team, captured).await
    }

    async fn take_large(mut self, bytes: Vec<u8>) -> Result<Done> {
        let (decoded, reservation, reading) =
            decode::decode(self.capture, bytes, self.reservation, self.reading).await?;
        self.reservation = reservation;
        self.reading = reading;
        let team = self.team_of(&decoded).await?;
        self.store(team, decoded).await
    }

    async fn team_of(&mut self, captured: &Captured) -> Result<TeamToken> {
        match self.proven.take() {
            Some((token, team)) if token == captured.token => Ok(team),
            _ => find(self.capture, &captured.token).await?.ok_or(Refused::UnknownToken),
        }
    }

    /// A sender that hangs up must not set memory free that the store still holds.
    async fn store(self, team: TeamToken, captured: Captured) -> Result<Done> {
        let count = captured.events.len();
        if count > 0 {
            let hold = Hold::of(self.reservation)
                .in_turn_of(team.organization.0.as_u128())
                .sent_from(neighborhood(self.reading.address));
            let events = &self.capture.events;
            events
                .append_holding(hold, team.team.0, captured.events, self.reading.now)
                .await?;
        }
        Ok(Done(count))
    }
}

async fn find(capture: &Capture, token: &str) -> Result<Option<TeamToken>> {
    Ok(capture.service.team_by_token(token).await?)
}

/// A small body, unpacked, if it is small then as well.
fn small(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    if claimed_size(bytes).is_some_and(|size| size > SMALL) {
        return Ok(None);
    }
    match unpack(bytes.to_vec(), SMALL, &mut |_| Ok::<_, Refused>(())) {
        Err(Refused::Body(Refusal::TooLarge)) => Ok(None),
        unpacked => unpacked.map(Some),
    }
}

/// Searches a part of these bytes, and says how many. Few may unpack to many, so that is done where nobody waits for it,
/// not too much of it in one turn; and who has shown nothing for long waits behind those who come.
pub(super) async fn search(
    capture: &Capture,
    sender: Sender,
    mut scan: TokenScan,
    bytes: &[u8],
) -> Result<(TokenScan, usize)> {
    let piece = &bytes[..bytes.len().min(PIECE)];
    if !scan.will_unpack(piece) {
        scan.feed(piece);
        return Ok((scan, piece.len()));
    }
    let is_first = scan.seen() < FIRST_SCANNED_BYTES;
    let task = if is_first { Task::Search } else { Task::LongSearch };
    let turn = capture.readers.turn(task, sender).await?;
    let piece = piece.to_vec();
    let searching = spawn_blocking(move || {
        let taken = scan.feed_some(&piece);
        drop(turn);
        (scan, taken)
    });
    searching.await.map_err(|_| Refused::Failed)
}

/// A body that could be read only as a whole, unpacked and searched.
struct Opened {
    text: Vec<u8>,
    scan: TokenScan,
    progress: Progress,
}

/// None: it is larger than `most`. The thread that works holds the turn and what is reserved: if the sender hangs up, neither
/// is free before it has ended.
async fn open(
    capture: &Capture,
    mut reservation: Reservation,
    bytes: Vec<u8>,
    most: usize,
    task: Task,
) -> Result<(Reservation, Option<Opened>)> {
    let turn = capture.readers.turn(task, reservation.sender()).await?;
    let working = spawn_blocking(move || {
        let unpacked = unpack(bytes, most, &mut |more| reservation.grow(more));
        let opened = match unpacked {
            Ok(text) => {
                let (scan, progress) = searched(&text);
                Some(Opened { text, scan, progress })
            }
            Err(Refused::Body(Refusal::TooLarge)) => None,
            Err(refused) => return Err(refused),
        };
        drop(turn);
        Ok((reservation, opened))
    });
    working.await.map_err(|_| Refused::Failed)?
}

fn searched(text: &[u8]) -> (TokenScan, Progress) {
    let mut scan = TokenScan::default();
    let progress = match scan.feed(text) {
        Progress::Searching => scan.end(),
        other => other,
    };
    (scan, progress)
}

/// Who sends, before the body is unpacked.
impl Upload<'_> {
    /// Before any memory is needed.
    async fn prove_by_query(&mut self) -> Result<()> {
        if let Some(token) = self.reading.parameters.token().map(ToOwned::to_owned) {
            self.is_proven_by(&token).await?;
        }
        Ok(())
    }

    /// Finds the token while the body arrives, or refuses it.
    async fn prove(mut self, mut bytes: Vec<u8>) -> Result<(Self, Vec<u8>)> {
        if self.proven.is_some() {
            return Ok((self, bytes));
        }
        self.reserve(SCANNER).await?;
        let (mut scan, mut scanned) = (TokenScan::default(), 0);
        let progress = loop {
            while scanned < bytes.len() && scan.progress() == Progress::Searching {
                let taken;
                (scan, taken) = search(self.capture, self.reservation.sender(), scan, &bytes[scanned..]).await?;
                scanned += taken;
                if self.is_proven_by_any(&mut scan).await? {
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
            _ if self.is_proven_by_any(&mut scan).await? => Ok((self, bytes)),
            Progress::Opaque => self.prove_opaque(bytes).await,
            _ => Err(self.refused(progress)),
        }
    }

    /// Base64 and forms have to be there as a whole, and are unpacked first. They get little room for that.
    async fn prove_opaque(mut self, mut bytes: Vec<u8>) -> Result<(Self, Vec<u8>)> {
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
                return self.prove_opened(opened).await;
            }
            self.reservation.shrink_to(before);
        }
        let opened;
        (self.reservation, opened) = open(self.capture, self.reservation, bytes, most, Task::LongSearch).await?;
        match opened {
            Some(opened) => self.prove_opened(opened).await,
            None => Err(Refusal::TokenTooFar.into()),
        }
    }

    async fn prove_opened(mut self, mut opened: Opened) -> Result<(Self, Vec<u8>)> {
        if self.is_proven_by_any(&mut opened.scan).await? {
            return Ok((self, opened.text));
        }
        Err(self.refused(opened.progress))
    }

    async fn prove_text(&mut self, text: &[u8]) -> Result<()> {
        let (mut scan, progress) = searched(text);
        if self.is_proven_by_any(&mut scan).await? {
            return Ok(());
        }
        Err(self.refused(progress))
    }

    async fn is_proven_by_any(&mut self, scan: &mut TokenScan) -> Result<bool> {
        for Candidate { token, .. } in scan.candidates() {
            self.has_candidate = true;
            if self.is_proven_by(&token).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn is_proven_by(&mut self, token: &str) -> Result<bool> {
        let Some(team) = find(self.capture, token).await? else {
            return Ok(false);
        };
        self.reservation.patiently(|mine| mine.prove(team.organization)).await?;
        self.proven = Some((token.to_owned(), team));
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
