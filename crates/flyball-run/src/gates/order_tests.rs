//! Tests of the order of gates and of what is wrong with sets that have none.

use super::{depend, ordered, validate};
use crate::gates::gate::Gate;
use flyball_checks::CheckKind;

fn gate(name: &str, needs: &[&str]) -> Gate {
    let mut gate = Gate::new(name, CheckKind::Custom, &["true"]);
    gate.needs = needs.iter().map(|need| (*need).to_owned()).collect();
    gate
}

fn names(gates: &[Gate]) -> Vec<String> {
    ordered(gates).expect("an order").iter().map(|gate| gate.name.clone()).collect()
}

#[test]
fn what_is_needed_comes_first_and_the_rest_stays() {
    let gates =
        [gate("lint", &["build"]), gate("docs", &[]), gate("tests", &["lint", "build"]), gate("build", &[])];
    assert_eq!(names(&gates), ["docs", "build", "lint", "tests"]);
}

#[test]
fn sets_that_cannot_run_are_refused_with_a_code() {
    let code = |gates: &[Gate]| validate(gates).expect_err("refused").code;
    assert_eq!(code(&[gate("a", &["b"]), gate("b", &["a"])]), "gate_cycle");
    assert_eq!(code(&[gate("a", &["a"])]), "gate_cycle");
    assert_eq!(code(&[gate("a", &["x"])]), "gate_unknown_need");
    assert_eq!(code(&[gate("a", &[]), gate("a", &[])]), "gate_duplicate");
    assert_eq!(code(&[gate(" ", &[])]), "gate_no_name");
    assert_eq!(code(&[Gate::new("a", CheckKind::Custom, &[])]), "gate_no_command");
    assert_eq!(code(&[Gate::new("a", CheckKind::Custom, &[" "])]), "gate_no_command");
    validate(&[Gate::skipped("a", CheckKind::Tests, "why")]).expect("a gate that is off needs no command");
    let said = validate(&[gate("a", &["x"]), gate("b", &[])]).expect_err("refused");
    assert_eq!(
        said.to_string(),
        "gate 'a' needs 'x', which is not there [gate_unknown_need]: the gates are: a, b"
    );
}

#[test]
fn the_dependencies_of_a_policy_become_needs() {
    let mut gates = [
        Gate::new("rust build", CheckKind::Build, &["x"]),
        Gate::new("go build", CheckKind::Build, &["x"]),
        Gate::new("lint", CheckKind::Lint, &["x"]).needs("go build"),
    ];
    let pairs = [("lint", "build"), ("lint", "nothing"), ("absent", "build"), ("build", "build")];
    depend(&mut gates, &pairs.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(gates[2].needs, ["go build", "rust build"]);
}
