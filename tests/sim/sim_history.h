// SPDX-License-Identifier: Apache-2.0
//
// SimHistory: what clients of a simulated cluster asked for and were told, and the promises that
// follow from it. A call without an answer may have been carried out, or be carried out later.
// Every broken promise becomes a line. Thread-safety: none.
#ifndef QUIRE_TESTS_SIM_SIM_HISTORY_H_
#define QUIRE_TESTS_SIM_SIM_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/documents/document_agreement.h"
#include "quire/clock.h"
#include "quire/key.h"

namespace quire::sim {

class SimHistory {
 public:
  /// Begins a registration of `name` by the chain `tip`. Returns its number.
  size_t BeginRegister(const std::string& name, const SegmentKey& tip, TimePoint now);
  /// It was acknowledged as `version`.
  void EndRegister(size_t registration, uint64_t version, TimePoint now);
  /// Begins a deletion of a version; 0: of all.
  size_t BeginDelete(const std::string& name, uint64_t version, TimePoint now);
  /// It was acknowledged.
  void EndDelete(size_t deletion, TimePoint now);

  /// A version that was acknowledged, for readers to ask for; nullopt when there is none.
  struct Acknowledged {
    std::string name;
    uint64_t version = 0;
    SegmentKey tip;
  };
  std::optional<Acknowledged> Any(uint64_t choice) const;

  /// A read that began at `began` found the chain `tip`.
  void Found(const std::string& name, uint64_t version, const SegmentKey& tip);
  /// A read that began at `began` was told for sure that there is no such version.
  void NotFound(const std::string& name, uint64_t version, TimePoint began);
  /// Notes a broken promise.
  void Break(const std::string& promise) { broken_.push_back(promise); }

  /// Compares what is agreed in the end. Names that are not in `agreed` have no versions.
  void CheckEnd(const std::map<std::string, AgreedName>& agreed);
  /// True when the version must be there: it was acknowledged, and nothing deletes it.
  bool MustExist(const std::string& name, uint64_t version, const SegmentKey& tip) const;

  const std::vector<std::string>& broken() const { return broken_; }
  /// All registrations and deletions, a line each, in the order of their begins.
  std::vector<std::string> Story() const;
  uint64_t num_registered() const { return num_registered_; }
  uint64_t num_deleted() const { return num_deleted_; }
  uint64_t num_found() const { return num_found_; }

 private:
  struct Registration {
    std::string name;
    SegmentKey tip;
    TimePoint began;
    std::optional<TimePoint> ended = {};  ///< Unset without an answer.
    uint64_t version = 0;
  };
  struct Deletion {
    std::string name;
    uint64_t version = 0;
    TimePoint began;
    std::optional<TimePoint> ended = {};
    bool Covers(const std::string& its_name, uint64_t its_version) const {
      return name == its_name && (version == 0 || version == its_version);
    }
  };
  /// True when a deletion of the version may be carried out behind `time`.
  bool MayBeDeletedAfter(const std::string& name, uint64_t version, TimePoint time) const;
  /// True when the name may be gone with its numbers in between.
  bool MayBeginAnew(const std::string& name, TimePoint from, TimePoint to) const;
  void CheckNumbers();
  void CheckDeleted(const Deletion& deletion, const AgreedName& agreed);

  std::vector<Registration> registrations_;
  std::vector<Deletion> deletions_;
  std::vector<std::string> broken_;
  uint64_t num_registered_ = 0, num_deleted_ = 0, num_found_ = 0;
};

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_HISTORY_H_
