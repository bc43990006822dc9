//! Large outputs that sessions left behind are removed while the server runs.

use crate::office::Shared;
use std::time::{Duration, UNIX_EPOCH};

/// How often it is looked for them.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Removes them for as long as the server runs.
pub(crate) async fn sweep_orphans(office: Shared) {
    loop {
        let sweeper = Shared::clone(&office);
        let now = UNIX_EPOCH + Duration::from_millis(office.now());
        let swept = tokio::task::spawn_blocking(move || sweeper.recorder.outputs().sweep(now)).await;
        if let Ok(Err(error)) = swept {
            office.signals.log.trouble("outputs", "output_sweep", &error.to_string());
        }
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
}
