// SPDX-License-Identifier: Apache-2.0
#include "client/data/data_transport.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace quire::internal {
namespace {

/// Memory as one connection knows it, which it keeps: the landing goes first.
struct Registered {
  std::shared_ptr<Transport> connection;
  std::unique_ptr<Landing> landing;
};

}  // namespace

class DataTransport::DataLanding final : public Landing {
 public:
  DataLanding(const DataTransport* owner, std::span<std::byte> bytes)
      : owner_(owner), bytes_(bytes) {}
  std::span<std::byte> bytes() const override { return bytes_; }
  const DataTransport* owner() const { return owner_; }

  /// The memory as `connection` knows it; announced there when it is not.
  StatusOr<std::shared_ptr<const Registered>> On(const Connection& connection)
      QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (registered_ == nullptr || registered_->connection != connection) {
      std::erase_if(past_, [](const auto& past) { return past.use_count() == 1; });
      QUIRE_ASSIGN_OR_RETURN(auto landing, connection->AddLanding(bytes_));
      if (registered_ != nullptr) past_.push_back(std::move(registered_));
      registered_ = std::make_shared<const Registered>(Registered{connection, std::move(landing)});
    }
    return registered_;
  }

 private:
  const DataTransport* const owner_;
  const std::span<std::byte> bytes_;
  Mutex mutex_;
  std::shared_ptr<const Registered> registered_ QUIRE_GUARDED_BY(mutex_);
  /// On connections that are over, which calls may still have. Their end may wait: it comes where
  /// the memory is announced or ends, which may too, and never with a call.
  std::vector<std::shared_ptr<const Registered>> past_ QUIRE_GUARDED_BY(mutex_);
};

/// Options of a call on one connection, and what keeps them valid.
struct DataTransport::Bound {
  Connection connection;
  std::shared_ptr<const Registered> registered;  ///< Null without a landing.
  CallOptions options;
};

/// A call with what it needs until its end; the call goes first.
class DataTransport::HeldCall final : public PendingCall {
 public:
  HeldCall(Bound bound, std::unique_ptr<PendingCall> call)
      : bound_(std::move(bound)), call_(std::move(call)) {}
  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    return call_->Next(deadline);
  }
  void Cancel() override { call_->Cancel(); }
  bool IsQuiet() const override { return call_->IsQuiet(); }

 private:
  const Bound bound_;
  const std::unique_ptr<PendingCall> call_;
};

StatusOr<std::shared_ptr<DataTransport>> DataTransport::Open(Options options) {
  std::shared_ptr<DataTransport> self(new DataTransport(std::move(options)));
  QUIRE_RETURN_IF_ERROR(self->Current(Duration::max()).status());
  return self;
}

StatusOr<std::shared_ptr<DataTransport>> DataTransport::Open(
    std::shared_ptr<Transport> control, const DataOptions& options,
    std::function<void(const DataReport&)> on_other_way, const DataSeams& seams) {
  return Open({.connect =
                   [control = std::move(control), options, seams](TimePoint deadline) {
                     return ConnectDataOnce(control, options, deadline, seams);
                   },
               .on_other_way = std::move(on_other_way)});
}

DataReport DataTransport::report() const {
  MutexLock lock(mutex_);
  return report_;
}

TransportCapabilities DataTransport::capabilities() const {
  MutexLock lock(mutex_);
  return capabilities_;
}

StatusOr<std::unique_ptr<Landing>> DataTransport::AddLanding(std::span<std::byte> memory) {
  auto landing = std::make_unique<DataLanding>(this, memory);
  QUIRE_ASSIGN_OR_RETURN(const Connection connection, Current(Duration::max()));
  // Where the connection has died, the memory is announced on the next one.
  const auto registered = landing->On(connection);
  if (!registered.ok() && !IsUnavailable(registered.status())) return registered.status();
  return landing;
}

StatusOr<OwnedMemory> DataTransport::AllocateLandingMemory(uint64_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(const Connection connection, Current(Duration::max()));
  return connection->AllocateLandingMemory(bytes);
}

StatusOr<DataTransport::Bound> DataTransport::Bind(const Connection& connection,
                                                   const CallOptions& options) const {
  Bound bound{.connection = connection, .registered = nullptr, .options = options};
  if (options.landing == nullptr) return bound;
  auto* const landing = dynamic_cast<DataLanding*>(options.landing);
  if (landing == nullptr || landing->owner() != this) {
    return InvalidArgument("the landing was made by another transport: use AddLanding of this one");
  }
  QUIRE_ASSIGN_OR_RETURN(bound.registered, landing->On(connection));
  bound.options.landing = bound.registered->landing.get();
  return bound;
}

StatusOr<std::unique_ptr<PendingCall>> DataTransport::Start(std::string_view method,
                                                            CallMessage request,
                                                            const CallOptions& options) {
  Status lost;
  for (int attempt = 0; attempt < 2; ++attempt) {
    QUIRE_ASSIGN_OR_RETURN(const Connection connection, Current(options.timeout));
    StatusOr<Bound> bound = Bind(connection, options);
    lost = bound.status();
    if (bound.ok()) {
      auto call = connection->Start(method, request, bound->options);
      if (call.ok()) return std::make_unique<HeldCall>(*std::move(bound), *std::move(call));
      lost = call.status();
    }
    if (!IsUnavailable(lost)) return lost;
    OnConnectionLost(connection, lost);
  }
  return lost;
}

Status DataTransport::Call(std::string_view method, const CallMessage& request, CallMessage* reply,
                           const CallOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const Connection connection, Current(options.timeout));
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bind(connection, options));
  const Status status = connection->Call(method, request, reply, bound.options);
  if (IsUnavailable(status)) OnConnectionLost(connection, status);
  return status;
}

StatusOr<DataTransport::Connection> DataTransport::Current(Duration timeout) {
  const TimePoint now = SystemClock().Now();
  const TimePoint deadline = timeout > TimePoint::max() - now ? TimePoint::max() : now + timeout;
  QUIRE_ASSIGN_OR_RETURN(Connection current, AcquireOrConnect(deadline));
  if (current != nullptr) return current;
  std::optional<DataReport> other_way;
  StatusOr<Connection> took = AdoptConnection(options_.connect(deadline), &other_way);
  if (other_way && options_.on_other_way) options_.on_other_way(*other_way);
  return took;
}

StatusOr<DataTransport::Connection> DataTransport::AdoptConnection(
    StatusOr<DataConnection> made, std::optional<DataReport>* other_way) {
  MutexLock lock(mutex_);
  connecting_ = false;
  changed_.NotifyAll();
  if (!made.ok()) {
    BackOff(made.status());
    return last_failure_;
  }
  connection_ = std::move(made->transport);
  capabilities_ = connection_->capabilities();
  const std::string before = std::exchange(report_, std::move(made->report)).taken;
  if (!before.empty() && report_.taken != before) *other_way = report_;
  made_at_ = options_.clock->Now();
  return connection_;
}

StatusOr<DataTransport::Connection> DataTransport::AcquireOrConnect(TimePoint deadline) {
  constexpr Duration kLongestWait = std::chrono::minutes(1);
  MutexLock lock(mutex_);
  while (connecting_) {
    const Duration left = deadline - SystemClock().Now();
    if (left <= Duration::zero()) {
      return DeadlineExceeded("the data connection is being made, and was not within the timeout");
    }
    (void)changed_.WaitFor(mutex_, std::min(left, kLongestWait));
  }
  if (connection_ != nullptr) return connection_;
  if (options_.clock->Now() < not_before_) return last_failure_;
  connecting_ = true;
  return nullptr;
}

void DataTransport::OnConnectionLost(const Connection& connection, const Status& why) {
  Connection dead;  // Goes when the lock has.
  MutexLock lock(mutex_);
  if (connection_ != connection) return;
  dead = std::move(connection_);
  if (options_.clock->Now() - made_at_ < options_.retry.max_backoff) {
    BackOff(why);
  } else {
    failures_ = 0;
  }
}

void DataTransport::BackOff(const Status& why) {
  ++failures_;
  last_failure_ = Annotate(why, "no data connection");
  not_before_ = options_.clock->Now() + WaitAfter(why, options_.retry, failures_, *options_.random);
}

}  // namespace quire::internal
