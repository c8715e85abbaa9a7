// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/document_writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "quire/layout.h"

namespace quire::torture {
namespace {

constexpr size_t kMostKept = 40;
constexpr uint32_t kSegments = 2;
constexpr int kBitsOfNumber = 24;
constexpr Duration kCallPatience = std::chrono::seconds(3);
constexpr Duration kRetryPause = std::chrono::milliseconds(50);

Payload PayloadOf(std::vector<std::byte> bytes) {
  Payload payload;
  payload.Append(std::move(bytes));
  return payload;
}

std::vector<std::byte> BytesOf(const Payload& payload) {
  std::vector<std::byte> bytes(payload.size_bytes());
  payload.CopyTo(bytes.data());
  return bytes;
}

/// All units of pages [first, first + count), in the order of a segment's payload.
std::vector<UnitRange> WholeSegment(const KvSpec& spec, uint32_t first, uint32_t count) {
  std::vector<UnitRange> ranges;
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    UnitRange& range = ranges.emplace_back(UnitRange{.layer = layer});
    for (uint32_t page = first; page < first + count; ++page) range.pages.push_back(page);
  }
  return ranges;
}

}  // namespace

void WriterTotals::Add(const WriterTotals& other) {
  acknowledged += other.acknowledged;
  deleted += other.deleted;
  reads += other.reads;
  failures += other.failures;
  wrong += other.wrong;
  denied += other.denied;
  for (const auto& [fault, operations] : other.unavailable_s) {
    for (const auto& [operation, seconds] : operations) {
      double& most = unavailable_s[fault][operation];
      most = std::max(most, seconds);
    }
  }
  if (first_trouble.empty()) first_trouble = other.first_trouble;
}

StatusOr<std::unique_ptr<DocumentWriter>> DocumentWriter::Create(std::vector<std::string> servers,
                                                                 uint32_t number, uint64_t seed,
                                                                 const LastFault* last_fault) {
  QUIRE_ASSIGN_OR_RETURN(auto router,
                         DocumentRouter::Create({.servers = std::move(servers),
                                                 .node_timeout = std::chrono::seconds(1),
                                                 .view_age = std::chrono::seconds(1)}));
  return std::unique_ptr<DocumentWriter>(
      new DocumentWriter(std::move(router), number, seed, last_fault));
}

DocumentWriter::DocumentWriter(std::unique_ptr<DocumentRouter> router, uint32_t number,
                               uint64_t seed, const LastFault* last_fault)
    : router_(std::move(router)),
      number_(number),
      corpus_({.seed = seed, .segments = kSegments, .specs = {SmallSpecs().front()}}),
      last_fault_(*last_fault),
      random_(seed * 100 + number) {}

void DocumentWriter::Work(TimePoint end) {
  while (SystemClock().Now() < end) {
    if (kept_.size() >= kMostKept) DeleteOldest();
    if (kept_.empty() || random_.Below(3) == 0) {
      PutOne();
    } else {
      ReadOne(end);
    }
  }
  if (put_since_ != TimePoint::max()) NoteWait("put", put_since_, put_fault_);
}

DocumentName DocumentWriter::NameOf(uint32_t number) const {
  return {.collection = kClusterCollection,
          .name = std::to_string(number_) + "-" + std::to_string(number)};
}

SegmentId DocumentWriter::Segment(uint32_t number, uint32_t index) const {
  return {.chain = number_ << kBitsOfNumber | number, .index = index};
}

void DocumentWriter::NoteWait(const std::string& operation, TimePoint since, const char* fault) {
  const std::chrono::duration<double> waited = SystemClock().Now() - since;
  double& most = totals_.unavailable_s[fault != nullptr ? fault : last_fault_.name()][operation];
  most = std::max(most, waited.count());
}

void DocumentWriter::PutOne() {
  const uint32_t number = next_++;
  put_since_ = std::min(put_since_, SystemClock().Now());
  if (!Put(number).ok()) {
    ++totals_.failures;
    if (put_fault_ == nullptr) put_fault_ = last_fault_.name();
    SystemClock().Sleep(kRetryPause);
    return;
  }
  NoteWait("put", std::exchange(put_since_, TimePoint::max()), std::exchange(put_fault_, nullptr));
  ++totals_.acknowledged;
  kept_.push_back(number);
}

void DocumentWriter::ReadOne(TimePoint end) {
  const uint32_t number = kept_[random_.Below(kept_.size())];
  const TimePoint since = SystemClock().Now();
  Reading reading = Read(number);
  const bool failed_first = reading.kind != Reading::Kind::kRight;
  const char* const fault = failed_first ? last_fault_.name() : nullptr;
  while (reading.kind != Reading::Kind::kRight && SystemClock().Now() < end) {
    NoteFailure(number, reading);
    SystemClock().Sleep(kRetryPause);
    reading = Read(number);
  }
  NoteWait("read", since, fault);
  if (reading.kind == Reading::Kind::kRight) ++totals_.reads;
}

void DocumentWriter::NoteFailure(uint32_t number, const Reading& reading) {
  ++totals_.failures;
  if (reading.kind == Reading::Kind::kFailed) return;
  ++(reading.kind == Reading::Kind::kWrong ? totals_.wrong : totals_.denied);
  if (totals_.first_trouble.empty()) {
    totals_.first_trouble = NameOf(number).name + " during '" + last_fault_.name() +
                            "': " + std::string(Message(reading.status));
  }
}

void DocumentWriter::DeleteOldest() {
  const uint32_t number = kept_.front();
  kept_.erase(kept_.begin());
  if (!Delete(NameOf(number)).ok()) {
    ++totals_.failures;
    return;
  }
  ++totals_.deleted;
  deleted_.insert(number);
}

StatusOr<std::unique_ptr<Client>> DocumentWriter::ClientAt(const std::string& address) {
  QUIRE_ASSIGN_OR_RETURN(auto transport, router_->ConnectTo(address));
  return Client::Create({.transport = std::move(transport), .deadline = kCallPatience});
}

Status DocumentWriter::Put(uint32_t number) {
  const DocumentName name = NameOf(number);
  QUIRE_ASSIGN_OR_RETURN(const std::string address, router_->FindPlace(name));
  QUIRE_ASSIGN_OR_RETURN(const auto client, ClientAt(address));
  SegmentKey tip;
  for (uint32_t index = 0; index < kSegments; ++index) {
    const SegmentId id = Segment(number, index);
    QUIRE_ASSIGN_OR_RETURN(tip, client->PutSegment(corpus_.Spec(id.chain), tip, corpus_.Tokens(id),
                                                   PayloadOf(corpus_.Payload(id))));
  }
  return client->RegisterDocument(name, tip).status();
}

Status DocumentWriter::Delete(const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const std::string address, router_->FindHolder(name));
  QUIRE_ASSIGN_OR_RETURN(const auto client, ClientAt(address));
  return client->DeleteDocument(name).status();
}

Reading DocumentWriter::Read(uint32_t number) {
  const StatusOr<std::string> address = router_->FindHolder(NameOf(number));
  if (address.ok()) return ReadAt(*address, number);
  const bool is_denied = IsNotFound(address.status());
  return {is_denied ? Reading::Kind::kDenied : Reading::Kind::kFailed, address.status()};
}

Reading DocumentWriter::ReadAt(const std::string& address, uint32_t number) {
  const auto client = ClientAt(address);
  if (!client.ok()) return {Reading::Kind::kFailed, client.status()};
  uint32_t first_page = 0;
  for (uint32_t index = 0; index < kSegments; ++index) {
    const SegmentId id = Segment(number, index);
    const KvSpec& spec = corpus_.Spec(id.chain);
    const uint32_t pages = PageCount(spec, corpus_.Tokens(id).size());
    const StatusOr<Payload> read =
        (*client)->Fetch(NameOf(number), WholeSegment(spec, first_page, pages));
    if (!read.ok()) return {Reading::Kind::kFailed, Annotate(read.status(), "at ", address)};
    if (BytesOf(*read) != corpus_.Payload(id)) {
      return {Reading::Kind::kWrong, DataLoss("other bytes from ", address)};
    }
    first_page += pages;
  }
  return {};
}

}  // namespace quire::torture
