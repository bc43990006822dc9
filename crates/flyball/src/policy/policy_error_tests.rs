//! Tests of policy errors: code, position, message and help text.

use super::super::{PolicyErrors, PolicyFormat, Preset, parse, resolve};
use super::PolicyErrorCode::{self, Contradiction, Range, Rule, Type, UnknownGuard, UnknownKey, Version};

/// Policy text, code, line, column, part of the message, part of the help text.
type PolicyErrorCase = (&'static str, PolicyErrorCode, u32, u32, &'static str, &'static str);

#[rustfmt::skip]
const CASES: &[PolicyErrorCase] = &[
    ("version: 2", Version, 1, 1, "version 2", "version: 1"),
    ("budget: {}", UnknownKey, 1, 1, "unknown key 'budget'", "'budgets'"),
    ("budgets:\n  sesion: {}", UnknownKey, 2, 3, "'sesion' in budgets", "'session'"),
    ("budgets:\n  session:\n    max: 3", UnknownKey, 3, 5, "'max'", "runtime, wall, turns"),
    ("guards:\n  repetitions: {}", UnknownGuard, 2, 3, "unknown guard 'repetitions'", "'repetition'"),
    ("guards: {zzz: off}", UnknownGuard, 1, 10, "'zzz'", "repetition, cycle"),
    ("guards: {repetition: {limt: 3}}", UnknownKey, 1, 23, "'limt'", "'limit'"),
    ("guards: {repetition: {limit: many}}", Type, 1, 23, "\"many\"", "whole number, or off"),
    ("guards: {repetition: {limit: -1}}", Type, 1, 23, "-1", "whole number"),
    ("guards: {repetition: 5}", Type, 1, 10, "map of keys, not 5", "mode"),
    ("guards: {repetition: sometimes}", Type, 1, 10, "\"sometimes\"", "off, observe"),
    ("guards: {cycle: observ}", Type, 1, 10, "\"observ\"", "'observe'"),
    ("guards: off", Type, 1, 1, "'guards' must be a map", "preset: off"),
    ("guards: {cycle: {calls: {repeats: 1}}}", Range, 1, 26, "between 2 and 20", "2 to 20"),
    ("guards: {cycle: {transitions: {suffix_length: 11}}}", Range, 1, 32, "11", "2 to 10"),
    ("guards: {stall: {output: 1}}", Range, 1, 18, "between 2 and", "off"),
    ("guards: {gate: {dependencies: [a:b, b:c, c:a]}}", Contradiction, 1, 17, "depend on each other", "cycle"),
    ("guards: {gate: {dependencies: [a]}}", Type, 1, 17, "'a'", "lint:build"),
    ("budgets: {session: {runtime: soon}}", Type, 1, 21, "\"soon\"", "4h"),
    ("budgets: {session: {cost_usd: lots}}", Type, 1, 21, "\"lots\"", "dollars"),
    ("budgets: {session: {cost_usd: 9999999}}", Range, 1, 21, "dollars", "off"),
    ("budgets: {session: {runtime: 99999d}}", Range, 1, 21, "100 years", "shorter"),
    ("preset: agnet", Type, 1, 1, "\"agnet\"", "'agent'"),
    ("on_stall: stop", Type, 1, 1, "\"stop\"", "pause"),
    ("escalate: maybe", Type, 1, 1, "\"maybe\"", "true or false"),
    ("nodes: {test: {max_visits: 0}}", Range, 1, 16, "at least 1", "off"),
    ("nodes: {test: {maxvisits: 3}}", UnknownKey, 1, 16, "'maxvisits'", ""),
    ("nodes: {test: 3}", Type, 1, 9, "'nodes.test'", "keys"),
    ("nodes: {t: {allow_cycles: true, cycle: block}}", Contradiction, 1, 33, "allows cycles", "remove"),
    ("nodes: {t: {max_visits: 3, visits: {limit: 4}}}", Contradiction, 1, 37, "nodes.t.max_visits is 3 (line 1)", "keep one"),
    ("edges: {fix: {}}", Type, 1, 9, "not a valid edge", "from->to"),
    ("edges: {a->b->c: {}}", Type, 1, 9, "not a valid edge", "from->to"),
    ("tools: {bash: {effect: reed}}", Type, 1, 16, "\"reed\"", "'read'"),
    ("rules: {a: b}", Type, 1, 1, "must be a list", "name"),
    ("rules: [{name: a}]", Rule, 1, 9, "requires a condition", "when"),
    ("rules: [{when: 'true'}]", Rule, 1, 9, "requires a name", "name"),
    ("rules: [{name: a, when: 'event.'}]", Rule, 1, 19, "rule 'a'", "CEL"),
    ("rules: [{name: a, when: 'session.call > 1'}]", Rule, 1, 19, "session.call", "'session.calls'"),
    ("rules: [{name: a, when: 'tool == 1'}]", Rule, 1, 19, "unknown name 'tool'", "event"),
    ("rules: [{name: a, when: '1 + 1'}]", Rule, 1, 19, "not true or false", "compare"),
    ("rules: [{name: a, when: 'true', decision: stop}]", Rule, 1, 33, "\"stop\"", "halt"),
    ("rules: [{name: a, when: 'true'}, {name: a, when: 'true'}]", Rule, 1, 35, "two rules", "unique name"),
    ("rules: [{name: a, when: 'true', wen: 1}]", UnknownKey, 1, 33, "'wen'", "'when'"),
    ("loop_prevention: {enable: true}", UnknownKey, 1, 19, "'enable'", "'enabled'"),
    ("loop_prevention: {enabled: perhaps}", Type, 1, 19, "\"perhaps\"", "true or false"),
    ("loop_prevention: {cycle_detection_length: 1}", Range, 1, 19, "between 2 and 10, not 1", "2 to 10"),
    ("loop_prevention: {cycle_detection_length: 0}", Range, 1, 19, "between 2 and 10", "cycle_detection_enabled"),
    ("loop_prevention: {max_visits_default: 0}", Range, 1, 19, "at least 1", "off"),
    ("phases: [{name: test, max_visits: 0}]", Range, 1, 23, "at least 1", "off"),
    ("phases: [{max_visits: 2}]", Type, 1, 10, "requires a name", "name"),
    ("phases: [{name: a, visits: 2}]", UnknownKey, 1, 20, "'visits'", ""),
    ("resilience: {max_runtim: 4h}", UnknownKey, 1, 14, "'max_runtim'", "'max_runtime'"),
    ("resilience: {max_runtime: x}", Type, 1, 14, "\"x\"", "4h"),
    ("loop_policy: {turn_timeout_ms: 5}", UnknownKey, 1, 15, "'turn_timeout_ms'", "'turnTimeoutMs'"),
    ("resilience: {max_runtime: 2h}\nbudgets: {session: {runtime: 3h}}", Contradiction, 1, 14, "budgets.session.runtime is \"3h\" (line 2), but resilience.max_runtime is \"2h\"", "keep one"),
];

fn errors_of(text: &str) -> PolicyErrors {
    let layer = parse(text, PolicyFormat::Yaml, "flyball.yaml").unwrap_or_else(|errors| panic!("{errors}"));
    match resolve(&[layer], Preset::Workflow) {
        Ok(_) => panic!("accepted: {text}"),
        Err(errors) => errors,
    }
}

#[test]
fn policy_errors_report_code_position_and_help() {
    for (text, code, line, column, what, help) in CASES {
        let errors = errors_of(text);
        let error = errors.iter().next().unwrap();
        assert_eq!(error.code, *code, "{text}: {error}");
        assert_eq!((error.line, error.column), (Some(*line), Some(*column)), "{text}: {error}");
        assert!(error.message.contains(what), "{text}: {error}");
        assert!(error.help.contains(help), "{text}: {error}");
        assert_eq!(errors.len(), 1, "{text}: {errors}");
        assert_eq!(error.file, "flyball.yaml");
    }
}
