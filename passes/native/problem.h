// A step whose tasks may run again: what `passes/checkpoint/problem.py` has, as arrays.
#pragma once

#include <cstdint>
#include <vector>

namespace odtc {

// A list for each of so many things, one after the other: those of `n` are from `starts[n]` on.
struct Lists {
  const int32_t* starts;
  const int32_t* items;
  const int32_t* begin(int n) const { return items + starts[n]; }
  const int32_t* end(int n) const { return items + starts[n + 1]; }
  bool empty(int n) const { return starts[n] == starts[n + 1]; }
};

// Filled by `passes/native/planner.py`, whose fields have the same order.
struct Problem {
  int32_t tasks, tensors, has_storage;
  const int64_t* sizes;       // of each tensor
  const double* times;        // of each task, and of each store and fetch
  const int32_t* makers;      // of each tensor
  const int32_t* last_made;   // of each tensor
  const int32_t* until;       // of each tensor
  const int32_t* last_run;    // of each task
  Lists allocates;            // of each task
  Lists reads;                // of each task, in the order of what makes them
  Lists followed;             // the same, in the order in which chains are followed
  Lists uses;                 // of each tensor
  Lists made_before;          // of each task

  int store_of(int tensor) const { return tasks + tensor; }
  int fetch_of(int tensor) const { return tasks + tensors + tensor; }
  bool is_kept(int tensor) const {
    return !uses.empty(tensor) && uses.end(tensor)[-1] == tasks;
  }
  bool is_copy(int task) const { return task >= tasks; }
  bool is_fetch(int task) const { return task >= tasks + tensors; }
  int moved(int task) const { return (task - tasks) % tensors; }
};

// Calls `visit` with each tensor that a task, a store or a fetch makes.
template <typename Visit>
void each_made(const Problem& problem, int task, Visit visit) {
  if (problem.is_fetch(task)) {
    visit(problem.moved(task));
  } else if (!problem.is_copy(task)) {
    for (auto at = problem.allocates.begin(task); at != problem.allocates.end(task); ++at)
      visit(*at);
  }
}

// Calls `visit` with each tensor that a task, a store or a fetch reads.
template <typename Visit>
void each_read(const Problem& problem, int task, Visit visit) {
  if (!problem.is_copy(task)) {
    for (auto at = problem.reads.begin(task); at != problem.reads.end(task); ++at) visit(*at);
  } else if (!problem.is_fetch(task)) {
    visit(problem.moved(task));
  }
}

// Bytes that are alive during each place of a sequence.
inline std::vector<int64_t> alive_during(const Problem& problem, const int32_t* sequence,
                                         int count) {
  std::vector<char> needed(problem.tensors);
  for (int tensor = 0; tensor < problem.tensors; ++tensor)
    needed[tensor] = problem.is_kept(tensor);
  std::vector<int64_t> freed(count), during(count);
  for (int place = count - 1; place >= 0; --place) {
    each_made(problem, sequence[place], [&](int tensor) {
      if (!needed[tensor]) freed[place] += problem.sizes[tensor];
    });
    each_made(problem, sequence[place], [&](int tensor) { needed[tensor] = 0; });
    each_read(problem, sequence[place], [&](int tensor) {
      if (!needed[tensor]) freed[place] += problem.sizes[tensor];
      needed[tensor] = 1;
    });
  }
  int64_t alive = 0;
  for (int place = 0; place < count; ++place) {
    each_made(problem, sequence[place], [&](int tensor) { alive += problem.sizes[tensor]; });
    during[place] = alive;
    alive -= freed[place];
  }
  return during;
}

}  // namespace odtc
