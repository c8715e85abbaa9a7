// SPDX-License-Identifier: Apache-2.0
//
// SimNetwork: calls between the processes of a simulation. Each message takes a random time, so
// later ones overtake earlier ones. It may be lost or delivered twice, and links may be cut in one
// direction or both. A call whose reply is lost was carried out all the same. A call may also be
// carried out after its caller has given up.
//
// A process has an incarnation while it runs. Messages to an ended one are lost, and so are its
// replies. Thread-safety: none.
#ifndef QUIRE_TESTS_SIM_SIM_NETWORK_H_
#define QUIRE_TESTS_SIM_SIM_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "quire/clock.h"
#include "quire/status.h"
#include "tests/sim/sim_scheduler.h"

namespace quire::sim {

struct SimCall {
  Duration timeout = std::chrono::seconds(2);
  /// The network may deliver it twice. False for what changes more when it is carried out again.
  bool may_repeat = true;
};

/// Chances of each message, and its time on the way.
struct LinkQuality {
  double loss = 0;
  double duplicate = 0;
  Duration least_delay = std::chrono::microseconds(100);
  Duration most_delay = std::chrono::milliseconds(5);
};

class SimNetwork {
 public:
  explicit SimNetwork(SimScheduler* scheduler) : scheduler_(*scheduler) {}

  LinkQuality& quality() { return quality_; }
  /// Starts process `name`. Calls to it are answered from now on.
  void Up(const std::string& name) { incarnations_[name] = ++last_incarnation_; }
  void Down(const std::string& name) { incarnations_.erase(name); }
  bool IsUp(const std::string& name) const { return incarnations_.contains(name); }
  /// Number of the running incarnation; 0 when it is down.
  uint64_t IncarnationOf(const std::string& name) const;

  /// Loses everything from `from` to `to` until Heal.
  void Cut(const std::string& from, const std::string& to) { cut_.insert({from, to}); }
  void Heal() { cut_.clear(); }

  /// Calls process `to` from a task of process `from`. UNAVAILABLE when no reply came in time, or
  /// when `to` is down.
  template <typename Reply>
  StatusOr<Reply> Call(const std::string& from, const std::string& to, const SimCall& call,
                       std::function<StatusOr<Reply>()> carry_out);

  uint64_t num_messages() const { return num_messages_; }
  uint64_t num_lost() const { return num_lost_; }

 private:
  /// Time until a message arrives; nullopt when it is lost.
  std::optional<Duration> Delay(const std::string& from, const std::string& to);
  bool Chance(double probability) { return scheduler_.random().Uniform() < probability; }

  SimScheduler& scheduler_;
  LinkQuality quality_;
  std::map<std::string, uint64_t> incarnations_;
  std::set<std::pair<std::string, std::string>> cut_;
  uint64_t last_incarnation_ = 0, num_messages_ = 0, num_lost_ = 0;
};

template <typename Reply>
StatusOr<Reply> SimNetwork::Call(const std::string& from, const std::string& to,
                                 const SimCall& call, std::function<StatusOr<Reply>()> carry_out) {
  struct Exchange {
    SimScheduler::Task* caller = nullptr;  ///< Null once it has given up.
    std::optional<StatusOr<Reply>> reply;
  };
  auto exchange = std::make_shared<Exchange>();
  exchange->caller = scheduler_.Current();
  const uint64_t target = IncarnationOf(to);
  const auto deliver = [this, from, to, target, exchange,
                        carry_out = std::move(carry_out)](bool replies) {
    if (target == 0 || IncarnationOf(to) != target) return;
    StatusOr<Reply> reply = carry_out();
    if (!replies || IncarnationOf(to) != target) return;
    const std::optional<Duration> delay = Delay(to, from);
    if (!delay) return;
    scheduler_.Sleep(*delay);
    if (exchange->caller == nullptr || exchange->reply) return;
    exchange->reply = std::move(reply);
    scheduler_.Wake(exchange->caller);
  };
  if (const auto delay = Delay(from, to)) {
    scheduler_.Start([deliver] { deliver(true); }, *delay);
    if (call.may_repeat && Chance(quality_.duplicate)) {
      if (const auto again = Delay(from, to)) {
        scheduler_.Start([deliver] { deliver(false); }, *delay + 3 * *again);
      }
    }
  }
  (void)scheduler_.WaitUntil(scheduler_.Now() + call.timeout);
  exchange->caller = nullptr;
  if (exchange->reply) return *std::move(exchange->reply);
  return Unavailable(to, " does not answer ", from);
}

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_NETWORK_H_
