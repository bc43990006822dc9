//! Who takes nothing is hung up on; who takes a little now and then is not.

use super::Patient;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn run<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what)
}

#[test]
fn who_takes_nothing_is_hung_up_on() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(16);
        let mut ours = Patient::new(ours, Duration::from_millis(50));
        let error = ours.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(theirs);
    });
}

#[test]
fn who_takes_is_served_however_long_it_takes() {
    // Long beside one piece, short beside all of them.
    let patience = Duration::from_millis(500);
    run(async move {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut ours = Patient::new(ours, patience);
        let slow = async {
            let mut got = Vec::new();
            for _ in 0..8 {
                tokio::time::sleep(patience / 5).await;
                let mut some = [0; 16];
                let count = theirs.read(&mut some).await.unwrap();
                got.extend_from_slice(&some[..count]);
            }
            got.len()
        };
        let (written, got) = tokio::join!(ours.write_all(&[7; 128]), slow);
        written.unwrap();
        assert_eq!(got, 128, "in all it took longer than the patience for one piece");
    });
}
