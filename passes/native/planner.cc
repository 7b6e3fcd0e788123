// The inner loops of memory plans, as functions of C; `passes/native/planner.py` calls them.
#include <algorithm>

#include "eviction.h"
#include "repair.h"
#include "retention.h"
#include "search.h"

namespace {

int give(const std::vector<int32_t>& sequence, int32_t* out) {
  std::copy(sequence.begin(), sequence.end(), out);
  return static_cast<int>(sequence.size());
}

}  // namespace

extern "C" {

// Writes a sequence whose peak is at most the limit, of at most one copy for each tensor beside as
// many calls as the rules have; returns its length, and -1 where this finds none or a look failed.
int odtc_evicting(const odtc::Problem* problem, int64_t limit, const odtc::Rules* rules,
                  const odtc::Choice* choice, int looks, odtc::Look look, int32_t* out) {
  odtc::Walk walk(*problem, limit, *rules, choice, looks, look);
  for (int task = 0; task < problem->tasks; ++task)
    if (!walk.run(task)) return -1;
  return give(walk.sequence, out);
}

// Writes the sequence without repetitions that it does not need; returns its length.
int odtc_retained(const odtc::Problem* problem, const int32_t* sequence, int count, int64_t limit,
                  int32_t* out) {
  return give(odtc::retained(*problem, sequence, count, limit), out);
}

// Writes a sequence whose peak is at most the limit, made from a given one, if there is room for it;
// returns its length, and -1 where this finds none.
int odtc_repaired(const odtc::Problem* problem, int64_t limit, const odtc::Repairs* rules,
                  const int32_t* sequence, int count, int32_t* out, int room) {
  auto found = odtc::repaired(*problem, limit, *rules, {sequence, sequence + count});
  if (!found) return -1;
  int length = static_cast<int>(found->size());
  return length > room ? length : give(*found, out);
}

// The most bytes that are alive at one time.
int64_t odtc_peak(const odtc::Problem* problem, const int32_t* sequence, int count) {
  int64_t peak = 0;
  for (int64_t bytes : odtc::alive_during(*problem, sequence, count)) peak = std::max(peak, bytes);
  return peak;
}

// Looks for a plan of some blocks of a height: columns of `blocks` are lower, upper, size and
// alignment. Takes what is spent from the steps, counts failures of sections in `weight`, and
// writes offsets, and the bound where there is no plan. Returns 0 where a plan is found, 1 where
// there is none, and 2 where nodes, steps or seconds (negative: any) were spent before that.
int odtc_search(int count, int sections, const int64_t* const* blocks, const double* rank,
                int64_t height, double* weight, int learn, int64_t nodes, int64_t* steps,
                double seconds, int64_t* offsets, int64_t* bound) {
  auto region = std::make_shared<odtc::Region>();
  region->first = 0;
  region->sections = sections;
  odtc::Ints slack(sections, height);
  for (int row = 0; row < count; ++row) {
    odtc::Block block{blocks[0][row], blocks[1][row], blocks[2][row], blocks[3][row], rank[row], row};
    for (int64_t at = block.lower; at < block.upper; ++at) slack[at] -= block.size;
    region->blocks.push_back(block);
  }
  odtc::State first{region, odtc::Ints(count), odtc::Ints(sections), std::move(slack)};
  odtc::Budget budget(*steps, seconds);
  odtc::Search search(std::move(first), height, weight, learn, offsets);
  auto ended = search.run(nodes, budget);
  *steps = budget.left;
  *bound = search.next;
  return static_cast<int>(ended);
}
}
