//! Tests of gate order and validation.

use super::{add_dependencies, topological_order, validate};
use crate::gates::gate::QualityGate;
use flyball_checks::CheckKind;

fn gate(name: &str, needs: &[&str]) -> QualityGate {
    let mut gate = QualityGate::new(name, CheckKind::Custom, &["true"]);
    gate.needs = needs.iter().map(|need| (*need).to_owned()).collect();
    gate
}

fn names(gates: &[QualityGate]) -> Vec<String> {
    topological_order(gates).expect("an order").iter().map(|gate| gate.name.clone()).collect()
}

#[test]
fn dependencies_come_first_and_order_is_stable() {
    let gates =
        [gate("lint", &["build"]), gate("docs", &[]), gate("tests", &["lint", "build"]), gate("build", &[])];
    assert_eq!(names(&gates), ["docs", "build", "lint", "tests"]);
}

#[test]
fn invalid_gate_sets_are_rejected_with_a_code() {
    let code = |gates: &[QualityGate]| validate(gates).expect_err("refused").code;
    assert_eq!(code(&[gate("a", &["b"]), gate("b", &["a"])]), "gate_cycle");
    assert_eq!(code(&[gate("a", &["a"])]), "gate_cycle");
    assert_eq!(code(&[gate("a", &["x"])]), "gate_unknown_need");
    assert_eq!(code(&[gate("a", &[]), gate("a", &[])]), "gate_duplicate");
    assert_eq!(code(&[gate(" ", &[])]), "gate_no_name");
    assert_eq!(code(&[QualityGate::new("a", CheckKind::Custom, &[])]), "gate_no_command");
    assert_eq!(code(&[QualityGate::new("a", CheckKind::Custom, &[" "])]), "gate_no_command");
    validate(&[QualityGate::skipped("a", CheckKind::Tests, "why")]).expect("a skipped gate needs no command");
    let said = validate(&[gate("a", &["x"]), gate("b", &[])]).expect_err("refused");
    assert_eq!(said.to_string(), "gate 'a' needs unknown gate 'x' [gate_unknown_need]: known gates: a, b");
}

#[test]
fn policy_dependencies_become_needs() {
    let mut gates = [
        QualityGate::new("rust build", CheckKind::Build, &["x"]),
        QualityGate::new("go build", CheckKind::Build, &["x"]),
        QualityGate::new("lint", CheckKind::Lint, &["x"]).needs("go build"),
    ];
    let pairs = [("lint", "build"), ("lint", "nothing"), ("absent", "build"), ("build", "build")];
    add_dependencies(&mut gates, &pairs.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(gates[2].needs, ["go build", "rust build"]);
}
