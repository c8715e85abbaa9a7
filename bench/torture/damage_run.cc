// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "bench/torture/fault_run.h"
#include "bench/torture/file_damage.h"
#include "bench/torture/store/history_sink.h"
#include "bench/torture/store/load.h"
#include "bench/torture/store/store_look.h"
#include "common/base/random.h"

namespace quire::torture {
namespace {

namespace fs = std::filesystem;
using kvserver::PageStoreImpl;

constexpr uint64_t kBlock = 4096;
constexpr uint32_t kMostDamages = 4;  ///< Most damages of a round.

Status Failed(const std::string& what, const std::error_code& error) {
  return Unavailable("cannot ", what, ": ", error.message());
}

/// The non-empty files of a store, in a fixed order. Excludes RocksDB's own log, and settings that
/// it only compares.
StatusOr<std::vector<fs::path>> FilesOf(const std::string& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool tells_nothing = name.starts_with("LOG") || name.starts_with("OPTIONS");
    if (!tells_nothing && at->is_regular_file() && at->file_size() > 0) files.push_back(at->path());
  }
  if (error) return Failed("read " + directory, error);
  std::ranges::sort(files);
  return files;
}

Status Damage(const fs::path& file, Random& random) {
  const uint64_t size = fs::file_size(file);
  const uint64_t offset = random.Below(size);
  switch (random.Below(4)) {
    case 0:
      return Overwrite(file.string(), offset, std::string(std::min(kBlock, size - offset), '\0'));
    case 1: {
      std::error_code error;
      fs::resize_file(file, offset, error);
      return error ? Failed("cut " + file.string(), error) : OkStatus();
    }
    default:
      return FlipBit(file.string(), offset, random.Below(8));
  }
}

class DamageRun {
 public:
  DamageRun(const FaultOptions& options, const Progress& progress)
      : options_(options),
        progress_(progress),
        sound_(options.directory + "/sound"),
        damaged_(options.directory + "/damaged"),
        corpus_({.seed = options.seed, .chains = 48, .specs = SmallSpecs()}),
        random_(options.seed) {}

  StatusOr<FaultReport> Run() {
    QUIRE_RETURN_IF_ERROR(MakeSoundStore());
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      QUIRE_RETURN_IF_ERROR(Annotate(Round(), "damage round ", round, " of seed ", options_.seed));
      progress_("damaged files");
    }
    std::error_code ignored;  // Remains lie in a directory of the caller's.
    fs::remove_all(sound_, ignored);
    return report_;
  }

 private:
  /// Makes a store with tables, written when it was reopened, and a log of later changes.
  Status MakeSoundStore() {
    QUIRE_RETURN_IF_ERROR(PutAll(sound_));
    QUIRE_ASSIGN_OR_RETURN(const auto store, PageStoreImpl::Open(SmallStore(sound_), {}));
    QUIRE_ASSIGN_OR_RETURN(const TenantSalt salt, SaltOf(*store));
    HistorySink sink;
    Load load(store.get(), &corpus_, salt, &sink, {.seed = options_.seed, .steps = 40});
    load.Run();
    load.PutAll();
    return OkStatus();
  }
  Status PutAll(const std::string& directory) {
    QUIRE_ASSIGN_OR_RETURN(const auto store, PageStoreImpl::Open(SmallStore(directory), {}));
    QUIRE_ASSIGN_OR_RETURN(const TenantSalt salt, SaltOf(*store));
    HistorySink sink;
    const uint64_t refused = Load(store.get(), &corpus_, salt, &sink, {}).PutAll();
    return refused == 0 ? OkStatus() : Internal("a sound store refused ", refused, " puts");
  }

  Status Round() {
    std::error_code error;
    fs::remove_all(damaged_, error);
    if (!error) fs::copy(sound_, damaged_, fs::copy_options::recursive, error);
    if (error) return Failed("copy " + sound_, error);
    QUIRE_ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesOf(damaged_));
    for (uint64_t left = 1 + random_.Below(kMostDamages); left > 0; --left) {
      const fs::path& file = files[random_.Below(files.size())];
      if (fs::file_size(file) == 0) continue;  // An earlier cut removed all of it.
      QUIRE_RETURN_IF_ERROR(Damage(file, random_));
      ++report_.faults_injected;
    }
    ++report_.rounds;
    return ReadAndMend();
  }

  Status ReadAndMend() {
    const auto opened = PageStoreImpl::Open(SmallStore(damaged_), {});
    if (!opened.ok()) {
      ++report_.refused;
      return OkStatus();
    }
    PageStoreImpl& store = **opened;
    const StatusOr<TenantSalt> salt = SaltOf(store);
    if (!salt.ok()) {
      ++report_.refused;
      return OkStatus();
    }
    LookAtAll(store, *salt);
    HistorySink sink;
    Load(&store, &corpus_, *salt, &sink, {}).PutAll();
    report_.refused += sink.Copy().totals().refused;
    report_.corrupt_served += sink.Copy().totals().corrupt;
    LookAtAll(store, *salt);
    return OkStatus();
  }

  void LookAtAll(PageStoreImpl& store, const TenantSalt& salt) {
    const auto keys = AllKeys(corpus_, salt);
    for (uint32_t chain = 0; chain < corpus_.chains(); ++chain) {
      for (uint32_t index = 0; index < corpus_.segments(); ++index) {
        const Found found = LookAt(store, corpus_, {chain, index}, keys[chain][index]);
        if (found == Found::kUnreadable) ++report_.refused;
        if (found == Found::kWrong) ++report_.corrupt_served;
      }
    }
  }

  const FaultOptions& options_;
  const Progress& progress_;
  const std::string sound_;
  const std::string damaged_;
  const Corpus corpus_;
  SeededRandom random_;
  FaultReport report_;
};

}  // namespace

StatusOr<FaultReport> RunFileDamage(const FaultOptions& options, const Progress& progress) {
  return DamageRun(options, progress).Run();
}

}  // namespace quire::torture
