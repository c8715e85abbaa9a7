// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace quire::sim {
namespace {

constexpr size_t kStackBytes = size_t{1} << 20;  // Touched pages only take memory.

}  // namespace

struct SimScheduler::Task {
  Body body;
  uint64_t wait = 0;  ///< Number of its waits so far.
  bool is_waiting = false;
  bool was_woken = false;
  bool has_ended = false;
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack;
};

SimScheduler::SimScheduler(uint64_t seed) : random_(seed) {}

SimScheduler::~SimScheduler() {
  if (num_tasks_ != 0) std::abort();  // Their stacks hold objects.
}

void SimScheduler::Start(Body body, Duration delay) {
  Plan(now_ + std::max(delay, Duration::zero()), {.body = std::move(body)});
}

void SimScheduler::Plan(TimePoint at, Event event) {
  events_.emplace(EventKey{at, random_.Next(), num_planned_++}, std::move(event));
}

void SimScheduler::RunUntil(TimePoint until) {
  while (!events_.empty()) {
    const auto first = events_.begin();
    if (std::get<TimePoint>(first->first) > until) break;
    now_ = std::get<TimePoint>(first->first);
    fingerprint_ = (fingerprint_ ^ std::get<1>(first->first)) * 0x100000001b3ull;
    Event event = std::move(first->second);
    events_.erase(first);
    Run(std::move(event));
  }
  if (until != TimePoint::max()) now_ = std::max(now_, until);
}

void SimScheduler::Run(Event event) {
  if (event.task != nullptr) {
    const auto task = tasks_.find(event.task);
    const bool goes_on =
        task != tasks_.end() && event.task->is_waiting && event.task->wait == event.wait;
    if (!goes_on) return;
    ++num_events_;
    SwitchTo(event.task);
    return;
  }
  ++num_events_;
  std::unique_ptr<Task> task = NewTask(std::move(event.body));
  Task* const raw = task.get();
  tasks_.emplace(raw, std::move(task));
  ++num_tasks_;
  SwitchTo(raw);
}

std::unique_ptr<SimScheduler::Task> SimScheduler::NewTask(Body body) {
  std::unique_ptr<Task> task;
  if (idle_.empty()) {
    task = std::make_unique<Task>();
    task->stack.reset(new std::byte[kStackBytes]);  // Not cleared.
  } else {
    task = std::move(idle_.back());
    idle_.pop_back();
    task->has_ended = false;
    task->is_waiting = false;
    ++task->wait;
  }
  task->body = std::move(body);
  getcontext(&task->context);
  task->context.uc_stack.ss_sp = task->stack.get();
  task->context.uc_stack.ss_size = kStackBytes;
  task->context.uc_link = nullptr;
  const auto address = reinterpret_cast<uintptr_t>(this);
  makecontext(&task->context, reinterpret_cast<void (*)()>(&SimScheduler::Enter), 2,
              static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
  return task;
}

void SimScheduler::Enter(unsigned low, unsigned high) {
  auto* const self = reinterpret_cast<SimScheduler*>(uintptr_t{high} << 32 | low);
  {
    const Body body = std::move(self->current_->body);
    body();
  }
  self->current_->has_ended = true;
  self->SwitchBack();
}

void SimScheduler::SwitchTo(Task* task) {
  task->is_waiting = false;
  current_ = task;
  swapcontext(&loop_, &task->context);
  current_ = nullptr;
  if (!task->has_ended) return;
  const auto ended = tasks_.find(task);
  idle_.push_back(std::move(ended->second));
  tasks_.erase(ended);
  --num_tasks_;
}

void SimScheduler::SwitchBack() { swapcontext(&current_->context, &loop_); }

void SimScheduler::Sleep(Duration duration) {
  (void)WaitUntil(now_ + std::max(duration, Duration::zero()));
}

bool SimScheduler::WaitUntil(TimePoint deadline) {
  Task* const task = current_;
  task->is_waiting = true;
  task->was_woken = false;
  ++task->wait;
  if (deadline != TimePoint::max()) {
    Plan(std::max(deadline, now_), {.task = task, .wait = task->wait});
  }
  SwitchBack();
  return task->was_woken;
}

void SimScheduler::Wake(Task* task) {
  if (!tasks_.contains(task) || !task->is_waiting || task->was_woken) return;
  task->was_woken = true;
  Plan(now_, {.task = task, .wait = task->wait});
}

}  // namespace quire::sim
