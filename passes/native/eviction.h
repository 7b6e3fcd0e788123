// A plan within a limit, made from the first task to the last: `passes/checkpoint/plans/eviction.py`.
#pragma once

#include <cmath>
#include <queue>
#include <tuple>
#include <vector>

#include "walk_state.h"

namespace odtc {

// How tensors are chosen that are dropped: powers of what it takes to make one again, of its bytes,
// and of the time until it is read; and the constants of `eviction.py`.
struct Rules {
  double cost, size, wait, least, most, followed, further;
};

// Asks what of all that is alive is worth keeping: fills the choice, and returns 1; 0 where there
// is none, and -1 where asking failed. `now`, what is alive, what of it may not be dropped, its
// bytes, and the bytes that there are beside it.
using Look = int (*)(int32_t, const uint8_t*, const uint8_t*, int64_t, int64_t, Choice*);

class Walk {
 public:
  Walk(const Problem& problem, int64_t limit, const Rules& rules, const Choice* choice,
       int looks, Look look)
      : at_(problem, choice),
        limit_(limit),
        rules_(rules),
        looks_(looks),
        look_(look),
        pinned_(problem.tensors) {}

  // Runs a task, after those that make what it reads; keeps what is read later.
  bool run(int number) {
    auto& problem = at_.problem;
    waiting_.clear();
    std::vector<int> reads(problem.reads.begin(number), problem.reads.end(number));
    for (auto at = problem.made_before.begin(number); at != problem.made_before.end(number); ++at)
      if (!at_.stored[*at] && std::max(at_.next_use(*at), 0) > number) reads.push_back(*at);
    wait_for(number, std::move(reads), kNever);
    while (!waiting_.empty()) {
      int missing = first_missing(waiting_.back().reads);
      if (missing != kNever) {
        int maker = at_.maker(missing);
        std::vector<int> read;
        if (!at_.stored[missing]) read.assign(problem.reads.begin(maker), problem.reads.end(maker));
        wait_for(maker, std::move(read), missing);
        continue;
      }
      Waiting task = std::move(waiting_.back());
      if (!compute(task)) return false;
      waiting_.pop_back();
      for (int tensor : task.reads)
        if (!--pinned_[tensor]) drop_read(tensor);
    }
    return true;
  }

  std::vector<int32_t> sequence;

 private:
  // A task that waits for what it reads, and the tensor that it runs again for, if it does.
  struct Waiting {
    int number;
    std::vector<int> reads;
    int wanted;
  };
  // A tensor that may be dropped, and the task before which it has to be there again.
  struct Candidate {
    int tensor, due;
  };
  // Whether the tensor is wanted and its rank; the tensor; how far that is followed, and its due.
  using Rank = std::tuple<bool, double, int, double, int>;

  void wait_for(int number, std::vector<int> reads, int wanted) {
    for (int tensor : reads) ++pinned_[tensor];
    waiting_.push_back({number, std::move(reads), wanted});
  }

  int first_missing(const std::vector<int>& reads) const {
    for (int tensor : reads)
      if (!at_.is_alive[tensor]) return tensor;
    return kNever;
  }

  bool compute(const Waiting& task) {
    if (static_cast<double>(sequence.size()) >= rules_.most * at_.problem.tasks) return false;
    std::vector<int> made;
    int64_t size = 0;
    each_made(at_.problem, task.number, [&](int tensor) {
      if (at_.is_alive[tensor]) return;
      made.push_back(tensor);
      size += at_.problem.sizes[tensor];
    });
    if (!drop_for(size)) return false;
    sequence.push_back(task.number);
    for (int tensor : made) at_.guide.has_made(tensor);
    if (task.number != at_.now)
      at_.guide.has_run_again(task.number);
    else
      at_.goes_on();
    for (int tensor : made)
      if (tensor == task.wanted || at_.is_needed(tensor)) at_.add(tensor);
    return true;
  }

  void drop_read(int tensor) {
    if (at_.is_alive[tensor] && !at_.is_needed(tensor)) at_.drop(tensor);
  }

  // Drops tensors until so many bytes fit.
  bool drop_for(int64_t size) {
    if (at_.used + size > limit_) drop_helpers();
    int64_t missing = at_.used + size - limit_;
    if (missing <= 0) return true;
    auto candidates = candidates_for(missing);
    if (bytes_of(candidates) < missing) return false;
    if (looks_ && missing > bytes_of(unwanted(candidates))) {
      --looks_;
      if (!look_again(size)) return false;
    }
    for (auto [tensor, due] : lowest(std::move(candidates), missing)) {
      if (at_.is_to_be_stored(tensor, due)) {
        sequence.push_back(at_.problem.store_of(tensor));
        at_.stored[tensor] = 1;
      }
      at_.drop(tensor);
    }
    return true;
  }

  void drop_helpers() {
    std::vector<int> helpers;
    for (int tensor : at_.alive)
      if (at_.guide.helps(tensor) && !pinned_[tensor]) helpers.push_back(tensor);
    for (int tensor : helpers) drop_read(tensor);
  }

  std::vector<Candidate> candidates_for(int64_t missing) const {
    std::vector<Candidate> found;
    for (int tensor : at_.alive) {
      auto bytes = static_cast<double>(at_.problem.sizes[tensor]);
      if (pinned_[tensor] || bytes * rules_.least <= static_cast<double>(missing)) continue;
      int due = at_.due(tensor);
      if (due != kNever) found.push_back({tensor, due});
    }
    return found;
  }

  int64_t bytes_of(const std::vector<Candidate>& candidates) const {
    int64_t bytes = 0;
    for (auto& each : candidates) bytes += at_.problem.sizes[each.tensor];
    return bytes;
  }

  std::vector<Candidate> unwanted(const std::vector<Candidate>& candidates) const {
    std::vector<Candidate> found;
    for (auto& each : candidates)
      if (!at_.guide.is_wanted(each.tensor, each.due, at_.now)) found.push_back(each);
    return found;
  }

  bool look_again(int64_t size) {
    std::vector<uint8_t> alive(at_.is_alive.begin(), at_.is_alive.end());
    std::vector<uint8_t> fixed(at_.problem.tensors);
    int64_t held = 0;
    for (int tensor : at_.alive) {
      if (!pinned_[tensor] && at_.due(tensor) != kNever) continue;
      fixed[tensor] = 1;
      held += at_.problem.sizes[tensor];
    }
    Choice choice;
    int found = look_(at_.now, alive.data(), fixed.data(), held, limit_ - size - held, &choice);
    if (found > 0) at_.guide.turn_to(choice, true);
    return found >= 0;
  }

  // Those of the lowest ranks, as many as have the bytes that are missing.
  std::vector<Candidate> lowest(std::vector<Candidate> candidates, int64_t missing) {
    auto first = unwanted(candidates);
    if (bytes_of(first) >= missing) candidates = std::move(first);
    std::vector<Rank> ranked;
    for (auto& each : candidates) ranked.push_back(rank(each.tensor, each.due, rules_.followed));
    std::priority_queue<Rank, std::vector<Rank>, std::greater<Rank>> queue(std::greater<Rank>(),
                                                                           std::move(ranked));
    std::vector<Candidate> found;
    while (missing > 0) {
      auto [wanted, order, tensor, most, due] = queue.top();
      queue.pop();
      if (most) {
        queue.push(rank(tensor, due, most * rules_.further));
        continue;
      }
      found.push_back({tensor, due});
      missing -= at_.problem.sizes[tensor];
    }
    return found;
  }

  Rank rank(int tensor, int use, double most) {
    double wait = at_.wait(use) + 1e-9;
    auto [cost, whole] = at_.cost(tensor, use, most);
    double size = static_cast<double>(at_.problem.sizes[tensor]);
    double rank =
        std::pow(cost, rules_.cost) / std::pow(size, rules_.size) / std::pow(wait, rules_.wait);
    return {at_.guide.is_wanted(tensor, use, at_.now), rank, tensor, whole ? 0 : most, use};
  }

  WalkState at_;
  int64_t limit_;
  Rules rules_;
  int looks_;
  Look look_;
  std::vector<int> pinned_;
  std::vector<Waiting> waiting_;
};

}  // namespace odtc
