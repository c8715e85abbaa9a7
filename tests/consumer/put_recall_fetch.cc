// SPDX-License-Identifier: Apache-2.0
//
// A user of the installed library: puts a document, recalls units of it and fetches them, and
// compares the bytes. Usage: put_recall_fetch ADDRESS
#include <quire/client.h>
#include <quire/connect.h>
#include <quire/layout.h>
#include <quire/session.h>
#include <quire/version.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr uint32_t kPages = 8;

quire::KvSpec SmallSpec() {
  quire::KvSpec spec;
  spec.model = "consumer";
  spec.num_layers = 2;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.rope.rotary_dim = 64;
  return spec;
}

std::vector<std::byte> BytesOf(const quire::Payload& payload) {
  std::vector<std::byte> bytes(payload.size_bytes());
  payload.CopyTo(bytes.data());
  return bytes;
}

quire::Status Put(quire::Client& client, const quire::KvSpec& spec,
                  const std::vector<std::byte>& units) {
  std::vector<quire::TokenId> tokens(kPages * spec.page_tokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  quire::Payload pages;
  pages.Append(units);
  QUIRE_ASSIGN_OR_RETURN(const auto context, client.OpenContext(spec, std::nullopt));
  QUIRE_RETURN_IF_ERROR(client.AppendPages(context.id, 0, tokens, pages).status());
  QUIRE_ASSIGN_OR_RETURN(const auto sealed, client.Seal(context.id, {}, {}));
  return client.RegisterDocument({.name = "consumer"}, sealed.chain_tip).status();
}

/// Units of page 5 at layer 1, of all heads.
quire::StatusOr<std::vector<std::byte>> Recall(quire::Client& client, const quire::KvSpec& spec) {
  QUIRE_ASSIGN_OR_RETURN(const auto session,
                         client.OpenSession(quire::DocumentName{.name = "consumer"},
                                            {.spec = spec, .slots_per_head = 4}));
  const quire::LayerWant want = {.layer = 1, .pages = {{5}, {5}}};
  QUIRE_ASSIGN_OR_RETURN(const auto result, session->Recall({&want, 1}));
  std::vector<std::byte> bytes = BytesOf(result.payload);
  if (!result.IsValid()) return quire::Unavailable("the units were held for too long");
  session->Applied(result);
  QUIRE_RETURN_IF_ERROR(session->Close());
  return bytes;
}

quire::StatusOr<std::vector<std::byte>> Fetch(quire::Client& client) {
  const quire::UnitRange range = {.layer = 1, .pages = {5}};
  QUIRE_ASSIGN_OR_RETURN(const auto payload,
                         client.Fetch(quire::DocumentName{.name = "consumer"}, {&range, 1}));
  return BytesOf(payload);
}

quire::Status Run(const std::string& address) {
  QUIRE_ASSIGN_OR_RETURN(const auto control, quire::ConnectGrpc(address));
  QUIRE_ASSIGN_OR_RETURN(const auto data,
                         quire::ConnectData(control, {.control_address = address}));
  QUIRE_ASSIGN_OR_RETURN(
      const auto client,
      quire::Client::Create({.transport = control, .data_transport = data.transport}));
  const quire::KvSpec spec = SmallSpec();
  // Zero but for one unit of [page][layer][head].
  const uint64_t unit_bytes = quire::UnitBytes(spec);
  const uint64_t row_bytes = spec.num_kv_heads * unit_bytes;
  std::vector<std::byte> units(quire::SegmentBytes(spec, kPages));
  const auto wanted = units.begin() + static_cast<ptrdiff_t>((5 * spec.num_layers + 1) * row_bytes);
  std::fill_n(wanted, row_bytes, std::byte{0x3c});
  QUIRE_RETURN_IF_ERROR(Put(*client, spec, units));
  const std::vector<std::byte> expected(wanted, wanted + static_cast<ptrdiff_t>(row_bytes));
  QUIRE_ASSIGN_OR_RETURN(const auto recalled, Recall(*client, spec));
  if (recalled != expected) return quire::DataLoss("the recalled units are not those put");
  QUIRE_ASSIGN_OR_RETURN(const auto fetched, Fetch(*client));
  if (fetched != expected) return quire::DataLoss("the fetched units are not those put");
  std::cout << "quire " << QUIRE_VERSION << ": put, recalled over " << data.report.taken
            << " and fetched\n";
  return quire::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const quire::Status status =
      argc == 2 ? Run(argv[1]) : quire::InvalidArgument("usage: put_recall_fetch ADDRESS");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
