// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/dispatcher.h"

#include <optional>

#include "common/wire/convert.h"
#include "kvserver/service/admission/door.h"

namespace quire::kvserver {
namespace {

/// Fixed cost of a call besides its bytes, in bytes.
constexpr uint64_t kCostOfACall = 16 << 10;

uint64_t BytesOf(const CallMessage& message) {
  return message.control.size() + message.payload.size_bytes();
}

}  // namespace

/// Counts sent bytes. A client that takes them slowly keeps no other call from running.
class Dispatcher::CountedReply final : public ReplyWriter {
 public:
  explicit CountedReply(ReplyWriter& out) : out_(out) {}
  Status Write(CallMessage part) override {
    const WaitTimer waiting(&waits_, WaitedFor::kNetwork);
    const uint64_t bytes = BytesOf(part);
    const auto write = [&] { return out_.Write(std::move(part)); };
    QUIRE_RETURN_IF_ERROR(pass_ != nullptr ? pass_->Outside(write) : write());
    bytes_ += bytes;
    return OkStatus();
  }
  /// Sets the call's pass; null while it has none.
  void SetPass(Admission::Pass* pass) { pass_ = pass; }
  uint64_t bytes() const { return bytes_; }
  /// Waits of the whole call.
  CallWaits& waits() { return waits_; }
  const CallWaits& waits() const { return waits_; }

 private:
  ReplyWriter& out_;
  CallWaits waits_;
  Admission::Pass* pass_ = nullptr;
  uint64_t bytes_ = 0;
};

void Dispatcher::AddMethod(const std::string& name, Adapter adapter, PayloadUse use) {
  const Door door = DoorOf(name);
  auto method = std::make_unique<Method>();
  method->payload_use = use;
  method->adapter = std::move(adapter);
  method->door = door == Door::kRead    ? parts_.reads
                 : door == Door::kWrite ? parts_.writes
                                        : nullptr;
  methods_[name] = std::move(method);
}

std::vector<std::string> Dispatcher::Methods() const {
  std::vector<std::string> names;
  for (const auto& [name, method] : methods_) names.push_back(name);
  return names;
}

Status Dispatcher::Handle(const CallContext& context, std::string_view method,
                          const CallMessage& request, ReplyWriter& reply) {
  calls_.Add();
  const auto it = methods_.find(method);
  const Status status = it == methods_.end()
                            ? Unimplemented("this server has no method ", method)
                            : HandleKnown(*it->second, context, method, request, reply);
  if (!status.ok()) calls_failed_.Add();
  return status;
}

Status Dispatcher::HandleKnown(Method& method, const CallContext& context, std::string_view name,
                               const CallMessage& request, ReplyWriter& reply) const {
  const TimePoint start = parts_.clock->Now();
  const uint64_t request_bytes = BytesOf(request);
  method.request_bytes.Add(request_bytes);
  Span span = Serve(parts_.tracer, name, context.trace);
  CountedReply counted(reply);
  if (span.is_recorded()) counted.waits().SetSpan(&span);
  Status status = Check(context, name);
  if (status.ok()) status = Run(method, context, request, counted);
  method.reply_bytes.Add(counted.bytes());
  if (!status.ok()) method.errors[static_cast<size_t>(status.code())].Add();
  if (IsResourceExhausted(status)) TellRefusal(context, name, status);
  const Duration time = parts_.clock->Now() - start;
  method.latency.Record(time);
  NoteSlow(method, context, name, status, counted, request_bytes, time);
  span.Count("quire.request_bytes", request_bytes);
  span.Count("quire.reply_bytes", counted.bytes());
  span.End(status);
  return status;
}

void Dispatcher::NoteSlow(const Method& method, const CallContext& context, std::string_view name,
                          const Status& status, const CountedReply& reply, uint64_t request_bytes,
                          Duration time) const {
  // Calls without a door wait for events and for other nodes: they are slow by design.
  if (parts_.slow == nullptr || method.door == nullptr || !parts_.slow->IsSlow(time)) return;
  parts_.slow->Note({.method = std::string(name),
                     .tenant = context.tenant,
                     .code = status.code(),
                     .ended_unix_micros = parts_.clock->UnixMicros(),
                     .time = time,
                     .waits = reply.waits(),
                     .request_bytes = request_bytes,
                     .reply_bytes = reply.bytes()});
}

void Dispatcher::TellRefusal(const CallContext& context, std::string_view method,
                             const Status& why) const {
  NoteTo(parts_.health, Trouble::kCallRefused,
         std::string(method) + " of tenant '" + context.tenant + "': " + std::string(Message(why)));
}

Status Dispatcher::Check(const CallContext& context, std::string_view method) const {
  if (context.deadline <= SystemClock().Now()) {
    return DeadlineExceeded(method, ": the deadline had passed before the call began");
  }
  QUIRE_RETURN_IF_ERROR(wire::CheckTenantName(context.tenant));
  Status known = parts_.store->CheckTenant(context.tenant);
  if (!known.ok()) NoteTo(parts_.health, Trouble::kCallerUnproven, Message(known));
  return known;
}

StatusOr<std::optional<Admission::Pass>> Dispatcher::Enter(const Method& method,
                                                           const CallContext& context,
                                                           const CallMessage& request,
                                                           CallWaits* waits) const {
  std::optional<Admission::Pass> pass;
  if (method.door == nullptr) return pass;
  const WaitTimer waiting(waits, WaitedFor::kQueue);
  QUIRE_ASSIGN_OR_RETURN(auto entered,
                         method.door->Enter(context.tenant, kCostOfACall + BytesOf(request),
                                            context.deadline, context.priority, context.cancelled));
  pass.emplace(std::move(entered));
  return pass;
}

Status Dispatcher::Run(const Method& method, const CallContext& context, const CallMessage& request,
                       CountedReply& reply) const {
  QUIRE_ASSIGN_OR_RETURN(auto pass, Enter(method, context, request, &reply.waits()));
  // Lent payload has a lease: its lender may write to it meanwhile.
  Payload own;
  const bool copies = method.payload_use == PayloadUse::kMany && !request.payload.leases().empty();
  if (copies) {
    std::vector<std::byte> bytes(request.payload.size_bytes());
    request.payload.CopyTo(bytes.data());
    own.Append(std::move(bytes));
  }
  const Payload& payload = copies ? own : request.payload;
  if (const auto* const streaming = std::get_if<StreamingAdapter>(&method.adapter)) {
    const Call call{context.tenant, payload, nullptr, context, &reply.waits()};
    reply.SetPass(pass ? &*pass : nullptr);
    const Status status = (*streaming)(call, request.control, reply);
    reply.SetPass(nullptr);
    if (pass) pass->AddCost(reply.bytes());
    return status;
  }
  CallMessage answer;
  const Call call{context.tenant, payload, &answer.payload, context, &reply.waits()};
  const auto& whole = std::get<WholeAdapter>(method.adapter);
  QUIRE_RETURN_IF_ERROR(whole(call, request.control, &answer.control));
  if (pass) pass->AddCost(BytesOf(answer));
  pass.reset();
  return reply.Write(std::move(answer));
}

void Dispatcher::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("calls", "Calls that came in.", calls_.Get());
  visit.Counter("calls_failed", "Calls that ended with an error.", calls_failed_.Get());
  for (const auto& [name, method] : methods_) {
    visit.Histogram("call_seconds", "Time from the arrival of a call to its reply.",
                    method->latency, {{"method", name}});
    visit.Counter("call_request_bytes", "Bytes of requests.", method->request_bytes.Get(),
                  {{"method", name}});
    visit.Counter("call_reply_bytes", "Bytes of replies.", method->reply_bytes.Get(),
                  {{"method", name}});
    for (size_t code = 1; code < kNumCodes; ++code) {
      const uint64_t errors = method->errors[code].Get();
      if (errors == 0) continue;
      visit.Counter("call_errors", "Calls that ended with an error, by its code.", errors,
                    {{"method", name}, {"code", Name(static_cast<StatusCode>(code))}});
    }
  }
}

}  // namespace quire::kvserver
