// A plan without the repetitions that it does not need: `passes/checkpoint/retention.py`.
#pragma once

#include <algorithm>
#include <vector>

#include "problem.h"

namespace odtc {

class Lives {
 public:
  Lives(const Problem& problem, const int32_t* sequence, int count)
      : problem_(problem), sequence_(sequence), copies_(problem.tensors), alive_(count + 2) {
    for (int place = 0; place < count; ++place) {
      each_read(problem, sequence[place],
                [&](int tensor) { copies_[tensor].back().reads.push_back(place); });
      each_made(problem, sequence[place],
                [&](int tensor) { copies_[tensor].push_back({place, {}}); });
    }
    for (int tensor = 0; tensor < problem.tensors; ++tensor) {
      if (problem.is_kept(tensor)) copies_[tensor].back().reads.push_back(count);
      for (auto& copy : copies_[tensor]) {
        alive_[copy.made] += problem.sizes[tensor];
        alive_[copy.last() + 1] -= problem.sizes[tensor];
      }
    }
    for (int place = 1; place <= count; ++place) alive_[place] += alive_[place - 1];
  }

  // Leaves a repetition out if the rest is within the limit; returns whether it did.
  bool leave_out(int place, int64_t limit) {
    find_changes(place);
    for (auto& change : changes_) add(change, change.size);
    for (auto& change : changes_) {
      if (change.size <= 0 || change.first > change.last) continue;
      auto begin = alive_.begin() + change.first, end = alive_.begin() + change.last + 1;
      if (*std::max_element(begin, end) > limit) {
        for (auto& other : changes_) add(other, -other.size);
        return false;
      }
    }
    forget(place);
    return true;
  }

 private:
  struct Copy {
    int made;
    std::vector<int> reads;
    int last() const { return reads.empty() ? made : reads.back(); }
  };
  // Bytes that a change adds from one place to another one, both included.
  struct Change {
    int first, last;
    int64_t size;
  };

  void add(const Change& change, int64_t size) {
    for (int at = change.first; at <= change.last; ++at) alive_[at] += size;
  }

  void find_changes(int place) {
    changes_.clear();
    each_made(problem_, sequence_[place], [&](int tensor) {
      auto copy = made_at(tensor, place);
      if (copy->reads.empty())
        changes_.push_back({place, place, -problem_.sizes[tensor]});
      else
        changes_.push_back({copy[-1].last() + 1, place - 1, problem_.sizes[tensor]});
    });
    each_read(problem_, sequence_[place], [&](int tensor) {
      auto& copy = read_at(tensor, place);
      if (copy.reads.back() != place) return;
      auto count = copy.reads.size();
      int end = count > 1 ? copy.reads[count - 2] : copy.made;
      changes_.push_back({end + 1, place, -problem_.sizes[tensor]});
    });
  }

  void forget(int place) {
    each_made(problem_, sequence_[place], [&](int tensor) {
      auto copy = made_at(tensor, place);
      auto& before = copy[-1].reads;
      before.insert(before.end(), copy->reads.begin(), copy->reads.end());
      copies_[tensor].erase(copy);
    });
    each_read(problem_, sequence_[place], [&](int tensor) {
      auto& reads = read_at(tensor, place).reads;
      reads.erase(std::find(reads.begin(), reads.end(), place));
    });
  }

  // The copy that is made at a place; there is one before it.
  std::vector<Copy>::iterator made_at(int tensor, int place) {
    auto& copies = copies_[tensor];
    return std::lower_bound(copies.begin(), copies.end(), place,
                            [](const Copy& copy, int at) { return copy.made < at; });
  }

  // The copy that is read at a place.
  Copy& read_at(int tensor, int place) {
    auto& copies = copies_[tensor];
    auto behind = std::upper_bound(copies.begin(), copies.end(), place,
                                   [](int at, const Copy& copy) { return at < copy.made; });
    return behind[-1];
  }

  const Problem& problem_;
  const int32_t* sequence_;
  std::vector<std::vector<Copy>> copies_;
  std::vector<int64_t> alive_;
  std::vector<Change> changes_;
};

// The sequence with repetitions left out, the longest first, as long as it is within the limit.
inline std::vector<int32_t> retained(const Problem& problem, const int32_t* sequence, int count,
                                     int64_t limit) {
  Lives lives(problem, sequence, count);
  std::vector<char> seen(problem.tasks + 2 * problem.tensors);
  std::vector<char> left_out(count), fetched(problem.tensors);
  std::vector<int> repeated;
  for (int place = 0; place < count; ++place) {
    int task = sequence[place];
    if (seen[task] || problem.is_fetch(task)) repeated.push_back(place);
    seen[task] = 1;
  }
  std::stable_sort(repeated.begin(), repeated.end(), [&](int one, int other) {
    return problem.times[sequence[one]] > problem.times[sequence[other]];
  });
  for (int place : repeated) left_out[place] = lives.leave_out(place, limit);
  for (int place = 0; place < count; ++place)
    if (!left_out[place] && problem.is_fetch(sequence[place]))
      fetched[problem.moved(sequence[place])] = 1;
  std::vector<int32_t> left;
  for (int place = 0; place < count; ++place) {
    int task = sequence[place];
    if (!left_out[place] && (!problem.is_copy(task) || fetched[problem.moved(task)]))
      left.push_back(task);
  }
  return left;
}

}  // namespace odtc
