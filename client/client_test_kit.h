// SPDX-License-Identifier: Apache-2.0
//
// Parts that the client's tests share: small values, a CallHandler that answers from a script, and
// a client over loopback with a fake clock. Nothing that ships includes this.
#ifndef QUIRE_CLIENT_CLIENT_TEST_KIT_H_
#define QUIRE_CLIENT_CLIENT_TEST_KIT_H_

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/random.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/message.h"
#include "quire/client.h"
#include "quire/layout.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/random_bytes.h"
#include "transport/local/loopback_transport.h"

namespace quire::testing {

/// Answers each method from its own queue of answers and records every call.
class ScriptedHandler final : public CallHandler {
 public:
  using Answer = std::function<StatusOr<CallMessage>(const CallMessage& request)>;
  struct Recorded {
    std::string method;
    std::string tenant;
    TimePoint deadline;
    CallMessage request;
  };

  void Push(const std::string& method, Answer answer) {
    script_[method].push_back(std::move(answer));
  }
  void Fail(const std::string& method, const Status& status) {
    Push(method, [status](const CallMessage&) { return status; });
  }
  void Reply(const std::string& method, const google::protobuf::Message& reply,
             const Payload& payload = {}) {
    Push(method, [message = CallMessage{reply.SerializeAsString(), payload}](const CallMessage&) {
      return message;
    });
  }

  const std::vector<Recorded>& calls() const { return calls_; }
  template <typename Request>
  Request RequestOf(size_t call) const {
    Request request;
    EXPECT_TRUE(request.ParseFromString(calls_.at(call).request.control));
    return request;
  }

  std::vector<std::string> Methods() const override { return {}; }
  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                ReplyWriter& reply) override {
    calls_.push_back({std::string(method), context.tenant, context.deadline, request});
    std::deque<Answer>& answers = script_[std::string(method)];
    if (answers.empty()) return Unimplemented("the script has no answer left for ", method);
    const Answer answer = std::move(answers.front());
    answers.pop_front();
    QUIRE_ASSIGN_OR_RETURN(CallMessage part, answer(request));
    return reply.Write(std::move(part));
  }

 private:
  std::map<std::string, std::deque<Answer>> script_;
  std::vector<Recorded> calls_;
};

/// 2 layers, 4 query heads over 2 KV heads of 8 channels, pages of 4 tokens, segments of 2 pages.
inline KvSpec TinySpec() {
  KvSpec spec;
  spec.model = "tiny";
  spec.dtype = DType::kF32;
  spec.num_layers = 2;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.segment_pages = 2;
  spec.rope.rotary_dim = 8;
  return spec;
}

inline Payload RandomPayload(uint64_t count, uint64_t seed) {
  Payload payload;
  payload.Append(RandomBytes(count, seed));
  return payload;
}
inline std::vector<std::byte> Bytes(const Payload& payload) {
  std::vector<std::byte> bytes(payload.size_bytes());
  payload.CopyTo(bytes.data());
  return bytes;
}
/// One checksum a unit, as a reply carries them.
inline std::vector<uint32_t> UnitChecksums(const Payload& payload, uint64_t unit_bytes) {
  const std::vector<std::byte> bytes = Bytes(payload);
  std::vector<uint32_t> checksums;
  for (uint64_t at = 0; at < bytes.size(); at += unit_bytes) {
    checksums.push_back(Crc32c(std::span(bytes).subspan(at, unit_bytes)));
  }
  return checksums;
}
inline SegmentKey KeyOf(uint8_t fill) {
  SegmentKey key;
  key.bytes.fill(fill);
  return key;
}
/// A sealed context of `num_tokens` tokens whose segment keys are KeyOf(1), KeyOf(2), ...
inline ContextInfo SealedContext(const KvSpec& spec, uint64_t num_tokens) {
  ContextInfo info{.spec = spec,
                   .num_tokens = num_tokens,
                   .num_pages = PageCount(spec, num_tokens),
                   .segment_keys = {},
                   .chain_tip = {}};
  for (uint32_t i = 0; i < SegmentCount(spec, num_tokens); ++i) {
    info.segment_keys.push_back(KeyOf(static_cast<uint8_t>(i + 1)));
  }
  info.chain_tip = info.segment_keys.back();
  return info;
}

/// A client on a scripted server; nothing sleeps, time is the fake clock's.
class ClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> MakeClient(Client::Options options = {},
                                     uint64_t max_message_bytes = 1 << 20) {
    options.transport = std::make_shared<LoopbackTransport>(
        &server_,
        LoopbackTransport::Options{.max_message_bytes = max_message_bytes, .clock = &clock_});
    options.clock = &clock_;
    auto client = Client::Create(std::move(options));
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  FakeClock clock_;
  ScriptedHandler server_;
  const KvSpec spec_ = TinySpec();
};

}  // namespace quire::testing

#endif  // QUIRE_CLIENT_CLIENT_TEST_KIT_H_
