// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/rivals.h"

#ifdef QUIRE_WITH_HIREDIS
#include <hiredis/hiredis.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "bench/transport/free_port.h"

namespace quire::bench {

#ifdef QUIRE_WITH_HIREDIS
namespace {

constexpr Duration kStartTime = std::chrono::seconds(20);

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

StatusOr<Reply> NextReply(redisContext* context) {
  void* reply = nullptr;
  if (redisGetReply(context, &reply) != REDIS_OK) {
    return Unavailable("redis: ", context->errstr);
  }
  Reply owned(static_cast<redisReply*>(reply));
  if (owned->type == REDIS_REPLY_ERROR) return Unavailable("redis: ", owned->str);
  return owned;
}

std::string KeyOf(uint64_t unit) { return "u" + std::to_string(unit); }

}  // namespace

StatusOr<std::unique_ptr<Redis>> Redis::Start(const std::string& directory, uint64_t unit_bytes,
                                              uint64_t num_units) {
  QUIRE_ASSIGN_OR_RETURN(const int port, FreePort());
  const std::string socket = directory + "/redis.sock";
  std::unique_ptr<Redis> self(new Redis(unit_bytes));
  QUIRE_ASSIGN_OR_RETURN(
      self->server_,
      Process::Start({"redis-server", "--port", std::to_string(port), "--bind", "127.0.0.1",
                      "--unixsocket", socket, "--save", "", "--appendonly", "no", "--io-threads",
                      "2", "--io-threads-do-reads", "yes", "--dir", directory},
                     directory + "/redis.log"));
  QUIRE_RETURN_IF_ERROR(
      self->server_->WaitUntil([&] { return self->Connect(socket, port).ok(); }, kStartTime));
  QUIRE_RETURN_IF_ERROR(self->Fill(num_units));
  return self;
}

Redis::~Redis() {
  for (redisContext* const context : {unix_, tcp_}) {
    if (context != nullptr) redisFree(context);
  }
}

Status Redis::Connect(const std::string& socket, int port) {
  const auto connect = [](redisContext*& context, auto open) -> Status {
    if (context != nullptr) redisFree(context);
    context = open();
    if (context != nullptr && context->err == 0) return OkStatus();
    return Unavailable("redis cannot be connected to");
  };
  QUIRE_RETURN_IF_ERROR(connect(unix_, [&] { return redisConnectUnix(socket.c_str()); }));
  return connect(tcp_, [&] { return redisConnect("127.0.0.1", port); });
}

Status Redis::Fill(uint64_t num_units) {
  std::vector<char> unit(unit_bytes_, 'x');
  for (uint64_t i = 0; i < num_units; ++i) {
    std::memcpy(unit.data(), &i, sizeof i);
    const std::string key = KeyOf(i);
    redisAppendCommand(unix_, "SET %b %b", key.data(), key.size(), unit.data(), unit.size());
    QUIRE_RETURN_IF_ERROR(NextReply(unix_).status());
  }
  return OkStatus();
}

Status Redis::Send(redisContext* context, std::span<const uint64_t> units) {
  std::vector<std::string> keys = {"MGET"};
  for (const uint64_t unit : units) keys.push_back(KeyOf(unit));
  std::vector<const char*> arguments;
  std::vector<size_t> lengths;
  for (const std::string& key : keys) {
    arguments.push_back(key.data());
    lengths.push_back(key.size());
  }
  const int sent = redisAppendCommandArgv(context, static_cast<int>(keys.size()), arguments.data(),
                                          lengths.data());
  return sent == REDIS_OK ? OkStatus() : Unavailable("redis: ", context->errstr);
}

Status Redis::Receive(redisContext* context, std::span<const uint64_t> units) const {
  QUIRE_ASSIGN_OR_RETURN(const Reply reply, NextReply(context));
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != units.size()) {
    return Internal("redis answered something else than an array of ", units.size());
  }
  for (size_t i = 0; i < units.size(); ++i) {
    const redisReply& unit = *reply->element[i];
    uint64_t number = 0;
    if (unit.type == REDIS_REPLY_STRING && unit.len == unit_bytes_) {
      std::memcpy(&number, unit.str, sizeof number);
      if (number == units[i]) continue;
    }
    return Internal("redis answered another unit than ", units[i]);
  }
  return OkStatus();
}

Status Redis::Read(Wire wire, std::span<const uint64_t> units) {
  redisContext* const context = wire == Wire::kUnix ? unix_ : tcp_;
  const size_t batches = (units.size() + kBatch - 1) / kBatch;
  const auto batch = [&](size_t i) {
    return units.subspan(i * kBatch, std::min(kBatch, units.size() - i * kBatch));
  };
  for (size_t i = 0; i < batches + kPipeline; ++i) {
    if (i < batches) QUIRE_RETURN_IF_ERROR(Send(context, batch(i)));
    if (i >= kPipeline) QUIRE_RETURN_IF_ERROR(Receive(context, batch(i - kPipeline)));
  }
  return OkStatus();
}

#else

StatusOr<std::unique_ptr<Redis>> Redis::Start(const std::string&, uint64_t, uint64_t) {
  return Unavailable("this program was built without Redis's C client (Debian: libhiredis-dev)");
}
Redis::~Redis() = default;
Status Redis::Read(Wire, std::span<const uint64_t>) { return Unavailable("no Redis client"); }

#endif

}  // namespace quire::bench
