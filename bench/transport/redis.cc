// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/rivals.h"

#ifdef QUIRE_WITH_HIREDIS
#include <hiredis/hiredis.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>
#include <vector>

#include "bench/transport/congestion_control.h"
#include "bench/transport/free_port.h"
#include "transport/net/local_sockets.h"

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

/// The client's library buffers commands until it waits for a reply.
Status Flush(redisContext* context) {
  for (int done = 0; done == 0;) {
    if (redisBufferWrite(context, &done) != REDIS_OK) {
      return Unavailable("redis: ", context->errstr);
    }
  }
  return OkStatus();
}

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
                     directory + "/redis.log", UnpacedEnvironment(directory)));
  QUIRE_RETURN_IF_ERROR(
      self->server_->WaitUntil([&] { return self->Connect(socket, port).ok(); }, kStartTime));
  QUIRE_RETURN_IF_ERROR(self->Fill(num_units));
  return self;
}

Redis::~Redis() {
  for (redisContext* const context : unix_) redisFree(context);
  for (redisContext* const context : tcp_) redisFree(context);
  if (control_ != nullptr) redisFree(control_);
}

/// Connects; may be called again after a failure, and continues.
Status Redis::Connect(const std::string& socket, int port) {
  const auto connected = [](redisContext* context) -> StatusOr<redisContext*> {
    if (context != nullptr && context->err == 0) return context;
    if (context != nullptr) redisFree(context);
    return Unavailable("redis cannot be connected to");
  };
  const auto open_unix = [&] { return connected(redisConnectUnix(socket.c_str())); };
  while (unix_.size() < kMostConnections) {
    QUIRE_ASSIGN_OR_RETURN(redisContext* const context, open_unix());
    unix_.push_back(context);
  }
  while (tcp_.size() < kMostConnections) {
    QUIRE_ASSIGN_OR_RETURN(redisContext* const context, connected(redisConnect("127.0.0.1", port)));
    DoNotPace(context->fd);
    tcp_.push_back(context);
  }
  if (control_ != nullptr) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(control_, open_unix());
  return OkStatus();
}

Status Redis::Fill(uint64_t num_units) {
  for (uint64_t i = 0; i < num_units; ++i) {
    QUIRE_RETURN_IF_ERROR(SendPut(control_, i));
    QUIRE_RETURN_IF_ERROR(NextReply(control_).status());
  }
  return OkStatus();
}

Status Redis::SendPut(redisContext* context, uint64_t number) {
  std::memcpy(unit_.data(), &number, sizeof number);
  const std::string key = KeyOf(number);
  const int sent =
      redisAppendCommand(context, "SET %b %b", key.data(), key.size(), unit_.data(), unit_.size());
  return sent == REDIS_OK ? OkStatus() : Unavailable("redis: ", context->errstr);
}

Status Redis::Put(Wire wire, uint64_t first, uint64_t count) {
  redisContext* const context = (wire == Wire::kUnix ? unix_ : tcp_).front();
  for (uint64_t i = 0; i < count + kPipeline; ++i) {
    if (i < count) {
      QUIRE_RETURN_IF_ERROR(SendPut(context, first + i));
      QUIRE_RETURN_IF_ERROR(Flush(context));
    }
    if (i >= kPipeline) QUIRE_RETURN_IF_ERROR(NextReply(context).status());
  }
  return OkStatus();
}

Status Redis::Remove(uint64_t first, uint64_t count) {
  for (uint64_t number = first; number < first + count; ++number) {
    const std::string key = KeyOf(number);
    redisAppendCommand(control_, "DEL %b", key.data(), key.size());
    QUIRE_RETURN_IF_ERROR(NextReply(control_).status());
  }
  return OkStatus();
}

Status Redis::Send(redisContext* context, std::span<const PlacedUnit> units) {
  std::vector<std::string> keys = {"MGET"};
  for (const PlacedUnit& read : units) keys.push_back(KeyOf(read.unit));
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

Status Redis::Receive(redisContext* context, std::span<const PlacedUnit> units) const {
  QUIRE_ASSIGN_OR_RETURN(const Reply reply, NextReply(context));
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != units.size()) {
    return Internal("redis answered something else than an array of ", units.size());
  }
  for (size_t i = 0; i < units.size(); ++i) {
    const redisReply& unit = *reply->element[i];
    uint64_t number = 0;
    if (unit.type == REDIS_REPLY_STRING && unit.len == unit_bytes_) {
      std::memcpy(&number, unit.str, sizeof number);
      if (number == units[i].unit) {
        std::memcpy(units[i].place, unit.str, unit.len);
        continue;
      }
    }
    return Internal("redis answered another unit than ", units[i].unit);
  }
  return OkStatus();
}

StatusOr<Redis::Info> Redis::AskInfo() {
  redisAppendCommand(control_, "INFO");
  QUIRE_ASSIGN_OR_RETURN(const Reply reply, NextReply(control_));
  Info info;
  std::istringstream lines(std::string(reply->str, reply->len));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (line.ends_with('\r')) line.pop_back();
    if (colon != std::string::npos) info[line.substr(0, colon)] = line.substr(colon + 1);
  }
  return info;
}

Status Redis::Read(Wire wire, size_t connections, std::span<const PlacedUnit> units,
                   const std::function<Status()>& midway) {
  const std::vector<redisContext*>& contexts = wire == Wire::kUnix ? unix_ : tcp_;
  const size_t batch_units = std::max<uint64_t>(1, kBatchBytes / unit_bytes_);
  const size_t batches = (units.size() + batch_units - 1) / batch_units;
  const size_t under_way = kPipeline * connections;
  const auto batch = [&](size_t i) {
    return units.subspan(i * batch_units, std::min(batch_units, units.size() - i * batch_units));
  };
  for (size_t i = 0; i < batches + under_way; ++i) {
    redisContext* const context = contexts[i % connections];
    if (i < batches) {
      QUIRE_RETURN_IF_ERROR(Send(context, batch(i)));
      QUIRE_RETURN_IF_ERROR(Flush(context));
    }
    if (i == batches / 2) QUIRE_RETURN_IF_ERROR(midway());
    if (i >= under_way) QUIRE_RETURN_IF_ERROR(Receive(context, batch(i - under_way)));
  }
  return OkStatus();
}

Status Redis::Read(Wire wire, size_t connections, std::span<const PlacedUnit> units) {
  return Read(wire, connections, units, [] { return OkStatus(); });
}

Status Redis::Get(Wire wire, std::span<const PlacedUnit> units) {
  redisContext* const context = (wire == Wire::kUnix ? unix_ : tcp_).front();
  QUIRE_RETURN_IF_ERROR(Send(context, units));
  return Receive(context, units);
}

StatusOr<Redis::ThreadUse> Redis::ReadWatched(Wire wire, std::span<const PlacedUnit> units) {
  const auto count = [](Info& info, const char* name) {
    return static_cast<double>(std::strtoull(info[name].c_str(), nullptr, 10));
  };
  QUIRE_ASSIGN_OR_RETURN(Info before, AskInfo());
  Info during;
  QUIRE_RETURN_IF_ERROR(Read(wire, kMostConnections, units, [&]() -> Status {
    QUIRE_ASSIGN_OR_RETURN(during, AskInfo());
    return OkStatus();
  }));
  QUIRE_ASSIGN_OR_RETURN(Info after, AskInfo());
  const auto grown = [&](const char* name) { return count(after, name) - count(before, name); };
  const double writes = grown("total_writes_processed");
  return ThreadUse{
      .active = during["io_threads_active"] == "1",
      .threaded_writes_share = writes > 0 ? grown("io_threaded_writes_processed") / writes : 0};
}

#else

StatusOr<std::unique_ptr<Redis>> Redis::Start(const std::string&, uint64_t, uint64_t) {
  return Unavailable("this program was built without Redis's C client (Debian: libhiredis-dev)");
}
Redis::~Redis() = default;
Status Redis::Read(Wire, size_t, std::span<const PlacedUnit>) {
  return Unavailable("no Redis client");
}
Status Redis::Get(Wire, std::span<const PlacedUnit>) { return Unavailable("no Redis client"); }
Status Redis::Put(Wire, uint64_t, uint64_t) { return Unavailable("no Redis client"); }
Status Redis::Remove(uint64_t, uint64_t) { return Unavailable("no Redis client"); }
StatusOr<Redis::ThreadUse> Redis::ReadWatched(Wire, std::span<const PlacedUnit>) {
  return Unavailable("no Redis client");
}

#endif

}  // namespace quire::bench
