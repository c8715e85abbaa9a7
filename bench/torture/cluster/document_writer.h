// SPDX-License-Identifier: Apache-2.0
//
// DocumentWriter: a client of a cluster that puts small documents, reads them back and deletes old
// ones, while the cluster has faults. No other client touches its documents. The seed and a
// document's number tell its bytes. A call that failed may have been carried out, so its document
// may be there or not. Thread-safety: none.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_DOCUMENT_WRITER_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_DOCUMENT_WRITER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/torture/cluster/cluster_fault.h"
#include "bench/torture/store/corpus.h"
#include "common/base/random.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/document_router.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::torture {

inline constexpr const char* kClusterCollection = "torture";

/// The fault that began last. Thread-safe.
class LastFault {
 public:
  void Set(ClusterFault fault) { name_ = Name(fault).data(); }
  const char* name() const { return name_; }

 private:
  std::atomic<const char*> name_ = "none";
};

/// Answer to a read of a document.
struct Reading {
  enum class Kind : uint8_t {
    kRight,   ///< The bytes that were put.
    kWrong,   ///< Other bytes.
    kDenied,  ///< No node has it, by the answers of all.
    kFailed,  ///< No answer, or a copy that lacks some of it.
  };
  Kind kind = Kind::kRight;
  Status status = {};  ///< Why it is not right.
};

struct WriterTotals {
  uint64_t acknowledged = 0;  ///< Puts.
  uint64_t deleted = 0;       ///< Documents whose deletion was acknowledged.
  uint64_t reads = 0;         ///< Reads with an answer.
  uint64_t failures = 0;      ///< Calls without one.
  uint64_t wrong = 0;         ///< Reads with other bytes than were put.
  uint64_t denied = 0;        ///< Reads of a document that no node had.
  /// Longest seconds until an operation of this kind succeeded, by the fault that had
  /// begun last at the first failure.
  std::map<std::string, std::map<std::string, double>> unavailable_s;
  std::string first_trouble;  ///< First of the wrong and denied ones.
  void Add(const WriterTotals& other);
};

class DocumentWriter {
 public:
  /// `last_fault` outlives it. Writers of one seed have different numbers.
  static StatusOr<std::unique_ptr<DocumentWriter>> Create(std::vector<std::string> servers,
                                                          uint32_t number, uint64_t seed,
                                                          const LastFault* last_fault);

  /// Does operations until then.
  void Work(TimePoint end);
  /// Reads a document at a node that has it, and compares it.
  Reading Read(uint32_t number);
  /// Reads the copy of the node at `address`.
  Reading ReadAt(const std::string& address, uint32_t number);

  const WriterTotals& totals() const { return totals_; }
  DocumentName NameOf(uint32_t number) const;
  /// Acknowledged ones that nobody tried to delete.
  const std::vector<uint32_t>& kept() const { return kept_; }
  /// Those whose deletion was acknowledged.
  const std::set<uint32_t>& deleted() const { return deleted_; }

 private:
  DocumentWriter(std::unique_ptr<DocumentRouter> router, uint32_t number, uint64_t seed,
                 const LastFault* last_fault);
  void PutOne();
  void ReadOne(TimePoint end);
  void DeleteOldest();
  Status Put(uint32_t number);
  Status Delete(const DocumentName& name);
  StatusOr<std::unique_ptr<Client>> ClientAt(const std::string& address);
  /// `fault` is the one at the first failure; null without one.
  void NoteWait(const std::string& operation, TimePoint since, const char* fault);
  /// Counts a read that is not right.
  void NoteFailure(uint32_t number, const Reading& reading);
  SegmentId Segment(uint32_t number, uint32_t index) const;

  const std::unique_ptr<DocumentRouter> router_;
  const uint32_t number_;
  const Corpus corpus_;
  const LastFault& last_fault_;
  SeededRandom random_;
  uint32_t next_ = 0;
  TimePoint put_since_ = TimePoint::max();  ///< First try since the last put that succeeded.
  const char* put_fault_ = nullptr;         ///< Fault at the first failure since then.
  std::vector<uint32_t> kept_;              ///< In order of their puts.
  std::set<uint32_t> deleted_;
  WriterTotals totals_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_DOCUMENT_WRITER_H_
