// SPDX-License-Identifier: Apache-2.0
//
// Each test runs in a child of its own, since the guard stays in the process that has it.
#include "common/transport/ucx_fault_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/transport/ucx_segment.h"

namespace quire {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

constexpr size_t kPage = 4096;
constexpr size_t kPages = 64;

/// Ends the child, which has no test to fail.
void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  _exit(1);
}
#define REQUIRE_THAT(condition) Require(condition, #condition)

/// A file of shared memory that is mapped here, as UCX leaves one: without a name any more.
class MappedFile {
 public:
  explicit MappedFile(const std::string& name)
      : fd_(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600)) {
    REQUIRE_THAT(fd_.valid() && shm_unlink(name.c_str()) == 0);
    CutTo(kPages);
    void* const place =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    REQUIRE_THAT(place != MAP_FAILED);
    bytes_ = {static_cast<std::byte*>(place), kPages * kPage};
  }
  ~MappedFile() { munmap(bytes_.data(), bytes_.size()); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  std::byte* page(size_t number) const { return bytes_.data() + number * kPage; }
  int fd() const { return fd_.get(); }
  void CutTo(size_t pages) const {
    REQUIRE_THAT(ftruncate(fd_.get(), static_cast<off_t>(pages * kPage)) == 0);
  }
  /// What the file has there, whatever the mapping has.
  int InFile(size_t at) const {
    char byte = 0;
    REQUIRE_THAT(pread(fd_.get(), &byte, 1, static_cast<off_t>(at)) == 1);
    return byte;
  }

 private:
  const UniqueFd fd_;
  std::span<std::byte> bytes_;
};

std::string Name(const std::string& suffix) {
  return "/" + std::string(kUcxFileName) + "quire" + std::to_string(getpid()) + suffix;
}

/// Also where a sanitizer handles the signal.
void HandleSigbusWith(void (*handler)(int), int flags = 0) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  REQUIRE_THAT(sigaction(SIGBUS, &action, nullptr) == 0);
}

void Fill(std::span<std::byte> bytes, int value) {
  std::ranges::fill(bytes, static_cast<std::byte>(value));
}

void CutAndWrite() {
  const MappedFile cut(Name("a")), whole(Name("b"));
  const UcxFaultWatch of_cut(cut.bytes()), of_whole(whole.bytes());
  InstallUcxFaultGuard();
  Fill(cut.bytes(), 1);
  Fill(whole.bytes(), 2);
  REQUIRE_THAT(!of_cut.replaced() && cut.InFile(0) == 1);
  cut.CutTo(2);
  Fill(cut.bytes().first(2 * kPage), 3);  // These are there.
  REQUIRE_THAT(!of_cut.replaced() && UcxFaultsOfThisThread() == 0 && cut.InFile(kPage) == 3);
  Fill(cut.bytes(), 4);
  REQUIRE_THAT(of_cut.replaced() && !of_whole.replaced() && UcxFaultsOfThisThread() == 1);
  // From the first page that was not there on the bytes went to memory of this process.
  REQUIRE_THAT(*cut.page(2) == std::byte{4} && cut.bytes().back() == std::byte{4});
  REQUIRE_THAT(cut.InFile(0) == 4 && cut.InFile(2 * kPage - 1) == 4);
  // It stays so when the file is as long as before.
  cut.CutTo(kPages);
  Fill(cut.bytes(), 5);
  REQUIRE_THAT(cut.InFile(0) == 4 && cut.InFile(2 * kPage) == 0 && of_cut.replaced());
  // Others are what they were, and are written as ever.
  REQUIRE_THAT(std::ranges::count(whole.bytes(), std::byte{2}) == kPages * kPage);
  Fill(whole.bytes(), 6);
  REQUIRE_THAT(whole.InFile(kPages * kPage - 1) == 6 && !of_whole.replaced());
  // Who maps the file anew has what is in it.
  const MappedFile next(Name("c"));
  const UcxFaultWatch of_next(next.bytes());
  REQUIRE_THAT(!of_next.replaced());
  _exit(0);
}

TEST(UcxFaultGuardTest, BytesForAFileThatWasCutGoNowhereAndOthersWhereTheyShould) {
  EXPECT_EXIT(CutAndWrite(), ExitedWithCode(0), "");
}

void CutAndRead() {
  const MappedFile file(Name(""));
  InstallUcxFaultGuard();
  file.CutTo(0);
  std::atomic_ref<std::byte> first(*file.page(0)), last(*file.page(kPages - 1));
  REQUIRE_THAT(first.load() !=
               std::byte{0});  // No queue of UCX's that is empty and has no segments.
  REQUIRE_THAT(last.load() == std::byte{0});
  REQUIRE_THAT(UcxFaultsOfThisThread() == 1);
  _exit(0);
}

TEST(UcxFaultGuardTest, AReaderGoesOnAsWell) { EXPECT_EXIT(CutAndRead(), ExitedWithCode(0), ""); }

void CutUnderThreads() {
  InstallUcxFaultGuard();
  constexpr size_t kThreads = 4;
  std::atomic<uint64_t> faults = 0;
  for (int round = 0; round < 50; ++round) {
    const MappedFile cut(Name("a")), whole(Name("b"));
    const UcxFaultWatch of_cut(cut.bytes()), of_whole(whole.bytes());
    cut.CutTo(0);
    std::atomic<size_t> ready = 0;
    {
      std::vector<std::jthread> threads;
      for (size_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          const uint64_t before = UcxFaultsOfThisThread();
          ++ready;
          while (ready < kThreads) std::this_thread::yield();
          for (size_t page = thread; page < kPages; page += kThreads) {
            Fill({whole.page(page), kPage}, round);
            Fill({cut.page(page), kPage}, round);
          }
          // Not only the thread that had the fault sees it.
          REQUIRE_THAT(of_cut.replaced());
          faults += UcxFaultsOfThisThread() - before;
        });
      }
    }
    REQUIRE_THAT(!of_whole.replaced());
    REQUIRE_THAT(std::ranges::count(whole.bytes(), static_cast<std::byte>(round)) ==
                 kPages * kPage);
  }
  REQUIRE_THAT(faults >= 50);
  _exit(0);
}

TEST(UcxFaultGuardTest, ThreadsThatFaultAtOnceAllGoOn) {
  EXPECT_EXIT(CutUnderThreads(), ExitedWithCode(0), "");
}

void CutSegment() {
  InstallUcxFaultGuard();
  const MappedFile file(Name(""));
  const std::array<uint64_t, 3> part = {
      uint64_t{1} << 63 | static_cast<uint64_t>(file.fd()) << 30 | static_cast<uint64_t>(getpid()),
      0, file.bytes().size()};
  const std::string_view key(reinterpret_cast<const char*>(part.data()), sizeof(part));
  const auto first = UcxSegment::MapPosix(key, {0, 2 * kPage});
  const auto second = UcxSegment::MapPosix(key, {2 * kPage, 2 * kPage});
  REQUIRE_THAT(first.ok() && second.ok());
  file.CutTo(2);
  Fill((*first)->memory(), 1);
  REQUIRE_THAT(!(*first)->was_cut());
  Fill((*second)->memory(), 1);
  REQUIRE_THAT((*second)->was_cut() && !(*first)->was_cut());
  _exit(0);
}

TEST(UcxFaultGuardTest, ASegmentKnowsThatItWasCut) {
  EXPECT_EXIT(CutSegment(), ExitedWithCode(0), "");
}

/// A fault that is not the guard's.
void FaultElsewhere() {
  const MappedFile other("/quire_fault_guard_test" + std::to_string(getpid()));
  other.CutTo(1);
  Fill(other.bytes(), 1);
  _exit(0);
}

TEST(UcxFaultGuardTest, AFaultElsewhereEndsTheProcess) {
  const auto fault = [] {
    HandleSigbusWith(SIG_DFL);
    InstallUcxFaultGuard();
    FaultElsewhere();
  };
  EXPECT_EXIT(fault(), KilledBySignal(SIGBUS), "");
}

TEST(UcxFaultGuardTest, AFaultElsewhereCannotBeIgnored) {
  const auto fault = [] {
    HandleSigbusWith(SIG_IGN);
    InstallUcxFaultGuard();
    FaultElsewhere();
  };
  EXPECT_EXIT(fault(), KilledBySignal(SIGBUS), "");
}

TEST(UcxFaultGuardTest, APrivateMappingIsNotThePeers) {
  const auto fault = [] {
    HandleSigbusWith(SIG_DFL);
    InstallUcxFaultGuard();
    const MappedFile file(Name(""));
    void* const place =
        mmap(file.page(0), kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file.fd(), 0);
    REQUIRE_THAT(place == file.page(0));
    file.CutTo(0);
    Fill({file.page(0), kPage}, 1);
    _exit(0);
  };
  EXPECT_EXIT(fault(), KilledBySignal(SIGBUS), "");
}

TEST(UcxFaultGuardTest, ASignalThatIsSentIsHandledAsBefore) {
  const auto send = [](void (*handler)(int)) {
    HandleSigbusWith(handler);
    InstallUcxFaultGuard();
    raise(SIGBUS);
    _exit(0);
  };
  EXPECT_EXIT(send(SIG_DFL), KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(send(SIG_IGN), ExitedWithCode(0), "");
  EXPECT_EXIT(send([](int signal) { _exit(40 + (signal == SIGBUS ? 1 : 0)); }), ExitedWithCode(41),
              "");
}

TEST(UcxFaultGuardTest, WhoHandledTheSignalBeforeIsTold) {
  const auto fault = [] {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void* context) {
      const bool told = info->si_code == BUS_ADRERR && info->si_addr != nullptr &&
                        reinterpret_cast<uintptr_t>(info->si_addr) % kPage == 0 &&
                        context != nullptr;
      _exit(told ? 42 : 1);
    };
    REQUIRE_THAT(sigaction(SIGBUS, &action, nullptr) == 0);
    InstallUcxFaultGuard();
    InstallUcxFaultGuard();  // Does not pass on to itself.
    FaultElsewhere();
  };
  EXPECT_EXIT(fault(), ExitedWithCode(42), "");
}

TEST(UcxFaultGuardTest, AHandlerThatIsToRunOnceRunsOnce) {
  const auto fault = [] {
    HandleSigbusWith([](int) { std::fputs("once\n", stderr); }, SA_RESETHAND);
    InstallUcxFaultGuard();
    FaultElsewhere();
  };
  EXPECT_EXIT(fault(), KilledBySignal(SIGBUS), "^once\n$");
}

}  // namespace
}  // namespace quire
