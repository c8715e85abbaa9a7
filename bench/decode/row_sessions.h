// SPDX-License-Identifier: Apache-2.0
//
// RowSessions: recalls as they are without contiguous units, for comparison (the paper's ablation
// of its hybrid layout). Where the host keeps pages in the device's order, [page][token][head][d],
// what a page holds for one KV head lies in p places, one a token, and each is a transfer of its
// own. Here the server stores the document a second time as units of one token: a recall of the
// same pages names, looks up, describes and sends p times as many fragments, each a p-th of the
// size. (The paper's are half that: keys and values of a token lie apart there.) Policies see pages
// as ever, and select the same; the units that come are the same bytes.
//
// Pages that a sequence appends are not in the second document: a sequence must end before the
// first of them leaves its window. Selection by the worker only.
//
// SharedRowSessions: the same for a batch, whose recalls of a layer are as few messages.
//
// Thread-safety: as SessionSource.
#ifndef QUIRE_BENCH_DECODE_ROW_SESSIONS_H_
#define QUIRE_BENCH_DECODE_ROW_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "gpuworker/engine/batch/shared_sessions.h"
#include "gpuworker/engine/session_source.h"
#include "quire/client.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::bench {

/// A document as units of one token.
struct RowDocument {
  KvSpec spec;
  SegmentKey tip = kRootKey;
  /// CRC-32C of the units of whole pages, [num_layers][pages][n_kv].
  std::vector<uint32_t> unit_checksums;
};

/// Stores the document that PutRandomDocument stores with `spec` as units of one token. Progress
/// goes to stderr.
StatusOr<RowDocument> PutRowDocument(Client& client, const KvSpec& spec, uint32_t pages);

class RowSessions final : public worker::SessionSource {
 public:
  /// All outlive this and its seats; `spec` is of the pages.
  RowSessions(Client* client, const KvSpec* spec, const RowDocument* rows)
      : spec_(spec), rows_(rows), pages_(client, spec), lanes_(client, &rows->spec) {}
  /// A seat whose recalls bring rows; digests are those of the pages. INVALID_ARGUMENT for a shape
  /// of a part of units.
  StatusOr<std::unique_ptr<worker::SessionSeat>> Seat(const ContextRef& context,
                                                      const worker::SessionShape& shape) override;

 private:
  const KvSpec* const spec_;
  const RowDocument* const rows_;
  worker::OwnSessions pages_;  ///< For digests.
  worker::OwnSessions lanes_;  ///< Of rows.
};

class SharedRowSessions final : public worker::BatchSessions {
 public:
  /// As RowSessions.
  SharedRowSessions(Client* client, const KvSpec* spec, const RowDocument* rows)
      : spec_(spec), rows_(rows), pages_(client, spec), lanes_(client, &rows->spec) {}
  StatusOr<std::unique_ptr<worker::SessionSeat>> Seat(const ContextRef& context,
                                                      const worker::SessionShape& shape) override;
  void Send() override { lanes_.Send(); }
  uint64_t messages() const override { return lanes_.messages(); }
  uint64_t lanes() const override { return lanes_.lanes(); }

 private:
  const KvSpec* const spec_;
  const RowDocument* const rows_;
  worker::OwnSessions pages_;     ///< For digests.
  worker::SharedSessions lanes_;  ///< Of rows.
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_ROW_SESSIONS_H_
