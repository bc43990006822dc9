//! A linear order of nodes, with each loop contiguous, for drawings that stack nodes vertically.

use super::GraphScene;

/// Orders the nodes so that every edge points down except those that close a loop.
pub(super) fn drawing_order(scene: &GraphScene<'_>) -> Vec<usize> {
    let count = scene.names.len();
    let mut waiting = vec![0usize; count];
    let forward = || scene.edges.iter().zip(&scene.closed_loop).filter(|(_, c)| c.is_none());
    for (&(_, to, _), _) in forward() {
        waiting[to] += 1;
    }
    let mut ready: Vec<usize> = (0..count).filter(|&n| waiting[n] == 0).collect();
    let mut order: Vec<usize> = Vec::new();
    // Prefer nodes with a placed predecessor, the most recently placed first.
    let mut led = vec![0usize; count];
    while !ready.is_empty() {
        let last = order.last().map_or_else(Vec::new, |&n: &usize| scene.enclosing_loops(n));
        let rank = |n: usize| {
            let around = scene.enclosing_loops(n);
            let shared = around.iter().zip(&last).take_while(|(a, b)| a == b).count();
            (std::cmp::Reverse((shared, led[n])), scene.distance[n], n)
        };
        let Some(at) = (0..ready.len()).min_by_key(|&i| rank(ready[i])) else {
            break;
        };
        let node = ready.swap_remove(at);
        order.push(node);
        for (&(from, to, _), _) in forward() {
            if from == node {
                waiting[to] -= 1;
                led[to] = order.len();
                if waiting[to] == 0 {
                    ready.push(to);
                }
            }
        }
    }
    // Loops of another graph could leave nodes in a cycle; they are still drawn.
    let mut placed = vec![false; count];
    order.iter().for_each(|&n| placed[n] = true);
    order.extend((0..count).filter(|&n| !placed[n]));
    order
}
