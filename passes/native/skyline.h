// A partial plan, seen from above: `passes/memory/packing/skyline.py`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace odtc {

using Ints = std::vector<int64_t>;

constexpr int kNothing = -1;
// Above all offsets: the lowest offset of a block that has a place.
constexpr int64_t kFar = int64_t{1} << 60;

// A block: the sections in which it is alive, and what it needs.
struct Block {
  int64_t lower, upper, size, alignment;
  double rank;
  int row;  // in the whole problem

  bool meets(const Block& other) const { return lower < other.upper && other.lower < upper; }
  auto likeness() const { return std::make_tuple(lower, upper, size, alignment); }
};

// Blocks that meet directly or through others.
struct Region {
  int first;  // number of the first section in the whole problem
  int sections;
  std::vector<Block> blocks;

  int64_t cost() const {
    return 45 + static_cast<int64_t>(blocks.size()) * sections / 2000;
  }
};

// What the placed blocks leave of a region: of each block the lowest offset; of each section the
// floor, and what may stay free.
struct State {
  std::shared_ptr<const Region> region;
  Ints start, floor, slack;
};

// What can come next in a section.
struct Branches {
  int64_t bottom;
  std::vector<int> branches;
  Ints lifted;          // the lowest offsets of all blocks after `kNothing`, if it is among them
  int64_t missing = 0;  // 0 where no slack makes another branch
};

// The lowest start of a block in each section, `kFar` where there is none: a table of the minima
// over runs of sections of each power of two, filled from the longest.
inline Ints lowest_starts(const State& state) {
  int sections = state.region->sections, levels = 1;
  while ((int64_t{2} << (levels - 1)) <= sections) ++levels;
  std::vector<Ints> table(levels, Ints(sections, kFar));
  auto lower = [](int64_t& to, int64_t value) { to = std::min(to, value); };
  auto& blocks = state.region->blocks;
  for (size_t n = 0; n < blocks.size(); ++n) {
    if (state.start[n] >= kFar) continue;
    int64_t length = blocks[n].upper - blocks[n].lower;
    int level = 63 - __builtin_clzll(static_cast<unsigned long long>(length));
    lower(table[level][blocks[n].lower], state.start[n]);
    lower(table[level][blocks[n].upper - (int64_t{1} << level)], state.start[n]);
  }
  for (int level = levels - 1; level > 0; --level) {
    int half = 1 << (level - 1);
    for (int at = 0; at + 2 * half <= sections; ++at) {
      lower(table[level - 1][at], table[level][at]);
      lower(table[level - 1][at + half], table[level][at]);
    }
  }
  return std::move(table[0]);
}

// The same with each floor at the lowest offset of an open block; what is below stays free. Marks
// sections that have an open block.
inline State raised(const State& state, std::vector<char>& covered) {
  State made{state.region, state.start, lowest_starts(state), state.slack};
  covered.assign(made.floor.size(), 1);
  for (size_t at = 0; at < made.floor.size(); ++at) {
    if (made.floor[at] >= kFar) {
      made.floor[at] = state.floor[at];
      covered[at] = 0;
    }
    made.slack[at] -= made.floor[at] - state.floor[at];
  }
  return made;
}

// Runs of sections of equal floor between higher ones; those without an open block are high.
inline std::vector<char> valleys(const Ints& floor, const std::vector<char>& covered) {
  constexpr int64_t wall = std::numeric_limits<int64_t>::max();
  int count = static_cast<int>(floor.size());
  auto height = [&](int at) { return at < 0 || at >= count || !covered[at] ? wall : floor[at]; };
  std::vector<char> found(count);
  for (int begin = 0, end; begin < count; begin = end) {
    for (end = begin + 1; end < count && height(end) == height(begin); ++end) {
    }
    bool low = height(begin) < height(begin - 1) && height(begin) < height(end);
    for (int at = begin; at < end; ++at) found[at] = low && covered[at];
  }
  return found;
}

inline Branches branches_of(const State& state, int section, std::vector<int> there) {
  auto& blocks = state.region->blocks;
  Branches found{state.floor[section], {}, {}};
  std::stable_sort(there.begin(), there.end(),
                   [&](int one, int other) { return blocks[one].rank < blocks[other].rank; });
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int> seen;
  for (int row : there)
    if (seen.emplace(blocks[row].likeness(), row).second) found.branches.push_back(row);
  std::reverse(found.branches.begin(), found.branches.end());
  Ints ends;
  for (int row : there) {
    int64_t start = kFar, end = 2 * kFar;
    for (size_t n = 0; n < blocks.size(); ++n) {
      if (static_cast<int>(n) == row || !blocks[n].meets(blocks[row])) continue;
      start = std::min(start, state.start[n]);
      end = std::min(end, state.start[n] + blocks[n].size);
    }
    // One of them could be moved down to here in every plan of that branch.
    if (start >= found.bottom + blocks[row].size) return found;
    ends.push_back(end);
  }
  Ints lifted = state.start;
  for (size_t n = 0; n < there.size(); ++n) lifted[there[n]] = ends[n];
  int64_t lowest = kFar;
  for (size_t n = 0; n < blocks.size(); ++n)
    if (blocks[n].lower <= section && section < blocks[n].upper)
      lowest = std::min(lowest, lifted[n]);
  int64_t missing = lowest - found.bottom - state.slack[section];
  if (missing > 0) {
    found.missing = missing;
  } else {
    found.branches.insert(found.branches.begin(), kNothing);
    found.lifted = std::move(lifted);
  }
  return found;
}

// Takes the section with the fewest branches; one that often failed may have more.
inline Branches choose(const State& state, const std::vector<char>& covered, const double* weight) {
  auto& region = *state.region;
  Ints below(region.sections + 1), count(region.sections + 1);
  std::partial_sum(state.floor.begin(), state.floor.end(), below.begin() + 1);
  std::vector<int> lying;
  for (size_t n = 0; n < region.blocks.size(); ++n) {
    auto& block = region.blocks[n];
    if (state.start[n] >= kFar) continue;
    if (below[block.upper] - below[block.lower] != state.start[n] * (block.upper - block.lower))
      continue;
    lying.push_back(static_cast<int>(n));
    ++count[block.lower];
    --count[block.upper];
  }
  auto open = valleys(state.floor, covered);
  double whole = static_cast<double>(1 + *std::max_element(state.floor.begin(), state.floor.end()) +
                                     *std::max_element(state.slack.begin(), state.slack.end()));
  double least = std::numeric_limits<double>::infinity();
  int64_t there = 0;
  int section = 0;
  for (int at = 0; at < region.sections; ++at) {
    there += count[at];
    if (!open[at]) continue;
    // Of sections alike in this, the one into which the most has still to go.
    double used = static_cast<double>(state.floor[at] + state.slack[at]) / whole;
    double score = static_cast<double>(2 * there + (state.slack[at] > 0)) + used;
    score /= 1 + weight[region.first + at];
    if (score < least) {
      least = score;
      section = at;
    }
  }
  std::vector<int> rows;
  for (int row : lying)
    if (region.blocks[row].lower <= section && section < region.blocks[row].upper)
      rows.push_back(row);
  return branches_of(state, section, std::move(rows));
}

// The state after a branch of a choice.
inline State followed(const State& state, const Branches& choice, int branch) {
  if (branch == kNothing) return {state.region, choice.lifted, state.floor, state.slack};
  State made = state;
  auto& blocks = state.region->blocks;
  auto& placed = blocks[branch];
  int64_t top = choice.bottom + placed.size;
  for (size_t n = 0; n < blocks.size(); ++n)
    if (blocks[n].meets(placed)) {
      int64_t unit = blocks[n].alignment;
      made.start[n] = std::max(made.start[n], (top + unit - 1) / unit * unit);
    }
  made.start[branch] = kFar;
  std::fill(made.floor.begin() + placed.lower, made.floor.begin() + placed.upper, top);
  return made;
}

// Some of the open blocks with their sections, as a state of their own.
inline State piece_of(const State& state, const std::vector<int>& rows) {
  auto& whole = *state.region;
  int64_t begin = whole.sections, end = 0;
  for (int row : rows) {
    begin = std::min(begin, whole.blocks[row].lower);
    end = std::max(end, whole.blocks[row].upper);
  }
  auto region = std::make_shared<Region>();
  region->first = whole.first + static_cast<int>(begin);
  region->sections = static_cast<int>(end - begin);
  State made;
  for (int row : rows) {
    region->blocks.push_back(whole.blocks[row]);
    region->blocks.back().lower -= begin;
    region->blocks.back().upper -= begin;
    made.start.push_back(state.start[row]);
  }
  made.floor.assign(state.floor.begin() + begin, state.floor.begin() + end);
  made.slack.assign(state.slack.begin() + begin, state.slack.begin() + end);
  made.region = std::move(region);
  return made;
}

// The open blocks as states that have nothing to do with each other, the tightest first.
inline std::vector<State> split(State state) {
  auto& region = *state.region;
  std::vector<int64_t> across(region.sections + 1);
  size_t open = 0;
  for (size_t n = 0; n < region.blocks.size(); ++n) {
    if (state.start[n] >= kFar) continue;
    ++open;
    ++across[region.blocks[n].lower + 1];
    --across[region.blocks[n].upper];
  }
  if (!open) return {};
  // The piece of each section: a new one begins where no block spans two sections.
  std::vector<int> piece(region.sections);
  int64_t spanning = 0;
  for (int at = 1; at < region.sections; ++at) {
    spanning += across[at];
    piece[at] = piece[at - 1] + (spanning == 0);
  }
  std::map<int, std::vector<int>> rows;
  for (size_t n = 0; n < region.blocks.size(); ++n)
    if (state.start[n] < kFar) rows[piece[region.blocks[n].lower]].push_back(static_cast<int>(n));
  std::vector<State> states;
  if (rows.size() == 1 && 2 * open > region.blocks.size()) {
    states.push_back(std::move(state));
    return states;
  }
  for (auto& each : rows) states.push_back(piece_of(state, each.second));
  auto slack = [](const State& each) {
    return std::accumulate(each.slack.begin(), each.slack.end(), int64_t{0});
  };
  std::stable_sort(states.begin(), states.end(), [&](const State& one, const State& other) {
    return slack(one) < slack(other);
  });
  return states;
}

}  // namespace odtc
