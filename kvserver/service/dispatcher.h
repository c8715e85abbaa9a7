// SPDX-License-Identifier: Apache-2.0
//
// Dispatcher: the server end of every transport. It checks the tenant and the deadline, finds the
// method, parses the control bytes, calls the adapter and serializes its reply. Adapters turn one
// wire message into one call of the domain and back; they hold no logic of their own.
// Thread-safety: Add before the first Handle; then all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_SERVICE_DISPATCHER_H_
#define QUIRE_KVSERVER_SERVICE_DISPATCHER_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/status.h"
#include "common/transport/transport.h"
#include "kvserver/store/page_store.h"

namespace quire::kvserver {

/// What an adapter knows of a call besides its message.
struct Call {
  std::string_view tenant;  ///< Checked: the store knows it.
  const Payload& payload;   ///< Of the request; valid during the call.
  Payload* reply_payload;
};

class Dispatcher final : public CallHandler {
 public:
  /// `store` says which tenants there are, and outlives the dispatcher.
  explicit Dispatcher(const PageStore* store) : store_(*store) {}

  /// Answers `method` with `adapter(call, request, reply)`; Request and Reply are protobuf
  /// messages.
  template <typename Request, typename Reply, typename Adapter>
  void Add(const std::string& method, Adapter adapter) {
    methods_[method] = [adapter = std::move(adapter)](const Call& call, const std::string& control,
                                                      std::string* reply_control) -> Status {
      Request request;
      Reply reply;
      if (!request.ParseFromString(control)) {
        return InvalidArgument("the request is no ", request.GetTypeName(), " message");
      }
      QUIRE_RETURN_IF_ERROR(adapter(call, request, &reply));
      if (reply.SerializeToString(reply_control)) return OkStatus();
      return Internal("the reply could not be serialized");
    };
  }

  std::vector<std::string> Methods() const override;
  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                CallMessage* reply) override;

  void VisitCounters(const CounterVisitor& visit) const;

 private:
  using Method = std::function<Status(const Call&, const std::string&, std::string*)>;
  Status Run(const CallContext& context, std::string_view method, const CallMessage& request,
             CallMessage* reply) const;

  const PageStore& store_;
  std::map<std::string, Method, std::less<>> methods_;
  Counter calls_;
  Counter calls_failed_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_DISPATCHER_H_
