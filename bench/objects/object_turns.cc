// SPDX-License-Identifier: Apache-2.0
#include "bench/objects/object_turns.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bench/kit/filled_pages.h"
#include "common/base/random.h"

namespace quire::bench {
namespace {

/// Bytes of one call of Quire: enough to amortise the call, and little to hold at a time.
constexpr uint64_t kCallBytes = 16 << 20;

std::string ObjectKey(uint64_t number) { return "object/" + std::to_string(number); }

Status CheckNumber(const std::byte* bytes, uint64_t number) {
  uint64_t got = 0;
  std::memcpy(&got, bytes, sizeof got);
  if (got == number) return OkStatus();
  return Internal("object ", number, " was read and object ", got, " came");
}

/// Time of `work`, or its error.
template <typename Work>
StatusOr<Duration> TimeOf(const Work& work) {
  const TimePoint start = SystemClock().Now();
  QUIRE_RETURN_IF_ERROR(work());
  return SystemClock().Now() - start;
}

class QuireTurns final : public ObjectTurns {
 public:
  QuireTurns(Client* client, uint64_t object_bytes, Arrival arrival)
      : client_(*client),
        object_bytes_(object_bytes),
        arrival_(arrival),
        at_once_(std::max<uint64_t>(1, kCallBytes / object_bytes)),
        memory_(arrival == Arrival::kCopied ? at_once_ * object_bytes : 1) {
    std::vector<std::byte> rest(object_bytes - sizeof(uint64_t));
    SeededRandom random(1);
    for (std::byte& byte : rest) byte = static_cast<std::byte>(random.Next());
    rest_.Append(std::move(rest));
  }

  StatusOr<Duration> Get(std::span<const uint64_t> numbers) override {
    return TimeOf([&] { return GetAll(numbers); });
  }
  StatusOr<Duration> Put(uint64_t first, uint64_t count) override {
    return TimeOf([&] { return PutAll(first, count); });
  }
  Status Remove(uint64_t first, uint64_t count) override {
    std::vector<std::string> keys;
    for (uint64_t number = first; number < first + count; ++number) {
      keys.push_back(ObjectKey(number));
    }
    return client_.DeleteObjects(keys).status();
  }

 private:
  Status GetAll(std::span<const uint64_t> numbers) {
    for (size_t first = 0; first < numbers.size(); first += at_once_) {
      const auto some = numbers.subspan(first, std::min<size_t>(at_once_, numbers.size() - first));
      QUIRE_RETURN_IF_ERROR(arrival_ == Arrival::kCopied ? GetCopied(some) : GetInPlace(some));
    }
    return OkStatus();
  }

  Status PutAll(uint64_t first, uint64_t count) {
    std::vector<ObjectToPut> objects;
    for (uint64_t number = first; number < first + count; ++number) {
      std::vector<std::byte> head(sizeof number);
      std::memcpy(head.data(), &number, sizeof number);
      ObjectToPut object{.key = ObjectKey(number), .bytes = {}};
      object.bytes.Append(std::move(head));
      object.bytes.Append(rest_);
      objects.push_back(std::move(object));
    }
    QUIRE_ASSIGN_OR_RETURN(const auto replies, client_.PutObjects(objects));
    if (std::ranges::any_of(replies, &PutObjectReply::existed)) {
      return Internal("an object that was put was stored before");
    }
    return OkStatus();
  }

  Status GetCopied(std::span<const uint64_t> numbers) {
    std::vector<ObjectInto> into;
    for (size_t i = 0; i < numbers.size(); ++i) {
      into.push_back({.key = ObjectKey(numbers[i]),
                      .offset = 0,
                      .to = memory_.bytes().subspan(i * object_bytes_, object_bytes_)});
    }
    QUIRE_ASSIGN_OR_RETURN(const auto read, client_.GetObjectsInto(into));
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (read[i] != object_bytes_) return Internal("object ", numbers[i], " did not come");
      QUIRE_RETURN_IF_ERROR(CheckNumber(memory_.bytes().data() + i * object_bytes_, numbers[i]));
    }
    return OkStatus();
  }

  Status GetInPlace(std::span<const uint64_t> numbers) {
    std::vector<ObjectRange> ranges;
    for (const uint64_t number : numbers) ranges.push_back({.key = ObjectKey(number)});
    QUIRE_ASSIGN_OR_RETURN(const auto read, client_.GetObjects(ranges));
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (!read[i] || read[i]->payload.size_bytes() != object_bytes_) {
        return Internal("object ", numbers[i], " did not come");
      }
      QUIRE_RETURN_IF_ERROR(
          CheckNumber(read[i]->payload.slices().front().bytes.data(), numbers[i]));
    }
    return OkStatus();
  }

  Client& client_;
  const uint64_t object_bytes_;
  const Arrival arrival_;
  const uint64_t at_once_;
  FilledPages memory_;
  Payload rest_;  ///< Bytes of every object after its number.
};

class RedisTurns final : public ObjectTurns {
 public:
  RedisTurns(Redis* redis, uint64_t object_bytes, Redis::Wire wire, size_t get_connections)
      : redis_(*redis),
        object_bytes_(object_bytes),
        wire_(wire),
        get_connections_(get_connections),
        memory_(std::max(kCallBytes, object_bytes)) {}

  StatusOr<Duration> Get(std::span<const uint64_t> numbers) override {
    std::vector<PlacedUnit> units;
    const uint64_t places = memory_.bytes().size() / object_bytes_;
    for (size_t i = 0; i < numbers.size(); ++i) {
      units.push_back({numbers[i], memory_.bytes().data() + i % places * object_bytes_});
    }
    return TimeOf([&] {
      return units.size() == 1 ? redis_.Get(wire_, units)
                               : redis_.Read(wire_, get_connections_, units);
    });
  }
  StatusOr<Duration> Put(uint64_t first, uint64_t count) override {
    return TimeOf([&] { return redis_.Put(wire_, first, count); });
  }
  Status Remove(uint64_t first, uint64_t count) override { return redis_.Remove(first, count); }

 private:
  Redis& redis_;
  const uint64_t object_bytes_;
  const Redis::Wire wire_;
  const size_t get_connections_;
  FilledPages memory_;
};

/// Its own process measures the times.
class MooncakeTurns final : public ObjectTurns {
 public:
  explicit MooncakeTurns(Mooncake* mooncake) : mooncake_(*mooncake) {}

  StatusOr<Duration> Get(std::span<const uint64_t> numbers) override {
    QUIRE_ASSIGN_OR_RETURN(const auto times, mooncake_.Read(numbers.size(), 1));
    return times.front();
  }
  StatusOr<Duration> Put(uint64_t first, uint64_t count) override {
    return mooncake_.Put(first, count);
  }
  Status Remove(uint64_t first, uint64_t count) override { return mooncake_.Remove(first, count); }

 private:
  Mooncake& mooncake_;
};

}  // namespace

std::unique_ptr<ObjectTurns> TurnsOfQuire(Client* client, uint64_t object_bytes, Arrival arrival) {
  return std::make_unique<QuireTurns>(client, object_bytes, arrival);
}

std::unique_ptr<ObjectTurns> TurnsOfRedis(Redis* redis, uint64_t object_bytes, Redis::Wire wire,
                                          size_t get_connections) {
  return std::make_unique<RedisTurns>(redis, object_bytes, wire, get_connections);
}

std::unique_ptr<ObjectTurns> TurnsOfMooncake(Mooncake* mooncake) {
  return std::make_unique<MooncakeTurns>(mooncake);
}

}  // namespace quire::bench
