//! Periodic removal of large outputs whose sessions are gone.

use crate::app_state::SharedState;
use std::time::{Duration, UNIX_EPOCH};

/// Interval between cleanups.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Removes orphaned outputs for as long as the server runs.
pub(crate) async fn remove_orphans_forever(app: SharedState) {
    loop {
        let state = SharedState::clone(&app);
        let now = UNIX_EPOCH + Duration::from_millis(app.now());
        let removed = tokio::task::spawn_blocking(move || state.recorder.outputs().remove_orphans(now)).await;
        if let Ok(Err(error)) = removed {
            app.telemetry.log.error("outputs", "output_sweep", &error.to_string());
        }
        tokio::time::sleep(CLEANUP_INTERVAL).await;
    }
}
