// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/store/load.h"

#include <array>
#include <thread>

#include "bench/torture/store/store_look.h"

namespace quire::torture {
namespace {

using kvserver::Durability;
using kvserver::PageStore;
using Operation = Event::Operation;
using Outcome = Event::Outcome;

}  // namespace

Load::Load(PageStore* store, const Corpus* corpus, const TenantSalt& salt, EventSink* sink,
           const Options& options)
    : store_(store),
      corpus_(corpus),
      sink_(sink),
      options_(options),
      keys_(AllKeys(*corpus, salt)) {
  // No segment is merely cached: acknowledged ones must exist.
  PageStore::SegmentNames names;
  for (const std::vector<SegmentKey>& chain : keys_) {
    for (const SegmentKey& key : chain) names[key] = 1;
  }
  store->RestoreNames(names);
}

void Load::Run() {
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < options_.threads; ++number) {
    threads.emplace_back([this, number] { Work(number); });
  }
  for (std::thread& thread : threads) thread.join();
}

void Load::Work(uint32_t number) {
  Worker worker{.number = number, .random = SeededRandom(options_.seed * 1000 + number)};
  for (uint64_t i = 0; (options_.steps == 0 || i < options_.steps) && !Stopped(); ++i) Step(worker);
}

uint64_t Load::PutAll() {
  uint64_t refused = 0;
  for (uint32_t chain = 0; chain < corpus_->chains(); ++chain) {
    for (uint32_t index = 0; index < corpus_->segments(); ++index) {
      if (!Put({chain, index}, Durability::kMemory)) ++refused;
    }
  }
  return refused;
}

void Load::Step(Worker& worker) {
  const uint64_t dice = worker.random.Below(100);
  if (dice < 45) {
    // Frees room in a full store, so that its space is reused.
    if (!PutChain(worker, OwnChain(worker))) DeleteChain(worker, OwnChain(worker));
  } else if (dice < 65) {
    DeleteChain(worker, OwnChain(worker));
  } else {
    ReadSome(worker);
  }
}

uint32_t Load::OwnChain(Worker& worker) const {
  const uint32_t own =
      (corpus_->chains() - worker.number + options_.threads - 1) / options_.threads;
  return worker.number + options_.threads * static_cast<uint32_t>(worker.random.Below(own));
}

bool Load::PutChain(Worker& worker, uint32_t chain) {
  const Durability durability =
      worker.random.Below(3) == 0 ? Durability::kPersisted : Durability::kMemory;
  for (uint32_t index = 0; index < corpus_->segments(); ++index) {
    if (!Put({chain, index}, durability)) return false;
    worker.there.insert({chain, index});
  }
  return true;
}

void Load::DeleteChain(Worker& worker, uint32_t chain) {
  // Deletes from the tip on. Sometimes the beginning stays, or a segment is taken out of the
  // middle.
  const uint64_t dice = worker.random.Below(10);
  const auto first = static_cast<uint32_t>(worker.random.Below(corpus_->segments()));
  const uint32_t stop = dice < 6 ? 0 : first;
  for (uint32_t index = corpus_->segments(); index-- > stop;) {
    if (dice == 9 && index != first) continue;
    Delete({chain, index});
    worker.there.erase({chain, index});
  }
}

void Load::ReadSome(Worker& worker) {
  const SegmentId id{static_cast<uint32_t>(worker.random.Below(corpus_->chains())),
                     static_cast<uint32_t>(worker.random.Below(corpus_->segments()))};
  Read(id, worker.there.contains(id));
}

bool Load::Put(SegmentId id, Durability durability) {
  const std::vector<TokenId> tokens = corpus_->Tokens(id);
  const std::vector<std::byte> payload = corpus_->Payload(id);
  kvserver::PutSegmentArgs args;
  args.spec = &corpus_->Spec(id.chain);
  args.parent = id.index == 0 ? kRootKey : KeyOf({id.chain, id.index - 1});
  args.tokens = tokens;
  args.payload = payload;
  args.expected_key = KeyOf(id);
  args.durability = durability;
  kvserver::SegmentHold hold;  // Holds the segment until it is named.
  args.hold = &hold;
  args.strict = true;  // Only these bytes are ever put under this key.
  Tell(id, Operation::kPut, Outcome::kStarted);
  const auto result = store_->PutSegment(kTenant, args);
  Tell(id, Operation::kPut,
       !result.ok()      ? OutcomeOf(result.status())
       : result->existed ? Outcome::kExisted
                         : Outcome::kDone);
  if (result.ok()) (void)store_->NameSegments(kTenant, {&result->key, 1});
  return result.ok();
}

void Load::Delete(SegmentId id) {
  Tell(id, Operation::kDelete, Outcome::kStarted);
  const Status status = store_->DeleteSegment(kTenant, KeyOf(id));
  const bool missing = status.code() == StatusCode::kNotFound;
  Tell(id, Operation::kDelete,
       status.ok() ? Outcome::kDone
       : missing   ? Outcome::kMissing
                   : OutcomeOf(status));
}

void Load::Read(SegmentId id, bool is_there) {
  const Status status = ReadAndCompare(*store_, *corpus_, id, KeyOf(id));
  if (status.code() == StatusCode::kInternal) {
    Tell(id, Operation::kRead, Outcome::kWrongBytes);
  } else if (status.code() == StatusCode::kNotFound) {
    if (is_there) Tell(id, Operation::kRead, Outcome::kMissing);
  } else if (!status.ok()) {
    Tell(id, Operation::kRead, Outcome::kRefused);
  }
}

/// Meaning of an error for the change that it ended.
Outcome Load::OutcomeOf(const Status& error) const {
  switch (error.code()) {
    case StatusCode::kResourceExhausted:
      return options_.commits_run_out_of_space ? Outcome::kFailed : Outcome::kRefused;
    case StatusCode::kNotFound:
    case StatusCode::kInvalidArgument:
      return Outcome::kRefused;
    case StatusCode::kAlreadyExists:
      return Outcome::kWrongBytes;
    default:
      return Outcome::kFailed;
  }
}

void Load::Tell(SegmentId id, Operation operation, Outcome outcome) {
  sink_->Emit({.segment = id, .operation = operation, .outcome = outcome});
}

}  // namespace quire::torture
