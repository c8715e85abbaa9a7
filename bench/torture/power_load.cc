// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/power_load.h"

#include <thread>
#include <utility>

#include "bench/torture/store_look.h"

namespace quire::torture {

using kvserver::Durability;

kvserver::DocumentName DocumentOf(uint32_t chain) {
  return {.collection = "torture", .name = "chain-" + std::to_string(chain), .version = 1};
}

PowerLoad::PowerLoad(kvserver::PageStoreImpl* store, kvserver::DocumentRegistry* registry,
                     const Corpus* corpus, const TenantSalt& salt, PowerHistory* history,
                     Options options)
    : store_(*store),
      registry_(*registry),
      corpus_(*corpus),
      history_(*history),
      options_(std::move(options)),
      keys_(AllKeys(*corpus, salt)) {}

void PowerLoad::Run() {
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < options_.threads; ++number) {
    threads.emplace_back([this, number] { Work(number); });
  }
  for (std::thread& thread : threads) thread.join();
}

void PowerLoad::Work(uint32_t number) {
  SeededRandom random(options_.seed * 1000 + number);
  for (uint64_t i = 0; i < options_.steps && !options_.is_off(); ++i) Step(number, random);
}

uint32_t PowerLoad::OwnChain(uint32_t number, Random& random) const {
  const uint32_t own = (corpus_.chains() - number + options_.threads - 1) / options_.threads;
  return number + options_.threads * static_cast<uint32_t>(random.Below(own));
}

// More is put in memory than persisted, so that runs of operations without a sync come up.
void PowerLoad::Step(uint32_t number, Random& random) {
  const uint32_t chain = OwnChain(number, random);
  const uint64_t dice = random.Below(100);
  if (dice < 35) {
    PutChain(chain, /*persisted=*/random.Below(4) == 0);
  } else if (dice < 55) {
    DeleteSome(chain, random);
  } else if (dice < 62) {
    PutChain(chain, /*persisted=*/true);
    Register(chain);
  } else if (dice < 66) {
    Register(chain);
  } else if (dice < 74) {
    Unregister(chain);
  } else if (dice < 80) {
    TurnPin(chain, random.Below(2) == 0);
  } else {
    Read({chain, static_cast<uint32_t>(random.Below(corpus_.segments()))});
  }
}

void PowerLoad::PutChain(uint32_t chain, bool persisted) {
  for (uint32_t index = 0; index < corpus_.segments(); ++index) {
    if (!Put({chain, index}, persisted)) return;
  }
}

bool PowerLoad::Put(SegmentId id, bool persisted) {
  const std::vector<TokenId> tokens = corpus_.Tokens(id);
  const std::vector<std::byte> payload = corpus_.Payload(id);
  kvserver::PutSegmentArgs args;
  args.spec = &corpus_.Spec(id.chain);
  args.parent = id.index == 0 ? kRootKey : keys_[id.chain][id.index - 1];
  args.tokens = tokens;
  args.payload = payload;
  args.expected_key = keys_[id.chain][id.index];
  args.durability = persisted ? Durability::kPersisted : Durability::kMemory;
  history_.PutStarts(id);
  const auto result = store_.PutSegment(kTenant, args);
  history_.PutEnds(id, result.ok(), persisted);
  return result.ok();
}

void PowerLoad::DeleteSome(uint32_t chain, Random& random) {
  const auto stop = static_cast<uint32_t>(random.Below(corpus_.segments()));
  for (uint32_t index = corpus_.segments(); index-- > stop;) Delete({chain, index});
}

void PowerLoad::Delete(SegmentId id) {
  const SegmentKey& key = keys_[id.chain][id.index];
  // The registry does not delete a segment that a document refers to. No other thread registers a
  // document of this chain.
  if (!registry_.CheckUnreferenced(kTenant, key).ok()) return;
  history_.DeleteStarts(id);
  const Status status = registry_.DeleteSegment(kTenant, key);
  history_.DeleteEnds(id, status.ok(), status.code() == StatusCode::kNotFound);
}

void PowerLoad::Read(SegmentId id) {
  Status answer;
  const Found found = LookAt(store_, corpus_, id, keys_[id.chain][id.index], &answer);
  if (!options_.is_off() || found == Found::kWrong) {
    history_.WasRead(id, found, answer.ToString());
  }
}

void PowerLoad::Register(uint32_t chain) {
  history_.RegisterStarts(chain);
  const auto registered =
      registry_.Register(kTenant, DocumentOf(chain), keys_[chain].back(), /*content_hash=*/"");
  history_.RegisterEnds(chain, registered.ok());
}

void PowerLoad::Unregister(uint32_t chain) {
  if (!registry_.Get(kTenant, DocumentOf(chain)).ok()) return;
  history_.UnregisterStarts(chain, corpus_.segments());
  const auto deleted = registry_.Delete(kTenant, DocumentOf(chain), /*keep_segments=*/false);
  history_.UnregisterEnds(chain, deleted.ok());
}

// No room in DRAM, or no such document, is no fault.
void PowerLoad::TurnPin(uint32_t chain, bool on) {
  if (on) {
    (void)registry_.Pin(kTenant, DocumentOf(chain));
  } else {
    (void)registry_.Unpin(kTenant, DocumentOf(chain));
  }
}

}  // namespace quire::torture
