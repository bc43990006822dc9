//! Panic hook that reports the location of a panic but not its message.
//!
//! A panic message may quote the text being processed, which may contain secrets.

use std::io::Write;
use std::panic::PanicHookInfo;

/// Installs a panic hook that prints only the location.
pub(crate) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        // A closed stderr leaves nowhere to report to.
        let _ = writeln!(std::io::stderr(), "{}", panic_text(panic));
    }));
}

fn panic_text(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map_or_else(|| "an unknown location".to_owned(), ToString::to_string);
    format!(
        "error[internal]: Flyball {} failed at {place}; the panic message is withheld, because it may quote \
         session data\n  \
         help: please report this line; acknowledged events are saved",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CHILD_VARIABLE: &str = "FLYBALL_TEST_PANIC";

    #[test]
    fn panic_message_contains_the_location_and_not_the_payload() {
        if let Ok(secret) = std::env::var(CHILD_VARIABLE) {
            install_panic_hook();
            // Splitting inside a character panics with a message that quotes the whole text.
            let text = format!("é{secret}");
            let cut = std::thread::spawn(move || text.split_at(1).0.len());
            assert!(cut.join().is_err());
            return;
        }
        let own = std::env::current_exe().unwrap();
        let child = Command::new(own)
            .args([
                "--exact",
                "crash::tests::panic_message_contains_the_location_and_not_the_payload",
                "--nocapture",
            ])
            .env(CHILD_VARIABLE, "sk-live-canary")
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&child.stderr).into_owned() + &String::from_utf8_lossy(&child.stdout);
        assert!(said.contains("error[internal]") && said.contains("failed at "), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
}
