//! The largest gain that a flow through a network can collect, exactly, in integers.
//!
//! A walk under limits on nodes, edges and loops is a flow of one unit with cycles beside
//! it, so the best flow is never smaller than the best walk. Solved as minimum-cost flow:
//! every arc that gains is filled up first, then the surplus is led back at least cost,
//! all cheapest ways at once (primal-dual). The number of rounds depends on the size of
//! the network and not on the capacities.

use std::collections::VecDeque;

/// Arcs in pairs: arc `i ^ 1` is the way back of arc `i`.
pub(super) struct Network {
    to: Vec<usize>,
    left: Vec<i64>,
    cost: Vec<i64>,
    out: Vec<Vec<usize>>,
    surplus: Vec<i64>,
    gain: i64,
}

impl Network {
    pub(super) fn new() -> Self {
        Network {
            to: Vec::new(),
            left: Vec::new(),
            cost: Vec::new(),
            out: Vec::new(),
            surplus: Vec::new(),
            gain: 0,
        }
    }

    pub(super) fn node(&mut self) -> usize {
        self.out.push(Vec::new());
        self.surplus.push(0);
        self.out.len() - 1
    }

    /// An arc that collects `gain` (zero or more) with each unit.
    pub(super) fn arc(&mut self, from: usize, to: usize, capacity: i64, gain: i64) {
        let full = gain > 0;
        self.pair(from, to, if full { 0 } else { capacity }, -gain);
        if full {
            if let Some(back) = self.left.last_mut() {
                *back = capacity;
            }
            self.gain += capacity * gain;
            self.surplus[to] += capacity;
            self.surplus[from] -= capacity;
        }
    }

    fn pair(&mut self, from: usize, to: usize, capacity: i64, cost: i64) {
        for (tail, head, left, cost) in [(from, to, capacity, cost), (to, from, 0, -cost)] {
            self.out[tail].push(self.to.len());
            self.to.push(head);
            self.left.push(left);
            self.cost.push(cost);
        }
    }

    /// The most gain when exactly one unit goes from `source` to `sink`, and any number go
    /// round in circles. `None` = the unit cannot get through.
    pub(super) fn best(mut self, source: usize, sink: usize) -> Option<i64> {
        self.surplus[source] += 1;
        self.surplus[sink] -= 1;
        let (start, end) = (self.node(), self.node());
        let mut waiting = 0;
        for node in 0..start {
            let surplus = self.surplus[node];
            if surplus > 0 {
                self.pair(start, node, surplus, 0);
                waiting += surplus;
            } else if surplus < 0 {
                self.pair(node, end, -surplus, 0);
            }
        }
        while waiting > 0 {
            let distance = self.distances(start);
            let price = *distance.get(end)?;
            if price == i64::MAX {
                return None;
            }
            let moved = self.fill(start, end, &distance);
            if moved == 0 {
                return None;
            }
            waiting -= moved;
            self.gain -= moved * price;
        }
        Some(self.gain)
    }

    /// Cheapest ways from `start` through what is left (Bellman-Ford with a queue).
    fn distances(&self, start: usize) -> Vec<i64> {
        let mut distance = vec![i64::MAX; self.out.len()];
        let mut queued = vec![false; self.out.len()];
        let mut queue = VecDeque::from([start]);
        distance[start] = 0;
        while let Some(node) = queue.pop_front() {
            queued[node] = false;
            for &arc in &self.out[node] {
                let (to, price) = (self.to[arc], distance[node] + self.cost[arc]);
                if self.left[arc] > 0 && price < distance[to] {
                    distance[to] = price;
                    if !queued[to] {
                        queued[to] = true;
                        queue.push_back(to);
                    }
                }
            }
        }
        distance
    }

    /// Moves as much as possible along cheapest ways only (Dinic's method on them).
    fn fill(&mut self, start: usize, end: usize, distance: &[i64]) -> i64 {
        let mut moved = 0;
        loop {
            let level = self.levels(start, distance);
            if level[end] == usize::MAX {
                return moved;
            }
            let mut next = vec![0; self.out.len()];
            let mut way: Vec<usize> = Vec::new();
            let mut node = start;
            loop {
                if node == end {
                    moved += self.push(&way);
                    way.clear();
                    node = start;
                    continue;
                }
                if let Some(&arc) = self.out[node].get(next[node]) {
                    let to = self.to[arc];
                    if self.open(arc, node, distance) && level[to] == level[node] + 1 {
                        way.push(arc);
                        node = to;
                    } else {
                        next[node] += 1;
                    }
                } else if let Some(arc) = way.pop() {
                    // A dead end: step back and never come here again in this round.
                    node = self.to[arc ^ 1];
                    next[node] += 1;
                } else {
                    break;
                }
            }
        }
    }

    fn open(&self, arc: usize, from: usize, distance: &[i64]) -> bool {
        let to = distance[self.to[arc]];
        self.left[arc] > 0 && to != i64::MAX && distance[from] + self.cost[arc] == to
    }

    fn levels(&self, start: usize, distance: &[i64]) -> Vec<usize> {
        let mut level = vec![usize::MAX; self.out.len()];
        let mut queue = VecDeque::from([start]);
        level[start] = 0;
        while let Some(node) = queue.pop_front() {
            for &arc in &self.out[node] {
                let to = self.to[arc];
                if level[to] == usize::MAX && self.open(arc, node, distance) {
                    level[to] = level[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        level
    }

    fn push(&mut self, way: &[usize]) -> i64 {
        let amount = way.iter().map(|&arc| self.left[arc]).min().unwrap_or(0);
        for &arc in way {
            self.left[arc] -= amount;
            self.left[arc ^ 1] += amount;
        }
        amount
    }
}
