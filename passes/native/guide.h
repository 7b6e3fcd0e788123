// What a walk drops first, and what it keeps only because other tensors are made again from it:
// `passes/checkpoint/plans/guide.py`.
#pragma once

#include <vector>

#include "problem.h"

namespace odtc {

// A choice of what is alive at a moment, filled by `planner.py`; a flag for each tensor or task.
struct Choice {
  int32_t task;
  uint8_t* kept;
  uint8_t* fetched;
  uint8_t* again;
  // Of a choice for the current moment: what was alive then, and is not to be.
  uint8_t* unwanted;
};

class Guide {
 public:
  Guide(const Problem& problem, const Choice* choice)
      : problem_(problem), again_(problem.tasks), readers_(problem.tensors) {
    if (choice) turn_to(*choice, false);
  }

  void turn_to(const Choice& choice, bool here) {
    has_choice_ = true;
    here_ = here;
    task_ = choice.task;
    auto flags = [](const uint8_t* from, int count) {
      return std::vector<char>(from, from + count);
    };
    kept_ = flags(choice.kept, problem_.tensors);
    fetched_ = flags(choice.fetched, problem_.tensors);
    again_ = flags(choice.again, problem_.tasks);
    if (here) unwanted_ = flags(choice.unwanted, problem_.tensors);
    for (auto& each : readers_) each.clear();
    for (int task = 0; task < problem_.tasks; ++task)
      if (again_[task]) each_read(problem_, task, [&](int read) { readers_[read].push_back(task); });
  }

  bool is_wanted(int tensor, int use, int now) const {
    if (!has_choice_) return true;
    if (here_) return !unwanted_[tensor];
    return now > task_ || use < task_ || kept_[tensor];
  }

  bool is_fetched(int tensor, int now) const {
    if (!has_choice_ || !fetched_[tensor]) return false;
    return now <= task_ || !is_wanted(tensor, now, now);
  }

  bool helps(int tensor) const { return !readers_[tensor].empty(); }

  template <typename Visit>
  void each_made_from(int tensor, Visit visit) const {
    for (int task : readers_[tensor])
      if (again_[task]) each_made(problem_, task, visit);
  }

  void has_run_again(int task) {
    if (task < problem_.tasks) again_[task] = 0;
  }

  void has_made(int tensor) {
    if (here_) unwanted_[tensor] = 0;
  }

 private:
  const Problem& problem_;
  bool has_choice_ = false, here_ = false;
  int task_ = 0;
  std::vector<char> kept_, fetched_, again_, unwanted_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace odtc
