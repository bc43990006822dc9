//! Prepared event lines of all modes: a request with about 200 bytes of arguments, and a result of about 1 KB that
//! resembles test output. Arguments and result differ in every pair.

use serde_json::json;

/// Number of prepared pairs, independent of the number used, so that preparation costs the same.
pub(crate) const PREPARED_PAIRS: usize = 2_000;

/// Milliseconds between two events, so that ten thousand of them stay far below every time limit.
const GAP_MS: usize = 100;

/// The two lines of one call. `number` is unique in the session; `args` selects the arguments, `output` the result.
pub(crate) fn call_pair(number: usize, args: usize, output: usize) -> [String; 2] {
    let at = 1_763_200_000_000 + 2 * number * GAP_MS;
    let requested = json!({
        "type": "tool.requested", "session": "bench", "at": at, "node": "coder", "round": number,
        "call": format!("call_{number:08}"), "tool": "bash",
        "args": {
            "command": format!(
                "cd services/billing && python -m pytest -q tests/test_invoice_{args}.py -k 'rounding or tax' --maxfail=5"
            ),
            "description": "Run the invoice tests after the change to rounding",
            "timeout_ms": 120_000,
        },
    });
    let finished = json!({
        "type": "tool.finished", "session": "bench", "at": at + GAP_MS, "node": "coder", "round": number,
        "call": format!("call_{number:08}"), "ok": true, "output": test_output(output), "duration_ms": 1_840,
    });
    [requested.to_string(), finished.to_string()]
}

/// Text that resembles test output: paths, line numbers, counts, a timestamp, a duration.
fn test_output(content: usize) -> String {
    let (line, got, passed) = (content % 400 + 12, content * 7 % 1_000, content % 90 + 3);
    let millis = content * 37 % 1_000;
    format!(
        "============================= test session starts ==============================
platform linux -- Python 3.12.4, pytest-8.2.2, pluggy-1.5.0
rootdir: /srv/app/services/billing, configfile: pyproject.toml
collected {collected} items

tests/test_invoice_{content}.py ...........F......                       [ 62%]
tests/test_tax.py ...........                                            [100%]

=================================== FAILURES ===================================
____________________________ test_rounding_half_even ____________________________

    def test_rounding_half_even():
>       assert round_cents(Decimal(\"{got}.125\")) == Decimal(\"{got}.12\")
E       AssertionError: assert Decimal('{got}.13') == Decimal('{got}.12')

tests/test_invoice_{content}.py:{line}: AssertionError
2026-11-15T12:07:07.{millis:03}Z WARNING billing.rates: table rates_{content} is older than 30 days
=========================== short test summary info ============================
FAILED tests/test_invoice_{content}.py::test_rounding_half_even
1 failed, {passed} passed in 1.{millis:03}s
",
        collected = passed + 1,
    )
}

#[cfg(test)]
#[path = "event_lines_tests.rs"]
mod tests;
