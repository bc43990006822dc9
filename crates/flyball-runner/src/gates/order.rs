//! Execution order of gates, and validation of a set of gates.

use super::gate::QualityGate;
use super::gate_error::GateError;
use std::collections::BTreeSet;

/// Validates a set of gates: unique names, commands present, dependencies known and acyclic.
///
/// # Errors
/// `gate_no_name`, `gate_duplicate`, `gate_no_command`, `gate_unknown_need` or `gate_cycle`.
pub fn validate(gates: &[QualityGate]) -> Result<(), GateError> {
    let mut names = BTreeSet::new();
    for gate in gates {
        let name = &gate.name;
        if name.trim().is_empty() {
            return Err(GateError::new("gate_no_name", "a gate has no name", "add `name`"));
        }
        if !names.insert(name.as_str()) {
            let what = format!("two gates are named '{name}'");
            return Err(GateError::new("gate_duplicate", what, "give each gate a unique name"));
        }
        let works = gate.skip.is_some() || gate.checklist.is_some();
        if !works && gate.argv.first().is_none_or(|program| program.trim().is_empty()) {
            let what = format!("gate '{name}' has no command");
            return Err(GateError::new(
                "gate_no_command",
                what,
                "add `argv` or `checklist`, or set `skip` to the reason why it is disabled",
            ));
        }
    }
    for gate in gates {
        if let Some(need) = gate.needs.iter().find(|need| !names.contains(need.as_str())) {
            let known: Vec<&str> = names.iter().copied().collect();
            let what = format!("gate '{}' needs unknown gate '{need}'", gate.name);
            let hint = format!("known gates: {}", known.join(", "));
            return Err(GateError::new("gate_unknown_need", what, hint));
        }
    }
    topological_order(gates).map(|_| ())
}

/// Topological order of the gates; otherwise keeps their order.
pub(crate) fn topological_order(gates: &[QualityGate]) -> Result<Vec<&QualityGate>, GateError> {
    let mut left: Vec<&QualityGate> = gates.iter().collect();
    let mut done: Vec<&QualityGate> = Vec::with_capacity(gates.len());
    while !left.is_empty() {
        let is_ready =
            |gate: &&QualityGate| gate.needs.iter().all(|need| done.iter().any(|other| other.name == *need));
        let Some(at) = left.iter().position(is_ready) else {
            let names: Vec<&str> = left.iter().map(|gate| gate.name.as_str()).collect();
            let what = format!("gates depend on each other in a cycle: {}", names.join(", "));
            return Err(GateError::new("gate_cycle", what, "remove one of the `needs`"));
        };
        done.push(left.remove(at));
    }
    Ok(done)
}

/// Adds the policy's `dependencies` (`lint:build`) to the gates' needs. Each side is the name of a gate or of a check.
/// Unknown names are ignored, because a policy serves many workspaces.
pub fn add_dependencies(gates: &mut [QualityGate], dependencies: &[(String, String)]) {
    for (one, on) in dependencies {
        let named = |gate: &QualityGate, name: &str| gate.name == *name || gate.check == *name;
        let needed: Vec<String> =
            gates.iter().filter(|gate| named(gate, on)).map(|gate| gate.name.clone()).collect();
        for gate in gates.iter_mut().filter(|gate| named(gate, one)) {
            let fresh: Vec<String> = needed
                .iter()
                .filter(|need| **need != gate.name && !gate.needs.contains(need))
                .cloned()
                .collect();
            gate.needs.extend(fresh);
        }
    }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
