// SPDX-License-Identifier: Apache-2.0
#include "client/routing/node_transport.h"

#include <optional>

namespace quire::internal {
namespace {

/// Reports the end of a call. A caller's own deadline for a part is no end.
class NotedCall final : public PendingCall {
 public:
  NotedCall(std::shared_ptr<NodeChoice> choice, NodeChoice::Node node, TimePoint end,
            std::unique_ptr<PendingCall> call)
      : choice_(std::move(choice)), node_(std::move(node)), end_(end), call_(std::move(call)) {}

  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    auto part = call_->Next(deadline);
    const bool goes_on = IsDeadlineExceeded(part.status()) && SystemClock().Now() < end_;
    if (!part.ok() && !goes_on) choice_->Note(node_, part.status());
    return part;
  }
  void Cancel() override { call_->Cancel(); }
  bool IsQuiet() const override { return call_->IsQuiet(); }

 private:
  const std::shared_ptr<NodeChoice> choice_;
  const NodeChoice::Node node_;
  const TimePoint end_;
  const std::unique_ptr<PendingCall> call_;
};

}  // namespace

StatusOr<std::unique_ptr<PendingCall>> StartNoted(const std::shared_ptr<NodeChoice>& choice,
                                                  const NodeChoice::Node& node,
                                                  Transport& transport, std::string_view method,
                                                  CallMessage request, const CallOptions& options) {
  const TimePoint end = SystemClock().Now() + options.timeout;
  auto call = transport.Start(method, std::move(request), options);
  choice->Note(node, call.status());
  QUIRE_RETURN_IF_ERROR(call.status());
  return std::make_unique<NotedCall>(choice, node, end, *std::move(call));
}

Status NodeTransport::CheckChosen() const {
  if (choice_->IsCurrent(node_.address)) return OkStatus();
  return Unavailable("calls go to another node than ", node_.address, " now");
}

StatusOr<std::unique_ptr<PendingCall>> NodeTransport::Start(std::string_view method,
                                                            CallMessage request,
                                                            const CallOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckChosen());
  return StartNoted(choice_, node_, *connection_, method, std::move(request), options);
}

Status NodeTransport::Call(std::string_view method, const CallMessage& request, CallMessage* reply,
                           const CallOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckChosen());
  const Status status = connection_->Call(method, request, reply, options);
  choice_->Note(node_, status);
  return status;
}

}  // namespace quire::internal
