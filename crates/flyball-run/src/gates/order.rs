//! In which order gates run, and what is wrong with a set of gates that has no such order.

use super::error::GateError;
use super::gate::Gate;
use std::collections::BTreeSet;

/// Checks a set of gates: names that differ, commands that are there, needs that exist and do not go in circles.
///
/// # Errors
/// With the code `gate_no_name`, `gate_duplicate`, `gate_no_command`, `gate_unknown_need` or `gate_cycle`.
pub fn validate(gates: &[Gate]) -> Result<(), GateError> {
    let mut names = BTreeSet::new();
    for gate in gates {
        let name = &gate.name;
        if name.trim().is_empty() {
            return Err(GateError::new("gate_no_name", "a gate has no name", "give it a `name`"));
        }
        if !names.insert(name.as_str()) {
            let what = format!("two gates are named '{name}'");
            return Err(GateError::new("gate_duplicate", what, "give each gate a name of its own"));
        }
        let works = gate.skip.is_some() || gate.checklist.is_some();
        if !works && gate.argv.first().is_none_or(|program| program.trim().is_empty()) {
            let what = format!("gate '{name}' has no command");
            return Err(GateError::new(
                "gate_no_command",
                what,
                "give it an `argv` or a `checklist`, or say in `skip` why it is off",
            ));
        }
    }
    for gate in gates {
        if let Some(need) = gate.needs.iter().find(|need| !names.contains(need.as_str())) {
            let known: Vec<&str> = names.iter().copied().collect();
            let what = format!("gate '{}' needs '{need}', which is not there", gate.name);
            let hint = format!("the gates are: {}", known.join(", "));
            return Err(GateError::new("gate_unknown_need", what, hint));
        }
    }
    ordered(gates).map(|_| ())
}

/// The gates in an order in which every gate comes after those that it needs; otherwise as they were given.
pub(crate) fn ordered(gates: &[Gate]) -> Result<Vec<&Gate>, GateError> {
    let mut left: Vec<&Gate> = gates.iter().collect();
    let mut done: Vec<&Gate> = Vec::with_capacity(gates.len());
    while !left.is_empty() {
        let is_ready =
            |gate: &&Gate| gate.needs.iter().all(|need| done.iter().any(|other| other.name == *need));
        let Some(at) = left.iter().position(is_ready) else {
            let names: Vec<&str> = left.iter().map(|gate| gate.name.as_str()).collect();
            let what = format!("gates need each other in a circle: {}", names.join(", "));
            return Err(GateError::new("gate_cycle", what, "take one of the `needs` out"));
        };
        done.push(left.remove(at));
    }
    Ok(done)
}

/// Adds the policy's `dependencies` (`lint:build`) to the gates' own needs. Each side is the name of a gate or of a
/// check; a name that no gate has is left alone, because a policy serves many workspaces.
pub fn depend(gates: &mut [Gate], dependencies: &[(String, String)]) {
    for (one, on) in dependencies {
        let named = |gate: &Gate, name: &str| gate.name == *name || gate.check == *name;
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
