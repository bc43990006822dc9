//! Where everything stands in a drawing with layers. Each loop is laid out on its own and
//! then stands as one box in the layout around it, so loops never overlap anything that is
//! not in them. In each layout the nodes stand in layers (the longest way decides), edges
//! that skip layers get a slot in each, and slots are ordered and moved so that edges are
//! short and straight. All in whole pixels.

use std::collections::BTreeMap;

use super::{Scene, columns};

/// Free space around what is in a loop.
pub(super) const PAD: i64 = 16;
/// Free space between layers.
pub(super) const GAP: i64 = 42;
/// Room for the edges back at the right of a loop.
pub(super) const RAIL: i64 = 22;
/// Height of a line of text.
pub(super) const LINE: i64 = 18;
/// Width of a letter.
const LETTER: i64 = 8;
/// Room for an edge that passes a layer.
const SLOT: i64 = 12;
/// Free space between things in one layer.
const BESIDE: i64 = 26;
/// A badge of so many letters is short.
const SHORT_LABEL: usize = 16;
/// How often the order and the places are improved.
const SWEEPS: usize = 8;

/// What stands in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Node(usize),
    Loop(usize),
    /// An edge on its way, by place in the scene's edges.
    Slot,
}

/// One thing in a layout. `x` is its middle.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub kind: Kind,
    pub layer: usize,
    pub x: i64,
    width: i64,
    height: i64,
}

/// The layout of one loop, or of everything; places are relative to its corner.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub items: Vec<Item>,
    /// For each layer the items from left to right.
    pub layers: Vec<Vec<usize>>,
    /// Top and height of each layer.
    pub bands: Vec<(i64, i64)>,
    /// The slots of an edge, from top to bottom.
    pub slots: BTreeMap<usize, Vec<usize>>,
    pub width: i64,
    pub height: i64,
    links: Vec<(usize, usize)>,
    item_of: BTreeMap<usize, usize>,
}

impl Level {
    /// The item that is or holds this node.
    pub(super) fn holding(&self, node: usize) -> Option<usize> {
        self.item_of.get(&node).copied()
    }
}

/// Width and height of a node's box.
pub(super) fn node_size(scene: &Scene<'_>, node: usize) -> (i64, i64) {
    let mark = scene.marks[node].as_deref().map_or(0, columns);
    let letters = columns(&scene.names[node]).max(mark);
    let width = (text_width(letters) + 28).max(84);
    (width, if mark > 0 { 52 } else { 38 })
}

fn text_width(letters: usize) -> i64 {
    i64::try_from(letters).unwrap_or(0) * LETTER
}

/// The layouts of all loops, by position, and last the layout of everything.
pub(super) fn levels(scene: &Scene<'_>) -> Vec<Level> {
    let count = scene.view.loops.len();
    let mut levels = vec![Level::default(); count + 1];
    // Inner loops stand after outer ones in the list; they have to be measured first.
    for position in (0..count).rev() {
        levels[position] = level(scene, Some(position), &levels);
    }
    levels[count] = level(scene, None, &levels);
    levels
}

fn level(scene: &Scene<'_>, around: Option<usize>, inner: &[Level]) -> Level {
    let mut level = Level::default();
    fill(scene, around, inner, &mut level);
    let ways = ways(scene, around, &level);
    assign_layers(&mut level, &ways);
    add_slots(&mut level, &ways);
    sort_layers(&mut level);
    place(&mut level);
    let entered = ways.iter().any(|way| way.from.is_none());
    measure(scene, around, entered, &mut level);
    level
}

/// The nodes and loops that stand directly in here, those that a run reaches first first.
fn fill(scene: &Scene<'_>, around: Option<usize>, inner: &[Level], level: &mut Level) {
    let mut found: Vec<(usize, usize, Kind, i64, i64)> = Vec::new();
    for node in (0..scene.names.len()).filter(|&n| scene.innermost[n] == around) {
        let (width, height) = node_size(scene, node);
        found.push((scene.distance[node], node, Kind::Node(node), width, height));
    }
    for (position, child) in scene.view.loops.iter().enumerate() {
        if child.parent == around {
            let header = scene.headers[position];
            let (width, height) = (inner[position].width, inner[position].height);
            let kind = Kind::Loop(position);
            found.push((scene.distance[header], header, kind, width, height));
        }
    }
    found.sort_by_key(|item| (item.0, item.1));
    for (_, _, kind, width, height) in found {
        level.items.push(Item { kind, layer: 0, x: 0, width, height });
    }
    for node in 0..scene.names.len() {
        let chain = scene.around(node);
        let inside = match around {
            None => Some(0),
            Some(position) => chain.iter().position(|&l| l == position).map(|at| at + 1),
        };
        let kind = inside.map(|at| chain.get(at).map_or(Kind::Node(node), |&l| Kind::Loop(l)));
        let item = kind.and_then(|kind| level.items.iter().position(|i| i.kind == kind));
        if let Some(item) = item {
            level.item_of.insert(node, item);
        }
    }
}

/// How an edge passes this layout: from an item or from above, to an item or to below.
struct Way {
    edge: usize,
    from: Option<usize>,
    to: Option<usize>,
}

fn ways(scene: &Scene<'_>, around: Option<usize>, level: &Level) -> Vec<Way> {
    let mut ways = Vec::new();
    for (edge, &(from, to, _)) in scene.edges.iter().enumerate() {
        if scene.is_drawn_before(edge) {
            continue;
        }
        let (a, b) = (level.holding(from), level.holding(to));
        let way = match (a, b, scene.closes[edge]) {
            (Some(a), Some(b), None) if a != b => Way { edge, from: Some(a), to: Some(b) },
            (Some(a), None, None) => Way { edge, from: Some(a), to: None },
            (None, Some(b), None) => Way { edge, from: None, to: Some(b) },
            // An edge back leaves inner loops below and then goes up at the right.
            (Some(a), None, Some(closed)) if Some(closed) != around => Way { edge, from: Some(a), to: None },
            _ => continue,
        };
        ways.push(way);
    }
    ways
}

/// An item stands one layer below the lowest that leads to it.
fn assign_layers(level: &mut Level, ways: &[Way]) {
    let spans: Vec<(usize, usize)> = ways.iter().filter_map(|w| w.from.zip(w.to)).collect();
    // No way is longer than there are items, so this many rounds settle it.
    for _ in 0..level.items.len() {
        let mut changed = false;
        for &(from, to) in &spans {
            let below = level.items[from].layer + 1;
            if level.items[to].layer < below && below < level.items.len() {
                level.items[to].layer = below;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let count = level.items.iter().map(|i| i.layer + 1).max().unwrap_or(0);
    level.layers = vec![Vec::new(); count];
    for (position, item) in level.items.iter().enumerate() {
        level.layers[item.layer].push(position);
    }
}

fn add_slots(level: &mut Level, ways: &[Way]) {
    for way in ways {
        let first = way.from.map_or(0, |item| level.items[item].layer + 1);
        let end = way.to.map_or(level.layers.len(), |item| level.items[item].layer);
        let mut last = way.from;
        let mut slots = Vec::new();
        for layer in first..end {
            let slot = level.items.len();
            let item = Item { kind: Kind::Slot, layer, x: 0, width: SLOT, height: 0 };
            level.items.push(item);
            level.layers[layer].push(slot);
            level.links.extend(last.map(|before| (before, slot)));
            last = Some(slot);
            slots.push(slot);
        }
        level.links.extend(last.zip(way.to).filter(|(a, b)| a != b));
        level.slots.insert(way.edge, slots);
    }
}

/// Puts each item near the middle of what it is linked to in the layer before, then in the
/// layer after, again and again.
fn sort_layers(level: &mut Level) {
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let count = level.layers.len();
        for step in 1..count {
            let layer = if down { step } else { count - 1 - step };
            let mut rank = vec![0i64; level.items.len()];
            for items in &level.layers {
                for (position, &item) in items.iter().enumerate() {
                    rank[item] = i64::try_from(position).unwrap_or(0) * 1_000;
                }
            }
            let mut items = std::mem::take(&mut level.layers[layer]);
            items.sort_by_key(|&item| middle(level, item, down, &rank).unwrap_or(rank[item]));
            level.layers[layer] = items;
        }
    }
}

/// The mean of a value over the linked items above (or below).
fn middle(level: &Level, item: usize, above: bool, value: &[i64]) -> Option<i64> {
    let (mut sum, mut count) = (0, 0);
    for &(a, b) in &level.links {
        let other = if above && b == item {
            a
        } else if !above && a == item {
            b
        } else {
            continue;
        };
        sum += value[other];
        count += 1;
    }
    (count > 0).then(|| sum / count)
}

/// Moves each layer as near as possible to what it is linked to, in its order.
fn place(level: &mut Level) {
    for layer in 0..level.layers.len() {
        settle(level, layer, &[]);
    }
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let count = level.layers.len();
        for step in 1..count {
            let layer = if down { step } else { count - 1 - step };
            let xs: Vec<i64> = level.items.iter().map(|i| i.x).collect();
            let wanted: Vec<i64> = level.layers[layer]
                .iter()
                .map(|&item| middle(level, item, down, &xs).unwrap_or(xs[item]))
                .collect();
            settle(level, layer, &wanted);
        }
    }
}

/// Least squares with distances kept: neighbours that would come too near move together.
fn settle(level: &mut Level, layer: usize, wanted: &[i64]) {
    let items = level.layers[layer].clone();
    let mut offset = 0;
    // Blocks of (sum of wishes, number); a block's place is its mean.
    let mut blocks: Vec<(i64, i64)> = Vec::new();
    let mut offsets = Vec::new();
    for (position, &item) in items.iter().enumerate() {
        if let Some(&before) = position.checked_sub(1).and_then(|p| items.get(p)) {
            let half = (level.items[before].width + level.items[item].width) / 2;
            offset += half + BESIDE;
        }
        offsets.push(offset);
        let wish = wanted.get(position).copied().unwrap_or(offset) - offset;
        let mut block = (wish, 1);
        while let Some(&(sum, count)) = blocks.last() {
            if sum * block.1 <= block.0 * count {
                break;
            }
            block = (block.0 + sum, block.1 + count);
            blocks.pop();
        }
        blocks.push(block);
    }
    let mut places = blocks.iter().flat_map(|&(sum, count)| {
        let at = sum / count;
        (0..count).map(move |_| at)
    });
    // With no wishes the layer is centred around zero.
    let shift = if wanted.is_empty() { offset / 2 } else { 0 };
    for (&item, offset) in items.iter().zip(offsets) {
        level.items[item].x = places.next().unwrap_or(0) + offset - shift;
    }
}

/// Turns middles into places from the corner, stacks the layers, and adds the borders.
fn measure(scene: &Scene<'_>, around: Option<usize>, entered: bool, level: &mut Level) {
    let left = level.items.iter().map(|i| i.x - i.width / 2).min().unwrap_or(0);
    let right = level.items.iter().map(|i| i.x + i.width / 2).max().unwrap_or(0);
    let lines = around.map_or_else(Vec::new, |position| scene.label_lines(position));
    let letters = lines.iter().map(|l| columns(l)).max().unwrap_or(0);
    // An edge that comes in from above should pass beside the badge, if that is short.
    let first = level.items.iter().filter(|i| i.layer == 0).map(|i| i.x).min();
    let beside = match first {
        Some(first) if entered && letters <= SHORT_LABEL => {
            (text_width(letters) + 2 * PAD - (first - left + PAD)).max(0)
        }
        _ => 0,
    };
    let left = left - beside;
    let label = text_width(letters) + 2 * PAD;
    let rail = if around.is_some() { RAIL } else { 0 };
    level.width = (right - left + 2 * PAD + rail).max(label);
    let spare = level.width - (right - left + 2 * PAD + rail);
    for item in &mut level.items {
        item.x += PAD - left + spare / 2;
    }
    let mut top = PAD + LINE * i64::try_from(lines.len()).unwrap_or(0);
    for items in &level.layers {
        let height = items.iter().map(|&i| level.items[i].height).max().unwrap_or(0);
        level.bands.push((top, height));
        top += height + GAP;
    }
    // Below the last layer an edge back may have to turn to the right.
    level.height = (top - GAP).max(PAD) + PAD + rail / 3;
}
