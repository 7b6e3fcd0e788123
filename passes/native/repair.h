// A plan within a limit, made from a sequence by taking away what is too much bit by bit:
// `passes/checkpoint/repair.py`.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "problem.h"

namespace odtc {

// The constants of `repair.py`.
struct Repairs {
  int32_t depth, tried, most;
  double steep;
};

// Bytes above a limit, over all places of a sequence; `alive_during` says how many are alive.
inline int64_t bytes_above(const std::vector<int64_t>& during, int64_t limit) {
  int64_t above = 0;
  for (int64_t bytes : during) above += std::max<int64_t>(bytes - limit, 0);
  return above;
}

// A sequence, and what is alive when.
class Repair {
 public:
  // Tasks that run again before a place, and the bytes that it frees, weighed, for each second.
  struct Change {
    int place;
    std::vector<int> tasks;
    double worth;
  };

  Repair(const Problem& problem, int64_t limit, const Repairs& rules, std::vector<int32_t> sequence)
      : sequence(std::move(sequence)), problem_(problem), rules_(rules), copies_(problem.tensors) {
    int count = static_cast<int>(this->sequence.size());
    auto during = alive_during(problem, this->sequence.data(), count);
    above = bytes_above(during, limit);
    weight_.push_back(0.0);
    crossed_.push_back(0);
    for (int64_t bytes : during) {
      double high = static_cast<double>(bytes) / static_cast<double>(limit) - 1;
      high = std::min(std::max(rules.steep * high, -rules.steep), rules.steep);
      weight_.push_back(weight_.size() == 1 ? std::exp(high) : weight_.back() + std::exp(high));
      crossed_.push_back(crossed_.back() + (bytes > limit));
    }
    find_copies();
  }

  // What could be made again instead of waiting where too much is alive, the best first.
  std::vector<Change> changes() {
    std::vector<Change> found;
    for (int tensor = 0; tensor < problem_.tensors; ++tensor)
      for (auto& copy : copies_[tensor]) {
        int start = copy.made;
        for (int end : copy.reads) {
          if (end < static_cast<int>(sequence.size()) && crossed_[end] > crossed_[start + 1])
            for (int depth = 0; depth < rules_.depth; ++depth)
              add_change(tensor, start, end, depth, found);
          start = end;
        }
      }
    std::stable_sort(found.begin(), found.end(), [](const Change& one, const Change& other) {
      return one.worth > other.worth;
    });
    return found;
  }

  std::vector<int32_t> changed(const Change& change) const {
    auto made = sequence;
    made.insert(made.begin() + change.place, change.tasks.begin(), change.tasks.end());
    return made;
  }

  std::vector<int32_t> sequence;
  int64_t above;

 private:
  // A tensor that was made at a place, and the places that read it.
  struct Copy {
    int made;
    std::vector<int> reads;
    int last() const { return reads.empty() ? made : reads.back(); }
  };

  void find_copies() {
    int ran = 0, count = static_cast<int>(sequence.size());
    for (int place = 0; place < count; ++place) {
      ran_.push_back(ran);
      ran = std::max(ran, sequence[place] + 1);
      each_read(problem_, sequence[place],
                [&](int tensor) { copies_[tensor].back().reads.push_back(place); });
      each_made(problem_, sequence[place],
                [&](int tensor) { copies_[tensor].push_back({place, {}}); });
    }
    for (int tensor = 0; tensor < problem_.tensors; ++tensor)
      if (problem_.is_kept(tensor)) copies_[tensor].back().reads.push_back(count);
  }

  // A tensor that is made again before a place instead of waiting from another one.
  void add_change(int tensor, int start, int end, int depth, std::vector<Change>& found) {
    std::vector<int> tasks;
    auto harm = made(tensor, end, depth, tasks);
    if (!harm) return;
    double gain = wait(tensor, start, end) - *harm, seconds = 0.0;
    for (int task : tasks) seconds += problem_.times[task];
    if (gain > 0)
      found.push_back({end, std::move(tasks), gain / (seconds != 0.0 ? seconds : 1e-12)});
  }

  // Weighed bytes of a tensor between two places.
  double wait(int tensor, int start, int end) const {
    return static_cast<double>(problem_.sizes[tensor]) * (weight_[end] - weight_[start + 1]);
  }

  // Weighed bytes that making a tensor again before a place adds; its tasks are appended.
  std::optional<double> made(int tensor, int end, int depth, std::vector<int>& tasks) const {
    int task = problem_.makers[tensor];
    if (std::find(tasks.begin(), tasks.end(), task) != tasks.end()) return 0.0;
    if (!may_run(task, tensor, end)) return std::nullopt;
    double harm = 0.0;
    for (auto at = problem_.reads.begin(task); at != problem_.reads.end(task); ++at) {
      auto added = there(*at, end, depth, tasks);
      if (!added) return std::nullopt;
      harm += *added;
    }
    tasks.push_back(task);
    return harm;
  }

  // Whether a task that runs again makes the same of all that is read after it.
  bool may_run(int task, int wanted, int end) const {
    int ran = ran_[end];
    if (ran > std::min(problem_.last_run[task], problem_.until[wanted])) return false;
    bool may = true;
    each_made(problem_, task, [&](int tensor) {
      may &= ran <= problem_.until[tensor] || copies_[tensor].back().last() < end;
    });
    return may;
  }

  // Weighed bytes that having a tensor at a place adds.
  std::optional<double> there(int tensor, int end, int depth, std::vector<int>& tasks) const {
    auto& copies = copies_[tensor];
    auto copy = copies.end() - 1;
    while (copy->made >= end) --copy;
    if (copy->last() >= end) return 0.0;
    if (ran_[copy->made] > problem_.until[tensor] && copy != copies.begin()) return std::nullopt;
    double waits = wait(tensor, copy->last(), end);
    if (depth) {
      auto again = tasks;
      auto harm = made(tensor, end, depth - 1, again);
      if (harm && *harm < waits) {
        tasks = std::move(again);
        return harm;
      }
    }
    return waits;
  }

  const Problem& problem_;
  const Repairs& rules_;
  std::vector<std::vector<Copy>> copies_;
  std::vector<double> weight_;
  std::vector<int> crossed_, ran_;
};

// A sequence whose peak is at most `limit`, or none where this finds none.
inline std::optional<std::vector<int32_t>> repaired(const Problem& problem, int64_t limit,
                                                    const Repairs& rules,
                                                    std::vector<int32_t> sequence) {
  std::optional<Repair> now;
  now.emplace(problem, limit, rules, std::move(sequence));
  int left = rules.most;
  while (now->above) {
    auto changes = now->changes();
    int tried = std::min({rules.tried, left, static_cast<int>(changes.size())});
    std::optional<std::vector<int32_t>> better;
    for (int n = 0; n < tried && !better; ++n) {
      --left;
      auto changed = now->changed(changes[n]);
      auto during = alive_during(problem, changed.data(), static_cast<int>(changed.size()));
      if (bytes_above(during, limit) < now->above) better = std::move(changed);
    }
    if (!better) return std::nullopt;
    now.emplace(problem, limit, rules, std::move(*better));
  }
  return std::move(now->sequence);
}

}  // namespace odtc
