// SPDX-License-Identifier: Apache-2.0
//
// What the handler calls is safe in a signal handler: system calls and atomics, no allocation. The
// system calls are made by number: UCX has its own functions called wherever libc's mmap is, and
// those take locks that the interrupted thread may hold.
#include "common/transport/ucx_fault_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace quire {
namespace {

/// One line of /proc/self/maps, "begin-end permissions offset device inode path", where the path
/// may be missing. It is taken character by character, so that its length does not matter.
class MapsLine {
 public:
  void Take(char c) {
    if (c == ' ' && field_ < Field::kPath) {
      if (!in_gap_) field_ = static_cast<Field>(static_cast<int>(field_) + 1);
      in_gap_ = true;
      return;
    }
    in_gap_ = false;
    switch (field_) {
      case Field::kRange:
        return TakeOfRange(c);
      case Field::kPermissions:
        is_shared_ = c == 's';  // The last one of them.
        return;
      case Field::kPath:
        return TakeOfPath(c);
      default:
        return;
    }
  }
  bool Holds(uintptr_t address) const { return begin_ <= address && address < end_; }
  bool IsBehind(uintptr_t address) const { return begin_ > address; }
  /// Whether it is of a file that UCX has named, also when that is unlinked.
  bool IsUcxFile() const { return is_shared_ && named_ == kUcxFileName.size(); }
  /// Memory without a file that only this process has, as the guard maps it.
  bool IsPrivateMemory() const { return !is_shared_ && !has_path_; }
  uintptr_t begin() const { return begin_; }
  uintptr_t end() const { return end_; }

 private:
  enum class Field { kRange, kPermissions, kOffset, kDevice, kInode, kPath };

  void TakeOfRange(char c) {
    if (c == '-') {
      begin_ = std::exchange(end_, 0);
    } else {
      end_ = end_ * 16 + static_cast<uintptr_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
  }
  void TakeOfPath(char c) {
    has_path_ = true;
    if (c == '/') {
      named_ = 0;  // The file's name begins here, if no other '/' follows.
    } else if (named_ < kUcxFileName.size()) {
      named_ = c == kUcxFileName[named_] ? named_ + 1 : kNamedOtherwise;
    }
  }

  static constexpr size_t kNamedOtherwise = SIZE_MAX;
  Field field_ = Field::kRange;
  bool in_gap_ = false;
  uintptr_t begin_ = 0, end_ = 0;
  bool is_shared_ = false;
  bool has_path_ = false;
  size_t named_ =
      kNamedOtherwise;  ///< So many characters of its name are as UCX's files have them.
};

/// The mapping that holds `address`; false when there is none, or none can be read.
bool FindMapping(uintptr_t address, MapsLine* found) {
  const long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::array<char, 512> buffer;  // The stack may be a small one.
  MapsLine line;
  bool holds = false, over = false;
  while (!over) {
    const long bytes = syscall(SYS_read, fd, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    over = bytes <= 0;
    for (long i = 0; i < bytes && !over; ++i) {
      if (buffer[static_cast<size_t>(i)] != '\n') {
        line.Take(buffer[static_cast<size_t>(i)]);
        continue;
      }
      holds = line.Holds(address);
      over = holds || line.IsBehind(address);
      if (holds) *found = line;
      line = {};
    }
  }
  syscall(SYS_close, fd);
  return holds;
}

/// Initial-exec: a handler must not be the first to ask for it where that allocates.
[[gnu::tls_model("initial-exec")]] thread_local constinit uint64_t faults_of_this_thread = 0;

/// Fills the beginning of a mapping in case it is UCX's queue, which starts with the numbers of
/// messages put in and taken out, and goes on with where each message belongs: a segment's name and
/// size. With the same byte everywhere there is room in the queue, so that UCX waits for nobody,
/// and the segment is a file that is not there, so that UCX ends each message with an error. (Zeros
/// are a segment without a size, for which UCX 1.13 ends the process.) Where it is a landing, other
/// threads may be writing there too: those bytes nobody reads.
__attribute__((no_sanitize("thread"))) void FillAsQueueToNowhere(uintptr_t begin, uintptr_t end) {
  constexpr uintptr_t kQueueBytes = 64 * 1024;
  for (uintptr_t at = begin; at < end && at < begin + kQueueBytes; ++at) {
    *reinterpret_cast<volatile uint8_t*>(at) = 0x40;
  }
}

/// Whether the access at `address` can be made again.
bool ReplaceMappingAt(uintptr_t address) {
  MapsLine mapping;
  if (!FindMapping(address, &mapping)) return false;
  // Another thread's fault has replaced it since: such memory itself raises no SIGBUS.
  if (mapping.IsPrivateMemory()) return true;
  if (!mapping.IsUcxFile()) return false;
  // First: whoever writes to the new memory finds that out afterwards.
  UcxFaultWatch::MarkReplaced(mapping.begin(), mapping.end());
  // All of it, as huge pages have to be: so each mapping is replaced once, and a peer with many
  // holes does not cut it into more mappings than a process may have.
  if (syscall(SYS_mmap, mapping.begin(), mapping.end() - mapping.begin(), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
              0) != static_cast<long>(mapping.begin())) {
    return false;
  }
  FillAsQueueToNowhere(mapping.begin(), mapping.end());
  ++faults_of_this_thread;
  return true;
}

/// How SIGBUS was handled before. Constant once the guard is installed.
struct sigaction handled_before = {};

void LeaveToDefault() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGBUS, &action, nullptr);
}

void PassOn(int signal, siginfo_t* info, void* context) {
  const bool was_sent = info->si_code <= 0;
  if ((handled_before.sa_flags & SA_SIGINFO) == 0) {
    if (handled_before.sa_handler == SIG_IGN && was_sent) return;
    if (handled_before.sa_handler == SIG_IGN || handled_before.sa_handler == SIG_DFL) {
      LeaveToDefault();  // A fault is not ignored.
      // It comes when the handler returns, with what it said.
      syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
      return;
    }
  }
  if ((handled_before.sa_flags & SA_RESETHAND) != 0) LeaveToDefault();
  if ((handled_before.sa_flags & SA_SIGINFO) != 0) {
    handled_before.sa_sigaction(signal, info, context);
  } else {
    handled_before.sa_handler(signal);
  }
}

void OnSignal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (info->si_code != BUS_ADRERR ||
      !ReplaceMappingAt(reinterpret_cast<uintptr_t>(info->si_addr))) {
    PassOn(signal, info, context);
  }
  errno = error;
}

/// Of the list of watches, which the handler reads. Its holder touches no memory that faults, so
/// the handler never waits for its own thread.
class ListLock {
 public:
  ListLock() {
    while (locked_.test_and_set(std::memory_order_acquire)) syscall(SYS_sched_yield);
  }
  ~ListLock() { locked_.clear(std::memory_order_release); }
  ListLock(const ListLock&) = delete;
  ListLock& operator=(const ListLock&) = delete;

 private:
  static inline std::atomic_flag locked_;
};
UcxFaultWatch* first_watch = nullptr;  ///< Under ListLock.

}  // namespace

void InstallUcxFaultGuard() {
  static const bool installed = [] {
    sigaction(SIGBUS, nullptr, &handled_before);
    // What was there before runs as it would alone.
    struct sigaction action = {};
    action.sa_mask = handled_before.sa_mask;
    action.sa_flags = (handled_before.sa_flags & ~SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK;
    action.sa_sigaction = OnSignal;
    sigaction(SIGBUS, &action, nullptr);
    return true;
  }();
  (void)installed;
}

uint64_t UcxFaultsOfThisThread() { return faults_of_this_thread; }

UcxFaultWatch::UcxFaultWatch(std::span<const std::byte> mapping)
    : begin_(reinterpret_cast<uintptr_t>(mapping.data())), end_(begin_ + mapping.size()) {
  const ListLock lock;
  next_ = std::exchange(first_watch, this);
  if (next_ != nullptr) next_->before_ = this;
}

UcxFaultWatch::~UcxFaultWatch() {
  const ListLock lock;
  (before_ == nullptr ? first_watch : before_->next_) = next_;
  if (next_ != nullptr) next_->before_ = before_;
}

void UcxFaultWatch::MarkReplaced(uintptr_t begin, uintptr_t end) {
  const ListLock lock;
  for (UcxFaultWatch* watch = first_watch; watch != nullptr; watch = watch->next_) {
    if (watch->begin_ < end && begin < watch->end_) watch->replaced_.store(true);
  }
}

}  // namespace quire
