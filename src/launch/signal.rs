//! The signals that shut a server down.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

/// Resolves when the process gets SIGTERM, SIGINT or SIGHUP.
///
/// Signals are handled from the call on, not from the first poll, so that a signal does not kill a server that is still
/// starting. Must be called inside a tokio runtime.
pub fn shutdown_signal() -> impl Future<Output = ()> + Send + 'static {
    let listen = |kind| {
        let signals = signal(kind);
        async move {
            match signals {
                Ok(mut signals) => drop(signals.recv().await),
                Err(error) => {
                    tracing::error!(%error, "cannot receive signals; the process will not shut down gracefully");
                    std::future::pending().await
                }
            }
        }
    };
    let (terminate, interrupt) = (listen(SignalKind::terminate()), listen(SignalKind::interrupt()));
    // Sent when a terminal closes. Without this it would kill the process and leave the commands of agents behind.
    let hangup = listen(SignalKind::hangup());
    async move {
        tokio::select! {
            () = terminate => {}
            () = interrupt => {}
            () = hangup => {}
        }
    }
}
