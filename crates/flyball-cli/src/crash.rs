//! If Flyball itself fails: where, and never what was in memory at the time.
//!
//! The message of a panic may quote the text that was being worked on, and that may hold anything.

use std::io::Write;
use std::panic::PanicHookInfo;

/// From now on a panic tells its place only.
pub(crate) fn tell_places_only() {
    std::panic::set_hook(Box::new(|panic| {
        // If stderr is gone there is nobody left to tell.
        let _ = writeln!(std::io::stderr(), "{}", told(panic));
    }));
}

fn told(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    format!(
        "error[internal]: Flyball {} has failed at {place}; what it was working on is not shown\n  \
         help: please report this line; what was acknowledged is on the disk",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CHILD: &str = "FLYBALL_TEST_PANIC";

    #[test]
    fn a_panic_tells_where_and_not_what() {
        if let Ok(secret) = std::env::var(CHILD) {
            tell_places_only();
            // A cut in the middle of a letter quotes the whole text.
            let text = format!("é{secret}");
            let cut = std::thread::spawn(move || text.split_at(1).0.len());
            assert!(cut.join().is_err());
            return;
        }
        let own = std::env::current_exe().unwrap();
        let child = Command::new(own)
            .args(["--exact", "crash::tests::a_panic_tells_where_and_not_what", "--nocapture"])
            .env(CHILD, "sk-live-canary")
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&child.stderr).into_owned() + &String::from_utf8_lossy(&child.stdout);
        assert!(said.contains("error[internal]") && said.contains("has failed at "), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
}
