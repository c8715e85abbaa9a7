// SPDX-License-Identifier: Apache-2.0
//
// RowSessions: recalls without contiguous units, for comparison (the paper's ablation of its hybrid
// layout). A host may keep pages in the device's order, [page][token][head][d]. A page's data for
// one KV head then lies in p places, one per token, and each is a separate transfer. Here the
// server stores the document a second time as units of one token. A recall of the same pages names,
// looks up, describes and sends p times as many fragments, each a p-th of the size. (The paper's
// are half that: keys and values of a token lie apart there.) Policies see the pages unchanged and
// select the same; the recalled bytes are the same.
//
// The second document lacks pages that a sequence appends. A sequence must end before the first of
// them leaves its window. Selection is by the worker only.
//
// SharedRowSessions: the same for a batch, whose recalls of a layer share messages.
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

/// Stores, as units of one token, the document that PutRandomDocument stores with `spec`. Reports
/// progress on stderr.
StatusOr<RowDocument> PutRowDocument(Client& client, const KvSpec& spec, uint32_t pages);

class RowSessions final : public worker::SessionSource {
 public:
  /// All arguments outlive this and its seats; `spec` describes the pages.
  RowSessions(Client* client, const KvSpec* spec, const RowDocument* rows)
      : spec_(spec), rows_(rows), pages_(client, spec), lanes_(client, &rows->spec) {}
  /// A seat whose recalls bring rows; digests are those of the pages. INVALID_ARGUMENT for a shape
  /// with a part of units.
  StatusOr<std::unique_ptr<worker::SessionSeat>> Seat(const ContextRef& context,
                                                      const worker::LaneShape& shape) override;

 private:
  const KvSpec* const spec_;
  const RowDocument* const rows_;
  worker::OwnSessions pages_;  ///< Sessions for digests.
  worker::OwnSessions lanes_;  ///< Sessions for rows.
};

class SharedRowSessions final : public worker::BatchSessions {
 public:
  /// Arguments as RowSessions.
  SharedRowSessions(Client* client, const KvSpec* spec, const RowDocument* rows)
      : spec_(spec), rows_(rows), pages_(client, spec), lanes_(client, &rows->spec) {}
  StatusOr<std::unique_ptr<worker::SessionSeat>> Seat(const ContextRef& context,
                                                      const worker::LaneShape& shape) override;
  void Send() override { lanes_.Send(); }
  uint64_t messages() const override { return lanes_.messages(); }
  uint64_t lanes() const override { return lanes_.lanes(); }

 private:
  const KvSpec* const spec_;
  const RowDocument* const rows_;
  worker::OwnSessions pages_;     ///< Sessions for digests.
  worker::SharedSessions lanes_;  ///< Sessions for rows.
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_ROW_SESSIONS_H_
