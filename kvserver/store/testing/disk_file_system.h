// SPDX-License-Identifier: Apache-2.0
//
// DiskFileSystem: RocksDB's view of a Disk, so that database and payload share one simulated disk.
// For tests and torture runs; a server's database uses the machine's file system. RocksDB's own
// message log is discarded.
//
// Ownership: the disk outlives the file system and its files. Thread-safety: as RocksDB requires.
#ifndef QUIRE_KVSERVER_STORE_TESTING_DISK_FILE_SYSTEM_H_
#define QUIRE_KVSERVER_STORE_TESTING_DISK_FILE_SYSTEM_H_

#include <rocksdb/env.h>

#include <memory>

#include "kvserver/store/payload/disk.h"

namespace quire::kvserver {

/// Files on `disk`. Threads and the clock are the machine's, except for long sleeps.
std::unique_ptr<rocksdb::Env> MakeDiskEnv(Disk* disk);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_TESTING_DISK_FILE_SYSTEM_H_
