//! Tests of the requirements on recorded runs.

use super::score_errors;

const GOOD_SCORES: &str = r#"[{"source": "sweagent", "runs": 40, "loops": 19.0, "stopped": 19.0, "saved": 136.0, "false_hard": 0.0, "judged_loop_hard": 6.0}, {"source": "tau2", "loops": 2.0, "stopped": 2.0}]"#;

#[test]
fn good_scores_pass_and_each_bad_one_is_reported() {
    assert_eq!(score_errors(GOOD_SCORES), Vec::<String>::new());
    let cases = [
        ("\"false_hard\": 0.0", "\"false_hard\": 1.0", "sweagent: 1 good runs stopped"),
        ("\"stopped\": 19.0", "\"stopped\": 18.0", "sweagent: 18 of 19 exact loops stopped"),
        ("\"saved\": 136.0", "\"saved\": 134.0", "sweagent: saved is 134, it was 135"),
        ("\"judged_loop_hard\": 6.0", "\"x\": 6.0", "sweagent: judged_loop_hard is 0, it was 6"),
        ("tau2", "tau3", "tau2: missing"),
    ];
    for (from, to, wanted) in cases {
        assert_eq!(score_errors(&GOOD_SCORES.replace(from, to)), [wanted]);
    }
    assert!(!score_errors("[]").is_empty());
}
