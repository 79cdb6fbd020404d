//! One body, from its first byte to the stored events.
//!
//! A small body is read at once: that is what nearly all are. Of a larger one no more than its packed bytes is kept until
//! its token was found and a team has it; only then is it unpacked and parsed, in memory that was reserved before.

use axum::extract::Request;
use axum::http::header;
use axum::http::request::Parts;
use events::Hold;
use events::capture::{Captured, Parameters, Refusal, claimed_size, estimate, is_json, unpack};
use service::OrganizationId;
use service::sign_in::subnet;
use service::teams::TeamToken;

use super::answers::{Done, Refused, Result};
use super::arrival::{SMALL, Upload};
use super::decode::{Reading, USUAL_RATIO, decode, is_costly};
use super::receive::receiver;
use super::state::Capture;
use crate::http::receive::Receiver;

pub(super) async fn take(capture: &Capture, request: Request, unnamed: Option<&'static str>) -> Result<Done> {
    let (parts, body) = request.into_parts();
    let mut receiver = receiver(body, &parts.headers)?;
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
        authenticated: None,
        has_candidate: false,
    };
    upload.run().await
}

/// What has come of a body.
enum Size {
    /// All of it: its text, and what reading it takes.
    Small(Vec<u8>, usize),
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
            Size::Small(text, needed) => self.take_small(text, needed).await,
            // Few come here, and those who do not should not carry what it takes.
            Size::Other(first) => Box::pin(self.take_pieces(first)).await,
        }
    }

    fn sort(&mut self, bytes: Vec<u8>) -> Result<Size> {
        if bytes.len() > SMALL || !self.receiver.is_finished() {
            return Ok(Size::Other(bytes));
        }
        let sent = bytes.len();
        let (text, packed) = if is_json(&bytes) {
            (bytes, None)
        } else {
            match small(&bytes)? {
                Some(text) => (text, Some(bytes)),
                None => return Ok(Size::Other(bytes)),
            }
        };
        let needed = estimate(&text);
        // Otherwise it takes turns with others, where nobody waits for it.
        if is_costly(sent, needed) {
            return Ok(Size::Other(packed.unwrap_or(text)));
        }
        Ok(Size::Small(text, needed))
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
        self.authenticate_by_query().await?;
        let bytes = self.start(first).await?;
        match self.sort(bytes)? {
            Size::Small(text, needed) => self.take_small(text, needed).await,
            Size::Other(bytes) => self.take_authenticated(bytes).await,
        }
    }

    async fn take_authenticated(self, bytes: Vec<u8>) -> Result<Done> {
        let (mut authenticated, mut bytes) = self.authenticate(bytes).await?;
        authenticated.receive_rest(&mut bytes).await?;
        authenticated.take_large(bytes).await
    }

    async fn take_small(mut self, text: Vec<u8>, needed: usize) -> Result<Done> {
        let needed = text.capacity() + needed;
        if self.reservation.grow(needed).is_err() {
            // Unknown senders have used up their part. Whose this is can be told without it.
            Box::pin(self.authenticate_text(&text)).await?;
            self.reserve(needed).await?;
        }
        let captured = self.reading.parse(text)?;
        let team = self.team_of(&captured).await?;
        if self.reservation.authenticate(team.organization).is_err() {
            Box::pin(self.wait_for_room(team.organization)).await?;
        }
        self.store(team, captured).await
    }

    /// Until the organization has room for it, those whose token is not known yet may need what it holds.
    async fn wait_for_room(&mut self, organization: OrganizationId) -> Result<()> {
        let ended = self.reservation.stay();
        tokio::select! {
            biased;
            () = ended => Err(Refused::Busy),
            has_room = self.reservation.patiently(|mine| mine.authenticate(organization)) => has_room,
        }
    }

    async fn take_large(mut self, bytes: Vec<u8>) -> Result<Done> {
        let (decoded, reservation, reading) = decode(self.capture, bytes, self.reservation, self.reading).await?;
        self.reservation = reservation;
        self.reading = reading;
        let team = self.team_of(&decoded).await?;
        self.store(team, decoded).await
    }

    async fn team_of(&mut self, captured: &Captured) -> Result<TeamToken> {
        match self.authenticated.take() {
            Some((token, team)) if token == captured.token => Ok(team),
            _ => self
                .capture
                .service
                .team_by_token(&captured.token)
                .await?
                .ok_or(Refused::UnknownToken),
        }
    }

    /// A sender that hangs up must not set memory free that the store still holds.
    async fn store(self, team: TeamToken, captured: Captured) -> Result<Done> {
        let count = captured.events.len();
        if count > 0 {
            let hold = Hold::of(self.reservation)
                .in_turn_of(team.organization.0.as_u128())
                .sent_from(subnet(self.reading.address));
            let events = &self.capture.events;
            // Not when the request began: a slow body must not come after exports have read its interval.
            let now = self.capture.service.clock().now();
            events.append_holding(hold, team.team.0, captured.events, now).await?;
        }
        Ok(Done(count))
    }
}

/// How long a small body may be, however short it is when it is packed.
const LITTLE: usize = 4 * 1024;

/// A small body, unpacked, if it is small then as well. What is compressed more than events are takes turns with others: here it would
/// take the time of those who serve everybody.
fn small(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let most = (bytes.len() * USUAL_RATIO).clamp(LITTLE, SMALL);
    if claimed_size(bytes).is_some_and(|size| size > most) {
        return Ok(None);
    }
    match unpack(bytes, most, &mut |_| Ok::<_, Refused>(())) {
        Err(Refused::Body(Refusal::TooLarge)) => Ok(None),
        unpacked => unpacked.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    /// Or a few bytes could take as long as many.
    #[test]
    fn only_what_is_packed_like_events_is_unpacked_at_once() {
        let mut events = String::from(r#"{"batch":["#);
        for number in 0..100 {
            let (one, other) = (number * 7919, number * 104_729 % 65_537);
            write!(
                events,
                r#"{{"event":"e{other}","distinct_id":"d{one}","properties":{{"n":{other}}}}},"#
            )
            .unwrap();
        }
        assert_eq!(small(&gzip(&events)).unwrap().as_deref(), Some(events.as_bytes()));
        assert!(!is_costly(gzip(&events).len(), estimate(events.as_bytes())));
        let little = format!(r#"{{"event":"e"{}}}"#, " ".repeat(3_000));
        assert!(small(&gzip(&little)).unwrap().is_some());
        let compressed = format!(r#"{{"event":"e"{}}}"#, " ".repeat(60_000));
        assert!(small(&gzip(&compressed)).unwrap().is_none());
        let empty = format!("[{}{{}}]", "{},".repeat(10_000));
        assert!(is_costly(empty.len(), estimate(empty.as_bytes())));
        assert!(is_costly(empty.len() / 16, estimate(empty.as_bytes())));
        assert!(!is_costly(2, estimate(b"{}")));
    }
}
