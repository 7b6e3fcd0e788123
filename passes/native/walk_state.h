// The state of a walk through a step: `passes/checkpoint/plans/walk_state.py`.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "guide.h"

namespace odtc {

constexpr int kNever = -1;

class WalkState {
 public:
  WalkState(const Problem& problem, const Choice* choice)
      : problem(problem),
        guide(problem, choice),
        stored(problem.tensors),
        is_alive(problem.tensors),
        read_(problem.tensors),
        place_(problem.tensors),
        seen_(problem.tasks + 2 * problem.tensors) {
    double clock = 0.0;
    for (int task = 0; task <= problem.tasks; ++task) {
      clock_.push_back(clock);
      if (task < problem.tasks) clock += problem.times[task];
    }
  }

  void goes_on() {
    each_read(problem, now, [&](int tensor) { ++read_[tensor]; });
    ++now;
  }

  void add(int tensor) {
    is_alive[tensor] = 1;
    place_[tensor] = static_cast<int>(alive.size());
    alive.push_back(tensor);
    used += problem.sizes[tensor];
  }

  void drop(int tensor) {
    is_alive[tensor] = 0;
    alive[place_[tensor]] = alive.back();
    place_[alive.back()] = place_[tensor];
    alive.pop_back();
    used -= problem.sizes[tensor];
  }

  double wait(int use) const { return clock_[use] - clock_[now]; }

  int next_use(int tensor) const {
    auto at = problem.uses.begin(tensor) + read_[tensor];
    return at < problem.uses.end(tensor) ? *at : kNever;
  }

  int next_help(int tensor) const {
    int first = kNever;
    if (!guide.helps(tensor)) return first;
    guide.each_made_from(tensor, [&](int made) {
      int use = next_use(made);
      if (use == kNever) return;
      use = std::min(use, problem.last_made[made]);
      if (use >= now && (first == kNever || use < first)) first = use;
    });
    return first;
  }

  bool is_needed(int tensor) const {
    return next_use(tensor) != kNever || next_help(tensor) != kNever;
  }

  // Seconds to compute a tensor again before a task, and whether no calls were left out.
  std::pair<double, bool> chain(int tensor, int use, double most) {
    ++stamp_;
    pending_.assign(1, problem.makers[tensor]);
    seen_[pending_[0]] = stamp_;
    double seconds = 0.0;
    while (!pending_.empty() && most) {
      --most;
      int task = pending_.back();
      pending_.pop_back();
      seconds += problem.times[task];
      if (problem.is_copy(task)) continue;
      for (auto at = problem.followed.begin(task); at != problem.followed.end(task); ++at) {
        int from = maker(*at);
        if (seen_[from] != stamp_ && !is_there(*at, use)) {
          seen_[from] = stamp_;
          pending_.push_back(from);
        }
      }
    }
    return {seconds, pending_.empty()};
  }

  int due(int tensor) const {
    int use = next_use(tensor), last = problem.last_made[tensor];
    if (use == kNever) return next_help(tensor);
    if (use <= last) return use;
    if (now < last && !stored[tensor]) return last;
    return problem.has_storage ? use : kNever;
  }

  int maker(int tensor) const {
    return stored[tensor] ? problem.fetch_of(tensor) : problem.makers[tensor];
  }

  std::pair<double, bool> cost(int tensor, int use, double most) {
    if (stored[tensor]) return {problem.times[problem.fetch_of(tensor)], true};
    if (is_to_be_stored(tensor, use)) return {copies(tensor), true};
    return chain(tensor, use, most);
  }

  bool is_to_be_stored(int tensor, int use) {
    if (!problem.has_storage || stored[tensor]) return false;
    if (use > problem.last_made[tensor] || guide.is_fetched(tensor, now)) return true;
    return copies(tensor) < chain(tensor, use, std::numeric_limits<double>::infinity()).first;
  }

  const Problem& problem;
  Guide guide;
  int now = 0;
  int64_t used = 0;
  std::vector<int> alive;
  std::vector<char> stored, is_alive;

 private:
  double copies(int tensor) const {
    return problem.times[problem.store_of(tensor)] + problem.times[problem.fetch_of(tensor)];
  }

  // Whether a tensor that is alive now is still read by a task or later.
  bool is_there(int tensor, int use) const {
    if (!is_alive[tensor]) return false;
    auto& uses = problem.uses;
    return (!uses.empty(tensor) && uses.end(tensor)[-1] >= use) || guide.helps(tensor);
  }

  std::vector<int> read_, place_, pending_;
  std::vector<int> seen_;
  int stamp_ = 0;
  std::vector<double> clock_;
};

}  // namespace odtc
