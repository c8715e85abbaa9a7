// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/answer_queue.h"

#include <algorithm>
#include <utility>

namespace quire {

AnswerQueue::AnswerQueue(Done done) : done_(std::move(done)), thread_([this] { Run(); }) {}

AnswerQueue::~AnswerQueue() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void AnswerQueue::Serve(AnswerMakers makers) {
  MutexLock lock(make_mutex_);
  makers_ = std::move(makers);
}

void AnswerQueue::Ask(uint64_t id, HttpRequest request) {
  MutexLock lock(mutex_);
  const auto same = std::ranges::find_if(asked_, [&](const Asked& asked) {
    return asked.request.path == request.path && asked.request.query == request.query;
  });
  if (same != asked_.end()) {
    same->ids.push_back(id);
    return;
  }
  asked_.push_back({.request = std::move(request), .ids = {id}});
  changed_.NotifyAll();
}

void AnswerQueue::Forget(uint64_t id) {
  MutexLock lock(mutex_);
  for (Asked& asked : asked_) std::erase(asked.ids, id);
  std::erase_if(asked_, [](const Asked& asked) { return asked.ids.empty(); });
}

AnswerQueue::Asked AnswerQueue::Next() {
  MutexLock lock(mutex_);
  while (asked_.empty() && !stopping_) changed_.Wait(mutex_);
  if (stopping_) return {};
  Asked next = std::move(asked_.front());
  asked_.erase(asked_.begin());
  return next;
}

SharedAnswer AnswerQueue::Make(const HttpRequest& request) {
  MutexLock lock(make_mutex_);
  const auto maker = makers_.find(request.path);
  const std::string_view absent = "the server is not running yet, or not any more\n";
  return std::make_shared<const std::string>(maker == makers_.end()
                                                 ? HttpAnswer(503, "text/plain", absent)
                                                 : HttpAnswer(maker->second(request)));
}

void AnswerQueue::Run() {
  for (Asked next = Next(); !next.ids.empty(); next = Next()) {
    const SharedAnswer answer = Make(next.request);
    for (const uint64_t id : next.ids) done_(id, answer);
  }
}

}  // namespace quire
