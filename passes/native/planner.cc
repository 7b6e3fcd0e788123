// The inner loops of memory plans, as functions of C; `passes/native/planner.py` calls them.
#include <algorithm>

#include "eviction.h"
#include "retention.h"

namespace {

int give(const std::vector<int32_t>& sequence, int32_t* out) {
  std::copy(sequence.begin(), sequence.end(), out);
  return static_cast<int>(sequence.size());
}

}  // namespace

extern "C" {

// Writes a sequence whose peak is at most the limit, of at most 21 times the tasks and one copy
// more for each tensor; returns its length, -1 where this finds none, and -2 where a look failed.
int odtc_evicting(const odtc::Problem* problem, int64_t limit, const odtc::Score* score,
                  const odtc::Choice* choice, int looks, odtc::Look look, int32_t* out) {
  odtc::Walk walk(*problem, limit, *score, choice, looks, look);
  for (int task = 0; task < problem->tasks; ++task)
    if (!walk.run(task)) return walk.failed ? -2 : -1;
  return give(walk.sequence, out);
}

// Writes the sequence without repetitions that it does not need; returns its length.
int odtc_retained(const odtc::Problem* problem, const int32_t* sequence, int count, int64_t limit,
                  int32_t* out) {
  return give(odtc::retained(*problem, sequence, count, limit), out);
}

// The most bytes that are alive at one time.
int64_t odtc_peak(const odtc::Problem* problem, const int32_t* sequence, int count) {
  int64_t peak = 0;
  for (int64_t bytes : odtc::alive_during(*problem, sequence, count)) peak = std::max(peak, bytes);
  return peak;
}
}
