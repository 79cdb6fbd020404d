//! Bodies that share memory, by whose they are. Where it is full, whoever holds most loses the body that has been there for
//! longest to somebody who holds less: those who send bodies that never end are many, or seem to be.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;

use tokio::sync::oneshot;

/// `W` says whose they are.
#[derive(Debug)]
pub(crate) struct Bodies<W> {
    holders: HashMap<W, Usage>,
    bytes: usize,
}

/// Where one of them is. Those with lower numbers were there before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyRef<W> {
    pub(crate) whose: W,
    pub(crate) network: IpAddr,
    pub(crate) number: u64,
}

#[derive(Debug, Default)]
struct Usage {
    bytes: usize,
    bodies: BTreeMap<u64, Body>,
}

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) network: IpAddr,
    pub(crate) bytes: usize,
    /// Told if it has to make room. None: it is there as a whole, and stays.
    pub(crate) end: Option<End>,
}

pub(crate) type End = oneshot::Sender<()>;

impl<W> Default for Bodies<W> {
    fn default() -> Self {
        Self {
            holders: HashMap::new(),
            bytes: 0,
        }
    }
}

impl<W: Copy + Eq + Hash> Bodies<W> {
    pub(crate) fn add(&mut self, body_ref: BodyRef<W>, bytes: usize, end: Option<End>) {
        let holder = self.holders.entry(body_ref.whose).or_default();
        let network = body_ref.network;
        holder.bodies.insert(body_ref.number, Body { network, bytes, end });
        holder.bytes += bytes;
        self.bytes += bytes;
    }

    pub(crate) fn remove(&mut self, body_ref: BodyRef<W>) -> Option<Body> {
        let holder = self.holders.get_mut(&body_ref.whose)?;
        let body = holder.bodies.remove(&body_ref.number)?;
        holder.bytes -= body.bytes;
        self.bytes -= body.bytes;
        if holder.bodies.is_empty() {
            self.holders.remove(&body_ref.whose);
        }
        Some(body)
    }

    /// Whether it did not have to make room.
    pub(crate) fn has(&self, body_ref: BodyRef<W>) -> bool {
        let holder = self.holders.get(&body_ref.whose);
        holder.is_some_and(|holder| holder.bodies.contains_key(&body_ref.number))
    }

    /// Counts it as one of so many bytes, if it is still there.
    pub(crate) fn resize(&mut self, body_ref: BodyRef<W>, bytes: usize) -> bool {
        let body = self.remove(body_ref);
        let is_there = body.is_some();
        if let Some(body) = body {
            self.add(body_ref, bytes, body.end);
        }
        is_there
    }

    /// Whom to tell from now on, if it is there.
    pub(crate) fn set_end(&mut self, body_ref: BodyRef<W>, end: Option<End>) {
        let holder = self.holders.get_mut(&body_ref.whose);
        if let Some(body) = holder.and_then(|holder| holder.bodies.get_mut(&body_ref.number)) {
            body.end = end;
        }
    }

    /// How much all have.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn bytes_of(&self, whose: W) -> usize {
        self.holders.get(&whose).map_or(0, |holder| holder.bytes)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.bytes == 0
    }

    /// Cancels a body of the largest holder, if it holds more than this one would with `bytes` more.
    pub(crate) fn end_any(&mut self, body_ref: BodyRef<W>, bytes: usize) -> Option<Body> {
        let holders = self.holders.iter().filter(|(_, holder)| holder.may_lose());
        let (&whose, most) = holders.max_by_key(|(_, holder)| holder.bytes)?;
        if whose == body_ref.whose {
            return self.end_beside(body_ref, bytes);
        }
        if most.bytes <= self.bytes_of(body_ref.whose) + bytes {
            return None;
        }
        let (network, _) = most.largest_network()?;
        self.end_oldest(BodyRef {
            whose,
            network,
            ..body_ref
        })
    }

    /// The same among the networks of whoever has this body.
    pub(crate) fn end_beside(&mut self, body_ref: BodyRef<W>, bytes: usize) -> Option<Body> {
        let holder = self.holders.get(&body_ref.whose)?;
        let mine = holder.of_networks().remove(&body_ref.network).unwrap_or_default();
        let (network, most) = holder.largest_network()?;
        (most > mine + bytes).then(|| self.end_oldest(BodyRef { network, ..body_ref }))?
    }

    /// Ends the one that has been there for longest, of the same holder and network as this body.
    pub(crate) fn end_oldest(&mut self, body_ref: BodyRef<W>) -> Option<Body> {
        let bodies = &self.holders.get(&body_ref.whose)?.bodies;
        let mut those = bodies.iter().filter(|(_, body)| body.network == body_ref.network);
        let (&number, _) = those.find(|(_, body)| body.end.is_some())?;
        let mut body = self.remove(BodyRef { number, ..body_ref })?;
        if let Some(end) = body.end.take() {
            // Whoever does not listen has gone.
            let _ = end.send(());
        }
        Some(body)
    }
}

impl Usage {
    fn may_lose(&self) -> bool {
        self.bodies.values().any(|body| body.end.is_some())
    }

    /// What networks hold that may lose some of it.
    fn of_networks(&self) -> HashMap<IpAddr, usize> {
        let mut networks = HashMap::new();
        for body in self.bodies.values().filter(|body| body.end.is_some()) {
            *networks.entry(body.network).or_default() += body.bytes;
        }
        networks
    }

    fn largest_network(&self) -> Option<(IpAddr, usize)> {
        self.of_networks().into_iter().max_by_key(|(_, bytes)| *bytes)
    }
}
