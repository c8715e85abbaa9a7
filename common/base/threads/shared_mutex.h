// SPDX-License-Identifier: Apache-2.0
//
// SharedMutex and its locks: std::shared_mutex with clang's thread-safety annotations.
#ifndef QUIRE_COMMON_BASE_THREADS_SHARED_MUTEX_H_
#define QUIRE_COMMON_BASE_THREADS_SHARED_MUTEX_H_

#include <shared_mutex>

#include "common/base/threads/mutex.h"

#define QUIRE_ACQUIRE_SHARED(...) QUIRE_THREAD_ANNOTATION_(acquire_shared_capability(__VA_ARGS__))
#define QUIRE_RELEASE_SHARED(...) QUIRE_THREAD_ANNOTATION_(release_shared_capability(__VA_ARGS__))
#define QUIRE_RELEASE_GENERIC(...) QUIRE_THREAD_ANNOTATION_(release_generic_capability(__VA_ARGS__))

namespace quire {

/// A lock that many readers share or one writer holds. Not recursive either way.
class QUIRE_CAPABILITY("mutex") SharedMutex {
 public:
  void Lock() QUIRE_ACQUIRE() { mutex_.lock(); }
  void Unlock() QUIRE_RELEASE() { mutex_.unlock(); }
  void LockShared() QUIRE_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void UnlockShared() QUIRE_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class QUIRE_SCOPED_CAPABILITY SharedLock {
 public:
  explicit SharedLock(SharedMutex& mutex) QUIRE_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.LockShared();
  }
  ~SharedLock() QUIRE_RELEASE_GENERIC() { mutex_.UnlockShared(); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class QUIRE_SCOPED_CAPABILITY ExclusiveLock {
 public:
  explicit ExclusiveLock(SharedMutex& mutex) QUIRE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~ExclusiveLock() QUIRE_RELEASE() { mutex_.Unlock(); }
  ExclusiveLock(const ExclusiveLock&) = delete;
  ExclusiveLock& operator=(const ExclusiveLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_THREADS_SHARED_MUTEX_H_
