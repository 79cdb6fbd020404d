//! A network between a server and its clients, which can swallow what is sent.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes everything on, until it is told to swallow it. Connections stay open then, and nobody is told: as when a firewall has
/// forgotten them, or a cable was pulled.
#[derive(Debug)]
pub struct Relay {
    pub address: SocketAddr,
    /// Connections that were there when this was sent last are silent; new ones are, too, while it is true.
    is_silent: Arc<watch::Sender<bool>>,
}

impl Relay {
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let is_silent = Arc::new(watch::Sender::new(false));
        let heard = is_silent.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let heard = heard.clone();
                tokio::spawn(async move {
                    if *heard.borrow() {
                        std::future::pending::<()>().await;
                    }
                    let Ok(server) = TcpStream::connect(target).await else {
                        return;
                    };
                    let (client, server) = (client.into_split(), server.into_split());
                    tokio::join!(
                        pass_on(client.0, server.1, heard.clone()),
                        pass_on(server.0, client.1, heard)
                    );
                });
            }
        });
        Self { address, is_silent }
    }

    /// From now on nothing comes through on the connections there are. New ones work.
    pub fn swallow(&self) {
        self.is_silent.send_replace(false);
    }

    /// From now on nothing comes through at all.
    pub fn swallow_all(&self) {
        self.is_silent.send_replace(true);
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut heard: watch::Receiver<bool>) {
    heard.mark_unchanged();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            biased;
            silenced = heard.changed() => {
                if silenced.is_ok() {
                    // Both ends stay open.
                    std::future::pending::<()>().await;
                }
                return;
            }
            read = from.read(&mut buffer) => match read {
                Ok(count) if count > 0 && to.write_all(&buffer[..count]).await.is_ok() => {}
                _ => return,
            }
        }
    }
}
