// SPDX-License-Identifier: Apache-2.0
//
// SimScheduler: the time and the tasks of a simulation, all in one thread. A task is plain blocking
// code on a stack of its own. It runs until it sleeps or waits; then the next event in simulated
// time goes on. Events of one moment run in an order that the seed decides. The same seed gives the
// same run.
//
// A task holds no lock of the product while it sleeps or waits: the thread would wait for itself.
// Thread-safety: none; tasks are no threads.
#ifndef QUIRE_TESTS_SIM_SIM_SCHEDULER_H_
#define QUIRE_TESTS_SIM_SIM_SCHEDULER_H_

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "common/base/random.h"
#include "quire/clock.h"

namespace quire::sim {

class SimScheduler {
 public:
  using Body = std::function<void()>;

  explicit SimScheduler(uint64_t seed);
  /// Every task has ended.
  ~SimScheduler();
  SimScheduler(const SimScheduler&) = delete;
  SimScheduler& operator=(const SimScheduler&) = delete;

  /// Simulated time since the begin.
  TimePoint Now() const { return now_; }
  /// Source of all chance in the simulation.
  Random& random() { return random_; }
  /// Number of events so far.
  uint64_t num_events() const { return num_events_; }
  /// A number that depends on the order of all events so far.
  uint64_t fingerprint() const { return fingerprint_; }
  size_t num_tasks() const { return num_tasks_; }

  /// Starts a task after `delay`. Callable from tasks and from outside.
  void Start(Body body, Duration delay = Duration::zero());
  /// Runs events from outside of all tasks, until none is left or their time is past `until`.
  void RunUntil(TimePoint until);

  // --- For the running task.

  void Sleep(Duration duration);
  /// The running task, for Wake.
  struct Task;
  Task* Current() const { return current_; }
  /// Waits for Wake, until `deadline`. Returns false when that came first.
  bool WaitUntil(TimePoint deadline);
  /// Ends the wait of a task, which goes on as an event of this moment. Ignores a task that does
  /// not wait.
  void Wake(Task* task);

 private:
  /// Time, chance, order of planning.
  using EventKey = std::tuple<TimePoint, uint64_t, uint64_t>;
  struct Event {
    Task* task = nullptr;  ///< Goes on if its wait is still number `wait`.
    uint64_t wait = 0;
    Body body = {};  ///< Begins, when `task` is null.
  };

  static void Enter(unsigned low, unsigned high);
  void Plan(TimePoint at, Event event);
  void Run(Event event);
  void SwitchTo(Task* task);
  /// Back to the loop of events, from the current task.
  void SwitchBack();
  std::unique_ptr<Task> NewTask(Body body);

  SeededRandom random_;
  TimePoint now_{};
  std::map<EventKey, Event> events_;
  Task* current_ = nullptr;
  ucontext_t loop_{};
  std::map<Task*, std::unique_ptr<Task>> tasks_;
  std::vector<std::unique_ptr<Task>> idle_;  ///< Ended, with stacks to use again.
  uint64_t num_planned_ = 0, num_events_ = 0, fingerprint_ = 0;
  size_t num_tasks_ = 0;
};

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_SCHEDULER_H_
