//! Events of a working agent: calls and results with ids, all different.

use flyball_store::Submission;

/// Milliseconds between two events, so that a session of fifty thousand events stays within its runtime budget.
const EVENT_GAP_MS: u64 = 250;

/// The line of event `number` of a session.
pub(crate) fn line(session: &str, number: u64) -> String {
    let (call, at) = (number / 2, 1_763_200_000_000 + number * EVENT_GAP_MS);
    if number.is_multiple_of(2) {
        format!(
            r#"{{"type":"tool.requested","session":"{session}","id":"e{number}","at":{at},"round":{call},"call":"c{call}","tool":"bash","args":{{"command":"python -m pytest -q tests/test_invoice_{call}.py -k rounding","timeout_ms":120000}}}}"#
        )
    } else {
        format!(
            r#"{{"type":"tool.finished","session":"{session}","id":"e{number}","at":{at},"call":"c{call}","ok":true,"duration_ms":184,"output":"collected 12 items\n\ntests/test_invoice_{call}.py ........F...\n\nE       AssertionError: assert Decimal('{call}.13') == Decimal('{call}.12')\n\ntests/test_invoice_{call}.py:41: AssertionError\n1 failed, 11 passed in 0.18s"}}"#
        )
    }
}

/// The same event, parsed.
pub(crate) fn event(session: &str, number: u64) -> crate::BenchResult<Submission> {
    Ok(Submission::parse(line(session, number), None).map_err(|error| error.message)?)
}
