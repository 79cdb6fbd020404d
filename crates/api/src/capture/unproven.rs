//! Bodies that are held before it is known whose they are, by neighborhood. They share what memory there is for them: where it is
//! full, whoever has most of it loses a body to who has less. Senders without a token are many, and may be one.

use std::collections::HashMap;
use std::net::IpAddr;

use service::sign_in::neighborhood;
use tokio::sync::oneshot;

#[derive(Debug, Default)]
pub(super) struct Bodies {
    neighborhoods: HashMap<IpAddr, Neighborhood>,
    added: u64,
}

/// Where one of them is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    neighborhood: IpAddr,
    number: u64,
}

#[derive(Debug, Default)]
struct Neighborhood {
    bytes: usize,
    bodies: HashMap<u64, Body>,
}

#[derive(Debug)]
struct Body {
    network: IpAddr,
    bytes: usize,
    end: oneshot::Sender<()>,
}

impl Bodies {
    /// One that has no bytes yet, and is told by `end` if it has to make room.
    pub(super) fn add(&mut self, network: IpAddr, end: oneshot::Sender<()>) -> Place {
        self.added += 1;
        let place = Place {
            neighborhood: neighborhood(network),
            number: self.added,
        };
        let bodies = &mut self.neighborhoods.entry(place.neighborhood).or_default().bodies;
        bodies.insert(place.number, Body { network, bytes: 0, end });
        place
    }

    /// Whether it did not have to make room.
    pub(super) fn has(&self, place: Place) -> bool {
        let neighborhood = self.neighborhoods.get(&place.neighborhood);
        neighborhood.is_some_and(|neighborhood| neighborhood.bodies.contains_key(&place.number))
    }

    pub(super) fn of_neighborhood(&self, place: Place) -> usize {
        self.neighborhoods.get(&place.neighborhood).map_or(0, |all| all.bytes)
    }

    /// Counts it as one of so many bytes, if it is still there.
    pub(super) fn resize(&mut self, place: Place, bytes: usize) -> bool {
        let Some(neighborhood) = self.neighborhoods.get_mut(&place.neighborhood) else {
            return false;
        };
        let Some(body) = neighborhood.bodies.get_mut(&place.number) else {
            return false;
        };
        neighborhood.bytes = neighborhood.bytes + bytes - body.bytes;
        body.bytes = bytes;
        true
    }

    pub(super) fn remove(&mut self, place: Option<Place>) {
        if let Some(place) = place {
            self.take(place);
        }
    }

    fn take(&mut self, place: Place) -> Option<Body> {
        let neighborhood = self.neighborhoods.get_mut(&place.neighborhood)?;
        let body = neighborhood.bodies.remove(&place.number)?;
        neighborhood.bytes -= body.bytes;
        if neighborhood.bodies.is_empty() {
            self.neighborhoods.remove(&place.neighborhood);
        }
        Some(body)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.neighborhoods.is_empty()
    }

    /// Ends the largest body of the neighborhood that has most, if it has more than this one's would with so many bytes more.
    /// Says whose it was, and how large.
    pub(super) fn end_any(&mut self, place: Place, bytes: usize) -> Option<(IpAddr, usize)> {
        let (most, largest) = self.neighborhoods.iter().max_by_key(|(_, all)| all.bytes)?;
        if *most == place.neighborhood {
            return self.end_neighbor(place, bytes);
        }
        if largest.bytes <= self.of_neighborhood(place) + bytes {
            return None;
        }
        let (network, _) = largest.largest_network()?;
        self.end_largest_of(*most, network)
    }

    /// The same among the networks of this one's neighborhood.
    pub(super) fn end_neighbor(&mut self, place: Place, bytes: usize) -> Option<(IpAddr, usize)> {
        let all = self.neighborhoods.get(&place.neighborhood)?;
        let mine = all.of_network(all.bodies.get(&place.number)?.network);
        let (network, held) = all.largest_network()?;
        (held > mine + bytes).then(|| self.end_largest_of(place.neighborhood, network))?
    }

    fn end_largest_of(&mut self, neighborhood: IpAddr, network: IpAddr) -> Option<(IpAddr, usize)> {
        let bodies = self.neighborhoods.get(&neighborhood)?.bodies.iter();
        let largest = bodies
            .filter(|(_, body)| body.network == network)
            .max_by_key(|(_, body)| body.bytes);
        let number = *largest?.0;
        let body = self.take(Place { neighborhood, number })?;
        // Whoever does not listen has gone.
        let _ = body.end.send(());
        Some((network, body.bytes))
    }
}

impl Neighborhood {
    fn of_network(&self, network: IpAddr) -> usize {
        let bodies = self.bodies.values().filter(|body| body.network == network);
        bodies.map(|body| body.bytes).sum()
    }

    fn largest_network(&self) -> Option<(IpAddr, usize)> {
        let mut networks: HashMap<IpAddr, usize> = HashMap::new();
        for body in self.bodies.values() {
            *networks.entry(body.network).or_default() += body.bytes;
        }
        networks.into_iter().max_by_key(|(_, bytes)| *bytes)
    }
}
