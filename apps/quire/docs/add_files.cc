// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/docs/add_files.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "apps/kit/output/progress.h"
#include "apps/kit/read_file.h"
#include "common/base/threads/mutex.h"
#include "common/base/trace/span.h"

namespace quire::cli {
namespace {

/// Errors that no other file would escape.
bool ConcernsAll(const Status& status) {
  switch (status.code()) {
    case StatusCode::kCancelled:
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
    case StatusCode::kUnimplemented:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

uint64_t TotalBytes(const std::vector<DocumentFile>& files) {
  uint64_t bytes = 0;
  for (const DocumentFile& file : files) bytes += file.bytes;
  return bytes;
}

class Adder {
 public:
  Adder(const FoundFiles& found, const std::string& standard_input, const AddOptions& options,
        IngestTarget& target, const std::function<bool()>& is_stopped)
      : files_(found.files),
        standard_input_(standard_input),
        options_(options),
        target_(target),
        is_stopped_(is_stopped),
        progress_("adding", TotalBytes(found.files), {.bytes = true}) {
    report_.refused = found.refused;
  }

  AddReport Run() {
    const TimePoint start = SystemClock().Now();
    std::vector<std::thread> others;
    for (uint32_t i = 1; i < std::min<size_t>(options_.jobs, files_.size()); ++i) {
      others.emplace_back([this, around = CurrentSpan()] {
        const CurrentSpanScope current(around);
        TakeFiles();
      });
    }
    TakeFiles();
    for (std::thread& other : others) other.join();
    progress_.Finish();
    MutexLock lock(mutex_);
    report_.left = files_.size() - done_;
    report_.seconds = std::chrono::duration<double>(SystemClock().Now() - start).count();
    return std::move(report_);
  }

 private:
  void TakeFiles() {
    while (const DocumentFile* const file = Next()) Take(*file);
  }
  const DocumentFile* Next() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (next_ == files_.size() || !report_.ended.ok()) return nullptr;
    return &files_[next_++];
  }
  void Take(const DocumentFile& file) {
    const auto added = Add(file);
    MutexLock lock(mutex_);
    if (!added.ok() && ConcernsAll(added.status())) {
      if (report_.ended.ok()) report_.ended = Annotate(added.status(), file.path);
      return;
    }
    ++done_;
    if (!added.ok()) {
      report_.refused.push_back({file.path, added.status()});
      return;
    }
    for (const worker::IngestedDocument& document : *added) {
      (document.unchanged ? report_.unchanged : report_.added).push_back(document);
    }
  }
  StatusOr<std::string> BytesOf(const DocumentFile& file) const {
    if (file.path == "-") return standard_input_;
    return ReadTextFile(file.path);
  }
  StatusOr<std::vector<worker::IngestedDocument>> Add(const DocumentFile& file) {
    if (is_stopped_()) return MakeStatus(StatusCode::kCancelled, "stopped");
    QUIRE_ASSIGN_OR_RETURN(const std::string bytes, BytesOf(file));
    QUIRE_ASSIGN_OR_RETURN(const DocumentText text,
                           ReadDocument(file.path, bytes, options_.reading));
    worker::DocumentToIngest what{.name = {options_.collection, file.name, 0},
                                  .reader = std::string(Name(text.kind)),
                                  .source = file.source,
                                  .tags = options_.tags,
                                  .ttl_seconds = options_.ttl_seconds,
                                  .split = options_.split};
    uint64_t shown = 0;
    const auto show = [&](uint64_t bytes_done) {
      Show(bytes_done - shown, file.path);
      shown = bytes_done;
    };
    auto added = target_.Ingest(std::move(what), text.text, [&](const worker::IngestProgress& now) {
      show(now.total_tokens == 0 ? 0 : file.bytes * now.done_tokens / now.total_tokens);
      return !is_stopped_();
    });
    if (added.ok()) show(file.bytes);
    return added;
  }
  void Show(uint64_t bytes, const std::string& path) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    progress_.Advance(bytes, path);
  }

  const std::vector<DocumentFile>& files_;
  const std::string& standard_input_;
  const AddOptions& options_;
  IngestTarget& target_;
  const std::function<bool()>& is_stopped_;
  Mutex mutex_;
  ProgressBar progress_;
  size_t next_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t done_ QUIRE_GUARDED_BY(mutex_) = 0;
  AddReport report_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace

AddReport AddFiles(const FoundFiles& found, const std::string& standard_input,
                   const AddOptions& options, IngestTarget& target,
                   const std::function<bool()>& is_stopped) {
  return Adder(found, standard_input, options, target, is_stopped).Run();
}

}  // namespace quire::cli
