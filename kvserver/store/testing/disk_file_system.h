// SPDX-License-Identifier: Apache-2.0
//
// DiskFileSystem: a Disk as RocksDB sees it, so that the database and the payload lie on one
// simulated disk. For tests and torture runs; a server's database uses the machine's file system
// directly. RocksDB's own message log goes nowhere.
//
// Ownership: the disk outlives the file system and its files. Thread-safety: as RocksDB asks for.
#ifndef QUIRE_KVSERVER_STORE_TESTING_DISK_FILE_SYSTEM_H_
#define QUIRE_KVSERVER_STORE_TESTING_DISK_FILE_SYSTEM_H_

#include <rocksdb/env.h>

#include <memory>

#include "kvserver/store/payload/disk.h"

namespace quire::kvserver {

/// Files on `disk`; threads are the machine's, and so is the clock, but for long sleeps.
std::unique_ptr<rocksdb::Env> MakeDiskEnv(Disk* disk);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_TESTING_DISK_FILE_SYSTEM_H_
