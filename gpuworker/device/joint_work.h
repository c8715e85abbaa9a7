// SPDX-License-Identifier: Apache-2.0
//
// JointWork: kernels of several sequences, gathered and launched together. Each op is launched once
// for all that share its settings, so launches do not grow with the number of sequences.
//
//   every sequence   adds rows, comparisons and selections; they name addresses on the device
//   Launch           rows, comparisons, pages, digests, scores, pooling, top k, and one copy of
//                    what they found
//   every sequence   reads what was found; the first to ask waits, for all of them
//
// Comparisons of a launch read rows as they were before it.
// Ownership: owns the lists and what is found; the device outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_DEVICE_JOINT_WORK_H_
#define QUIRE_GPUWORKER_DEVICE_JOINT_WORK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpuworker/device/device.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

class JointWork {
 public:
  /// Place of what is found after the next Launch, until the one after it.
  struct Ticket {
    uint64_t launch = 0;  ///< 0: nothing.
    size_t at = 0;        ///< Words before it; for a comparison the number of its first head.
  };

  explicit JointWork(Device* device) : device_(device) {}
  /// Waits until the device copies nothing to it any more.
  ~JointWork();
  JointWork(const JointWork&) = delete;
  JointWork& operator=(const JointWork&) = delete;

  /// Narrows a row of `n` numbers.
  void Narrow(int64_t n, DType dtype, const kernels::NarrowRow& row);
  /// Compares the queries of [n_kv] heads of `shape`, whose lists are unused.
  Ticket Compare(const kernels::CorrectHeadsArgs& shape,
                 std::span<const kernels::HeadQueries> heads);
  /// Copies a full page out of its slot.
  void Export(const KvSpec& spec, const kernels::PageAddress& page);
  /// Summarises units, which may be those of a page that is exported.
  void Digest(const kernels::DigestArgs& like, const kernels::DigestJob& job);
  /// Scores, pools or selects with the settings of `like`, whose arrays are unused.
  void Score(const kernels::ScoreArgs& like, const kernels::ScoreJob& job);
  void Pool(const kernels::PoolArgs& like, const kernels::PoolJob& job);
  /// Finds `job.k` pages in each of `rows` rows, and then [rows] counts of NaN.
  Ticket TopK(int64_t rows, const kernels::TopKJob& job);

  /// Gives the device everything that was added.
  [[nodiscard]] Status Launch();
  /// True if Found and Turned may be asked for it.
  bool Has(const Ticket& ticket) const { return ticket.launch != 0 && ticket.launch == launched_; }
  /// Result of TopK.
  StatusOr<const int32_t*> Found(const Ticket& ticket);
  /// [n_kv] the heads that turned.
  StatusOr<std::vector<bool>> Turned(const Ticket& ticket);

 private:
  template <typename Args, typename Job>
  struct Group {
    Args args;
    std::vector<Job> jobs;
  };
  struct Rows {
    int64_t n;
    DType dtype;
    std::vector<kernels::NarrowRow> list;
  };
  struct Lists;

  bool empty() const {
    return rows_.empty() && heads_.empty() && scores_.empty() && pages_.empty() && digests_.empty();
  }
  /// Room for what is found, on the device and in the host's pinned memory.
  Status ReserveFound();
  Status LaunchRows(const Lists& lists);
  Status LaunchComparisons(const Lists& lists);
  Status LaunchPages(const Lists& lists);
  Status LaunchSelections(const Lists& lists);
  Status CopyFound();
  Status Await();
  void Clear();

  Device* const device_;
  uint64_t launched_ = 0;  ///< Launches so far.
  std::vector<Rows> rows_;
  kernels::CorrectHeadsArgs comparison_;  ///< Shape of all comparisons.
  std::vector<kernels::HeadQueries> heads_;
  std::vector<Group<kernels::NhdToHndArgs, kernels::PageAddress>> pages_;
  std::vector<Group<kernels::DigestArgs, kernels::DigestJob>> digests_;
  std::vector<Group<kernels::ScoreArgs, kernels::ScoreJob>> scores_;
  std::vector<Group<kernels::PoolArgs, kernels::PoolJob>> pools_;
  std::vector<Group<kernels::TopKArgs, kernels::TopKJob>> selections_;
  /// For each job of selections_, in their order, the words before its place.
  std::vector<std::vector<size_t>> places_;
  size_t found_words_ = 0;  ///< Words of selections.

  DeviceBuffer lists_;
  DeviceBuffer cosines_;
  /// Selections, then the number of heads that turned, and they.
  DeviceBuffer found_;
  PinnedBytes found_here_;
  size_t found_here_bytes_ = 0;
  size_t turned_at_ = 0;  ///< Words before the number, at the last Launch.
  uint32_t n_kv_ = 0;     ///< At the last Launch.
  std::unique_ptr<DeviceEvent> copied_;
  bool awaited_ = true;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_JOINT_WORK_H_
