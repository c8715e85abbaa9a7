// SPDX-License-Identifier: Apache-2.0
//
// Session, Recall and Pending: sessions and their recalls as Python holds them.
//
// Ownership: recalls share the session, and the session shares the client. Thread-safety: made,
// used and destroyed with the GIL held. Threads of Python that use one session take turns: each
// call holds `SessionCore::turn` without the GIL.
#ifndef QUIRE_PYTHON_NATIVE_SESSION_H_
#define QUIRE_PYTHON_NATIVE_SESSION_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/native/errors.h"
#include "python/native/slots.h"
#include "python/native/units.h"
#include "quire/client.h"
#include "quire/session.h"

namespace quire::python {

/// A session and what its recalls need. The client's contract is one thread at a time.
class SessionCore {
 public:
  SessionCore(std::shared_ptr<Client> client, SessionOptions options,
              std::unique_ptr<ClientSession> session);
  /// Closes the session, without the GIL.
  ~SessionCore();
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;

  /// Calls `call(session)` without the GIL, when no other thread is in a call.
  template <typename Call>
  auto Do(Call&& call) {
    return WithoutGil([&] {
      const std::lock_guard turn(turn_);
      return call(*session_);
    });
  }
  /// Throws INVALID_ARGUMENT for a sequence that the session has not.
  uint32_t SlotsOf(uint32_t sequence) const;
  void AddSlots(uint32_t sequence, uint32_t slots) { slots_[sequence] = slots; }
  void DropSlots(uint32_t sequence) { slots_.erase(sequence); }

  const SessionOptions& options() const { return options_; }
  const KvSpec& spec() const { return options_.spec; }
  /// Managed layers, ascending as they lie in an array of slots.
  const std::vector<uint32_t>& layers() const { return layers_; }
  UnitForm form() const { return {.spec = options_.spec, .part = options_.part}; }

 private:
  const std::shared_ptr<Client> client_;  ///< Outlives the session.
  const SessionOptions options_;
  std::vector<uint32_t> layers_;
  std::map<uint32_t, uint32_t> slots_;  ///< Slots of each sequence, for each head.
  std::mutex turn_;  ///< The client's own locks are not among its public headers.
  std::unique_ptr<ClientSession> session_;
};

/// Units that a recall brought, and where they go. Threads may share it: a call works on the part
/// that it found.
class Recall {
 public:
  Recall(std::shared_ptr<SessionCore> core, RecallPart part)
      : core_(std::move(core)), part_(std::make_shared<const RecallPart>(std::move(part))) {}

  const RecallPart& part() const { return *part_; }
  /// Throws FAILED_PRECONDITION after Release.
  std::shared_ptr<Units> units();
  /// Seconds for which the units are certain; infinite where nothing is lent.
  double ValidFor() const;
  bool IsValid() const { return part_->IsValid(); }
  void Renew(double timeout);
  /// Copies the units, which ends the loan of those that are made from now on.
  void Own();
  void Applied();
  void Invalidate();
  /// Writes each unit into its slot, and looks whether they stayed valid.
  void CopyInto(SlotArrays& arrays);
  void CopyInto(nanobind::handle into);
  /// Gives up the units. Arrays that were made of them keep theirs.
  void Release();

 private:
  void CheckHas() const;

  std::shared_ptr<SessionCore> core_;
  std::shared_ptr<const RecallPart> part_;  ///< Without payload after Release.
  std::shared_ptr<Units> units_;            ///< Made when first asked for.
  bool released_ = false;
};

/// A recall in flight.
class Pending {
 public:
  /// `landing` lives as long as the recall.
  Pending(std::shared_ptr<SessionCore> core, std::unique_ptr<PendingRecall> recall,
          nanobind::object landing)
      : core_(std::move(core)), landing_(std::move(landing)), recall_(std::move(recall)) {}
  ~Pending();
  Pending(Pending&&) = default;

  /// The next part; none when all lanes have come.
  std::unique_ptr<Recall> Next(std::optional<double> timeout);
  void Cancel();

 private:
  std::shared_ptr<SessionCore> core_;
  nanobind::object landing_;
  std::unique_ptr<PendingRecall> recall_;
};

class Session {
 public:
  explicit Session(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}

  /// Limits of a recall, and where it may land; None: nowhere.
  struct How {
    std::optional<double> timeout;
    std::string priority;
    nanobind::object landing;
  };
  std::unique_ptr<Recall> RecallNow(nanobind::handle wants, nanobind::object into, const How& how);
  std::unique_ptr<Pending> Start(nanobind::handle wants, const How& how);
  uint32_t AddSequence(nanobind::handle sequence);
  void RemoveSequence(uint32_t sequence);
  std::vector<std::vector<int32_t>> ResidentPages(uint32_t layer, uint32_t sequence);
  std::vector<ContextInfo> Members(uint32_t sequence);
  void Close();
  SessionCore& core() { return *core_; }
  const std::shared_ptr<SessionCore>& shared_core() const { return core_; }
  /// All whole pages of each member of a sequence.
  std::vector<CandidateRange> WholePages(uint32_t sequence);

 private:
  /// One want or several. A query without candidates takes all whole pages.
  std::vector<LayerWant> WantsOf(nanobind::handle wants);

  std::shared_ptr<SessionCore> core_;
};

/// A sequence of a session: a SequenceSpec, or a context or several that it reads.
SequenceSpec SequenceOf(nanobind::handle sequence);
/// Member, first page and end page of each range; None: all whole pages.
std::vector<CandidateRange> CandidatesOf(nanobind::object ranges);
/// Queries. Throws INVALID_ARGUMENT for other elements than f32.
std::vector<float> FloatsOf(nanobind::handle values);

using SessionClass = nanobind::class_<Session>;
/// Methods of the session: digests and scores of pages.
void AddScoreCalls(SessionClass& session);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_SESSION_H_
