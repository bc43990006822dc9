//! A stalled reader is disconnected; a slow one is not.

use super::WriteTimeoutStream;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn stalled_reader_is_disconnected() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(16);
        let mut ours = WriteTimeoutStream::new(ours, Duration::from_millis(50));
        let error = ours.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(theirs);
    });
}

#[test]
fn slow_reader_is_served() {
    // Longer than one chunk takes, shorter than all of them take.
    let timeout = Duration::from_millis(500);
    run(async move {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut ours = WriteTimeoutStream::new(ours, timeout);
        let slow = async {
            let mut got = Vec::new();
            for _ in 0..8 {
                tokio::time::sleep(timeout / 5).await;
                let mut some = [0; 16];
                let count = theirs.read(&mut some).await.unwrap();
                got.extend_from_slice(&some[..count]);
            }
            got.len()
        };
        let (written, got) = tokio::join!(ours.write_all(&[7; 128]), slow);
        written.unwrap();
        assert_eq!(got, 128, "the total time may exceed the timeout");
    });
}
