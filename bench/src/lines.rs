//! The lines that every mode works on: a request with about 200 bytes of arguments, and a result of about 1 KB that
//! looks like what a test runner prints. Each pair differs from all others in its arguments and in its result.

use serde_json::json;

/// How many pairs are made beforehand, whatever the number that is used, so that preparation costs the same.
pub(crate) const PREPARED: usize = 2_000;

/// Milliseconds between two events: ten thousand of them stay far below every limit on time.
const GAP_MS: usize = 100;

/// The two lines of one call. `number` is unique in the session; `asked` decides what is asked, `told` the answer.
pub(crate) fn pair(number: usize, asked: usize, told: usize) -> [String; 2] {
    let at = 1_763_200_000_000 + 2 * number * GAP_MS;
    let requested = json!({
        "type": "tool.requested", "session": "bench", "at": at, "node": "coder", "round": number,
        "call": format!("call_{number:08}"), "tool": "bash",
        "args": {
            "command": format!(
                "cd services/billing && python -m pytest -q tests/test_invoice_{asked}.py -k 'rounding or tax' --maxfail=5"
            ),
            "description": "Run the invoice tests after the change to rounding",
            "timeout_ms": 120_000,
        },
    });
    let finished = json!({
        "type": "tool.finished", "session": "bench", "at": at + GAP_MS, "node": "coder", "round": number,
        "call": format!("call_{number:08}"), "ok": true, "output": output(told), "duration_ms": 1_840,
    });
    [requested.to_string(), finished.to_string()]
}

/// What a test runner prints: paths, line numbers, counts, a time stamp, a duration.
fn output(content: usize) -> String {
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
#[path = "lines_tests.rs"]
mod tests;
