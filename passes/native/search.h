// Depth-first search for a plan of a given height: `passes/memory/packing/search.py`.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "skyline.h"

namespace odtc {

enum class Ended { kFound, kNone, kSpent };

// What a search may spend: steps, and seconds on the clock where these are not negative.
class Budget {
 public:
  Budget(int64_t steps, double seconds)
      : left(steps), timed_(seconds >= 0), end_(Clock::now() + as_duration(timed_ ? seconds : 0)) {}

  // Takes steps away; returns whether there were any left before.
  bool spend(int64_t steps) {
    bool was_left = left > 0 && (!timed_ || Clock::now() < end_);
    left -= steps;
    return was_left;
  }

  int64_t left;

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::duration as_duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  bool timed_;
  Clock::time_point end_;
};

class Search {
 public:
  Search(State first, int64_t height, double* weight, bool learn, int64_t* offsets)
      : height_(height), weight_(weight), learn_(learn), offsets_(offsets) {
    task_ = std::make_shared<Task>(Task{std::move(first), -1, nullptr});
  }

  // Searches until a plan is found, none is left, or so many nodes have been looked at.
  Ended run(int64_t nodes, Budget& budget) {
    while (task_) {
      if (!nodes || !budget.spend(task_->state.region->cost())) return Ended::kSpent;
      --nodes;
      int frame = look();
      while (frame >= 0 && frames_[frame].choice.branches.empty()) frame = frames_[frame].task->frame;
      if (frame < 0) return Ended::kNone;
      frames_.resize(frame + 1);
      descend(frame);
    }
    return Ended::kFound;
  }

  // The least height of which it is not known that there is no plan.
  int64_t next = std::numeric_limits<int64_t>::max();

 private:
  // A state to be completed, the frame to go back to if it cannot be, and what comes after it.
  struct Task {
    State state;
    int frame;
    std::shared_ptr<Task> rest;
  };
  // A choice of which branches are left.
  struct Frame {
    Branches choice;
    std::shared_ptr<Task> task;
  };

  int look() {
    std::vector<char> covered;
    State state = raised(task_->state, covered);
    auto tightest = std::min_element(state.slack.begin(), state.slack.end());
    if (*tightest < 0) {
      next = std::min(next, height_ - *tightest);
      weight_[state.region->first + (tightest - state.slack.begin())] += learn_;
      return task_->frame;
    }
    auto choice = choose(state, covered, weight_);
    if (choice.missing) next = std::min(next, height_ + choice.missing);
    auto task = std::make_shared<Task>(Task{std::move(state), task_->frame, task_->rest});
    frames_.push_back({std::move(choice), std::move(task)});
    return static_cast<int>(frames_.size()) - 1;
  }

  void descend(int frame) {
    auto& [choice, task] = frames_[frame];
    int branch = choice.branches.back();
    choice.branches.pop_back();
    State state = followed(task->state, choice, branch);
    auto rest = task->rest;
    if (branch == kNothing) {
      task_ = std::make_shared<Task>(Task{std::move(state), frame, rest});
      return;
    }
    offsets_[state.region->blocks[branch].row] = choice.bottom;
    auto pieces = split(std::move(state));
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)
      rest = std::make_shared<Task>(Task{std::move(*piece), frame, rest});
    task_ = rest;
  }

  int64_t height_;
  double* weight_;
  bool learn_;
  int64_t* offsets_;
  std::vector<Frame> frames_;
  std::shared_ptr<Task> task_;
};

}  // namespace odtc
