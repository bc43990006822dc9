//! Tests that the test runners' summary lines are counted correctly.

use super::{TestTally, count_results};
use crate::command::CommandResult;

#[test]
fn summaries_of_both_runners_are_counted() {
    let cases = [
        ("     Summary [   1.234s] 123 tests run: 123 passed, 1 skipped", (123, 0)),
        ("     Summary [   0.5s] 9 tests run: 6 passed (1 slow), 2 failed, 1 timed out, 0 skipped", (6, 3)),
        (
            "test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s",
            (4, 0),
        ),
        ("test result: ok. 4 passed; 0 failed;\ntest result: FAILED. 2 passed; 3 failed; 0 ignored", (6, 3)),
        (
            "    test result: FAILED. 0 passed; 1 failed; 0 ignored\n     Summary [   0.1s] 9 tests run: 8 passed, 1 failed",
            (8, 1),
        ),
        ("    test result: FAILED. 0 passed; 1 failed; shown by a test about tests", (0, 0)),
        ("test a_thing_that_1 passed ... ok\n7 passed, said a test", (0, 0)),
        ("", (0, 0)),
    ];
    for (output, wanted) in cases {
        assert_eq!(count_results(output), wanted, "{output}");
    }
}

#[test]
fn runner_without_counts_is_a_failure() {
    let cases = [
        (false, "error: could not compile", 1),
        (true, "", 1),
        (false, "test result: ok. 3 passed; 0 failed", 1),
        (false, "test result: FAILED. 3 passed; 2 failed", 2),
        (true, "test result: ok. 3 passed; 0 failed", 0),
    ];
    for (ok, output, failed) in cases {
        let mut tally = TestTally::default();
        tally.add_test_run("x", Ok(CommandResult { ok, output: output.to_owned() }));
        assert_eq!(tally.failed, failed, "{ok} {output}");
    }
}
