// SPDX-License-Identifier: Apache-2.0
//
// Mutex, MutexLock and CondVar: std::mutex and std::condition_variable with clang's thread-safety
// annotations. The project uses no other locks. ThreadSanitizer understands std::mutex exactly.
#ifndef QUIRE_COMMON_BASE_THREADS_MUTEX_H_
#define QUIRE_COMMON_BASE_THREADS_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define QUIRE_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define QUIRE_THREAD_ANNOTATION_(x)
#endif
#define QUIRE_CAPABILITY(x) QUIRE_THREAD_ANNOTATION_(capability(x))
#define QUIRE_SCOPED_CAPABILITY QUIRE_THREAD_ANNOTATION_(scoped_lockable)
#define QUIRE_GUARDED_BY(x) QUIRE_THREAD_ANNOTATION_(guarded_by(x))
#define QUIRE_PT_GUARDED_BY(x) QUIRE_THREAD_ANNOTATION_(pt_guarded_by(x))
#define QUIRE_REQUIRES(...) QUIRE_THREAD_ANNOTATION_(requires_capability(__VA_ARGS__))
#define QUIRE_EXCLUDES(...) QUIRE_THREAD_ANNOTATION_(locks_excluded(__VA_ARGS__))
#define QUIRE_ACQUIRE(...) QUIRE_THREAD_ANNOTATION_(acquire_capability(__VA_ARGS__))
#define QUIRE_RELEASE(...) QUIRE_THREAD_ANNOTATION_(release_capability(__VA_ARGS__))

namespace quire {

class QUIRE_CAPABILITY("mutex") Mutex {
 public:
  void Lock() QUIRE_ACQUIRE() { mutex_.lock(); }
  void Unlock() QUIRE_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class QUIRE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) QUIRE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() QUIRE_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// A condition variable for Mutex. Wake-ups may be spurious: wait in a loop over the condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) QUIRE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  /// Returns false when `timeout` passed without a wake-up.
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds timeout) QUIRE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool woken = cv_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_THREADS_MUTEX_H_
