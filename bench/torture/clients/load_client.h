// SPDX-License-Identifier: Apache-2.0
//
// LoadClient: one client of a load, with its own connection. It puts documents under names of its
// own, and continues, reads and deletes them. Their texts overlap with those of other clients. Only
// this client deletes its acknowledged documents, so the store must have them, and NOT_FOUND is a
// fault. Segments found by a lookup belong to other clients, who may delete them before they are
// continued or named. The put then starts over, as an ingest does.
// Thread-safety: none.
// Ownership: the client outlives it.
#ifndef QUIRE_BENCH_TORTURE_CLIENTS_LOAD_CLIENT_H_
#define QUIRE_BENCH_TORTURE_CLIENTS_LOAD_CLIENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/torture/clients/load_text.h"
#include "common/base/random.h"
#include "quire/client.h"
#include "quire/status.h"

namespace quire::torture {

/// Results of the calls of one kind of operation.
struct LoadCounts {
  uint64_t done = 0;
  std::map<std::string, uint64_t> failures;  ///< By step and status code: "open NOT_FOUND".
  void Add(const LoadCounts& other);
  uint64_t failed() const;
};

struct LoadTotals {
  std::map<std::string, LoadCounts> operations;  ///< "put", "continue", "read", "ask", "delete"
  /// NOT_FOUND answers for documents acknowledged and not deleted.
  uint64_t not_found = 0;
  uint64_t wrong_bytes = 0;
  /// Puts started over because a segment found by a lookup was deleted.
  uint64_t begun_anew = 0;
  std::string first_failure;  ///< Description of the first failure.
  void Add(const LoadTotals& other);
  uint64_t failed() const;
};

class LoadClient {
 public:
  /// `number` distinguishes it; all clients of one `seed` draw from the same texts.
  LoadClient(Client* client, uint32_t number, uint64_t seed)
      : client_(client), number_(number), seed_(seed), random_(seed * 100 + number) {}

  /// Does one operation.
  void Step();
  /// Deletes all its remaining documents.
  void DeleteAll();
  const LoadTotals& totals() const { return totals_; }

 private:
  struct Stored {
    DocumentName name;
    LoadText text;
  };
  /// The status of an operation, and the step at which it failed.
  struct Outcome {
    Status status;
    std::string step;
    bool wrong_bytes = false;
  };

  Outcome Put();
  Outcome Continue();
  Outcome Read();
  Outcome Ask();
  Outcome Delete(size_t index);
  /// Attempts a put once. Sets `*others` if it depends on a segment that a lookup found and no
  /// reference holds.
  Outcome TryPut(const LoadText& text, bool* others);
  /// Stores `text` after its stored prefix; `tip` is its last segment's key.
  Outcome Store(const LoadText& text, SegmentKey* tip, bool* others);
  /// True if `payload` equals `expected`, up to noise.
  static bool IsExpected(const Payload& payload, const std::vector<std::byte>& expected);
  /// Appends what `context` lacks of `text`.
  Outcome AppendRest(const OpenedContext& context, const LoadText& text);
  Outcome Register(LoadText text, const SegmentKey& tip);
  Outcome FetchAndCompare(const ContextRef& context, const LoadText& text);
  void Count(const std::string& operation, const Outcome& outcome);
  size_t AnyStored() { return static_cast<size_t>(random_.Below(stored_.size())); }

  Client* const client_;
  const uint32_t number_;
  const uint64_t seed_;
  SeededRandom random_;
  uint64_t next_name_ = 0;
  std::vector<Stored> stored_;
  LoadTotals totals_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLIENTS_LOAD_CLIENT_H_
