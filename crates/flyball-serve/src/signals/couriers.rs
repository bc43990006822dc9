//! Performs the deliveries of the policy beside everything else: nobody who waits for a decision waits for a webhook.
//! Several servers on one store share the errands; each is held by one at a time.

use crate::office::Shared;
use flyball_journal::{Courier, Delivered, Desk, ErrandState, Probe, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// How many deliver at the same time, so that one slow receiver does not keep the others waiting.
const COURIERS: usize = 4;
/// How many errands are performed before the next look at whether to go on.
const AT_ONCE: usize = 8;
/// How often the outbox is looked into, for tries whose time has come and for what others have decided.
const GLANCE: Duration = Duration::from_secs(1);

/// The shortest time between two looks, however much is decided.
const BREATH: Duration = Duration::from_millis(100);

/// Delivers for as long as the server runs; does nothing if the policy sends nothing anywhere.
pub(crate) fn deliver(office: &Shared) {
    let recorder = &office.recorder;
    let courier = Courier::new(Arc::clone(recorder.journal()), &recorder.policy().journal, Probe::default());
    if courier.is_idle() {
        return;
    }
    let courier = Arc::new(courier);
    for _ in 0..COURIERS {
        tokio::spawn(work(Arc::clone(office), Arc::clone(&courier)));
    }
}

async fn work(office: Shared, courier: Arc<Courier>) {
    let mut stirred = office.intake.watch();
    let mut closing = office.signals.closing();
    loop {
        let (own, desk) = (Arc::clone(&courier), Arc::clone(office.recorder.journal()));
        let told = tokio::task::spawn_blocking(move || some(&own, desk.as_ref())).await;
        let more = match told {
            Ok(Ok(told)) => {
                let meters = &office.signals.meters;
                meters.delivered.add(told.done);
                meters.deferred.add(told.again);
                meters.died.add(told.dead);
                told.done + told.again + told.dead > 0
            }
            Ok(Err(error)) => {
                office.signals.log.trouble("deliveries", error.trouble.as_str(), &error.what);
                false
            }
            Err(_) => false,
        };
        if *closing.borrow() {
            return;
        }
        if !more {
            tokio::time::sleep(BREATH).await;
            tokio::select! {
                _ = closing.changed() => {}
                _ = tokio::time::timeout(GLANCE, stirred.changed()) => {}
            }
        }
    }
}

/// Performs some errands. Taking one is a write, so first it is seen whether there is any.
fn some(courier: &Courier, desk: &dyn Desk) -> Result<Delivered, StoreError> {
    match desk.errand_count(ErrandState::Waiting)? {
        0 => Ok(Delivered::default()),
        _ => courier.deliver(AT_ONCE),
    }
}
